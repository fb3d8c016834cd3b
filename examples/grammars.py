"""Which grammar made this string? Three grammars, their rules' probabilities learned from few strings.

    python examples/grammars.py [--strings 4] [--out grammars.png]

Strings of the letters a and b come from one of three grammars. A mirror makes palindromes; a nest makes brackets that
match, a being the opening one and b the closing one; and letters come one after another as they like. Every string
could be letters, by chance; some are also palindromes, or match. What tells them apart is how probable each grammar
makes them, summed over all parse trees, of which brackets side by side have many.

One grammar has the rules of all three, and its start symbol one rule for each class. The probabilities of all other
rules have flat Dirichlet priors. NUTS draws them from the posterior, trees being summed out; then either the grammar of
mean probabilities predicts (plug-in), or the predictions of all draws are averaged (BMA). The script prints and draws
the answers for some strings. They are close: what strings can be tells these grammars apart more than how probable they
are does, so that there is little to average over (over draws of 2, 5 and 12 strings of each class, 0.003 to 0.004 in
log score).
"""

import argparse
import pathlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd

import bayesgen as bg
from bayesgen.plots import drawing, save_figure

CLASSES = ("mirror", "nest", "letters")
RULES = {
    "String": ["Mirror", "Nest", "Letters"],
    "Mirror": ["a Mirror a", "b Mirror b", "a a", "b b", "a", "b"],
    "Nest": ["a Nest b", "Nest Nest", "a b"],
    "Letters": ["a Letters", "b Letters", "a", "b"],
}
TRUTH = {"Mirror": [0.45, 0.15, 0.1, 0.05, 0.05, 0.2], "Nest": [0.35, 0.2, 0.45], "Letters": [0.45, 0.3, 0.05, 0.2]}
MAX_LENGTH = 6
METHOD = bg.NUTS(num_warmup=50, num_samples=100, num_chains=2)
RULES_OF_PREDICTION = {"mean process (two steps)": bg.PlugIn(), "averaged over processes (one step)": bg.BMA()}
SHOWN = ("ab", "aba", "aabb", "abab", "bbabb", "aaab")


def which_grammar(n: int) -> None:
    """Each string is made by the grammar of its class; the rules of every grammar have flat priors."""
    probs = {
        left: numpyro.sample(left, dist.Dirichlet(jnp.ones(len(sides))))
        for left, sides in RULES.items()
        if left != "String"
    }
    with numpyro.plate("strings", n):
        y = numpyro.sample("y", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("x", bg.ProbabilisticGrammar(RULES, {"String": jnp.eye(3)[y], **probs}))


PROGRAM = bg.GenerativeProgram(which_grammar, classes=CLASSES)


def grammar_of(name: str) -> bg.ProbabilisticGrammar:
    """The true grammar of a class."""
    first = {"String": np.eye(3)[CLASSES.index(name)]}
    return bg.ProbabilisticGrammar(RULES, {**first, **TRUTH}, max_length=MAX_LENGTH)


def strings(size: int, seed: int) -> tuple[list[str], np.ndarray]:
    """As many strings of each class."""
    made = []
    for place, name in enumerate(CLASSES):
        grammar, key = grammar_of(name), jax.random.fold_in(jax.random.key(seed), place)
        made += grammar.decode(np.asarray(grammar.sample(key, (size,))))
    return made, np.repeat(CLASSES, size)


def predicted(fit: bg.Fit, x: list[str], rule: bg.PlugIn | bg.BMA) -> bg.ClassPrediction:
    """The classes of strings. Draws are few here, so that the script is quick, and warnings of that are hidden."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)
        return bg.predict(fit, {"x": x}, rule=rule)


def answers(fit: bg.Fit) -> pd.DataFrame:
    """Probabilities of the classes of some strings, and the most probable parse under the most probable grammar."""
    rows = []
    for name, rule in RULES_OF_PREDICTION.items():
        for string, probs in zip(SHOWN, predicted(fit, list(SHOWN), rule).probabilities, strict=True):
            tree, _ = grammar_of(CLASSES[probs.argmax()]).parse(string)
            of_classes = dict(zip(CLASSES, probs.round(3), strict=True))
            rows.append({"rule": name, "string": string, **of_classes, "parse": tree.children[0]})
    return pd.DataFrame(rows).set_index(["rule", "string"])


def draw_figure(table: pd.DataFrame, out: pathlib.Path) -> None:
    """Probabilities of the classes of each string, a panel for each answer."""
    with drawing(None, 1, 2, height=2.6, sharey=True) as (figure, axes):
        for axis, rule in zip(axes[0], RULES_OF_PREDICTION, strict=True):
            probs, left = table.loc[rule], np.zeros(len(SHOWN))
            for name, color, hatch in zip(CLASSES, ("#009E73", "#F0E442", "0.8"), ("", "///", "..."), strict=True):
                width = probs[name].to_numpy(float)
                axis.barh(range(len(SHOWN)), width, left=left, color=color, hatch=hatch, edgecolor="0.2", label=name)
                left = left + width
            axis.set(title=rule, xlabel="p(grammar | string)", xlim=(0, 1), ylim=(len(SHOWN) - 0.5, -0.5))
            axis.set_yticks(range(len(SHOWN)), SHOWN)
        axes[0, 0].set_ylabel("string")
    save_figure(figure, out)


def main() -> None:
    """Sample, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=4, help="training strings of each class")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("grammars.png"))
    options = parser.parse_args()
    x, y = strings(options.strings, seed=0)
    print(f"sampling, given {', '.join(x)} ...", flush=True)
    fit = bg.fit(PROGRAM, {"x": x}, y, method=METHOD, progress=False)
    table = answers(fit)
    print(table.to_string())
    draw_figure(table, options.out)


if __name__ == "__main__":
    main()
