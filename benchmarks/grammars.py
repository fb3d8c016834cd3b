"""Strings of a grammar: densities with gradients, by blocks of about the same length, and parses beside NLTK's."""

import functools
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np

import bayesgen as bg
from bayesgen.sequences.grammar import log_probs_of
from bayesgen.sequences.grammar_rules import normal_form
from bayesgen.sequences.inside import log_inside
from bayesgen.sequences.semirings import LOG

from .measure import REPEATS, Faster, Missing, duel

RULES = {"E": ["E + T", "T"], "T": ["T * F", "F"], "F": ["( E )", "x", "y"]}  # arithmetic expressions
PROBABILITIES = {"E": [0.35, 0.65], "T": [0.3, 0.7], "F": [0.25, 0.45, 0.3]}
LONGEST, NUM_PARSED = 48, 40


def measures(quick):
    """Many strings of any length, as EM and samplers see them; and single parses."""
    yield functools.partial(in_blocks, 100 if quick else 500)
    yield functools.partial(against_nltk, NUM_PARSED // 4 if quick else NUM_PARSED)


def grammar():
    """The grammar of the strings."""
    return bg.ProbabilisticGrammar(RULES, PROBABILITIES, max_length=LONGEST)


def strings(num_strings):
    """Codes of strings that the grammar makes."""
    return np.asarray(grammar().sample(jax.random.key(0), (num_strings,)))


def in_blocks(num_strings):
    """Log densities and expected uses of rules, of strings in blocks and of all at once."""
    form = normal_form(grammar().rules)
    with jax.enable_x64(True):
        codes = jnp.asarray(strings(num_strings))
        lengths, log_probs = (
            (codes >= 0).sum(1),
            jnp.log(jnp.concatenate([jnp.array(p) for p in PROBABILITIES.values()])),
        )

        def tables(log_probs):
            choices, leaves = form.weights(LOG, log_probs)
            return tuple(jnp.broadcast_to(table, (num_strings, *table.shape)) for table in (choices, leaves))

        def of_blocks(log_probs):
            return log_probs_of(form, *tables(log_probs), codes).sum()

        def at_once(log_probs):
            choices, leaves = tables(log_probs)
            steps = jnp.take_along_axis(leaves, jnp.where(codes >= 0, codes, 0)[:, None], -1)
            return jax.vmap(lambda *row: log_inside(form, *row, lengths.max()))(choices, steps, lengths).sum()

        ours, theirs = (jax.jit(jax.value_and_grad(function)) for function in (of_blocks, at_once))
        np.testing.assert_allclose(ours(log_probs)[1], theirs(log_probs)[1], rtol=1e-9)
        return duel(
            f"log densities with gradient, {num_strings} expressions of up to {LONGEST} symbols",
            Faster(1.5),
            lambda: jax.block_until_ready(ours(log_probs)),
            lambda: jax.block_until_ready(theirs(log_probs)),
            "our own, all strings at once",
            repeats=REPEATS,
        )


def against_nltk(num_strings):
    """The most probable tree of each string."""
    if importlib.util.find_spec("nltk") is None:
        return Missing("most probable trees", "needs nltk: pip install -e '.[bench]'")
    import nltk

    known = grammar()
    texts = [text for text in known.decode(strings(num_strings)) if len(text) <= LONGEST // 2]
    lines = [
        f"{left} -> {' '.join(symbol if symbol in RULES else repr(symbol) for symbol in side.split())} [{p}]"
        for left, sides in RULES.items()
        for side, p in zip(sides, PROBABILITIES[left], strict=True)
    ]
    parser = nltk.ViterbiParser(nltk.PCFG.fromstring("\n".join(lines)))
    for text in texts[:3]:
        assert abs(known.parse(text)[1] - np.log(next(parser.parse(list(text))).prob())) < 1e-9
    return duel(
        f"most probable trees of {len(texts)} expressions of up to {LONGEST // 2} symbols, one by one",
        Faster(),
        lambda: [known.parse(text) for text in texts],
        lambda: [next(parser.parse(list(text))) for text in texts],
        "nltk.ViterbiParser",
        repeats=REPEATS,
    )
