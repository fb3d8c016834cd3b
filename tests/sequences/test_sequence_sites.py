"""Sites of programs of one's own whose rows are sequences: texts, lists and arrays of any length."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from numpyro import handlers
from numpyro.infer import Predictive
from program.programs import reference_density

import bayesgen as bg
from bayesgen.data import CodedSequences
from bayesgen.errors import DataError

close = np.testing.assert_allclose
SYMBOLS = "abc"
WORDS = ["cab", "", "a", "bb", "abcab"]
CODES = np.array([[2, 0, 1, -1, -1], [-1] * 5, [0, -1, -1, -1, -1], [1, 1, -1, -1, -1], [0, 1, 2, 0, 1]])


def languages(n, symbols=SYMBOLS, length=5):
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(2)))
    start = numpyro.sample("start", dist.Dirichlet(jnp.ones(3)).expand([2]).to_event(1))
    move = numpyro.sample("move", dist.Dirichlet(jnp.ones(3)).expand([2, 3]).to_event(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("word", bg.MarkovChain(start[y], move[y], length=length, symbols=symbols))


def walks(n):
    """Hidden states of a walk of pairs of numbers; rows depend on no class."""
    center = numpyro.sample("center", dist.Normal(0, 5).expand([2, 3]).to_event(2))
    stay = numpyro.sample("stay", dist.Beta(2, 2))
    moves = jnp.stack([jnp.stack([stay, 1 - stay]), jnp.stack([1 - stay, stay])])
    with numpyro.plate("rows", n):
        emissions = dist.Normal(center, jnp.array([0.6, 1.1, 0.8])).to_event(1)
        chain = bg.HiddenMarkov(jnp.array([0.3, 0.7]), moves, emissions, length=4)
        numpyro.sample("walk", chain.expand([n]))


@pytest.fixture(scope="module")
def program():
    return bg.GenerativeProgram(languages, classes=["x", "y"])


@pytest.fixture(scope="module")
def walk_program():
    return bg.GenerativeProgram(walks, label=None)


@pytest.fixture(scope="module")
def latents():
    rng = np.random.default_rng(0)
    simplex = rng.dirichlet(np.ones(3), (2, 4))
    return {"p": rng.dirichlet(np.ones(2)), "start": simplex[:, 0], "move": simplex[:, 1:]}


def chain_rule(word, latents, k):
    """log p(word | class k), symbol by symbol."""
    codes = [SYMBOLS.index(symbol) for symbol in word]
    total = np.log(latents["start"][k][codes[0]]) if codes else 0.0
    return total + sum(np.log(latents["move"][k][a, b]) for a, b in itertools.pairwise(codes))


def table_of(words, latents):
    return np.array([[np.log(latents["p"][k]) + chain_rule(word, latents, k) for k in (0, 1)] for word in words])


FORMS = {
    "strings": WORDS,
    "array of strings": np.array(WORDS),
    "lists of symbols": [list(word) for word in WORDS],
    "pandas": pd.Series(WORDS),
    "polars lists": pl.Series([list(word) for word in WORDS]),
    "padded": CODES,
    "padded with more": np.concatenate([CODES, np.full((5, 3), -1)], 1),
    "padded floats": CODES.astype(float),
    "lengths": bg.Padded(np.where(CODES < 0, 0, CODES), [3, 0, 1, 2, 5]),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_read_alike_in_every_form(form, program, latents):
    close(program.log_joint(latents, {"word": FORMS[form]}), table_of(WORDS, latents), rtol=1e-12)


def test_rows_may_be_shorter_than_the_program_says(program, latents):
    for words in (["ab", "c"], [""]):
        close(program.log_joint(latents, {"word": words}), table_of(words, latents), rtol=1e-12)


def test_missing_steps_are_summed_out(program, latents):
    rows = [["a", None, "c"], [None], None, [None, "b", None, "a"], "ab"]
    filled = [
        [f"a{m}c" for m in SYMBOLS],
        list(SYMBOLS),
        [""],
        [f"{m}b{k}a" for m in SYMBOLS for k in SYMBOLS],
        ["ab"],
    ]
    expected = np.array([np.logaddexp.reduce(table_of(words, latents), axis=0) for words in filled])
    close(program.log_joint(latents, {"word": rows}), expected, rtol=1e-9)
    padded = np.array([[0, np.nan, 2, -1], [np.nan, -1, -1, -1], [np.nan] * 4, [np.nan, 1, np.nan, 0], [0, 1, -1, -1]])
    close(program.log_joint(latents, {"word": padded}), expected, rtol=1e-9)


def test_missing_steps_are_summed_out_where_chains_depend_on_other_attributes_and_covariates():
    def of_rows(n, *, m):
        with numpyro.plate("rows", n):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            stay = jax.nn.sigmoid(jnp.where(z == 1, m, -m))
            moves = jnp.stack([jnp.stack([stay, 1 - stay], -1), jnp.stack([1 - stay, stay], -1)], -2)
            numpyro.sample("w", bg.MarkovChain(jnp.array([0.3, 0.7]), moves, length=4, symbols="ab"))

    program = bg.GenerativeProgram(of_rows, label=None)
    assert "w" in program.plan.rowwise
    m, z, words = np.array([2.0, 0.5, -0.4]), np.array([1, 0, 1]), [["b", None, "a"], None, "ab"]

    def joint(index, word):
        p = 1 / (1 + np.exp(-m[index] if z[index] else m[index]))
        moves, codes = np.array([[p, 1 - p], [1 - p, p]]), ["ab".index(symbol) for symbol in word]
        return 0.5 * [0.3, 0.7][codes[0]] * np.prod([moves[a, b] for a, b in itertools.pairwise(codes)])

    expected = np.log([joint(0, "baa") + joint(0, "bba"), 0.5, joint(2, "ab")])
    close(program.log_joint({}, {"w": words, "z": z, "m": m}).ravel(), expected, rtol=1e-9)


@pytest.mark.slow
def test_what_it_simulates_goes_back_in(program, latents):
    rows = program.simulate(40, seed=3, latents=latents)
    words = ["".join(SYMBOLS[code] for code in row) for row in rows["word"]]
    labels = rows.pop("y")
    close(program.log_joint(latents, rows), table_of(words, latents), rtol=1e-12)
    fits = [bg.fit(program, {"word": form}, labels, method=bg.MLE()) for form in (rows["word"], words)]
    for name, value in fits[0].parameters.items():
        close(fits[1].parameters[name], value, rtol=1e-6, atol=1e-9)
    counts = np.zeros((2, 3, 3))
    for word, label in zip(rows["word"], labels, strict=True):
        np.add.at(counts["xy".index(label)], (word[:-1], word[1:]), 1)
    close(fits[0].parameters["move"], counts / counts.sum(2, keepdims=True), atol=1e-4)
    assert bg.predict(fits[0], rows, rule=bg.PlugIn()).probabilities.shape == (40, 2)


def test_statistics_are_counts_and_unlabelled_rows_are_mixed(program, latents):
    assert program.plan.rowwise == () and [name for name, _ in program.plan.compressed] == ["word"]
    y = np.array(["x", None, "y", None, "x"], object)
    whole = program.log_density(latents, {"word": WORDS}, y)
    prior = program.log_density(latents, {"word": WORDS[:1]}, ["x"]) - table_of(WORDS[:1], latents)[0, 0]
    table = table_of(WORDS, latents)
    expected = table[0, 0] + table[2, 1] + table[4, 0] + np.logaddexp(*table[1]) + np.logaddexp(*table[3])
    close(whole, prior + expected, rtol=1e-10)


def test_it_is_a_numpyro_program_as_it_was(program, latents):
    with jax.enable_x64(True):
        draws = Predictive(program, num_samples=7)(jax.random.key(0), 4)
        assert draws["word"].shape == (7, 4, 5)
        known = {**latents, "y": np.array([0, 1, 1, 0, 1]), "word": CODES}
        conditioned = handlers.condition(program, data=known)
        expected = reference_density(conditioned, 5)({}, {})
    names = np.array(["x", "y"])[known["y"]]
    close(program.log_density(latents, {"word": WORDS}, names), float(expected), rtol=1e-10)
    pytest.importorskip("graphviz")
    assert "word" in numpyro.render_model(program, (5,)).source


@pytest.mark.parametrize(
    ("cells", "match"),
    [
        (["abcabc"], "more than 5 steps in row 0.*length=5"),
        ([list("abc") * 2], "more than 5 steps in row 0"),
        (["ab", "abd"], r"'word' has 'd' \(first at row 1, step 2\).*symbols are 'a', 'b', 'c'"),
        ([[0, 1], [1, 2]], r"'word' has 0, 1, 2 \(first at row 0, step 0\).*'a', 'b', 'c'.*CodedSequences"),
        (np.array([[0, 3]]), "'word' has 3 at row 0, step 1, and the codes of 'a', 'b', 'c' are 0 to 2"),
        (np.array([[0, 0], [1, 0.5]]), "'word' has 0.5 at row 1, step 1, and the codes"),
        (np.array([[0, 1, 2], [0, -1, 2]]), "-1 at row 1, step 1, and steps after it"),
        (np.array([[0, -2]]), "-2 at row 0, step 1"),
        (["ab", 5], "'word' is of sequences, and has 5 at row 1"),
        (np.zeros((2, 3, 4)), r"shape \(3, 4\), and sequences of T steps at the program's site have \(T,\)"),
        (np.array([["a", "b"], ["a", "z"]]), r"'z' \(first at row 1, step 1\)"),
    ],
)
def test_bad_sequences_are_refused_by_row_and_step(cells, match, program, latents):
    with pytest.raises(DataError, match=match):
        program.log_joint(latents, {"word": cells})


def test_symbols_that_the_program_does_not_name_are_refused(latents):
    nameless = bg.GenerativeProgram(lambda n: languages(n, symbols=None), classes=2)
    with pytest.raises(DataError, match=r"'word' has symbols such as 'a', 'b'.*symbols="):
        nameless.log_joint(latents, {"word": ["ab"]})
    for lists in ([[0, 1], [2]], [[0, 1], [2, 1]], [[0, 1]], [[], [2]]):
        words = ["".join(SYMBOLS[code] for code in cells) for cells in lists]
        close(nameless.log_joint(latents, {"word": lists}), table_of(words, latents), rtol=1e-12)
    both = [[0, None], [2, 1]], [[0, None, 1], [2, 1]]
    for lists in both:
        assert np.isfinite(nameless.log_joint(latents, {"word": lists})).all()
    for wrong in (0.5, -1, np.inf, 1e300, 2**70, 10**400):
        for row in ([1, wrong], [1, wrong, 0]):
            with pytest.raises(DataError, match=r"'word' has .* at row 1, step 1, and a code is 0, 1, 2 and so on"):
                nameless.log_joint(latents, {"word": [[0, 1], row]})
    with pytest.raises(DataError, match="3 in row 0, step 1"):
        nameless.log_joint(latents, {"word": [[0, 3]]})


@pytest.mark.parametrize(
    "symbols",
    [(1, 2, 0), pytest.param((2, 1, 0), marks=pytest.mark.slow), pytest.param((-1, 0, 1), marks=pytest.mark.slow)],
)
def test_lists_are_symbols_though_symbols_are_numbers(symbols, latents):
    program = bg.GenerativeProgram(lambda n: languages(n, symbols=symbols), classes=["x", "y"])
    words = ["cab", "bba", "cba"]
    codes = [[SYMBOLS.index(letter) for letter in word] for word in words]
    lists = [[symbols[code] for code in row] for row in codes]
    expected = table_of(words, latents)
    for cells in (lists, tuple(lists), pd.Series(lists), pl.Series(lists), bg.Padded(lists, [3, 3, 3])):
        close(program.log_joint(latents, {"word": cells}), expected, rtol=1e-12)
    close(program.log_joint(latents, {"word": [*lists, []]})[:3], expected, rtol=1e-12)
    close(program.log_joint(latents, {"word": lists[:1]}), expected[:1], rtol=1e-12)
    close(program.log_joint(latents, {"word": CodedSequences(codes)}), expected, rtol=1e-12)
    rows = program.simulate(9, seed=1, latents=latents)
    made = ["".join(SYMBOLS[code] for code in row) for row in rows["word"].tolist()]
    close(program.log_joint(latents, {"word": rows["word"]}), table_of(made, latents), rtol=1e-12)


def test_an_alphabet_of_truth_values_is_no_codes(latents):
    def flags(n):
        with numpyro.plate("rows", n):
            move = jnp.array([[0.2, 0.8], [0.7, 0.3]])
            numpyro.sample("word", bg.MarkovChain(jnp.array([0.9, 0.1]), move, length=3, symbols=(True, False)))

    program = bg.GenerativeProgram(flags, label=None)
    for cells in ([[True, False]], [[True, False], [False]], np.array([[True, False]])):
        close(program.log_joint({}, {"word": cells})[0], np.log(0.9 * 0.8), rtol=1e-6)


def test_lengths_may_be_a_covariate(latents):
    def of_length(n, *, size):
        languages(n, length=size)

    program = bg.GenerativeProgram(of_length, classes=["x", "y"])
    assert program.structure.attribute["word"].steps.most is None
    sizes = np.array([3, 0, 1, 2, 5])
    close(program.log_joint(latents, {"word": WORDS, "size": sizes}), table_of(WORDS, latents), rtol=1e-12)
    rows = program.simulate(5, latents=latents, size=sizes)
    assert (rows["word"] >= 0).sum(1).tolist() == sizes.tolist()
    words = ["".join(SYMBOLS[code] for code in row if code >= 0) for row in rows["word"]]
    close(program.log_joint(latents, {"word": rows["word"], "size": sizes}), table_of(words, latents), rtol=1e-12)


def forward(walk, center, stay):
    """log p(walk), the states summed out path by path; NaN is not seen."""
    move, scale = np.array([[stay, 1 - stay], [1 - stay, stay]]), np.array([0.6, 1.1, 0.8])
    logs = -0.5 * ((walk[:, None] - center) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    logs = np.nansum(logs, axis=2)
    paths = []
    for path in itertools.product(range(2), repeat=len(walk)):
        steps = np.log(np.array([0.3, 0.7])[path[0]]) + sum(np.log(move[a, b]) for a, b in itertools.pairwise(path))
        paths.append(steps + sum(logs[t, state] for t, state in enumerate(path)))
    return np.logaddexp.reduce(paths)


@pytest.mark.slow
def test_sequences_of_arrays_of_numbers_are_read_in_every_form(walk_program):
    assert [name for name, _ in walk_program.plan.compressed] == ["walk"]
    rng = np.random.default_rng(2)
    latents = {"center": rng.normal(size=(2, 3)), "stay": np.array(0.7)}
    walks = [rng.normal(size=(length, 3)) for length in (4, 1, 3)]
    walks[2][1, 0], walks[2][1, 2], walks[0][2] = np.nan, np.nan, np.nan
    expected = np.array([[forward(walk, latents["center"], 0.7)] for walk in walks])
    padded = np.full((3, 4, 3), np.nan)
    for row, walk in enumerate(walks):
        padded[row, : len(walk)] = walk
    lists = [walk.tolist() for walk in walks]
    for cells in (walks, padded, lists, np.concatenate([padded, np.full((3, 2, 3), np.nan)], 1)):
        close(walk_program.log_joint(latents, {"walk": cells}), expected, rtol=1e-9)
    empty = walk_program.log_joint(latents, {"walk": [walks[0], None, np.empty((0, 3))]})
    close(empty, [expected[0], [0.0], [0.0]], rtol=1e-9)
    rows = walk_program.simulate(3, seed=1, latents=latents)
    assert rows["walk"].shape == (3, 4, 3) and walk_program.log_joint(latents, rows).shape == (3, 1)
    for cells, match in (
        ([walks[1], [1.0, 2.0]], r"steps of the shape \(\) in row 1.*shape \(3,\)"),
        ([np.zeros((5, 3))], "more than 4 steps in row 0"),
        ([walks[1], "abc"], "'abc', which is no list of numbers in row 1"),
        ([1.0, 2.0], r"1.0, which is no list of numbers in row 0.*it is one row: \{'walk': \[walk\]\}"),
        ([[["a", "b", "c"]], walks[0]], "what are no numbers"),
        (np.zeros((2, 4)), r"rows have shape \(4,\).*have \(T, 3\)"),
    ):
        with pytest.raises(DataError, match=match):
            walk_program.log_joint(latents, {"walk": cells})


def test_missing_steps_of_several_sequences_a_row_are_refused_by_name_and_row():
    def pairs(n):
        with numpyro.plate("rows", n):
            chain = bg.MarkovChain(jnp.ones(2) / 2, jnp.ones((2, 2)) / 2, length=4)
            numpyro.sample("words", chain.expand([n, 3]).to_event(1))

    program, words = bg.GenerativeProgram(pairs, label=None), np.zeros((3, 3, 4))
    close(program.log_joint({}, {"words": words}), np.full((3, 1), 12 * np.log(0.5)))
    words[1, 0, 2] = np.nan
    with pytest.raises(DataError, match=r"'words' has several sequences a row.*the first in row 1.*site of its own"):
        program.log_joint({}, {"words": words})
