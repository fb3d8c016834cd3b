"""A sampler in trouble: what the library says, and what to do.

    python examples/bad_sampler.py [--out bad_sampler.png]

Two programs are written first in a way that is hard to sample, and then in another way that means the same.

- Eight schools (Rubin 1981): the effect of a course in each school varies about a mean, by an unknown spread. Written
  down as it is told, the effects must lie close together where the spread is small: a funnel, into whose neck chains do
  not get. Written with standard normal numbers that are scaled by the spread, the funnel is gone.
- A line through the origin whose slope is a product of two numbers. Only the product is known from data, and both
  signs of the two numbers say the same. Written with the slope itself, there is one mode.

The script prints the warnings of each fit and the verdict of `fit.diagnose()`: divergences, R-hat (do chains agree?)
and the effective sample size (ESS: how many independent draws are they worth?). The figure has the draws of all four:
on the left as first written, on the right as mended.
"""

import argparse
import pathlib
import warnings
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SCHOOLS = {"school": np.arange(8), "error": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])}
METHOD = bg.NUTS(num_samples=500)
CHAINS = ("0.0", "0.6", "#56B4E9", "#009E73")


def schools(n: int, *, school: Any, error: Any) -> None:
    """Results of schools, their effects about a mean."""
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    effect = numpyro.sample("effect", dist.Normal(mean, spread).expand([8]).to_event(1))
    with numpyro.plate("schools", n):
        numpyro.sample("result", dist.Normal(effect[school], error))


def schools_scaled(n: int, *, school: Any, error: Any) -> None:
    """The same, with effects that are standard normal numbers times the spread."""
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    scaled = numpyro.sample("scaled", dist.Normal(0, 1).expand([8]).to_event(1))
    effect = numpyro.deterministic("effect", mean + spread * scaled)
    with numpyro.plate("schools", n):
        numpyro.sample("result", dist.Normal(effect[school], error))


def line_of_product(n: int, *, x: Any) -> None:
    """Results on a line, whose slope is a product."""
    gain = numpyro.sample("gain", dist.Normal(0, 1))
    factor = numpyro.sample("factor", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("rows", n):
        numpyro.sample("result", dist.Normal(gain * factor * x, noise))


def line(n: int, *, x: Any) -> None:
    """Results on a line, whose slope is a number."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("rows", n):
        numpyro.sample("result", dist.Normal(slope * x, noise))


def diagnosed(function: Any, X: dict[str, np.ndarray], y: np.ndarray) -> bg.Fit:
    """The fit of a program, whose warnings and diagnosis are printed."""
    print(f"--- {function.__name__}: {function.__doc__}", flush=True)
    program = bg.GenerativeProgram(function, label="result", classes=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = bg.fit(program, X, y, method=METHOD, progress=False)
    for warning in caught:
        print(f"warning: {warning.message}")
    print(f"verdict: {fit.diagnose().verdict}\n")
    return fit


def draw_pair(panel: Any, fit: bg.Fit) -> None:
    """The spread of effects against the effect of the first school, draw by draw."""
    draws = fit.samples()
    panel.plot(draws["effect"][:, 0], np.log(draws["spread"]), "o", color="0.45", markersize=1.5, alpha=0.5)
    panel.set(xlabel="effect in the first school", ylabel="log of the spread", xlim=(-20, 40), ylim=(-5, 4))


def draw_trace(panel: Any, fit: bg.Fit, name: str) -> None:
    """Draws of a latent by chain, one after another, with crosses where the sampler diverged."""
    draws, diverged = fit.samples(group_by_chain=True)[name], fit.posterior.sample_stats["diverging"]
    for number, (chain, color) in enumerate(zip(draws, CHAINS, strict=True)):
        panel.plot(chain, color=color, linewidth=0.5, label=f"chain {number + 1}")
    if diverged.any():
        red = looks([True])[0]["color"]
        panel.plot(np.nonzero(diverged)[1], draws[diverged], "X", color=red, markersize=6, label="diverged")
    panel.set(xlabel="draw", ylabel=name, ylim=(-3, 3))


def main() -> None:
    """Sample all four programs, print what the library says, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bad_sampler.png"))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y = 1.5 * x + rng.normal(0, 0.3, 40)

    first, better = (diagnosed(function, SCHOOLS, EFFECTS) for function in (schools, schools_scaled))
    product, slope = (diagnosed(function, {"x": x}, y) for function in (line_of_product, line))
    with drawing(None, 2, 2, height=2.6) as (figure, ((left, right), (bottom_left, bottom_right))):
        draw_pair(left, first)
        draw_pair(right, better)
        draw_trace(bottom_left, product, "gain")
        draw_trace(bottom_right, slope, "slope")
        left.set_title("effects as told: no draw from the neck")
        right.set_title("scaled effects: the whole funnel")
        bottom_left.set_title("slope as a product: one of two modes")
        bottom_right.set_title("slope as a number")
    save_figure(figure, options.out)


if __name__ == "__main__":
    main()
