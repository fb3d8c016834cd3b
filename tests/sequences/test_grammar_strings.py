"""`ProbabilisticGrammar` at its doors: strings without symbols, deep trees and long rules, what is refused."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.sequences import grammar as grammar_module
from bayesgen.sequences.grammar_rules import normal_form

close = np.testing.assert_allclose


@pytest.mark.parametrize("shape", [(2, 0), (0,), (0, 0), (0, 3)])
def test_no_symbols_or_no_strings_have_no_probability(shape):
    grammar = bg.ProbabilisticGrammar({"S": ["S S", "a"]}, [0.3, 0.7])
    found = grammar.log_prob(np.zeros(shape, int))
    assert found.shape == shape[:-1] and np.isneginf(found).all()
    assert grammar.encode(["", ""]).shape == (2, 0)


def test_deep_trees_and_long_rules_need_no_recursion():
    deep = bg.ProbabilisticGrammar({"S": [("a", "S"), (0, 0, 0)]}, [0.99, 0.01])
    string = ("a",) * 400 + (0, 0, 0)
    tree, log_prob = deep.parse(string)
    close(log_prob, 400 * np.log(0.99) + np.log(0.01))
    assert tree.symbols == string and tree.rules() == ["S -> a S"] * 400 + ["S -> 0 0 0"]
    assert str(tree) == "(S a " * 400 + "(S 0 0 0" + ")" * 401 and repr(tree) == f"ParseTree{tree}"
    long = bg.ProbabilisticGrammar({"S": [["a"] * 600 + ["S"], ["b"]]}, [0.5, 0.5], max_length=700)
    assert normal_form(long.rules).num_nodes == 601  # S, a, and the rests


@pytest.mark.parametrize(
    ("strings", "message"),
    [
        ("()", "list of strings"),
        (None, "list of strings"),
        (["()", None], "String 1 is missing"),
        (["()", ["(", None]], "String 1 .* at step 1"),
        (["()", 3], "has 3 at row 1"),
        ([[["("]]], "strings"),
    ],
)
def test_what_are_no_strings_is_refused(strings, message):
    grammar = bg.ProbabilisticGrammar({"S": ["( )", "( S )"]}, [0.5, 0.5])
    with pytest.raises(bg.DataError, match=message):
        grammar.encode(strings)


@pytest.mark.parametrize("codes", [[0, 1], [[5]], [[0.5]], [["x"]], [[-1, 0]]])
def test_what_are_no_codes_is_refused(codes):
    with pytest.raises(bg.DataError, match="decode takes codes"):
        bg.ProbabilisticGrammar({"S": ["( )", "( S )"]}, [0.5, 0.5]).decode(codes)


@pytest.mark.parametrize(
    ("rules", "probs", "max_length", "message"),
    [
        ({"S": ["a"]}, [1.0], "x", "max_length must be a whole number"),
        ({"S": ["a"]}, [1.0], 2.5, "max_length must be a whole number"),
        ({"S": ["a"]}, ["x"], None, "are no numbers"),
        ({"S": [[["a"]]]}, [1.0], None, "no symbol"),
    ],
)
def test_arguments_of_no_right_kind_are_refused(rules, probs, max_length, message):
    with pytest.raises(bg.ModelError, match=message):
        bg.ProbabilisticGrammar(rules, probs, max_length=max_length)


def test_data_of_programs_may_be_longer_than_samples_and_rows_without_symbols_are_named():
    def program(n):
        probs = numpyro.sample("probs", dist.Dirichlet(jnp.ones(2)))
        with numpyro.plate("rows", n):
            numpyro.sample("x", bg.ProbabilisticGrammar({"S": ["a S", "a"]}, probs, max_length=3))

    model = bg.GenerativeProgram(program, label=None)
    table = model.log_joint({"probs": np.array([0.6, 0.4])}, {"x": np.array(["a" * 7, "a"], object)})
    close(np.ravel(table), [6 * np.log(0.6) + np.log(0.4), np.log(0.4)])
    with pytest.raises(bg.DataError, match="row 1 the empty string"):
        bg.fit(model, {"x": np.array(["a", ""], object)}, method=bg.MAP())


def test_totals_of_grammars_that_are_the_same_are_computed_once(monkeypatch):
    rows = []
    monkeypatch.setattr(grammar_module, "total_probabilities", lambda rules, row: rows.append(row) or np.ones(1))
    bg.ProbabilisticGrammar({"S": ["S S", "a"]}, np.array([[0.3, 0.7], [0.2, 0.8]])[np.arange(1000) % 2])
    assert len(rows) == 2
