"""Three ready-made models as programs of ten lines: all methods and both answers, beside the models.

    python examples/programs.py [--out programs.png]

- A Dirichlet-categorical naive Bayes: words that a topic sends, with a table of probabilities for each topic.
- A normal-inverse-Wishart discriminant: measurements of a species, with a mean and a covariance for each species.
- A concept learner: some numbers from 1 to 100 are shown, examples of a concept, and it is asked which numbers come
  next (Tenenbaum 1999). A concept is one of 5,084: 34 rules, such as powers of two, and all intervals.

Each program is fitted by maximum likelihood, by its most probable process, by the exact posterior, and, where its
latents are numbers, by draws (NUTS). The two-step answer is that of one process, the one-step answer averages over all
of them. The posteriors are exact as those of the ready-made models are: families and stages are found in the programs,
and the concept is enumerated. The script prints how far the answers are from those of the models, and draws them.
"""

import argparse
import pathlib
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

NUTS = bg.NUTS(num_warmup=150, num_samples=250, num_chains=2)
PAIRS = {
    "MLE, plug-in": (bg.MLE(), bg.PlugIn()),
    "MAP, plug-in": (bg.MAP(), bg.PlugIn()),
    "Exact, plug-in at the mean": (bg.Exact(), bg.PlugIn()),
    "Exact, average": (bg.Exact(), bg.BMA()),
    "NUTS, average": (NUTS, bg.BMA()),
}
Answers = dict[str, np.ndarray]


# --- naive Bayes -----------------------------------------------------------------------------------------------------

TOPICS, NUM_WORDS = ["news", "sport"], 4


def words(n: int) -> None:
    """n documents: a topic, and three words that it sends."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    table = numpyro.sample("table", dist.Dirichlet(jnp.ones(NUM_WORDS)).expand([2, 3]).to_event(2))
    with numpyro.plate("documents", n):
        topic = numpyro.sample("topic", dist.Categorical(share))
        numpyro.sample("words", dist.Categorical(table[topic]).to_event(1))


# --- a discriminant --------------------------------------------------------------------------------------------------

SPECIES = ["setosa", "virginica"]


def measurements(n: int) -> None:
    """n flowers: a species, and two measurements."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    covariance = numpyro.sample("covariance", dist.InverseWishart(4.0, jnp.eye(2)).expand([2]).to_event(1))
    mean = numpyro.sample("mean", dist.MultivariateNormal(jnp.zeros(2), covariance / 0.5).to_event(1))
    with numpyro.plate("flowers", n):
        species = numpyro.sample("species", dist.Categorical(share))
        numpyro.sample("x", dist.MultivariateNormal(mean[species], covariance[species]))


# --- a concept learner -----------------------------------------------------------------------------------------------

SPACE = bg.number_game("tenenbaum")
SHARES = np.asarray(SPACE.extensions) / SPACE.sizes[:, None]
NUMBERS = np.arange(1, 101)
EXAMPLES = np.array([16, 23, 19, 20])


def number_game(n: int) -> None:
    """n examples of one concept."""
    concept = numpyro.sample("concept", dist.Categorical(SPACE.prior))
    with numpyro.plate("examples", n):
        numpyro.sample("number", dist.Categorical(jnp.asarray(SHARES)[concept]))


# --- all methods, both answers ---------------------------------------------------------------------------------------


def classify(
    program: bg.GenerativeProgram,
    ready: bg.NaiveBayes | bg.GaussianDiscriminant,
    attribute: str,
    cells: np.ndarray,
    labels: np.ndarray,
    new: np.ndarray,
) -> Answers:
    """The probability of the second class by all methods, printed, with the difference from the ready-made model."""
    print("", program.closed_form.to_string(), sep="\n")
    answers = {}
    for name, (method, rule) in PAIRS.items():
        fit = bg.fit(program, {attribute: cells}, labels, method=method, seed=1)
        answers[name] = bg.predict(fit, {attribute: new}, rule=rule).probabilities[:, 1]
    show(f"Probability of {program.classes[1]!r} for new rows:", answers)
    exact = bg.fit(program, {attribute: cells}, labels, method=bg.Exact())
    known = bg.fit(ready, as_read(cells), labels, method=bg.Exact())
    expected = bg.predict(known, as_read(new), rule=bg.BMA()).probabilities[:, 1]
    gap = np.abs(answers["Exact, average"] - expected).max()
    print(
        f"Log evidence of the program {exact.log_evidence:.9f}, of {type(ready).__name__} {known.log_evidence:.9f}; "
        f"the averaged answers differ by at most {gap:.0e}"
    )
    return answers


def as_read(cells: np.ndarray) -> np.ndarray:
    """Cells as ready-made models read them: words are no numbers."""
    return cells.astype(str) if cells.dtype == int else cells


def show(title: str, answers: Mapping[str, np.ndarray]) -> None:
    """Print numbers, a line for each answer."""
    print(title)
    for name, probabilities in answers.items():
        print(f"  {name:27}", *(f"{probability:.4f}" for probability in probabilities))


def sort_documents() -> Answers:
    """Topics of documents, from few that are labelled."""
    rng = np.random.default_rng(1)
    topics, chances = np.arange(40) % 2, np.array([[0.4, 0.3, 0.15, 0.15], [0.15, 0.2, 0.3, 0.35]])
    documents = np.array([rng.choice(NUM_WORDS, size=3, p=chances[topic]) for topic in topics])
    program = bg.GenerativeProgram(words, label="topic", classes=TOPICS)
    ready = bg.NaiveBayes(bg.DirichletCategorical(1.0))
    new = np.array([[0, 0, 1], [0, 2, 3], [3, 3, 2], [1, 1, 1]])
    return classify(program, ready, "words", documents, np.array(TOPICS)[topics], new)


def tell_species() -> Answers:
    """Species of flowers, from few that are labelled."""
    rng = np.random.default_rng(2)
    species = np.arange(10) % 2
    flowers = rng.normal(size=(10, 2)) * [0.7, 1.2] + np.array([[-0.8, 0.3], [0.9, -0.4]])[species]
    program = bg.GenerativeProgram(measurements, label="species", classes=SPECIES)
    ready = bg.GaussianDiscriminant("full", bg.NormalInverseWishart(0.0, 0.5, 4.0, np.eye(2)))
    new = np.array([[-1.0, 0.0], [0.0, 0.0], [0.5, -0.5], [0.3, 1.5]])
    return classify(program, ready, "x", flowers, np.array(SPECIES)[species], new)


def next_number(fit: bg.Fit, rule: bg.PlugIn | bg.BMA) -> np.ndarray:
    """Probability of each number as the next example."""
    return np.exp(bg.predict(fit, {"number": NUMBERS - 1}, rule=rule).log_marginal)


def learn_concept() -> Answers:
    """The probability of each number as the next example by all methods, printed, beside the ready-made model."""
    program = bg.GenerativeProgram(number_game, label=None)
    print("", program.closed_form.to_string(), sep="\n")
    rows, learner = {"number": EXAMPLES - 1}, bg.ConceptLearner(SPACE)
    exact, known = bg.fit(program, rows, method=bg.Exact()), bg.fit(learner, EXAMPLES, method=bg.Exact())
    answers = {
        "MLE, plug-in": next_number(bg.fit(program, rows, method=bg.MLE()), bg.PlugIn()),
        "MAP, plug-in": next_number(bg.fit(program, rows, method=bg.MAP()), bg.PlugIn()),
        "Exact, plug-in at the mode": next_number(exact, bg.PlugIn(at="mode")),
        "Exact, average": next_number(exact, bg.BMA()),
    }
    title = f"After {EXAMPLES.tolist()}, the probability that the next example is 18, 24 and 60:"
    show(title, {name: probabilities[[17, 23, 59]] for name, probabilities in answers.items()})
    weights = exact.parameters["weight"]
    likely = np.argsort(-weights)[:3]
    print("Probable concepts:", ", ".join(f"{SPACE.names[index]} {weights[index]:.3f}" for index in likely))
    ready = bg.predict(known, NUMBERS.tolist(), rule=bg.BMA()).next_example
    print(
        f"Log evidence of the program {exact.log_evidence:.9f}, of ConceptLearner {known.log_evidence:.9f}; weights of "
        f"concepts differ by at most {np.abs(weights - known.weights).max():.0e}, and the averaged answers by "
        f"{np.abs(answers['Exact, average'] - ready).max():.0e}"
    )
    return answers


def draw(documents: Answers, flowers: Answers, concept: Answers, path: pathlib.Path) -> None:
    """Draw the answers: of new rows by all methods, and of numbers at the mode and averaged."""
    with drawing(num_columns=3, width=9.0) as (figure, panels):
        titles = [("new document", f"probability of {TOPICS[1]}"), ("new flower", f"probability of {SPECIES[1]}")]
        for panel, (row, title), answers in zip(panels.flat[:2], titles, (documents, flowers), strict=True):
            for index, (name, probabilities) in enumerate(answers.items()):
                rows = np.arange(len(probabilities)) + 0.1 * (index - 2)
                panel.plot(rows, probabilities, "o", label=name, color=f"C{index}", markersize=4)
            panel.set(xlabel=row, ylabel=title, ylim=(-0.03, 1.03), xticks=range(len(probabilities)))
        names = ["Exact, plug-in at the mode", "Exact, average"]
        for name, look in zip(names, looks([True, False]), strict=True):
            panels.flat[2].step(NUMBERS, concept[name], where="mid", label=name, color=look["color"])
        panels.flat[2].set(xlabel="next example", ylabel="probability")
    save_figure(figure, path)


def main() -> None:
    """Learn three programs by all methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("programs.png"))
    options = parser.parse_args()
    draw(sort_documents(), tell_species(), learn_concept(), options.out)


if __name__ == "__main__":
    main()
