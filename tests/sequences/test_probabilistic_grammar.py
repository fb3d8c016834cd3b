"""`ProbabilisticGrammar`: enumeration of all parse trees of short strings is the oracle."""

import collections
import itertools
import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import bayesgen as bg
from bayesgen.errors import without_warnings
from bayesgen.sequences import GrammarLikelihood, GrammarRules
from bayesgen.sequences.grammar_rules import normal_form
from bayesgen.sequences.inside import ParseTree, inside, log_length_probabilities
from bayesgen.sequences.semirings import BOOLEAN, MAX, Semiring
from bayesgen.statistics.latent import filled_up

close = np.testing.assert_allclose

GRAMMARS = {
    "one nonterminal": {"S": ["S S", "a"]},
    "arithmetic": {"E": ["E + T", "T"], "T": ["T * F", "F"], "F": ["( E )", "x"]},
    "palindromes": {"S": ["a S a", "b S b", "a a", "b b", "a", "b"]},
    "long rules and unit rules": {
        "S": ["A B a B", "A", "S b"],
        "A": ["B", "a", "C C C"],
        "B": ["C", "b b"],
        "C": ["c"],
    },
    "other symbols": {0: [(0, 1.5, 0), ("tuple",)], "tuple": [[(2, 3)], [1.5]]},
    "words alone": {"S": ["a", "b", "c"]},
}


def probabilities(rules, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    return {left: rng.dirichlet(np.ones(len(sides)), batch) for left, sides in rules.items()}


def derivations(rules, symbols, string):
    """All leftmost derivations of a string from symbols: the rules that each uses, as (nonterminal, place)."""
    if not symbols:
        return [()] if not string else []
    if len(symbols) > len(string):
        return []
    first, rest = symbols[0], symbols[1:]
    if first not in rules:
        return derivations(rules, rest, string[1:]) if string[0] == first else []
    found = []
    for place, side in enumerate(rules[first]):
        right = tuple(side.split()) if isinstance(side, str) else tuple(side)
        for cut in range(1, len(string) - len(rest) + 1):
            heads = derivations(rules, right, string[:cut]) if len(right) < cut or right != (first,) else []
            tails = derivations(rules, rest, string[cut:]) if heads else []
            found += [((first, place), *head, *tail) for head in heads for tail in tails]
    return found


def enumerated(rules, probs, string):
    """The probability of a string, tree by tree; expected uses of rules; the greatest probability of a tree."""
    trees = derivations(rules, (next(iter(rules)),), tuple(string))
    of_trees = [math.prod(probs[left][place] for left, place in tree) for tree in trees]
    total = sum(of_trees)
    uses = collections.Counter()
    for tree, prob in zip(trees, of_trees, strict=True):
        for rule in tree:
            uses[rule] += prob / total
    return total, uses, max(of_trees, default=0.0)


def strings(grammar, longest):
    return [s for size in range(1, longest + 1) for s in itertools.product(grammar.symbols, repeat=size)]


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


OTHERS = ("palindromes", "one nonterminal", "other symbols")  # besides one of each form of rules


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in OTHERS)) for name in GRAMMARS], scope="module"
)
def case(request):
    rules = GRAMMARS[request.param]
    probs = probabilities(rules)
    with without_warnings(bg.BayesgenWarning):  # derivations that may go on for ever
        grammar = bg.ProbabilisticGrammar(rules, probs)
    return rules, probs, grammar, strings(grammar, 6 if len(grammar.symbols) < 3 else 4)


def test_probabilities_of_all_short_strings_are_sums_over_their_parse_trees(case):
    rules, probs, grammar, short = case
    found = np.exp(grammar.log_prob(grammar.encode(short)))
    close(found, [enumerated(rules, probs, string)[0] for string in short], rtol=1e-12)
    assert (found == 0).any() or len(grammar.symbols) in (1, 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ProbabilisticGrammar. the probabilities of all strings")
@pytest.mark.parametrize("name", [pytest.param("arithmetic", marks=pytest.mark.slow), "long rules and unit rules"])
def test_gradients_by_log_probabilities_are_expected_uses_of_rules(name):
    rules = GRAMMARS[name]
    probs = probabilities(rules)
    grammar = bg.ProbabilisticGrammar(rules, probs)
    short = strings(grammar, 4)
    possible = [string for string in short if enumerated(rules, probs, string)[0] > 0][-7:]
    codes, likelihood = grammar.encode(possible), GrammarLikelihood(grammar.rules)

    def of_rows(log_probs):
        return likelihood.log_probs({"log_probs": log_probs[None]}, codes, None, np.zeros(len(codes), int))

    jacobian = jax.jacrev if name == "arithmetic" else jax.jacfwd
    uses = jacobian(of_rows)(jnp.log(grammar.probs))
    order = [(left, place) for left, sides in rules.items() for place in range(len(sides))]
    wanted = [[enumerated(rules, probs, string)[1][rule] for rule in order] for string in possible]
    close(uses, wanted, atol=1e-10)


def test_the_most_probable_parse_is_that_of_all_trees(case):
    rules, probs, grammar, short = case
    for string in short[-40:]:
        total, _, most = enumerated(rules, probs, string)
        if not total:
            with pytest.raises(bg.BayesgenError, match="is not in the language"):
                grammar.parse(string)
            continue
        tree, log_prob = grammar.parse(string)
        close(log_prob, np.log(most), rtol=1e-12)
        assert tree.symbols == string and tree.symbol == grammar.rules.start
        numbers = dict(zip(grammar.rules.rule_names, grammar.probs, strict=True))
        close(np.prod([numbers[rule] for rule in tree.rules()]), most, rtol=1e-12)


COUNTING = Semiring(0, 1, lambda numbers, axis: numbers.sum(axis), operator.mul)


@pytest.mark.parametrize("semiring", [BOOLEAN, COUNTING, MAX], ids=["boolean", "counting", "max"])
def test_the_recursion_adds_up_parse_trees_in_any_semiring(case, semiring):
    rules, probs, grammar, short = case
    form, some = normal_form(grammar.rules), short[:: max(len(short) // 40, 1)]
    if semiring is MAX:
        of_rules = np.log(grammar.probs)
        expected = [enumerated(rules, probs, string)[2] for string in some]
    else:
        of_rules = np.full(len(grammar.rules.rules), semiring.one)
        expected = [len(derivations(rules, (grammar.rules.start,), string)) for string in some]
    codes, (choices, leaves) = grammar.encode(some), form.weights(semiring, of_rules)
    lengths, num_steps = (codes >= 0).sum(1), codes.shape[1]
    found = inside(semiring, form, choices, leaves[:, codes.T], lengths, num_steps)[0]
    close(np.exp(found) if semiring is MAX else found, np.array(expected) > 0 if semiring is BOOLEAN else expected)
    of_missing = inside(semiring, form, choices, leaves[:, -1:], np.arange(1, num_steps + 1), num_steps)[0]
    of_each = [
        inside(semiring, form, choices, leaves[:, [-1] * size], size, size)[0] for size in range(1, num_steps + 1)
    ]
    close(of_missing, of_each)


def test_missing_symbols_are_summed_out(case):
    rules, probs, grammar, _ = case
    likelihood = GrammarLikelihood(grammar.rules)
    some = (grammar.symbols * 4)[:4]
    patterns = [(None, some[1], None), (None, None, None, None), (some[0], None, some[2], None), (None,)]
    codes, observed = np.full((5, 4), -1), np.ones((5, 4), bool)
    for row, pattern in enumerate(patterns):
        observed[row, : len(pattern)] = [symbol is not None for symbol in pattern]
        codes[row, : len(pattern)] = [0 if symbol is None else grammar.symbols.index(symbol) for symbol in pattern]
    codes[4], observed[4] = -1, False  # a string that is missing altogether
    log_probs = {"log_probs": np.log(grammar.probs)[None]}
    found = np.exp(likelihood.log_probs(log_probs, codes, observed, np.zeros(5, int)))
    fillings = [
        itertools.product(*[grammar.symbols if symbol is None else (symbol,) for symbol in pattern])
        for pattern in patterns
    ]
    wanted = [sum(enumerated(rules, probs, string)[0] for string in strings) for strings in fillings]
    assert wanted[1] != 1  # four symbols, whatever they are; of the string that is missing not even the length is known
    close(found, [*wanted, 1.0], rtol=1e-10)
    longer, seen = filled_up(codes, observed, 7)
    close(np.exp(likelihood.log_probs(log_probs, longer, seen, np.zeros(5, int))), [*wanted, 1.0], rtol=1e-10)


def test_catalan_numbers_count_the_trees_and_long_strings_do_not_underflow():
    grammar = bg.ProbabilisticGrammar({"S": ["S S", "a"]}, [0.4, 0.6])
    sizes = np.array([1, 2, 3, 7, 40])
    trees = scipy.special.gammaln(2 * sizes - 1) - 2 * scipy.special.gammaln(sizes) - np.log(sizes)
    wanted = trees + (sizes - 1) * np.log(0.4) + sizes * np.log(0.6)
    close(grammar.log_prob(np.where(np.arange(40) < sizes[:, None], 0, -1)), wanted, rtol=1e-11)
    unlikely = bg.ProbabilisticGrammar({"S": ["a S", "b S", "a"]}, [1e-12, 1e-30, 1 - 1e-12 - 1e-30])
    codes = np.array([0] * 26 + [1] * 13 + [0])
    close(unlikely.log_prob(codes), 26 * np.log(1e-12) + 13 * np.log(1e-30) + np.log(unlikely.probs[2]), rtol=1e-12)


def test_impossible_strings_have_no_slopes_that_are_not_numbers():
    def log_probs(probs):
        grammar = bg.ProbabilisticGrammar({"S": ["a S b", "A"], "A": ["a", "b"]}, {"S": [0.4, 0.6], "A": probs})
        return grammar.log_prob(jnp.array([[0, 0, 1], [0, 1, 1], [1, 1, 1], [-1, -1, -1], [0, -1, -1]]))

    probs = np.array([1.0, 0.0])
    found, slopes = jax.jit(lambda probs: (log_probs(probs), jax.jacobian(log_probs)(probs)))(probs)
    close(np.exp(found), [0.24, 0, 0, 0, 0.6], rtol=1e-12)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize(("prob", "total"), [(0.3, 1.0), (0.5, 1.0), (0.6, 2 / 3), (0.8, 0.25), (1.0, 0.0)])
def test_total_probability_of_strings_is_the_least_fixed_point(prob, total, recwarn):
    grammar = bg.ProbabilisticGrammar({"S": ["S S", "a"]}, [prob, 1 - prob])
    close(grammar.total_probability, total, atol=1e-6)
    assert ["sum to" in str(warning.message) for warning in recwarn] == [True] * (total < 1)


def test_total_probability_sums_those_of_lengths():
    probs = probabilities(GRAMMARS["arithmetic"], 4)
    with pytest.warns(bg.BayesgenWarning, match="derivations may go on for ever"):
        grammar = bg.ProbabilisticGrammar(GRAMMARS["arithmetic"], probs)
    of_lengths = np.exp(log_length_probabilities(normal_form(grammar.rules), np.log(grammar.probs), 301)[0])
    close(of_lengths.sum(), grammar.total_probability, rtol=1e-4)
    short = np.exp(grammar.log_prob(grammar.encode(strings(grammar, 4))))
    close(of_lengths[:4].sum(), short.sum(), rtol=1e-10)


@pytest.mark.slow
def test_samples_are_strings_of_the_grammar_given_that_they_are_not_longer():
    rules = GRAMMARS["arithmetic"]
    probs = {"E": [[0.3, 0.7], [0.6, 0.4]], "T": [0.2, 0.8], "F": [0.3, 0.7]}
    grammar = bg.ProbabilisticGrammar(rules, probs, max_length=5)
    draws = np.asarray(grammar.sample(jax.random.key(3), (3000,)))
    assert draws.shape == (3000, 2, 5) and bool(grammar.support(draws).all())
    shown, counts = np.unique(draws[:, 1], axis=0, return_counts=True)
    every = grammar.encode(strings(grammar, 5))
    of_grammar = np.exp(grammar.log_prob(every[:, None]))[:, 1]
    possible = of_grammar > 0
    wanted = of_grammar[possible] / of_grammar.sum()
    place = {tuple(row): index for index, row in enumerate(every[possible])}
    observed = np.zeros(len(wanted))
    observed[[place[tuple(row)] for row in shown]] = counts
    assert scipy.stats.chisquare(observed, 3000 * wanted).pvalue > 1e-3


def test_strings_and_codes():
    grammar = bg.ProbabilisticGrammar({"S": ["a S b", "c"]}, [0.4, 0.6])
    codes = grammar.encode(["acb", "c", ["a", "a"], ""])
    assert codes.tolist() == [[0, 2, 1], [2, -1, -1], [0, 0, -1], [-1, -1, -1]]
    assert grammar.decode(codes) == ["acb", "c", "aa", ""]
    assert grammar.encode([]).shape == (0, 0)
    assert np.exp(grammar.log_prob(codes)).round(3).tolist() == [0.24, 0.6, 0.0, 0.0]
    words = bg.ProbabilisticGrammar({"NP": ["the N"], "N": ["dog", "cat"]}, {"NP": [1.0], "N": [0.5, 0.5]})
    assert words.decode(words.encode([["the", "dog"]])) == [("the", "dog")]
    assert str(words.parse(["the", "dog"])[0]) == "(NP the (N dog))"


def test_batches_of_grammars_and_of_strings_broadcast():
    rules = GRAMMARS["arithmetic"]
    rng = np.random.default_rng(1)
    probs = {left: rng.dirichlet([4.0, 16.0], (3, 1)) for left in rules}
    grammar = bg.ProbabilisticGrammar(rules, {left: jnp.asarray(values) for left, values in probs.items()})
    codes = grammar.encode(["x+x*x", "(x)"])
    table = grammar.log_prob(codes)
    assert table.shape == (3, 2) and grammar.batch_shape == (3, 1)
    for k in range(3):
        of_one = bg.ProbabilisticGrammar(rules, {left: values[k, 0] for left, values in probs.items()})
        close(table[k], of_one.log_prob(codes), rtol=1e-12)
    compiled = jax.jit(lambda grammar, codes: grammar.log_prob(codes))(grammar, codes)
    close(compiled, table, rtol=1e-12)


REFUSALS = {
    "no rules": ({}, "mapping from nonterminals"),
    "a text": ({"S": "S S"}, "are a list of right-hand sides"),
    "no symbols": ({"S": ["a", ""]}, "is empty"),
    "a number": ({"S": [3]}, "list or tuple of symbols; got 3"),
    "none": ({"S": []}, "no right-hand sides"),
    "twice": ({"S": ["a", ["a"]]}, "'S -> a' is there twice"),
    "a cycle": (
        {"S": ["A", "a"], "A": ["B", "a"], "B": ["A", "b"]},
        "'A', 'B' can be rewritten to each other.*one of the rules 'A -> B', 'B -> A' out",
    ),
    "itself": ({"S": ["S", "a"]}, "^'S' can be rewritten to itself without end.*Leave the rule 'S -> S' out"),
    "endless": ({"S": ["a S"]}, "'S' derives no string"),
    "endless nonterminal": ({"S": ["A", "b"], "A": ["a A"]}, "'A' derives no string"),
    "not reached": ({"S": ["a"], "A": ["b"]}, "reaches 'A'"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_grammars_that_are_none_are_refused_by_name(name):
    rules, message = REFUSALS[name]
    with pytest.raises(bg.ModelError, match=message):
        bg.ProbabilisticGrammar(
            rules, {left: np.ones(len(sides)) / max(len(sides), 1) for left, sides in rules.items()}
        )


def test_other_refusals():
    rules = GRAMMARS["arithmetic"]
    probs = {"E": [0.2, 0.8], "T": [0.2, 0.8], "F": [0.2, 0.8]}
    with pytest.raises(bg.ModelError, match="start='G' has no rules"):
        bg.ProbabilisticGrammar(rules, probs, start="G")
    with pytest.raises(bg.ModelError, match="reaches 'S'"):
        bg.ProbabilisticGrammar({"S": ["A"], "A": ["a"]}, {"S": [1.0], "A": [1.0]}, start="A")
    with pytest.raises(bg.ModelError, match="3 nonterminals"):
        bg.ProbabilisticGrammar(rules, [0.5, 0.5])
    with pytest.raises(bg.ModelError, match="without any: 'F'; no nonterminal: 'G'"):
        bg.ProbabilisticGrammar(rules, {"E": [1, 0], "T": [1, 0], "G": [1, 0]})
    with pytest.raises(bg.ModelError, match="'T' has 2 rules"):
        bg.ProbabilisticGrammar(rules, probs | {"T": [1.0]})
    for wrong in ([0.5, 0.6], [1.5, -0.5], [np.nan, 1.0]):
        with pytest.raises(bg.ModelError, match="rules of 'T' must be nonnegative and sum to 1"):
            bg.ProbabilisticGrammar(rules, probs | {"T": wrong})
    grammar = bg.ProbabilisticGrammar(rules, probs)
    with pytest.raises(bg.DataError, match=r"'y'.*first at row 1, step 2"):
        grammar.encode(["x", "x+y"])
    with pytest.raises(bg.DataError, match="not in the language"):
        grammar.parse("")
    with pytest.raises(bg.ModelError, match="shortest string has 3 symbols"):
        bg.ProbabilisticGrammar({"S": ["a S b", "a b c"]}, [0.5, 0.5], max_length=2)
    certain = bg.ProbabilisticGrammar({"S": ["a S b", "c c c", "c"]}, [0.5, 0.5, 0.0], max_length=2)
    with pytest.raises(bg.ModelError, match="no string of at most 2 symbols has a positive probability"):
        certain.sample(jax.random.key(0))


def test_nltk_has_the_same_probabilities_and_parses():
    nltk = pytest.importorskip("nltk")
    rules = GRAMMARS["arithmetic"]
    probs = {"E": [0.3, 0.7], "T": [0.2, 0.8], "F": [0.4, 0.6]}
    grammar = bg.ProbabilisticGrammar(rules, probs)
    lines = [
        f"{left} -> {' '.join(s if s in rules else repr(s) for s in side.split())} [{prob}]"
        for left, sides in rules.items()
        for side, prob in zip(sides, probs[left], strict=True)
    ]
    peer = nltk.PCFG.fromstring("\n".join(lines))
    examples = ["x", "x+x*x", "(x+x)*(x*(x))", "x*x+x+(x)"]
    found = np.exp(grammar.log_prob(grammar.encode(examples)))
    for string, prob in zip(examples, found, strict=True):
        close(prob, sum(tree.prob() for tree in nltk.InsideChartParser(peer).parse(list(string))), rtol=1e-10)
        (best,) = nltk.ViterbiParser(peer).parse(list(string))
        tree, log_prob = grammar.parse(string)
        close(np.exp(log_prob), best.prob(), rtol=1e-10)
        assert tree == as_tree(best)


def as_tree(tree):
    """NLTK's tree as ours."""
    return tree if isinstance(tree, str) else ParseTree(tree.label(), tuple(map(as_tree, tree)))


def test_strings_that_are_there_often_are_kept_once_in_a_class():
    likelihood = GrammarLikelihood(GrammarRules.of({"S": ["a S", "b S", "a", "b"]}))
    codes = np.array([[0, 1], [0, -1], [0, 1], [0, 1], [1, 1]])
    classes, weights = np.array([0, 0, 0, 1, 1]), np.array([1.0, 2.0, 0.5, 3.0, 0.0])
    log_probs = {"log_probs": np.log([[0.2, 0.3, 0.4, 0.1], [0.1, 0.2, 0.3, 0.4]])}
    table = likelihood.density(log_probs).log_prob(codes)
    summary = likelihood.summarize(codes, classes, 2, weights)
    assert summary.num_rows == 3
    wanted = [(weights * table[:, k])[classes == k].sum() for k in range(2)]
    close(likelihood.log_likelihood(log_probs, summary), wanted, rtol=1e-12)
    shares = np.array([[0.3, 0.7], [1.0, 0.0], [0.5, 0.5], [0.2, 0.8], [0.6, 0.4]])
    soft = likelihood.summarize(codes, shares, 2, weights)
    close(likelihood.log_likelihood(log_probs, soft), (weights[:, None] * shares * table).sum(0), rtol=1e-12)
    assert soft.num_rows == 2
