"""A concept learner as a program of ten lines: all methods and both answers, beside the ready-made model.

    python examples/programs.py [--out programs.png]

Some numbers from 1 to 100 are shown, examples of a concept, and it is asked which numbers come next (Tenenbaum 1999). A
concept is one of 5,084: 34 rules, such as powers of two, and all intervals. The program draws a concept and then
examples of it. Its only latent is the concept, which is enumerated: the posterior is a weight for each concept, and its
evidence is exact. The two-step answer is that of the most probable concept alone, the one-step answer averages over all
of them. The script prints how far both are from those of `ConceptLearner`, and draws them.
"""

import argparse
import pathlib

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

SPACE = bg.number_game("tenenbaum")
SHARES = np.asarray(SPACE.extensions) / SPACE.sizes[:, None]
NUMBERS = np.arange(1, 101)
EXAMPLES = np.array([16, 23, 19, 20])


def number_game(n: int) -> None:
    """n examples of one concept."""
    concept = numpyro.sample("concept", dist.Categorical(SPACE.prior))
    with numpyro.plate("examples", n):
        numpyro.sample("number", dist.Categorical(jnp.asarray(SHARES)[concept]))


def next_number(fit: bg.Fit, rule: bg.PlugIn | bg.BMA) -> np.ndarray:
    """Probability of each number as the next example."""
    return np.exp(bg.predict(fit, {"number": NUMBERS - 1}, rule=rule).log_marginal)


def learn_concept(path: pathlib.Path) -> None:
    """Learn the concept by all methods, print and draw both answers, and compare them with the ready-made model."""
    program = bg.GenerativeProgram(number_game, label=None)
    print(program.closed_form.to_string(), "", sep="\n")
    rows, learner = {"number": EXAMPLES - 1}, bg.ConceptLearner(SPACE)
    exact, known = bg.fit(program, rows, method=bg.Exact()), bg.fit(learner, EXAMPLES, method=bg.Exact())
    answers = {
        "MLE, plug-in": next_number(bg.fit(program, rows, method=bg.MLE()), bg.PlugIn()),
        "MAP, plug-in": next_number(bg.fit(program, rows, method=bg.MAP()), bg.PlugIn()),
        "Exact, plug-in at the mode": next_number(exact, bg.PlugIn(at="mode")),
        "Exact, average": next_number(exact, bg.BMA()),
    }
    print(f"After {EXAMPLES.tolist()}, the probability that the next example is 18, 24 and 60:")
    for name, probabilities in answers.items():
        print(f"  {name:27}", *(f"{probability:.4f}" for probability in probabilities[[17, 23, 59]]))
    weights = exact.parameters["weight"]
    likely = np.argsort(-weights)[:3]
    print("Probable concepts:", ", ".join(f"{SPACE.names[index]} {weights[index]:.3f}" for index in likely))
    ready = bg.predict(known, NUMBERS.tolist(), rule=bg.BMA()).next_example
    print(
        f"Log evidence of the program {exact.log_evidence:.9f}, of ConceptLearner {known.log_evidence:.9f}; weights of "
        f"concepts differ by at most {np.abs(weights - known.weights).max():.0e}, and the averaged answers by "
        f"{np.abs(answers['Exact, average'] - ready).max():.0e}"
    )
    names = ["Exact, plug-in at the mode", "Exact, average"]
    with drawing() as (figure, panels):
        for name, look in zip(names, looks([True, False]), strict=True):
            panels.flat[0].step(NUMBERS, answers[name], where="mid", label=name, color=look["color"])
        panels.flat[0].set(xlabel="number", ylabel="probability as next example")
    save_figure(figure, path)


def main() -> None:
    """Learn a concept by all methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("programs.png"))
    learn_concept(parser.parse_args().out)


if __name__ == "__main__":
    main()
