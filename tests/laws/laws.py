"""The laws of the products of features: functions of a `Case`, which raise where it breaks a law."""

import dataclasses
import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pandas as pd

import bayesgen as bg
from bayesgen.fitting import ProgramProblem
from bayesgen.program import LogPriorKind, free_vector
from bayesgen.records import copied
from tests.models.cases import with_holes

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
    """What a refusal says, without the chunk or the data set.

    Where counts of rows do not matter, without numbers and without what the first random start of a search met.
    """
    text = re.sub(r" \(Rows are counted without .*\)$", "", "" if refusal is None else str(refusal))
    text = re.sub(r"^(Chunk|Data set) \d+: ", "", re.sub(r" \(What the schema does not declare .*\)$", "", text))
    return text if counts_matter else re.sub(r"^(EM reaches no estimate).*", r"\1", re.sub(r"\d+", "#", text))


def assert_same_refusal(one, two, counts_matter=True):
    assert sentence(one, counts_matter) == sentence(two, counts_matter)


def answers(fit, new):
    """What a fit says of new rows."""
    rules = [bg.PlugIn(), bg.BMA()] if isinstance(fit.method, bg.Exact) else [bg.PlugIn()]
    if fit.concrete.response is not None:
        predictions = [bg.predict(fit, new, rule=rule) for rule in rules]
        return {str(rule): np.stack([p.mean, p.std]) for rule, p in zip(rules, predictions, strict=True)}
    return {rule.closed_at: attempt(fit.log_joint, new, at=rule.closed_at)[0] for rule in rules}


def numbers_of(answer):
    """The numbers of a prediction, by name: of classes, of a number, or the density of the rows."""
    is_number = isinstance(answer, bg.ContinuousPrediction)
    is_density = isinstance(answer, bg.DensityPrediction) or (not is_number and len(answer.classes) == 0)
    names = ("mean", "std") if is_number else () if is_density else ("probabilities",)
    return {name: getattr(answer, name) for name in (*names, "log_marginal") if getattr(answer, name) is not None}


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
    if case.depends_on_starts:
        return
    if case.is_incomplete and not case.is_exact:
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
    assert case.depends_on_starts or (refused is None) == (refusal is None)
    fits = [] if fit is None else [summarised, chunked]
    pieces = [attempt(bg.summarize, case.model, **part, schema=schema)[0] for part in parts]
    are_parts = len(pieces) == 3 and None not in pieces  # a part may have no row with a weight
    if fit is not None and are_parts and not case.depends_on_starts:
        first, second, third = pieces
        fits += [
            bg.fit(case.model, merged, method=case.method)
            for merged in ((first + second) + third, third + (second + first))
        ]
    for other in fits if not case.depends_on_starts else ():
        assert_same_fit(case, fit, other)


@law
def a_batch_is_its_fits(case):
    """`fit_many` refuses the sets that `fit` refuses, in its words, and fits the others as it does."""
    weights = case.frequencies
    summaries, _ = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    data_set = (case.X,) if case.y is None and case.weights is None else (case.X, case.y, weights)
    batch, refused = attempt(bg.fit_many, case.model, [data_set], method=case.method, schema=case.schema)
    fit, refusal = attempt(case.fit, seed=_seed_of_set(0))
    assert_same_refusal(refusal, refused if batch is None else batch.refused.get(0))
    if fit is not None:
        assert_same_fit(case, fit, batch[0])
    if summaries is None:
        return
    sets, schema = [weights, np.ones(case.num_rows), weights > 0], summaries.schema
    batch, refused = attempt(bg.fit_many, case.model, case.X, case.y, weights=sets, method=case.method, schema=schema)
    refusals = []
    for index, set_weights in enumerate(sets):
        fit, refusal = attempt(case.fit, sample_weight=set_weights, schema=schema, seed=_seed_of_set(index))
        refusals.append(sentence(refusal))
        if batch is None:
            continue
        assert_same_refusal(refusal, batch.refused.get(index))
        if fit is None:
            assert all(np.isnan(values[index]).all() for values in batch.parameters.values())
        else:
            assert_same_fit(case, fit, batch[index])
            if case.is_exact or not case.is_incomplete:
                assert_same_values({k: v[index] for k, v in batch.parameters.items()}, fit.parameters)
    assert batch is not None or sentence(refused) in refusals  # a cell that one set has may be refused for all
    has_holes = isinstance(case.new, dict) and "cells: all" not in case.traits
    new = with_holes(case.new, case.rng) if has_holes else case.new
    for rule in case.rules if batch is not None else ():
        answer, _ = attempt(bg.predict, batch, new, rule=rule)
        for index in range(3 if answer is not None else 0):
            alone = None if index in batch.refused else attempt(bg.predict, batch[index], new, rule=rule)[0]
            for name, numbers in numbers_of(answer).items():
                expected = np.nan if alone is None else numbers_of(alone)[name]
                expected = np.broadcast_to(expected, numbers[index].shape)
                np.testing.assert_allclose(numbers[index], expected, rtol=1e-8, atol=1e-9)


def _seed_of_set(index):
    return jax.random.fold_in(jax.random.key(0), index)


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
    assert case.depends_on_starts or (refusal is None) == (refused is None)
    if fit is not None:
        assert_same_fit(case, fit, other)


@law
def columns_come_in_any_order(case):
    """But for hyperparameters that are stated column by column."""
    if case.name == "informative":
        return
    fit, refusal = attempt(case.fit)
    other, refused = attempt(case.fit, X=_reversed(case.X))
    assert (refusal is None) == (refused is None)
    if fit is not None and (case.is_exact or not case.is_incomplete):
        assert_same_values(answers(fit, case.new), answers(other, _reversed(case.new)))


def _reversed(X):
    """The columns from the last to the first."""
    return dict(reversed(X.items())) if isinstance(X, dict) else X[:, ::-1]


@law
def classes_and_categories_have_any_names(case):
    """Names in another order put columns of an answer into another order, and change nothing else."""
    fit = attempt(case.fit)[0] if case.has_classes else None
    if fit is None or (case.is_incomplete and not case.is_exact):
        return
    names = {"ape": "zebra", "bear": "yak", "cow": "xerus", None: None}
    y = np.array([names[label] for label in case.y.tolist()], case.y.dtype if case.y.dtype == object else None)
    classes = [names[label] for label in fit.classes.tolist()]
    schema = None if case.schema is None else bg.Schema(classes=classes)
    order = np.arange(len(classes)) if schema is not None else np.argsort(np.argsort(classes))
    model, fixed = case.model, getattr(case.model, "class_prior", None)
    if fixed is not None and not isinstance(fixed, bg.DirichletCategorical):
        model = dataclasses.replace(model, class_prior=np.asarray(fixed)[np.argsort(order)])
    columns = {"food"} if case.name == "own blocks" else {"food", "fur"}  # concentrations of fur are stated in order
    X, new = ((_renamed(table, columns) if isinstance(table, dict) else table) for table in (case.X, case.new))
    other = case.fit(model=model, X=X, y=y, schema=schema)
    assert [names[label] for label in fit.classes.tolist()] == np.asarray(other.classes)[order].tolist()
    for one, two in zip(answers(fit, case.new).values(), answers(other, new).values(), strict=True):
        if one is not None:
            np.testing.assert_allclose(two[:, order], one, rtol=1e-8, atol=1e-8)


def _renamed(table, columns):
    """The table with names of categories in some columns that are sorted the other way round."""
    names = {"dark": "2", "light": "1", "leaves": "c", "meat": "b", "roots": "a"}
    return {column: _with_names(values, names) if column in columns else values for column, values in table.items()}


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
    if not case.depends_on_starts:
        assert_same_refusal(refusal, refused, counts_matter=False)
    if fit is not None:
        assert_same_fit(case, fit, other)


@law
def units_and_origins_of_columns_do_not_matter(case):
    """Scaling by 10^12 and 10^-12 moves probabilities by 1e-9; shifts by 10^m deviations by 10^(m - 14) for each row.

    Under default priors, and not for a column without spread, to which they give variance 1. Means and deviations of
    a response move by as much of its deviation.
    """
    if case.name not in SCALED_BY_COLUMN:
        return
    first = next(iter(case.X))
    values, new = case.X[first], case.new[first]
    counted = values[case.frequencies > 0]
    spread = float(np.ma.filled(np.ma.std(counted), 0.0)) if len(counted) else 0.0
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
                for one, two in zip(*map(_in_deviations, (answer, other), (answer, answer)), strict=True):
                    np.testing.assert_allclose(two, one, rtol=0, atol=tolerance)


SCALED_BY_COLUMN = {"normal", "normal, classes fixed", "columns of every kind", "own blocks", "dependence averaged"}
SCALED_BY_COLUMN |= {f"discriminant, {covariance}" for covariance in ("full", "tied", "diag", "tied-diag")}
SCALED_BY_COLUMN |= {"response, joint", "response, line", "response, naive Bayes"}


def _in_deviations(answer, reference):
    """The probabilities of an answer; or its means and deviations, from those of another in units of its deviations."""
    if hasattr(answer, "probabilities"):
        return (answer.probabilities,)
    return (answer.mean - reference.mean) / reference.std, answer.std / reference.std


# --- more rows, and fewer ---------------------------------------------------------------------------------------------


@law
def an_update_is_a_fit_of_all_rows(case):
    """Under the prior of the first fit, whose scale its schema has."""
    summaries, _ = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    if summaries is None or case.num_rows < 3 or (case.is_incomplete and not case.is_exact):
        return
    end = 2 * case.num_rows // 3
    first, _ = attempt(case.fit, **case.rows(slice(0, end)), schema=summaries.schema)
    if first is None:
        return
    more = case.rows(slice(end, None))
    grown, refused = attempt(first.update, more.pop("X"), more.pop("y"), **more)
    fit, refusal = attempt(case.fit, schema=first.schema)
    if "sample_weight is zero for all rows" not in sentence(refused):
        assert_same_refusal(refusal, refused)
        if fit is not None:
            assert_same_fit(case, fit, grown)


# --- sampling ---------------------------------------------------------------------------------------------------------


@law
def nuts_samples_the_posterior_that_exact_has(case):
    """NUTS takes what Exact takes, and samples from the exact posterior times the evidence; rows twice are weight 2.

    It refuses what Exact refuses, in the same words, but for missing cells and labels. Nothing is sampled here.
    """
    if case.name == "dependence averaged":
        return  # structures are not sampled, which is said
    fit, refusal = attempt(case.fit, method=bg.Exact())
    summaries, _ = attempt(bg.summarize, case.model, **case.rows(slice(None)), schema=case.schema)
    if summaries is None:
        assert_same_refusal(refusal, attempt(case.fit, method=bg.NUTS())[1])
        return
    density, refused = attempt(_sampled_density, case.model, summaries)
    if fit is None and "has no closed form" not in sentence(refusal):
        assert_same_refusal(refusal, refused)
        return
    assert refused is None, refused
    program = ProgramProblem(case.model, summaries).program
    twice, schema = np.repeat(np.arange(case.num_rows), 2), summaries.scaled_schema
    doubled = case.rows(slice(None)) | {"sample_weight": 2 * case.frequencies}
    parameters = fit.posterior.conjugate.sample((), case.rng) if fit is not None else None
    with jax.enable_x64(True):
        if fit is None:
            vector = 0.3 * case.rng.normal(size=density.dimension)
        else:
            latents = program.latents_of(parameters)
            vector = free_vector(program, {name: latents[name] for name in program.latents})
        log_densities = [
            copied(
                _sampled_density(case.model, bg.summarize(case.model, **data, schema=schema)), program=program
            ).by_numpy(vector)
            for data in (doubled, case.rows(twice))
        ]
        np.testing.assert_allclose(*log_densities, rtol=1e-8)
        if fit is not None:
            log_density = copied(density, program=program, prior=LogPriorKind.PARAMETERS).by_numpy(vector)
            expected = fit.posterior.conjugate.log_prior(parameters) + fit.log_evidence
            tolerance = 1e-5 if "a row far away" in case.traits else 1e-8  # beside which cross products lose digits
            np.testing.assert_allclose(log_density, expected, rtol=tolerance, atol=tolerance)


def _sampled_density(model, summaries):
    """The log density from which NUTS samples."""
    method = bg.NUTS()
    with jax.enable_x64(True):
        return method.target(ProgramProblem(model, summaries).checked_for(method)).density
