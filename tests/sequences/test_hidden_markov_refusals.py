"""What `DirichletHiddenMarkov` refuses, and edges of its data; where EM and searches start, as users say."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from counting import compilations

import bayesgen as bg

LEVELS = [[0.0, 0.1, 5.0, 5.2], [5.1, 0.2, 0.3], [4.8, 5.0, 0.1, 0.0, 0.2]]


def model(*arguments, **options):
    family = bg.DirichletHiddenMarkov(*arguments, **options)
    return bg.GenerativeClassifier([("s", family, ["s"])], class_prior=None)


def fit(cells, method, *arguments, **options):
    return bg.fit(model(*arguments, **options), {"s": cells}, method=method)


@pytest.mark.parametrize(
    ("emissions", "words"),
    [
        (bg.DirichletMultinomial(), "depend on the state alone"),
        (bg.DirichletHiddenMarkov(2), "no hidden state emits"),
        (bg.NormalInverseGamma(tied=True), "not tied=True"),
        (bg.DirichletHistogram(), "no hidden state emits"),
        ("normal", "must be a family, got 'normal'"),
    ],
)
def test_emissions_that_no_state_has_are_refused(emissions, words):
    with pytest.raises(bg.ModelError, match=words):
        bg.DirichletHiddenMarkov(2, emissions)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_states": 0}, "whole number and at least 1, got 0"),
        ({"num_states": True}, "whole number"),
        ({"num_states": 2, "concentration": -1.0}, "concentration must be positive"),
        ({"num_states": 2, "initial": [1.0, 0.0]}, "initial must be positive"),
        ({"num_states": 2, "concentration": np.ones((3, 3))}, r"shape \(3, 3\), and for 2 states .*\(2, 2\)"),
        ({"num_states": 2, "initial": np.ones(3)}, r"initial has shape \(3,\)"),
    ],
)
def test_arguments_that_are_none_are_refused(options, words):
    with pytest.raises(bg.ModelError, match=words):
        bg.DirichletHiddenMarkov(**options)


def test_closed_forms_are_refused_with_their_reason():
    reason = "states are hidden.*Use NUTS"
    with pytest.raises(bg.FitError, match=f"block 's': its {reason}"):
        fit(LEVELS, bg.Exact(), 2)
    for verb in ("update", "log_evidence"):
        with pytest.raises(bg.ModelError, match=f"{verb} has no closed form: its {reason}"):
            getattr(bg.DirichletHiddenMarkov(2), verb)(LEVELS)
    two = bg.GenerativeClassifier([("b", bg.DirichletHiddenMarkov(2, bg.DirichletCategorical()), ["s", "t"])], None)
    with pytest.raises(bg.ModelError, match="2 columns of symbols in one block"):
        bg.fit(two, {"s": ["ab", "ba"], "t": ["aa", "bb"]}, method=bg.MAP())


def test_data_without_an_estimate_are_refused_by_state():
    with pytest.raises(bg.FitError, match="Block 's': nothing was counted of 's_transition' at state 0"):
        fit([[1.0], [2.0], [9.0]], bg.MLE(), 2)
    with pytest.raises(bg.FitError, match="no unique posterior mode at state 0: nothing was counted of 's_transition'"):
        fit([[1.0], [2.0], [9.0]], bg.MAP(), 2)
    assert fit([[1.0], [2.0], [9.0]], bg.MAP(num_starts=1), 2, concentration=2.0).attributes["converged"]
    with pytest.raises(bg.FitError, match=r"any of 8 starts.*variance is zero at state \d, column 's'.*MAP\(\)"):
        fit([[1.0, 1.0, 1.0], [1.0, 1.0]], bg.MLE(), 2)
    schema = bg.Schema(classes=["low", "void"])
    labelled = bg.NaiveBayes(bg.DirichletHiddenMarkov(2))
    with pytest.raises(bg.FitError, match="no cell is observed at class 'void', state 0, column 's'"):
        bg.fit(labelled, {"s": LEVELS}, ["low"] * 3, method=bg.MLE(), schema=schema)


def test_one_signal_is_told_to_be_one_row():
    signal = np.concatenate(LEVELS)
    for cells in (signal, signal.tolist(), pd.Series(signal), signal > 1.0, np.arange(3)):
        with pytest.raises(bg.DataError, match=r"If the whole column is one sequence, it is one row: \{'s': \[s\]\}"):
            fit(cells, bg.MAP(), 2)
    for X in (signal, signal.tolist(), pd.Series(signal), ["ab", "b"], pd.Series(["ab", "b"])):
        with pytest.raises(bg.DataError, match=r"\{'v': \[X\]\} one column with one sequence") as refusal:
            bg.fit(model(2), X, method=bg.MAP())
        assert "reshape(-1, 1)" not in str(refusal.value)
    found = [fit([one], bg.MLE(num_starts=1), 1).parameters["s_mean"] for one in (signal, pd.Series(signal))]
    np.testing.assert_allclose(found, signal.mean())


def test_one_state_is_no_hidden_state():
    found = fit(LEVELS, bg.MLE(num_starts=1), 1)
    steps = np.concatenate(LEVELS)
    np.testing.assert_allclose(found.parameters["s_mean"], [[steps.mean()]])
    np.testing.assert_allclose(found.parameters["s_variance"], [[steps.var()]])
    assert found.parameters["s_transition"].tolist() == [[1.0]]


def test_singular_starts_are_dropped_and_counted():
    found = fit(LEVELS, bg.MLE(), 3)
    assert found.attributes["num_starts"] == 8
    assert (found.parameters["s_variance"] > 0).all()
    lone = {"s_mean": [[0.1], [5.0], [5.2]], "s_variance": [[0.1], [0.1], [1e-9]]}
    good = {name: found.parameters[name] for name in lone}
    both = fit(LEVELS, bg.MLE(starts=[lone, good]), 3)
    assert both.attributes["num_starts"] == 2 and both.attributes["num_starts_dropped"] == 1


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ({"x": [1.0]}, "names 'x', and the parameters are 's_initial', 's_mean', 's_transition', 's_variance'"),
        ({"s_initial": [1.0]}, r"shape \(1,\) for 's_initial', whose shape is \(2,\)"),
        ({"s_initial": [0.5, 0.6]}, "outside the space: site 's_initial'"),
        ({"s_variance": [[-1.0], [1.0]]}, "outside the space: site 's_variance'"),
        ({"s_initial": [0.5, np.nan]}, "not finite"),
        ({"s_initial": "ab"}, "array of numbers"),
        ([0, 1, 1], "every row has its label"),
    ],
)
def test_starts_that_do_not_fit_are_refused(starts, words):
    with pytest.raises(bg.DataError, match=words):
        fit(LEVELS, bg.MLE(starts=starts), 2)


def test_starts_are_refused_where_nothing_is_looked_for():
    with pytest.raises(bg.DataError, match=r"closed form. Leave it out"):
        bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [3.0]], list("aba"), method=bg.MAP(starts={"class_probs": [0.5, 0.5]}))


def test_starts_may_leave_no_sequence_possible():
    sure = {"s_probs": [[[1.0, 0.0]], [[1.0, 0.0]]]}
    with pytest.raises(bg.FitError, match="2 sequences have probability zero in every state"):
        fit(["ab", "ba", "aa"], bg.MLE(starts=sure), 2, bg.DirichletCategorical())


def test_states_are_numbered_as_starts_say():
    found = fit(LEVELS, bg.MAP(starts={"s_mean": [[5.0], [0.0]]}), 2)
    assert found.parameters["s_mean"][0, 0] > 4
    by_itself = fit(LEVELS, bg.MAP(), 2)
    np.testing.assert_allclose(by_itself.parameters["s_mean"], found.parameters["s_mean"][::-1], rtol=1e-4)
    one, other = bg.MAP(starts={"s_mean": [[5.0], [0.0]]}), bg.MAP(starts=[{"s_mean": [[5.0], [0.0]]}])
    assert one == other and hash(one) == hash(other) != hash(bg.MAP(starts={"s_mean": [[5.0]]}))


@pytest.mark.slow
def test_searches_of_programs_start_where_users_say():
    """A normal mixture's likelihood has two mirrored maxima: the climb ends at the one that it starts nearer to."""

    def program(n):
        means = numpyro.sample("means", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            normals = dist.Normal(means, 1.0)
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(probs=np.array([0.4, 0.6])), normals))

    own, X = bg.GenerativeProgram(program, label=None), {"x": np.concatenate(LEVELS)}
    for start in ([5.0, 0.0], [0.0, 5.0]):
        found = bg.fit(own, X, method=bg.MAP(starts={"means": start}))
        np.testing.assert_allclose(found.parameters["means"], start, atol=0.8)
    with pytest.raises(bg.DataError, match="names 'mean', and the parameters are 'means'"):
        bg.fit(own, X, method=bg.MAP(starts={"mean": [1.0, 2.0]}))


def test_a_second_fit_of_about_the_same_shape_compiles_nothing():
    rng = np.random.default_rng(2)

    def data(size):
        lengths = [16, *rng.integers(9, 16, size - 1)]
        return [(rng.integers(0, 2, length) * 3.0 + rng.normal(size=length)).tolist() for length in lengths]

    fit(data(12), bg.MAP(num_starts=2), 2)
    with compilations() as found:
        fit(data(11), bg.MAP(num_starts=2), 2)
    assert not found
