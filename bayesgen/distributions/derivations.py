"""Random strings of a grammar, and how probable it is to end."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bayesgen.data import PADDING
from bayesgen.typing import Array, Float, Int, PRNGKeyArray

from .grammar_rules import GrammarRules
from .inside import log_sum
from .normal_form import NormalForm

MOST_NEWTON_STEPS = 200
LEAST_NEWTON_STEP = 1e-13  # of a total probability


def total_probabilities(rules: GrammarRules, probs: Float[np.ndarray, " R"]) -> Float[np.ndarray, " N"]:
    """For each nonterminal, the total probability of its strings: below 1 where derivations may go on for ever.

    They are the least solution of z = f(z), where f sums p(rule) times the product of z over its nonterminals. Newton's
    steps from 0 rise to it.

    Source: Etessami and Yannakakis (2009), Recursive Markov chains, stochastic grammars, and monotone systems of
    nonlinear equations, section 5.
    """
    size = len(rules.nonterminals)
    lefts = [rules.place(left) for left, _ in rules.rules]
    rights = [[place for place in map(rules.place, right) if place is not None] for _, right in rules.rules]
    totals = np.zeros(size)
    for _ in range(MOST_NEWTON_STEPS):
        values, slopes = np.zeros(size), np.zeros((size, size))
        for left, right, prob in zip(lefts, rights, probs, strict=True):
            values[left] += prob * np.prod(totals[right])
            for index, place in enumerate(right):
                slopes[left, place] += prob * np.prod(totals[right[:index] + right[index + 1 :]])
        step = np.linalg.lstsq(np.eye(size) - slopes, values - totals, rcond=None)[0]
        totals = np.clip(totals + step, 0.0, 1.0)
        if np.abs(step).max() < LEAST_NEWTON_STEP:
            break
    return totals


def log_length_probabilities(
    form: NormalForm, choices: Float[Array, "N C"], leaves: Float[Array, " N"], num_steps: int
) -> Float[Array, "N {num_steps}"]:
    """Log probabilities that each node derives a string of 1, 2, ... symbols. Traceable.

    Args:
        form: the normal form.
        choices: log probabilities of the pairs of each node.
        leaves: log probabilities that each node is rewritten to a symbol, whichever.
        num_steps: the greatest length.
    """
    table = jnp.full((form.num_nodes, num_steps), -jnp.inf, leaves.dtype).at[:, 0].set(leaves)
    if not len(form.pairs):
        return table

    def of_length(length: Array, table: Float[jax.Array, "N T"]) -> Float[jax.Array, "N T"]:
        of_pairs = log_sum(_splits(form, table, length))
        return table.at[:, length - 1].set(log_sum(choices + of_pairs[form.choices]))

    return lax.fori_loop(2, num_steps + 1, of_length, table)


def _splits(form: NormalForm, table: Float[Array, "N T"], length: Int[Array, ""]) -> Float[Array, "P T"]:
    """Log probabilities that the first node of each pair has 1, 2, ... of so many symbols, and the second the rest."""
    num_steps = table.shape[1]
    backwards = jnp.pad(table[:, ::-1], ((0, 0), (0, num_steps)), constant_values=-jnp.inf)
    rest = lax.dynamic_slice_in_dim(backwards, num_steps - length + 1, num_steps, 1)
    return table[form.pairs[:, 0]] + rest[form.pairs[:, 1]]


def derived(
    form: NormalForm,
    choices: Float[Array, "N C"],
    leaves: Float[Array, "N V"],
    lengths: Float[Array, "N T"],
    key: PRNGKeyArray,
) -> Int[Array, " T"]:
    """Codes of a random string of at most T symbols, padded. Traceable.

    First its length is drawn, then its derivation given that, from the left: a node and its number of symbols are taken
    from a stack, and either its symbol is drawn, or its pair and how many symbols the first of the two has.

    Args:
        form: the normal form.
        choices: log probabilities of the pairs of each node.
        leaves: log probabilities of each symbol under each node; the last column is not looked at.
        lengths: log probabilities of lengths, see `log_length_probabilities`.
        key: a JAX key.
    """
    num_steps = lengths.shape[1]
    key_of_length, key = jax.random.split(key)
    length = jax.random.categorical(key_of_length, lengths[form.start]) + 1
    stack = jnp.zeros((num_steps + 1, 2), int).at[0].set(jnp.stack([jnp.asarray(form.start), length]))
    codes = jnp.full(num_steps, PADDING)

    def of_node(step: Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        stack, size, codes, place = state
        node, length = stack[size - 1, 0], stack[size - 1, 1]
        of_symbol, of_pair = jax.random.split(jax.random.fold_in(key, step))
        is_leaf, is_over = length == 1, size == 0
        symbol = jax.random.categorical(of_symbol, leaves[node, :-1])
        codes = jnp.where(is_leaf & ~is_over, codes.at[place].set(symbol, mode="drop"), codes)
        if len(form.pairs):
            terms = choices[node][:, None] + _splits(form, lengths, length)[jnp.asarray(form.choices)[node]]
            choice, split = jnp.divmod(jax.random.categorical(of_pair, terms.ravel()), num_steps)
            pair = jnp.asarray(form.pairs)[jnp.asarray(form.choices)[node, choice]]
            first, second = jnp.stack([pair[0], split + 1]), jnp.stack([pair[1], length - split - 1])
            pushed = stack.at[size - 1].set(second).at[size].set(first, mode="drop")
            stack = jnp.where(is_leaf | is_over, stack, pushed)
        change = jnp.where(is_leaf, -1, 1)
        return stack, jnp.where(is_over, size, size + change), codes, place + (is_leaf & ~is_over)

    start = stack, jnp.asarray(1), codes, jnp.asarray(0)
    # a string of L symbols has L leaves and L - 1 pairs; one that no string is, is none
    codes = lax.fori_loop(0, 2 * num_steps - 1, of_node, start)[2]
    return jnp.where(jnp.isfinite(lengths[form.start].max()), codes, PADDING)
