"""The laws of the products of features: functions of a `Case`, which raise where it breaks a law."""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

import bayesgen as bg
from tests.models.cases import take

LAWS = {}


def law(function):
    LAWS[function.__name__] = function
    return function


def attempt(function, *arguments, **options):
    """(result, None), or (None, the refusal)."""
    try:
        return function(*arguments, **options), None
    except bg.BayesgenError as refusal:
        return None, refusal


def sentence(refusal, counts_matter=True):
    """What a refusal says, without the chunk or the data set; and, if they do not matter, without numbers."""
    text = re.sub(r" \(Rows are counted without .*\)$", "", "" if refusal is None else str(refusal))
    text = re.sub(r"^(Chunk|Data set) \d+: ", "", re.sub(r" \(What the schema does not declare .*\)$", "", text))
    return text if counts_matter else re.sub(r"\d+", "#", text)


def assert_same_refusal(one, two, counts_matter=True):
    assert sentence(one, counts_matter) == sentence(two, counts_matter)


def answers(fit, new):
    """What a fit says of new rows."""
    rules = [bg.PlugIn(), bg.BMA()] if isinstance(fit.method, bg.Exact) else [bg.PlugIn()]
    if fit.concrete.response is not None:
        predictions = [bg.predict(fit, new, rule=rule) for rule in rules]
        return {str(rule): np.stack([p.mean, p.std]) for rule, p in zip(rules, predictions, strict=True)}
    return {rule.closed_at: attempt(fit.log_joint, new, at=rule.closed_at)[0] for rule in rules}


def assert_same_values(one, two, rtol=1e-8, atol=1e-8):
    assert set(one) == set(two)
    for key, value in one.items():
        assert (value is None) == (two[key] is None), key
        if value is not None:
            np.testing.assert_allclose(value, two[key], rtol=rtol, atol=atol, err_msg=key)


def assert_same_fit(case, one, two):
    """Parameters, evidence and answers are equal: to rounding, or as near as searches end.

    Where labels are missing, a search may end at another mode when its random starts differ.
    """
    if case.is_incomplete and not case.is_exact:
        if "labels: some missing" in case.traits:
            return
        tolerance = {"rtol": 1e-4, "atol": 1e-4}
    else:
        tolerance = {"rtol": 1e-8, "atol": 1e-8}
    assert_same_values(one.parameters, two.parameters, **tolerance)
    assert_same_values(answers(one, case.new), answers(two, case.new), **tolerance)
    assert_same_values({"evidence": one.log_evidence}, {"evidence": two.log_evidence})


# --- one fit, and the same fit in other ways --------------------------------------------------------------------------


@law
def chunks_and_summaries_are_the_rows(case):
    """A fit of summaries, chunks and merged parts is that of the rows, and is refused where it is."""
    fit, refusal = attempt(case.fit)
    summaries, refused = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    if summaries is None:
        assert_same_refusal(refusal, refused)
        return
    summarised, refused = attempt(bg.fit, case.model, summaries, method=case.method)
    assert_same_refusal(refusal, refused)
    schema, ends = summaries.schema, (0, case.num_rows // 3, case.num_rows // 2, case.num_rows)
    parts = [case.rows(slice(*part)) for part in itertools.pairwise(ends) if part[0] < part[1]]
    tables = (tuple(part.values()) for part in reversed(parts))
    chunked, refused = attempt(bg.fit, case.model, tables, method=case.method, schema=schema)
    assert (refused is None) == (refusal is None)
    fits = [] if fit is None else [summarised, chunked]
    pieces = [attempt(bg.summarize, case.model, **part, schema=schema)[0] for part in parts]
    if fit is not None and len(pieces) == 3 and None not in pieces:  # a part may have no row with a weight
        first, second, third = pieces
        fits += [
            bg.fit(case.model, merged, method=case.method)
            for merged in ((first + second) + third, third + (second + first))
        ]
    for other in fits:
        assert_same_fit(case, fit, other)


@law
def a_batch_is_its_fits(case):
    """`fit_many` refuses the sets that `fit` refuses, in its words, and fits the others as it does."""
    weights = case.frequencies
    summaries, _ = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    data_set = (case.X,) if case.y is None and case.weights is None else (case.X, case.y, weights)
    batch, refused = attempt(bg.fit_many, case.model, [data_set], method=case.method, schema=case.schema)
    fit, refusal = attempt(case.fit)
    assert_same_refusal(refusal, refused if batch is None else batch.refused.get(0))
    if fit is not None:
        assert_same_fit(case, fit, batch[0])
    if summaries is None:
        return
    sets, schema = [weights, np.ones(case.num_rows), weights > 0], summaries.schema
    batch, _ = attempt(bg.fit_many, case.model, case.X, case.y, weights=sets, method=case.method, schema=schema)
    for index, set_weights in enumerate(sets):
        fit, refusal = attempt(case.fit, sample_weight=set_weights, schema=schema)
        if batch is None:
            assert refusal is not None
            continue
        assert_same_refusal(refusal, batch.refused.get(index))
        if fit is None:
            assert all(np.isnan(values[index]).all() for values in batch.parameters.values())
        else:
            assert_same_fit(case, fit, batch[index])
            if case.is_exact or not case.is_incomplete:
                assert_same_values({k: v[index] for k, v in batch.parameters.items()}, fit.parameters)
    for rule in case.rules if batch is not None and case.has_classes else ():
        answer, _ = attempt(bg.predict, batch, case.new, rule=rule)
        for index in range(3 if answer is not None else 0):
            alone = None if index in batch.refused else attempt(bg.predict, batch[index], case.new, rule=rule)[0]
            expected = np.nan if alone is None else alone.probabilities
            expected = np.broadcast_to(expected, answer.probabilities[index].shape)
            np.testing.assert_allclose(answer.probabilities[index], expected, rtol=1e-8, atol=1e-9)


@law
def a_comparison_says_what_fit_and_predict_say(case):
    """And an average of a fit with itself has its answers."""
    if not case.has_classes or case.weights is not None or "labels: some missing" in case.traits:
        return
    fit, refusal = attempt(case.fit)
    rule, data = case.rules[-1], (case.X, case.y)
    pairs = [(case.method, rule)]
    comparison, refused = attempt(bg.compare, case.model, *data, *data, pairs=pairs, schema=case.schema)
    if fit is None:
        assert_same_refusal(refusal, refused)
        return
    answer, refusal = attempt(bg.predict, fit, case.X, rule=rule)
    assert_same_refusal(refusal, refused)
    if answer is None:
        return
    np.testing.assert_allclose(comparison.answers[0].prediction.probabilities, answer.probabilities, atol=1e-12)
    if case.is_exact and case.name != "dependence averaged":
        averaged = bg.predict(bg.average([fit, fit]), case.X, rule=bg.BMA())
        np.testing.assert_allclose(averaged.probabilities, answer.probabilities, atol=1e-12)
        np.testing.assert_allclose(averaged.log_marginal, answer.log_marginal, atol=1e-9)


@law
def frames_are_their_columns(case):
    """Whatever the index, which repeats itself here."""
    if not isinstance(case.X, dict):
        return
    index = pd.Index(case.rng.integers(0, 5, case.num_rows), name="odd")
    X = pd.DataFrame({name: pd.Series(_frame_column(values)) for name, values in case.X.items()}).set_axis(index)
    y = None if case.y is None else pd.Series(case.y, index)
    weights = None if case.weights is None else pd.Series(case.weights, index)
    fit, refusal = attempt(case.fit)
    other, refused = attempt(case.fit, X=X, y=y, sample_weight=weights)
    assert_same_refusal(refusal, refused)
    if fit is not None:
        assert_same_fit(case, fit, other)


def _frame_column(values):
    if not np.ma.is_masked(values):
        return np.asarray(values)
    if values.dtype.kind == "f":
        return values.filled(np.nan)
    dtype = {"b": "boolean", "i": "Int64", "U": "str"}[values.dtype.kind]
    return pd.array(np.where(np.ma.getmaskarray(values), None, values.data.astype(object)), dtype=dtype)


@law
def threads_change_no_number(case):
    """Nor does a second time: answers are the same, bit by bit."""
    if case.is_incomplete and not case.is_exact:
        return  # searches of EM, whose draws are tested elsewhere, take a hundred times as long
    fit, _ = attempt(case.fit)
    if fit is None:
        return

    def numbers(_):
        return list(answers(case.fit(), case.new).values())

    with ThreadPoolExecutor(3) as pool:
        for other in [*pool.map(numbers, range(3)), numbers(None)]:
            for one, two in zip(answers(fit, case.new).values(), other, strict=True):
                np.testing.assert_array_equal(one, two)


# --- what changes nothing else ----------------------------------------------------------------------------------------


@law
def rows_come_in_any_order(case):
    order = case.rng.permutation(case.num_rows)
    fit, refusal = attempt(case.fit)
    other, refused = attempt(case.fit, **case.rows(order))
    assert (refusal is None) == (refused is None)
    if fit is not None:
        assert_same_fit(case, fit, other)


@law
def columns_come_in_any_order(case):
    """But for hyperparameters that are stated column by column."""
    if not isinstance(case.X, dict) or case.name == "informative":
        return
    fit, refusal = attempt(case.fit)
    other, refused = attempt(case.fit, X=dict(reversed(case.X.items())))
    assert (refusal is None) == (refused is None)
    if fit is not None and (case.is_exact or not case.is_incomplete):
        reversed_answers = answers(other, dict(reversed(case.new.items())))
        assert_same_values(answers(fit, case.new), reversed_answers)


@law
def classes_and_categories_have_any_names(case):
    """Names in another order put columns of an answer into another order, and change nothing else."""
    if not case.has_classes or case.name in ("normal, classes fixed", "discriminant, columns of every kind"):
        return
    fit, _ = attempt(case.fit)
    if fit is None or (case.is_incomplete and not case.is_exact):
        return
    names = {"ape": "zebra", "bear": "yak", "cow": "xerus", None: None}
    y = np.array([names[label] for label in case.y.tolist()], case.y.dtype if case.y.dtype == object else None)
    schema = None if case.schema is None else bg.Schema(classes=[names[label] for label in case.schema.classes])
    X, new = ((_renamed(table) if isinstance(table, dict) else table) for table in (case.X, case.new))
    other = case.fit(X=X, y=y, schema=schema)
    order = [list(other.classes).index(names[label]) for label in fit.classes.tolist()]
    for one, two in zip(answers(fit, case.new).values(), answers(other, new).values(), strict=True):
        if one is not None:
            np.testing.assert_allclose(two[:, order], one, rtol=1e-8, atol=1e-8)


def _renamed(table):
    """The columns of texts, with names of categories that are sorted the other way round."""
    names = {"dark": "2", "light": "1", "leaves": "c", "meat": "b", "roots": "a"}
    return {
        column: _with_names(values, names) if column in ("fur", "food") else values for column, values in table.items()
    }


def _with_names(values, names):
    renamed = np.array([names[value] for value in np.ma.getdata(values).tolist()])
    return np.ma.array(renamed, mask=np.ma.getmaskarray(values)) if np.ma.is_masked(values) else renamed


@law
def a_row_given_twice_is_weight_two(case):
    times = case.rng.integers(0, 3, case.num_rows)
    times[:2] = 1
    summaries, _ = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    if summaries is None:
        return
    repeated = case.rows(np.repeat(np.arange(case.num_rows), times))
    fit, refusal = attempt(case.fit, sample_weight=case.frequencies * times, schema=summaries.schema)
    other, refused = attempt(case.fit, **repeated, schema=summaries.schema)
    assert_same_refusal(refusal, refused, counts_matter=False)
    if fit is not None:
        assert_same_fit(case, fit, other)


@law
def units_and_origins_of_columns_do_not_matter(case):
    """Scaling by 10^12 and 10^-12 moves probabilities by 1e-9; shifts by 10^m deviations by 10^(m - 14) for each row.

    Under default priors, and not for a column without spread, to which they give variance 1.
    """
    normal = ("normal", "normal, classes fixed", "columns of every kind")
    discriminants = ("full", "tied", "diag", "tied-diag")
    if case.name not in (*normal, *(f"discriminant, {covariance}" for covariance in discriminants)):
        return
    first = next(iter(case.X))
    values, new = case.X[first], case.new[first]
    spread = float(np.ma.filled(np.ma.std(values[case.frequencies > 0]), 0.0))
    is_searched = case.is_incomplete and not case.is_exact
    if not spread or is_searched or {"single precision", "one row", "constant", "rows twice"} & set(case.traits):
        return
    fit, refusal = attempt(case.fit)
    changes = [(scale, 0.0, 1e-9) for scale in (1e12, 1e-12, -1.0)]
    changes += [(1.0, spread * 10.0**power, case.num_rows * 10.0 ** (power - 14)) for power in (3, 6, 8)]
    for scale, shift, tolerance in changes:
        changed, refused = attempt(case.fit, X=case.X | {first: values * scale + shift})
        assert (refusal is None) == (refused is None), refused
        for rule in case.rules if fit is not None else ():
            answer = attempt(bg.predict, fit, case.new, rule=rule)[0]
            if answer is not None:
                other = bg.predict(changed, case.new | {first: new * scale + shift}, rule=rule)
                np.testing.assert_allclose(other.probabilities, answer.probabilities, rtol=0, atol=tolerance)


# --- more rows, and fewer ---------------------------------------------------------------------------------------------


@law
def an_update_is_a_fit_of_all_rows(case):
    blocks = not case.name.startswith(("no classes", "response", "dependence"))
    summaries, _ = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    if summaries is None or not blocks or case.num_rows < 3 or (case.is_incomplete and not case.is_exact):
        return
    end = 2 * case.num_rows // 3
    first, _ = attempt(case.fit, **case.rows(slice(0, end)), schema=summaries.schema)
    if first is None:
        return
    priors = dict(first.prior)
    families = [(block, priors[block], columns) for block, _, columns in first.concrete.blocks]
    model = bg.GenerativeClassifier(families, class_prior=priors["class"])
    rest = case.rows(slice(end, None))
    grown, refused = attempt(first.update, rest.pop("X"), rest.pop("y"), **rest)
    fit, refusal = attempt(bg.fit, model, **case.rows(slice(None)), method=case.method, schema=first.schema)
    if "sample_weight is zero for all rows" not in sentence(refused):
        assert_same_refusal(refusal, refused)
        if fit is not None:
            assert_same_fit(case, fit, grown)


@law
def scores_of_rows_in_turn_add_up_to_the_evidence(case):
    """The chain rule, in any order of the rows. Of rows of weight 1, which are learned as they are scored."""
    if not case.is_exact or case.weights is not None:
        return
    fit, refusal = attempt(case.fit)
    for order in (None, case.rng.permutation(case.num_rows)):
        scored, refused = attempt(bg.prequential, case.model, case.X, case.y, schema=case.schema, order=order)
        assert (refusal is None) == (refused is None), (refusal, refused)
        if fit is not None and fit.log_evidence is not None:
            total = scored.log_joint_scores.sum()
            np.testing.assert_allclose(total, fit.log_evidence, rtol=1e-9, atol=1e-7)


@law
def what_is_left_out_was_never_there(case):
    """Leave-one-out, and folds, have the scores of fits without these rows; NaN where such a fit is refused.

    Without any other row the prior answers, where it can. A score of a row that no class can make is minus infinity.
    """
    fit, _ = attempt(case.fit)
    if fit is None or case.name == "dependence averaged" or (case.is_incomplete and not case.is_exact):
        return
    weights = case.frequencies
    for rule in case.rules:
        for folds in (np.arange(case.num_rows), np.arange(case.num_rows) % 3):
            alone = None if folds[-1] == case.num_rows - 1 else folds
            scores, refused = attempt(
                bg.leave_one_out, fit, case.X, case.y, sample_weight=case.weights, rule=rule, folds=alone
            )
            if scores is None:
                assert attempt(bg.predict, fit, case.X, rule=rule)[1] is not None, refused
                continue
            for fold in np.unique(folds[weights > 0]):
                is_out, others = (folds == fold) & (weights > 0), np.flatnonzero((folds != fold) & (weights > 0))
                if len(others):
                    expected = _scores_without(case, fit, rule, np.flatnonzero(is_out), others)
                    np.testing.assert_allclose(scores.log_scores[is_out], expected, rtol=1e-6, atol=1e-7)
            assert np.isnan(scores.log_scores[weights == 0]).all()


def _scores_without(case, fit, rule, rows, others):
    refit, _ = attempt(case.fit, **case.rows(others), schema=fit.schema)
    X, y = take(case.X, rows), None if case.y is None else case.y[rows]
    answer = None if refit is None else attempt(bg.predict, refit, X, rule=rule)[0]
    if answer is None:
        return np.full(len(rows), np.nan)
    if y is None:
        scores = np.asarray(answer.log_marginal)
    elif case.has_classes:
        classes = answer.classes.tolist()
        scores = [
            answer.log_marginal[row] if label is None else answer.log_probabilities[row, classes.index(label)]
            for row, label in enumerate(y.tolist())
        ]
    else:
        marginal = np.zeros(len(y)) if answer.log_marginal is None else np.asarray(answer.log_marginal)
        scores = np.where(np.isnan(y), marginal, answer.log_density(y))
    return np.where(np.isnan(scores), -np.inf, scores)


# --- probabilities ----------------------------------------------------------------------------------------------------


@law
def probabilities_are_probabilities(case):
    """From 0 to 1, with the sum 1, or NaN in a whole row; and the same seed gives the same numbers."""
    fit, _ = attempt(case.fit)
    if fit is None or not case.has_classes:
        return
    for rule in (*case.rules, bg.ConditionalAverage(50)):
        answer, _ = attempt(bg.predict, fit, case.new, rule=rule)
        if answer is None:
            continue
        is_known = ~np.isnan(answer.probabilities).any(1)
        known = answer.probabilities[is_known]
        assert np.isnan(answer.probabilities[~is_known]).all() and (known >= 0).all() and (known <= 1).all()
        np.testing.assert_allclose(known.sum(1), 1.0, rtol=1e-12)
        again = bg.predict(fit, case.new, rule=rule)
        np.testing.assert_array_equal(answer.probabilities, again.probabilities)
