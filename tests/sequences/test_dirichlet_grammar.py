"""`DirichletGrammar`: enumeration of parse trees of all training strings is the oracle."""

import collections
import itertools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import gammaln

import bayesgen as bg

close = np.testing.assert_allclose

RULES = {"S": ["A S", "S A", "a", "b"], "A": ["a", "b"]}
RULE_OF = {(left, side): place for left, sides in RULES.items() for place, side in enumerate(sides)}
STRINGS, NEW = ["aab", "ba", "ab", "b", "aa"], ["ab", "aaa", "bba"]
CONCENTRATION = {"S": [1.5, 0.7, 1.2, 1.0], "A": [2.0, 1.3]}


def trees(symbol, string):
    """Uses of rules in each parse tree of a string: Counters of (nonterminal, place)."""
    found = []
    for side in RULES[symbol]:
        right, here = side.split(), collections.Counter([(symbol, RULE_OF[symbol, side])])
        if len(right) == 1:
            found += [here] if right[0] == string else []
            continue
        for cut in range(1, len(string)):
            pairs = itertools.product(trees(right[0], string[:cut]), trees(right[1], string[cut:]))
            found += [here + first + second for first, second in pairs]
    return found


def explanations(strings):
    """Counts of rules of each way to parse all strings: (ways, 4) for S and (ways, 2) for A."""
    totals = [
        sum(choice, collections.Counter()) for choice in itertools.product(*(trees("S", string) for string in strings))
    ]
    return {left: np.array([[t[left, i] for i in range(len(sides))] for t in totals]) for left, sides in RULES.items()}


def log_evidences(counts):
    """Log evidence of each way: Dirichlet-multinomial, nonterminal by nonterminal."""
    total = 0.0
    for left, alpha in CONCENTRATION.items():
        alpha, of_left = np.array(alpha), counts[left]
        total = total + gammaln(alpha.sum()) - gammaln(alpha.sum() + of_left.sum(1))
        total = total + (gammaln(alpha + of_left) - gammaln(alpha)).sum(1)
    return total


@pytest.fixture(scope="module")
def model():
    return bg.NaiveBayes(bg.DirichletGrammar(RULES, CONCENTRATION), class_prior=None)


@pytest.fixture(scope="module")
def sampled(model):
    return bg.fit(model, {"w": STRINGS}, method=bg.NUTS(num_samples=1000, num_chains=2), progress=False)


@pytest.mark.slow
def test_nuts_has_the_posterior_means_of_all_ways_to_parse(sampled):
    counts = explanations(STRINGS)
    weights = np.exp(log_evidences(counts) - np.logaddexp.reduce(log_evidences(counts)))
    for left, alpha in CONCENTRATION.items():
        posterior = np.array(alpha) + counts[left]
        wanted = weights @ (posterior / posterior.sum(1, keepdims=True))
        draws = sampled.parameters[f"w_{left}"]
        assert draws.shape == (2, 1000, len(alpha))
        error = draws.std((0, 1)) / np.sqrt(400)  # no fewer effective draws
        assert (np.abs(draws.mean((0, 1)) - wanted) < 4.5 * error).all(), left


@pytest.mark.slow
def test_averages_over_draws_are_ratios_of_evidences(sampled):
    answer = bg.predict(sampled, {"w": NEW}, rule=bg.BMA())
    before = np.logaddexp.reduce(log_evidences(explanations(STRINGS)))
    wanted = [np.logaddexp.reduce(log_evidences(explanations([*STRINGS, string]))) - before for string in NEW]
    close(answer.log_marginal, wanted, atol=0.1)
    assert not np.allclose(bg.predict(sampled, {"w": NEW}, rule=bg.PlugIn()).log_marginal, wanted, atol=0.1)


def of_trees(strings, parameters):
    """Log-likelihood, and expected uses of rules, by enumeration."""
    total, uses = 0.0, {left: np.zeros(len(sides)) for left, sides in RULES.items()}
    for string in strings:
        found = trees("S", string)
        probs = np.array([np.prod([parameters[left][i] ** n for (left, i), n in tree.items()]) for tree in found])
        total += np.log(probs.sum())
        for tree, share in zip(found, probs / probs.sum(), strict=True):
            for (left, i), number in tree.items():
                uses[left][i] += share * number
    return total, uses


def test_em_expects_uses_of_rules_and_never_lowers_the_likelihood(model):
    family = bg.DirichletGrammar(RULES)
    codes = np.array([[0, 0, 1], [1, 0, -1], [0, 1, -1], [1, -1, -1], [0, 0, -1]])
    summary = family.likelihood.summarize(codes, np.zeros(5, int), 1).select_class(0)
    resolved, before = family.closed("EM"), -np.inf
    point = resolved.sample(np.random.default_rng(3))
    for _ in range(6):
        log_likelihood, expected = resolved.e_step(summary, point)
        wanted, uses = of_trees(STRINGS, point)
        close(log_likelihood, wanted, rtol=1e-10)
        close(expected.totals[0], [*uses["S"], *uses["A"]], rtol=1e-9, atol=1e-12)
        assert log_likelihood >= before - 1e-12
        before, point = log_likelihood, resolved.maximum_likelihood(expected)
    best = bg.fit(model, {"w": STRINGS}, method=bg.MLE(num_starts=6))
    assert best.attributes["objective"] >= before - 1e-9
    point = {left: best.parameters[f"w_{left}"] for left in RULES}
    _, uses = of_trees(STRINGS, point)
    for left, counts in uses.items():
        close(counts / counts.sum(), point[left], atol=1e-3)


@pytest.mark.slow
def test_program_of_ones_own_has_the_same_mode(model):
    def program(n):
        probs = {
            left: numpyro.sample(f"w_{left}", dist.Dirichlet(jnp.array(alpha) + 1))
            for left, alpha in CONCENTRATION.items()
        }
        with numpyro.plate("rows", n):
            numpyro.sample("w", bg.ProbabilisticGrammar(RULES, probs))

    prior = {left: np.array(alpha) + 1 for left, alpha in CONCENTRATION.items()}
    ours = bg.fit(bg.NaiveBayes(bg.DirichletGrammar(RULES, prior), class_prior=None), {"w": STRINGS}, method=bg.MAP())
    own = bg.fit(bg.GenerativeProgram(program, label=None), {"w": STRINGS}, method=bg.MAP())
    for name, value in ours.parameters.items():
        close(own.parameters[name], value, atol=1e-4, err_msg=name)


def test_strings_outside_the_language_have_no_class_and_a_reason():
    pairs = bg.NaiveBayes(bg.DirichletGrammar({"S": ["a S b", "a b", "b a"]}, 2.0))
    fit = bg.fit(pairs, {"w": ["ab", "aabb", "ba", "ab"]}, list("xxyy"), method=bg.MAP())
    with pytest.warns(bg.ImpossibleRowsWarning, match=r"^2 of 4 rows.*'w' has in row 1 'aab', which is not") as caught:
        answer = bg.predict(fit, {"w": ["ab", "aab", None, "b"]}, rule=bg.PlugIn())
    assert "Add rules, or drop such rows: there are 2." in str(caught[0].message)
    assert "MAP" not in str(caught[0].message) and "Exact" not in str(caught[0].message)
    assert answer.labels.tolist()[1::2] == [None, None] and set(answer.labels.tolist()[::2]) <= {"x", "y"}
    assert np.isnan(answer.probabilities).any(1).tolist() == [False, True, False, True]
    assert f"their probabilities: {answer.probabilities[::2].max(1).min():.3f} to" in repr(answer)
    with pytest.warns(bg.ImpossibleRowsWarning, match="in row 0 'b'"):
        alone = bg.predict(fit, {"w": ["b"]}, rule=bg.PlugIn())
    assert alone.labels.tolist() == [None] == alone.to_frame()["label"].tolist()
    assert "impossible rows: 1" in repr(alone) and "labels:" not in repr(alone) and "probabilities:" not in repr(alone)


def test_refusals(model):
    with pytest.raises(
        bg.DataError, match=r"'w' has in row 2 'aa', which is not in the language of the grammar S -> a"
    ):
        bg.fit(
            bg.NaiveBayes(bg.DirichletGrammar({"S": ["a S b", "a b"]})),
            {"w": ["ab", None, "aa"]},
            [0, 1, 1],
            method=bg.MLE(),
        )
    with pytest.raises(bg.DataError, match="has in row 1 the empty string"):
        bg.fit(model, {"w": ["ab", ""]}, method=bg.MLE())
    with pytest.raises(bg.DataError, match=r"Column 'w' has 'c' .first at row 1, step 1"):
        bg.fit(model, {"w": ["ab", "ac"]}, method=bg.MLE())
    with pytest.raises(bg.FitError, match="its parse trees are hidden"):
        bg.fit(model, {"w": STRINGS}, method=bg.Exact())
    with pytest.raises(bg.ModelError, match="declared to have the symbols 'b', 'a'"):
        bg.fit(model, {"w": STRINGS}, method=bg.MLE(), schema=bg.Schema(categories={"w": ["b", "a"]}))
    with pytest.raises(bg.FitError, match="nothing was counted of 'w_A'"):
        bg.fit(model, {"w": ["a", "b"]}, method=bg.MLE())
    for verb in ("predictive", "row_predictive"):
        with pytest.raises(bg.ModelError, match="predictive has no closed form"):
            getattr(bg.DirichletGrammar(RULES), verb)()
    for verb in ("update", "log_evidence"):
        with pytest.raises(bg.ModelError, match=f"{verb} has no closed form"):
            getattr(bg.DirichletGrammar(RULES), verb)(["ab"])
    for wrong, message in ((0.0, "must be positive"), ({"S": 1.0}, "the nonterminals are"), ([1.0, 2.0], "6 rules")):
        with pytest.raises(bg.ModelError, match=message):
            bg.DirichletGrammar(RULES, wrong)
    with pytest.raises(bg.ModelError, match="of 'A' has the shape"):
        bg.DirichletGrammar(RULES, {"S": 1.0, "A": [1.0, 2.0, 3.0]})
    with pytest.raises(bg.ModelError, match="every nonterminal has one rule"):
        bg.DirichletGrammar({"S": ["a b"]})
    with pytest.raises(bg.ModelError, match="2 columns in one block"):
        both = bg.GenerativeClassifier([("w", bg.DirichletGrammar(RULES), ["u", "v"])], class_prior=None)
        bg.fit(both, {"u": STRINGS, "v": STRINGS}, method=bg.MLE())


@pytest.mark.slow
def test_parameters_and_axes_are_named_after_nonterminals():
    def names(rules):
        return list(bg.DirichletGrammar(rules).parameter_axes())

    assert names({"S": ["S S", "a"], "NP'": ["b"]} | {"S": ["S NP'", "a"]}) == ["S"]
    assert names({"S": ["<x> S", "a"], "<x>": ["b", "c"]}) == ["rules0", "rules1"]
    assert names({1: [(1, "1"), ("a",)], "1": ["b", "c"]}) == ["rules0", "rules1"]
    fit = bg.fit(bg.NaiveBayes({"w": bg.DirichletGrammar(RULES)}), {"w": STRINGS}, [0, 1, 0, 1, 1], method=bg.MAP())
    tree = fit.to_datatree()["point_estimate"]
    assert tree["w_S"].coords["S_rule"].values.tolist() == ["S -> A S", "S -> S A", "S -> a", "S -> b"]
    strings = fit.simulate(3, seed=1)["w"]
    assert strings.shape == (3, 50)


def test_missing_symbols_are_summed_out_in_training():
    model = bg.NaiveBayes({"w": bg.DirichletGrammar({"S": ["a S a", "b S b", "a", "b"]})}, class_prior=None)
    fit = bg.fit(model, {"w": ["aba", ["a", None, "a"], [None, "b", "b"], None, "bab"]}, method=bg.MLE())
    of_a, of_b, a, b = fit.parameters["w_S"]
    close(fit.attributes["objective"], np.log([of_a * b, of_a * (a + b), of_b * b, of_b * a]).sum(), rtol=1e-9)
    close([of_a, of_b, a, b], [1 / 4, 1 / 4, 1 / 6, 1 / 3], atol=1e-4)
    new = bg.predict(fit, {"w": ["aabaa", "b"]}, rule=bg.PlugIn())  # of five symbols, which are compiled as six
    close(new.log_marginal, np.log([of_a * of_a * b, b]), rtol=1e-9)
    with pytest.raises(bg.DataError, match=r"'w' has in row 1 \['a', None, 'b'\], which is not in the language"):
        bg.fit(model, {"w": ["aba", ["a", None, "b"]]}, method=bg.MLE())
