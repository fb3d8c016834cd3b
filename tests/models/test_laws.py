"""Laws that every built-in model obeys. No formula of a model is written again here."""

import copy
import dataclasses
import pickle

import jax
import numpy as np
import numpyro
import pandas as pd
import pytest
from batches import assert_vmap_is_one_by_one, log_prob_of
from numpyro import handlers

import bayesgen as bg

from .cases import CASES, HOLED, NEW, ROWS, stack, stated, take

every_case = pytest.mark.parametrize("name", CASES)
BOTH = CASES | {f"{name}, cells missing": case for name, case in HOLED.items()}
every_case_of_both = pytest.mark.parametrize("name", BOTH)
named_cases = pytest.mark.parametrize("name", [name for name, case in BOTH.items() if isinstance(case.new, dict)])
every_method = pytest.mark.parametrize(
    "method", [bg.MLE(), bg.MAP(), bg.Exact()], ids=lambda method: type(method).__name__
)
# what compiles a program for each case is run for some; for the others with -m slow
SEARCHED = {"naive Bayes, integer labels"}
# what no row has after a context has probability 0, and after contexts that no row has anything is as likely: searches
# find no maximum with a curvature there
FLAT = {"naive Bayes, words", "naive Bayes, words that end"}
TRACED = {"naive Bayes", "discriminant, tied", "multinomial, dense"}


def mostly_slow(quick):
    names = [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
    return pytest.mark.parametrize("name", names)


every_searched, every_traced = mostly_slow(SEARCHED), mostly_slow(TRACED)
close = np.testing.assert_allclose


def assert_same_values(one, two, **tolerance):
    assert set(one) == set(two)
    for key, value in one.items():
        close(value, two[key], err_msg=key, **tolerance)


def assert_same_fit(one, two):
    assert_same_values(one.parameters, two.parameters, rtol=1e-9, atol=1e-12)
    assert one.schema == two.schema
    for moment in ("mean", "variance"):
        mine, theirs = getattr(one.schema, moment), getattr(two.schema, moment)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            close(mine, theirs, rtol=1e-11)
    assert (one.log_evidence is None) == (two.log_evidence is None)
    if one.log_evidence is not None:
        close(one.log_evidence, two.log_evidence, rtol=1e-11)


def with_prior(fit, conjugate=None):
    """The model whose prior is that of a fit (or another conjugate state), in numbers."""
    families = dict(fit.prior) if conjugate is None else dict(conjugate.families())
    blocks = [(name, families[name], columns) for name, _, columns in fit.concrete.blocks]
    return bg.GenerativeClassifier(blocks, class_prior=families["class"])


@every_case
def test_models_are_equal_by_content_and_hash_by_it(name):
    model, (X, y) = CASES[name].model, CASES[name].data
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), dataclasses.replace(model)):
        assert again == model and hash(again) == hash(model) and repr(again) == repr(model)
    assert {case.model for case in CASES.values() if case.model == model} == {model}
    assert dataclasses.replace(model, class_prior=[0.25, 0.75]) == dataclasses.replace(model, class_prior=(0.25, 0.75))
    assert dataclasses.replace(model, class_prior=np.array([0.5, 0.5])) != model or model.class_prior == (0.5, 0.5)
    one, two = (bg.summarize(each, X, y) for each in (model, copy.deepcopy(model)))
    assert one.model == two.model and hash(one.model) == hash(two.model)
    assert one.schema == two.schema and hash(one.schema) == hash(two.schema)
    priors = [summaries.model.conjugate(summaries.scaled_schema) for summaries in (one, two)]
    assert priors[0] == priors[1] != dataclasses.replace(priors[0], blocks=())
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.class_prior = bg.DirichletCategorical(2.0)


def test_averages_over_structures_are_equal_by_content():
    X, y = CASES["naive Bayes"].data
    models = [
        bg.summarize(bg.NaiveBayes(structure="average", dependence_prior=share), X, y).model
        for share in (0.3, 0.3, 0.4)
    ]
    one, two, other = models
    assert one == two != other and hash(one) == hash(two) and one != one.classifier


@mostly_slow({"own blocks"})
def test_exact_posteriors_of_many_data_sets_are_one_compiled_call(name):
    case, rng = CASES[name], np.random.default_rng(6)
    prior, (X, y) = case.exact.posterior.prior, case.data
    weights = [rng.integers(1, 4, ROWS) for _ in range(3)]
    sets = [bg.summarize(case.model, X, y, sample_weight=w, schema=case.exact.schema).statistics for w in weights]

    def closed_forms(statistics):
        posterior = prior.update(statistics)
        return posterior, prior.log_evidence(statistics), posterior.mean(), posterior.mode()

    assert_vmap_is_one_by_one(closed_forms, sets, rtol=1e-9, atol=1e-11)


@every_method
@every_case
def test_a_row_given_twice_is_weight_two(name, method):
    case = CASES[name]
    X, y = case.data
    weights = np.random.default_rng(1).integers(1, 4, ROWS)
    twice = np.repeat(np.arange(ROWS), weights)
    weighted = bg.fit(case.model, X, y, method=method, sample_weight=weights)
    assert_same_fit(weighted, bg.fit(case.model, take(X, twice), y[twice], method=method))
    plain = bg.fit(case.model, X, y, method=method)
    assert any(not np.allclose(plain.parameters[key], value) for key, value in weighted.parameters.items())


@every_method
@every_case_of_both
def test_the_order_of_rows_does_not_matter(name, method):
    case = BOTH[name]
    X, y = case.data
    order = np.random.default_rng(2).permutation(ROWS)
    shuffled = bg.fit(case.model, take(X, order), y[order], method=method)
    assert_same_fit(bg.fit(case.model, X, y, method=method), shuffled)


@named_cases
def test_named_columns_may_come_in_any_order(name):
    case = BOTH[name]
    X, y = case.data
    schema = bg.summarize(case.model, X, y).schema
    shuffled = bg.fit(case.model, dict(reversed(X.items())), y, method=bg.Exact(), schema=schema)
    expected = case.exact.log_joint(case.new, at="predictive")
    close(case.exact.log_joint(dict(reversed(case.new.items())), at="predictive"), expected, rtol=1e-13)
    close(shuffled.log_joint(case.new, at="predictive"), expected, rtol=1e-10)


@named_cases
def test_answers_keep_the_index_of_a_frame(name):
    case = BOTH[name]
    index = pd.Index(["q", "b", "b", None, "a", "z", "c"], name="beast")[:NEW]
    series = {column: pd.Series(cells, index) for column, cells in case.new.items()}
    for rule in (bg.PlugIn(), bg.BMA()):
        plain = bg.predict(case.exact, case.new, rule=rule).to_frame()
        for X in (pd.DataFrame(series), series):
            pd.testing.assert_frame_equal(bg.predict(case.exact, X, rule=rule).to_frame(), plain.set_index(index))
    assert plain.index.equals(pd.RangeIndex(NEW))
    with pytest.raises(bg.DataError, match="another index"):
        bg.predict(case.exact, series | {column: series[column][::-1] for column in list(series)[1:]}, rule=rule)


@every_method
@every_case
def test_merged_summaries_are_the_rows(name, method):
    case = CASES[name]
    X, y = case.data
    schema = bg.summarize(case.model, X, y).schema
    parts = [slice(0, 5), slice(5, 30), slice(30, ROWS)]
    one, two, three = (bg.summarize(case.model, take(X, part), y[part], schema=schema) for part in parts)
    for merged in ((one + two) + three, three + (two + one)):
        assert_same_fit(bg.fit(case.model, merged, method=method), bg.fit(case.model, X, y, method=method))


@every_case_of_both
def test_updating_in_sequence_is_one_batch(name):
    case = BOTH[name]
    X, y = case.data
    schema, model = bg.summarize(case.model, X, y).schema, with_prior(case.exact)
    first = bg.fit(model, take(X, slice(0, 23)), y[:23], method=bg.Exact(), schema=schema)
    second = with_prior(first, first.posterior.conjugate)
    rest = bg.fit(second, take(X, slice(23, ROWS)), y[23:], method=bg.Exact(), schema=schema)
    close(first.log_evidence + rest.log_evidence, case.exact.log_evidence, rtol=1e-11)
    assert_same_values(rest.parameters, case.exact.parameters, rtol=1e-10)


@every_method
@every_case_of_both
def test_a_fit_updated_in_parts_is_that_of_all_rows(name, method):
    case = BOTH[name]
    (X, y), schema = case.data, bg.summarize(case.model, *case.data).schema
    first = bg.fit(case.model, take(X, slice(0, 23)), y[:23], method=method, schema=schema)
    grown = first.update(take(X, slice(23, 24)), y[23:24]).update(take(X, slice(24, ROWS)), y[24:])
    whole = bg.fit(with_prior(first), X, y, method=method, schema=schema)
    assert_same_values(grown.parameters, whole.parameters, rtol=1e-12, atol=1e-12)
    if grown.log_evidence is not None:
        close(grown.log_evidence, whole.log_evidence, rtol=1e-12)
    assert grown.prior == first.prior and grown.attributes["total_weight"] == ROWS


@every_case
def test_probabilities_sum_to_one_and_columns_follow_the_sorted_classes(name):
    case = CASES[name]
    for rule in (bg.BMA(), bg.PlugIn(), bg.PlugIn(at="mode")):
        answer = bg.predict(case.exact, case.new, rule=rule)
        assert answer.classes.tolist() == sorted(case.labels)
        assert answer.probabilities.shape == (NEW, len(case.labels))
        close(answer.probabilities.sum(1), 1.0, rtol=1e-12)
        assert set(answer.labels.tolist()) <= set(case.labels)


@every_searched
def test_averages_over_draws_of_an_exact_fit_are_near_its_closed_form(name):
    """Draws of the parameters, turned into sites, give the density that the closed form integrates."""
    case = CASES[name]
    table = case.exact.log_joint(case.new, at="draws")
    averaged = np.logaddexp.reduce(table, axis=0) - np.log(len(table))
    assert np.abs(averaged - case.exact.log_joint(case.new, at="predictive")).max() < 0.5
    answer = bg.predict(case.exact, case.new, rule=bg.ConditionalAverage(200))
    close(answer.probabilities.sum(1), 1.0, rtol=1e-12)


@every_case_of_both
def test_the_predictive_of_each_class_is_the_ratio_of_two_evidences(name):
    case = BOTH[name]
    X, y = case.data
    schema, model = bg.summarize(case.model, X, y).schema, with_prior(case.exact)
    table = case.exact.log_joint(case.new, at="predictive")
    for row in range(3):
        for column, label in enumerate(case.exact.classes):
            more = stack(X, take(case.new, slice(row, row + 1)))
            longer = bg.fit(model, more, np.append(y, label), method=bg.Exact(), schema=schema)
            assert table[row, column] == pytest.approx(longer.log_evidence - case.exact.log_evidence, abs=1e-9)


@every_traced
def test_every_site_is_compressed_as_the_model_declares(name):
    program = CASES[name].exact.program
    found = program.replace().plan
    assert found.rowwise == ()
    assert dict(found.compressed) == dict(program.plan.compressed)


@pytest.mark.parametrize("method", [pytest.param(bg.MLE(), marks=pytest.mark.slow), bg.MAP()], ids=["MLE", "MAP"])
@every_searched
def test_without_its_conjugate_blocks_a_model_has_the_same_point(name, method):
    case = CASES[name]
    X, y = case.data
    built_in = bg.fit(case.model, X, y, method=method)
    if name in FLAT and isinstance(method, bg.MLE):
        with pytest.raises(bg.FitError):
            bg.fit(built_in.program, stated(built_in, X), y, method=method)
        return
    own = bg.fit(built_in.program, stated(built_in, X), y, method=method)
    expected = {key: value for key, value in built_in.parameters.items() if key in own.parameters}
    missing = set(built_in.parameters) - set(own.parameters)
    assert missing <= {"class_probs"}  # where it is fixed, it is no site
    for key, value in expected.items():
        close(own.parameters[key], value, rtol=1e-5, atol=1e-6, err_msg=key)


@every_traced
def test_the_program_has_the_closed_forms_densities(name):
    case = CASES[name]
    fit, X = case.exact, stated(case.exact, case.new)
    latents = {name: fit.program.latents_of(fit.parameters)[name] for name in fit.program.latents}
    table = fit.log_joint(case.new, at="mean")
    close(fit.program.log_joint(latents, X), table, rtol=1e-10)
    if fit.program.covariates:
        return  # class-conditional distributions of counts are those of one total
    conditionals = fit.program.class_conditionals(latents)
    with jax.enable_x64(True):
        likelihood = 0.0
        for site, conditional in conditionals.items():
            value = np.asarray(X[site])
            value = value.astype(int) if conditional.support.is_discrete else value
            likelihood += np.asarray(log_prob_of(conditional, value[:, None]))
    close(likelihood + np.log(fit.parameters["class_probs"]), table, rtol=1e-9)


@every_searched
def test_the_program_runs_in_numpyros_predictive(name):
    # a fit of its own: JAX 0.10 takes constants for float64 in float32 where both kinds of traces have met them
    fit = bg.fit(CASES[name].model, *CASES[name].data, method=bg.Exact())
    covariates = {key: np.full(11, 6) for key in fit.program.covariates}
    predictive = numpyro.infer.Predictive(fit.program, num_samples=5)
    draws = jax.device_get(jax.jit(lambda key: predictive(key, 11, **covariates))(jax.random.key(0)))
    rows = fit.read(CASES[name].new)
    assert draws["y"].shape == (5, 11)
    assert set(np.unique(draws["y"])) <= set(range(len(fit.classes)))
    for site, value in rows.values.items():
        assert draws[site].shape[:2] == (5, 11)
        assert draws[site].shape[2] in (value.shape[1], fit.program.structure.attribute[site].row_shape[0], 6)
    for key in fit.program.covariates:
        site, _, total = key.rpartition("_")
        assert ((draws[site].sum(-1) if total == "total" else (draws[site] >= 0).sum(-1)) == 6).all()
    assert set(fit.program.latents) <= set(draws)


@pytest.mark.parametrize("name", ["naive Bayes", "discriminant, tied", "multinomial, dense"])
def test_the_program_can_be_drawn(name):
    pytest.importorskip("graphviz")
    program = CASES[name].exact.program
    covariates = {key: np.full(11, 6) for key in program.covariates}
    graph = numpyro.render_model(program, model_args=(11,), model_kwargs=covariates)
    for site in ("y", "instances", *program.attributes, *program.latents):
        assert site in graph.source
    for site in program.attributes:
        assert f"y -> {site}" in graph.source


@pytest.mark.slow  # a program of one's own is in every run
def test_the_program_runs_conditioned_in_numpyros_mcmc():
    case = CASES["multinomial, dense"]
    fit, y = case.exact, case.data[1]
    X = stated(fit, case.data[0])
    data = {site: X[site].astype(int) for site in fit.program.attributes}
    model = handlers.condition(fit.program, {**data, "y": fit.schema.encode_labels(y)})
    kernel = numpyro.infer.NUTS(model)
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=200, num_samples=400, progress_bar=False)
    mcmc.run(jax.random.key(1), ROWS, **{key: X[key].astype(int) for key in fit.program.covariates})
    for site in fit.program.latents:
        close(mcmc.get_samples()[site].mean(0), fit.parameters[site], atol=0.02)
