"""Which strings a grammar can derive at all, whatever the probabilities of its rules."""

import numpy as np

from bayesgen.data import PADDING
from bayesgen.typing import Bool, Int, Real

from .grammar_rules import GrammarRules
from .normal_form import NormalForm, normal_form
from .sequences import is_missing

CHUNK_CELLS = 1 << 24  # of tables of nodes and spans of strings that are looked at together


def why_outside(
    rules: GrammarRules,
    site: str,
    codes: Int[np.ndarray, "n T"],
    observed: Bool[np.ndarray, "n T"] | None,
    counts: Real[np.ndarray, " n"],
    numbers: Int[np.ndarray, " n"],
) -> str | None:
    """Which strings a grammar does not derive, among those that count: the first, and how many; None if there are none.

    Args:
        rules: of the grammar.
        site: the name of the site.
        codes: the strings.
        observed: which of their steps are not missing; None where all are.
        counts: how often each counts.
        numbers: by which messages name the rows.
    """
    form = normal_form(rules)
    places = np.where(codes == PADDING, len(rules.symbols) + 1, codes)
    if observed is not None:
        places = np.where(observed | (codes == PADDING), places, len(rules.symbols))
    distinct, of_rows = np.unique(places, axis=0, return_inverse=True)
    size = max(CHUNK_CELLS // max(form.num_nodes * codes.shape[1] ** 2, 1), 1)
    chunks = [distinct[start : start + size] for start in range(0, len(distinct), size)]
    inside = np.concatenate([np.zeros(0, bool), *(_are_derived(form, chunk) for chunk in chunks)])
    is_string = np.ones(len(codes), bool) if observed is None else ~is_missing(codes, observed)
    outside = np.flatnonzero(~inside[of_rows.ravel()] & is_string & (counts > 0))
    if not outside.size:
        return None
    shown = [(*rules.symbols, None)[code] for code in places[outside[0]] if code <= len(rules.symbols)]
    is_text = all(isinstance(symbol, str) and len(symbol) == 1 for symbol in shown)
    string = repr("".join(map(str, shown)) if is_text else shown) if shown else "the empty string"
    return (
        f"{site!r} has in row {numbers[outside[0]]} {string}, which is not in the language of the grammar {rules}. No "
        f"probabilities of its rules explain it. Add rules, or drop such rows: there are {outside.size}."
    )


def _are_derived(form: NormalForm, places: Int[np.ndarray, "n T"]) -> Bool[np.ndarray, " n"]:
    """Which strings are derived: codes, then one code for a missing symbol and one for none.

    The table holds for each width, node, string and start whether the node derives that span.
    """
    (num_rows, num_steps), num_symbols = places.shape, len(form.rules.symbols)
    if not num_steps:
        return np.zeros(num_rows, bool)
    of_unseen, of_none = form.is_leaf.any(1, keepdims=True), np.zeros((form.num_nodes, 1), bool)
    leaves = np.concatenate([form.is_leaf, of_unseen, of_none], 1)
    table = np.zeros((num_steps + 1, form.num_nodes, num_rows, num_steps), bool)
    table[1] = leaves[:, places]
    for width in range(2, num_steps + 1):
        starts = num_steps - width + 1
        pairs = np.zeros((len(form.pairs), num_rows, starts), bool)
        for split in range(1, width):
            first = table[split][form.pairs[:, 0], :, :starts]
            pairs |= first & table[width - split][form.pairs[:, 1], :, split : split + starts]
        for node in range(form.num_nodes):
            table[width, node, :, :starts] = pairs[form.choices[node][form.is_choice[node]]].any(0)
    lengths = (places <= num_symbols).sum(1)
    return table[lengths, form.start, np.arange(num_rows), 0]
