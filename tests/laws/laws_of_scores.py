"""Laws of answers and of scores: those of comparisons, averages, studies, rows in turn and rows left out."""

import itertools

import numpy as np
import pandas as pd

import bayesgen as bg
from bayesgen.evaluation.training_sets import subsets
from tests.models.cases import take

from .laws import LAWS as LAWS
from .laws import assert_same_refusal, assert_same_values, attempt, law, numbers_of, sentence


def scores_by(refit, rule, X, y):
    """Log scores of rows by a fit; NaN where it is refused or gives no answer, -inf where no class makes a row."""
    answer = None if refit is None else attempt(bg.predict, refit, X, rule=rule)[0]
    if answer is None:
        return np.full(len(y) if y is not None else _num_rows(X), np.nan)
    if y is None:
        scores = np.asarray(answer.log_marginal)
    elif refit.concrete.response is None:
        classes = answer.classes.tolist()
        scores = [
            answer.log_marginal[row] if label is None else answer.log_probabilities[row, classes.index(label)]
            for row, label in enumerate(y.tolist())
        ]
    else:
        marginal = np.zeros(len(y)) if answer.log_marginal is None else np.asarray(answer.log_marginal)
        scores = np.where(np.isnan(y), marginal, answer.log_density(y))
    return np.where(np.isnan(scores), -np.inf, scores)


def _num_rows(X):
    return len(next(iter(X.values()))) if isinstance(X, dict) else X.shape[0]


def scores_without(case, schema, rule, rows, learned):
    """Log scores of some rows by the fit of others."""
    refit, _ = attempt(case.fit, **case.rows(learned), schema=schema)
    return scores_by(refit, rule, take(case.X, rows), None if case.y is None else case.y[rows])


# --- other ways to the answers of a fit -------------------------------------------------------------------------------


@law
def a_comparison_says_what_fit_and_predict_say(case):
    if case.weights is not None or "labels: some missing" in case.traits:
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
    if answer is not None:
        assert_same_values(numbers_of(comparison.answers[0].prediction), numbers_of(answer), atol=1e-9)


@law
def an_average_of_a_model_with_itself_is_the_model(case):
    """In evidence and answers, and in what is refused."""
    if not case.is_exact:
        return
    model = bg.average([case.model, case.model])
    fit, refusal = attempt(case.fit)
    averaged, refused = attempt(case.fit, model=model)
    assert (refusal is None) == (refused is None)
    if fit is None:
        assert sentence(refusal) in sentence(refused)
        return
    np.testing.assert_allclose(averaged.log_evidence, fit.log_evidence, rtol=1e-12)
    answer, refusal = attempt(bg.predict, fit, case.new, rule=bg.BMA())
    other, refused = attempt(bg.predict, averaged, case.new, rule=bg.BMA())
    assert_same_refusal(refusal, refused)
    if answer is not None:
        assert_same_values(numbers_of(other), numbers_of(answer), atol=1e-9)


@law
def a_study_has_the_scores_of_its_fits(case):
    """A unit is the fit of its rows, scored on the others; the message of a refusal is that of the fit or the answer.

    Rows are of weight 1. Points that are searched for where labels are missing depend on the random starts.
    """
    rng, pairs = case.rng, [(case.method, rule) for rule in case.rules]
    per_class = bool(rng.integers(2))
    settings = {"sizes": [int(rng.integers(1, 1 + max(1, case.num_rows // 4)))], "repeats": 2, "schema": case.schema}
    settings |= {"per_class": per_class, "test": None, "seed": case.seed}
    study, refused = attempt(bg.study, case.model, case.X, case.y, pairs=pairs, **settings)
    source, refusal = attempt(subsets, case.model, case.X, case.y, **settings)
    if source is None:
        assert_same_refusal(refusal, refused)
    if source is None or case.depends_on_starts:
        return
    schema = bg.summarize(case.model, case.X, case.y, schema=case.schema).schema
    size, messages, is_certain = settings["sizes"][0], [], case.is_exact or not case.is_incomplete
    for unit, (rule, repeat) in enumerate(itertools.product(case.rules, range(2))):
        scored = source.labelled[source.places(size, repeat)]
        rows = case.rows(np.flatnonzero(source.rank[repeat] < size)) | {"sample_weight": None}
        refit, refusal = attempt(case.fit, **rows, schema=schema)
        X, y = take(case.X, scored), None if case.y is None else case.y[scored]
        if refit is not None:
            _, refusal = attempt(bg.predict, refit, X, rule=rule)
        messages.append(sentence(refusal, is_certain))
        if study is None:
            continue
        scores = study.table.iloc[unit]
        assert sentence(None if pd.isna(scores["refused"]) else scores["refused"], is_certain) == messages[-1]
        if not messages[-1]:
            expected = scores_by(refit, rule, X, y).mean()
            tolerance = 1e-8 if is_certain else 1e-4
            np.testing.assert_allclose(scores["log_score"], expected, rtol=tolerance, atol=tolerance)
    if study is None:
        assert all(messages) and messages[0] in sentence(refused, is_certain)


# --- rows in turn, and rows left out ----------------------------------------------------------------------------------


@law
def scores_of_rows_in_turn_add_up_to_the_evidence(case):
    """The chain rule, in any order of the rows. Of rows of weight 1, which are learned as they are scored.

    Under a prior that is flat in the intercept the first row has no score, and the others add up to what it adds.
    """
    if not case.is_exact or case.weights is not None:
        return
    fit, refusal = attempt(case.fit)
    for order in (None, case.rng.permutation(case.num_rows)):
        scored, refused = attempt(bg.prequential, case.model, case.X, case.y, schema=case.schema, order=order)
        assert_same_refusal(refusal, refused, counts_matter=order is None)
        if fit is not None and fit.log_evidence is not None:
            scores, expected = scored.log_joint_scores, fit.log_evidence
            is_unscored = np.isnan(scores)
            if is_unscored.any():
                assert case.name == "response, line"
                first = np.flatnonzero(is_unscored) if order is None else order[is_unscored]
                expected -= case.fit(**case.rows(first), schema=fit.schema).log_evidence
            np.testing.assert_allclose(scores[~is_unscored].sum(), expected, rtol=1e-9, atol=1e-7)


@law
def rows_in_turn_are_scored_by_the_fits_of_the_rows_before(case):
    """By any method, with weights, in the order of the rows; NaN where such a fit is refused."""
    if case.is_incomplete and not case.is_exact:
        return
    summaries, _ = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    schema = None if summaries is None else attempt(getattr, summaries, "scaled_schema")[0]
    if schema is None:
        return
    weights = case.frequencies
    data = [(case.X, case.y, weights)] if case.weights is not None else [(case.X, case.y)]
    rule = case.rules[case.seed % len(case.rules)]
    scored, refused = attempt(bg.prequential, case.model, data, pairs=[(case.method, rule)], schema=case.schema)
    if scored is None:
        assert sentence(attempt(case.fit)[1]) or case.num_rows < 3, refused
        return
    scores = scored.log_scores[0]
    for row in case.rng.choice(case.num_rows, min(case.num_rows, 3), replace=False):
        learned = np.flatnonzero((np.arange(case.num_rows) < row) & (weights > 0))
        if len(learned) and weights[row]:
            expected = scores_without(case, schema, rule, np.array([row]), learned)
            np.testing.assert_allclose(scores[row], expected[0], rtol=1e-6, atol=1e-7)
    assert np.isnan(scores[weights == 0]).all()


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
                    expected = scores_without(case, fit.schema, rule, np.flatnonzero(is_out), others)
                    np.testing.assert_allclose(scores.log_scores[is_out], expected, rtol=1e-6, atol=1e-7)
            assert np.isnan(scores.log_scores[weights == 0]).all()


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
