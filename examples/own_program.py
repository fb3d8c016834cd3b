"""A program of your own, through all methods and both answers.

    python examples/own_program.py [--out own_program.png]

Three machines make parts. Each stops now and then during a shift (a Poisson number of stops), and its alarm goes off in
some shifts. The program says how such shifts come about; from thirty of them it is asked which machine a new shift was
on. It is fitted by maximum likelihood, by its most probable process, by the exact posterior, and by draws from the
posterior (NUTS), and answers by one process and by the average. The table and the figure compare the answers.

The posterior has a closed form, which is found in the program. The script prints what was found, how far the answer by
draws is from the exact one, beside the standard error that the answer by draws states, and that the ready-made model of
the same process, naive Bayes with gamma and beta priors, has the same log evidence.
"""

import argparse
import pathlib

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg
from bayesgen import plots

MACHINES = ["north", "south", "yard"]


def shifts(n: int) -> None:
    """n shifts: the machine, its stops and its alarm."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0).expand([3]).to_event(1))
    alarming = numpyro.sample("alarming", dist.Beta(1.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("shifts", n):
        machine = numpyro.sample("machine", dist.Categorical(share))
        numpyro.sample("stops", dist.Poisson(rate[machine]))
        numpyro.sample("alarm", dist.Bernoulli(alarming[machine]))


SAME = bg.NaiveBayes({"stops": bg.GammaPoisson(2.0, 1.0), "alarm": bg.BetaBernoulli(1.0, 1.0)})
NUTS = bg.NUTS()
PAIRS = [
    (bg.MLE(), bg.PlugIn()),
    (bg.MAP(), bg.PlugIn()),
    (bg.Exact(), bg.PlugIn()),
    (bg.Exact(), bg.BMA()),
    (NUTS, bg.BMA()),
    (NUTS, bg.ConditionalAverage()),
]


def main() -> None:
    """Simulate, learn by all methods, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("own_program.png"))
    options = parser.parse_args()
    program = bg.GenerativeProgram(shifts, label="machine", classes=MACHINES)

    rows = program.simulate(630, seed=4)
    machine = rows.pop("machine")
    train = {name: values[:30] for name, values in rows.items()}
    test = {name: values[30:] for name, values in rows.items()}
    print(program.closed_form.to_string(), "", sep="\n")
    comparison = bg.compare(program, train, machine[:30], test, machine[30:], methods=PAIRS)
    print(comparison.table[["method", "rule", "accuracy", "log_score", "difference", "standard_error"]].to_string())

    fit, named = (bg.fit(model, train, machine[:30], method=bg.Exact()) for model in (program, SAME))
    print("", fit, "", sep="\n")
    print(f"Log evidence of the program {fit.log_evidence:.9f}, of the ready-made model {named.log_evidence:.9f}")
    exact = bg.predict(fit, test, rule=bg.BMA())
    drawn = bg.predict(bg.fit(program, train, machine[:30], method=NUTS), test, rule=bg.BMA())
    gap = np.abs(exact.probabilities - drawn.probabilities)
    place = np.unravel_index(gap.argmax(), gap.shape)
    print(
        f"Exact and drawn probabilities differ by at most {gap.max():.4f}, "
        f"where the standard error of draws is {drawn.standard_error[place]:.4f}"
    )
    plots.save_figure(plots.paired_differences(comparison), options.out)


if __name__ == "__main__":
    main()
