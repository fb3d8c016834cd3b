"""What is saved and loaded is what it was: equal fits, and predictions that are equal bit by bit."""

import copy
import dataclasses
import datetime
import pickle
import subprocess
import sys
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler

import bayesgen as bg
from bayesgen.program.fingerprint import as_text, function_fingerprint
from bayesgen.records import _same
from bayesgen.saving.nodes import Encoder, decoded
from tests.generative.written import hierarchical
from tests.models.cases import CASES, OPEN
from tests.models.response_cases import CASES as RESPONSES

SHORT = bg.NUTS(num_warmup=10, num_samples=10, num_chains=2)
CASE = CASES["naive Bayes, integer labels"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.nc"


def answers(fit, X, *rules):
    """All numbers of the predictions."""
    given = [bg.predict(fit, X, rule=rule) for rule in rules]
    names = ("log_probabilities", "log_marginal", "mean", "std", "membership")
    found = [getattr(answer, name, None) for answer in given for name in names]
    return [array.tobytes() for array in found if array is not None]


def assert_saved(fit, path, X, *rules, **options):
    """The fit as it is loaded, which is equal to the one that was saved, and answers like it."""
    fit.save(path)
    again = bg.load(path, **options)
    assert type(again) is type(fit) and again == fit and repr(again) == repr(fit)
    assert answers(again, X, *rules) == answers(fit, X, *rules) != []
    return again


@pytest.mark.parametrize("name", CASES)
def test_exact_fits_of_classes(name, path):
    case = CASES[name]
    again = assert_saved(case.exact, path, case.new, bg.PlugIn(), bg.BMA())
    assert again.log_evidence == case.exact.log_evidence and again.prior == case.exact.prior
    more = bg.load(path).update(*case.data)
    assert more == case.exact.update(*case.data)


@pytest.mark.parametrize("name", RESPONSES)
def test_exact_fits_of_numbers(name, path):
    case = RESPONSES[name]
    assert_saved(case.exact, path, case.new[0], bg.PlugIn(), bg.BMA())


def test_points(path):
    case = OPEN["grammar"]
    assert_saved(case.point, path, case.new, bg.PlugIn())
    mixture = bg.fit(bg.Mixture(bg.GaussianDiscriminant("diag"), 2), CASE.data[0], method=bg.MAP(num_starts=1))
    assert_saved(mixture, path, CASE.new, bg.PlugIn())


def test_labels_and_names_of_all_kinds(path):
    X = pd.DataFrame({"a/b": [1.0, 2.0, 4.0, 7.0], "c d": [3.0, 5.0, 6.0, 1.0]})
    model = bg.GenerativeClassifier(
        [("x/y", bg.NormalInverseGamma(), ["a/b"]), ("z", bg.NormalInverseGamma(), ["c d"])]
    )
    days = [datetime.date(2020, 1, day) for day in (1, 2)]
    for labels in ([True, False], [(1, 2), (3,)], days, [pd.Timestamp(day) for day in days]):
        fit = bg.fit(model, X, np.fromiter(labels * 2, object, 4), method=bg.MLE())
        again = assert_saved(fit, path, X, bg.PlugIn())
        assert [type(label) for label in again.schema.classes] == [type(label) for label in fit.schema.classes]
        fit.to_datatree().to_netcdf(path.with_name("tree.nc"), engine="h5netcdf")


def test_averages_concepts_and_batches(path):
    X, y = CASE.data
    models = [bg.NaiveBayes(), bg.GaussianDiscriminant("tied")]
    assert_saved(bg.fit(bg.average(models), X, y, method=bg.Exact()), path, CASE.new, bg.BMA())
    assert_saved(bg.fit(bg.NaiveBayes(structure="average"), X, y, method=bg.Exact()), path, CASE.new, bg.BMA())
    learner = bg.ConceptLearner(bg.rectangles(3, 4, scale=dist.Exponential(2.0)))
    assert_saved(bg.fit(learner, [(1, 2), (2, 3)], method=bg.MAP()), path, [(3, 3)], bg.PlugIn())
    batch = bg.fit_many(bg.NaiveBayes(), [(X, y), ({name: 0 * v for name, v in X.items()}, y)], method=bg.MLE())
    batch.save(path)
    again = bg.load(path)
    assert again == batch == pickle.loads(pickle.dumps(batch)) and answers(again, CASE.new, bg.PlugIn()) == answers(
        batch, CASE.new, bg.PlugIn()
    )
    assert batch != bg.fit_many(bg.NaiveBayes(), [(X, y), (X, y)], method=bg.MLE())
    assert str(again.refused[1]) == str(batch.refused[1]) and type(again.refused[1]) is bg.FitError


# --- programs of one's own, and draws -----------------------------------------------------------------------------


PRIOR, GROUPS, KNOWN = dist.Normal(0.0, 2.0), np.array([0.5, -0.5]), frozenset({"a", "b", "c"})


def scaled(value):
    return value if "a" in KNOWN else 2 * value


def line(n, *, x, group):
    slope = numpyro.sample("slope", PRIOR)
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(scaled(slope * x) + jnp.asarray(GROUPS)[group], 0.7))


ROWS = {"x": np.linspace(-1, 1, 17), "group": np.arange(17) % 2}
GROUPED = ROWS["group"], 1 - ROWS["group"]
PROGRAM = bg.GenerativeProgram(line)


@pytest.fixture(scope="module")
def drawn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)  # of a few draws
        return bg.fit(PROGRAM, ROWS, ROWS["x"] + GROUPS[ROWS["group"]], method=SHORT)


def test_draws_of_a_program_of_ones_own(drawn, path):
    again = assert_saved(drawn, path, ROWS, bg.BMA(), program=PROGRAM)
    assert again.model == PROGRAM and again.program == drawn.program
    assert bg.load(path, program=[longer, PROGRAM]) == drawn


def test_draws_stand_in_the_groups_that_arviz_reads_and_once(drawn, path):
    from xarray import open_datatree

    drawn.save(path)
    with open_datatree(path, engine="h5netcdf") as tree:
        tree.load()
    assert {"posterior", "sample_stats"} <= set(tree.children)
    np.testing.assert_array_equal(tree["posterior/slope"].values, drawn.parameters["slope"])
    assert tree["posterior"].attrs["method"] == repr(drawn.method)
    large = np.random.default_rng(1).normal(size=(4, 1000, 5))
    posterior = dataclasses.replace(drawn.posterior, latents={"slope": large}, values={"slope": large.copy()})
    dataclasses.replace(drawn, posterior=posterior).save(path)
    assert large.nbytes < path.stat().st_size < 1.5 * large.nbytes
    assert bg.load(path, PROGRAM).parameters["slope"].tobytes() == large.tobytes()


def changed(n, *, x, group):
    slope = numpyro.sample("slope", PRIOR)
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(scaled(slope * x) + jnp.asarray(GROUPS)[group], 0.8))


def longer(n, *, x, group):
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(slope[group] * x, 0.7))


def test_programs_of_ones_own_have_to_be_given_and_to_be_the_same(drawn, path, monkeypatch):
    drawn.save(path)
    with pytest.raises(bg.DataError, match=r"fit\.nc' cannot be loaded: the fit is of a program of one's.*program="):
        bg.load(path)
    with pytest.raises(bg.DataError, match=r"another one than that of the fit, in 'its code'\."):
        bg.load(path, program=bg.GenerativeProgram(changed))
    with pytest.raises(bg.DataError, match=r"in .*'its code'"):
        bg.load(path, program=longer)
    monkeypatch.setitem(globals(), "GROUPS", np.array([0.5, 0.5]))
    with pytest.raises(bg.DataError, match=r"in 'GROUPS'\. Give the program that was fitted"):
        bg.load(path, program=bg.GenerativeProgram(line))


def test_training_rows_that_a_model_as_written_reads_are_explained():
    one, other = (
        bg.GenerativeProgram.from_model(hierarchical, group, ROWS["x"], ROWS["x"], label="y") for group in GROUPED
    )
    encoder = Encoder({})
    encoder.part(one, "program")
    with pytest.raises(bg.DataError, match=r"in the values and arrays that its function reads \(.*np\.unique\(group\)"):
        decoded(encoder.nodes, encoder.variables.__getitem__, [other.function])


def test_programs_that_cannot_be_told_from_others_are_loaded_with_a_warning():
    def reading(n, *, x, group):
        if n < 0:
            eval("n")
        return line(n, x=x, group=group)

    encoder = Encoder({})
    encoder.part(bg.GenerativeProgram(reading), "program")
    with pytest.warns(bg.BayesgenWarning, match="Whether this is the program that was fitted is not known"):
        decoded(encoder.nodes, encoder.variables.__getitem__, [reading])


def test_code_of_another_python_is_told_by_its_sites(drawn, path, monkeypatch):
    drawn.save(path)
    later = types.SimpleNamespace(version_info=types.SimpleNamespace(major=3, minor=99))
    monkeypatch.setattr("bayesgen.generative.introspected.sys", later)
    assert bg.load(path, program=changed).parameters.keys() == {"slope"}
    with pytest.raises(bg.DataError, match=r"another one than that of the fit, in 'the site slope'\."):
        bg.load(path, program=longer)


def defined(values):
    return lambda: values


def test_fingerprints_are_texts_without_addresses_and_order():
    text = as_text(function_fingerprint(scaled))
    assert "0x" not in text and "frozenset" in text
    one, other = (defined(values) for values in ({"a", "b", 8, 0}, {0, 8, "b", "a"}))
    assert function_fingerprint(one) == function_fingerprint(other)


@pytest.mark.slow
def test_programs_are_told_in_another_process(drawn, path):
    drawn.save(path)
    code = "import bayesgen, tests.saving.test_laws as t"
    code += f"\nprint(bayesgen.load({str(path)!r}, t.PROGRAM).model == t.PROGRAM)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True"]


# --- pickle -------------------------------------------------------------------------------------------------------


def test_programs_that_no_module_has_are_pickled_by_their_code(drawn):
    noise = 0.7

    def local(n, *, x):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(slope * x, noise))

    program = bg.GenerativeProgram(local)
    again = pickle.loads(pickle.dumps(program))
    assert again == program == copy.copy(program) == copy.deepcopy(program) and again.function is not local
    assert copy.copy(program).function is copy.deepcopy(program).function is local
    assert pickle.loads(pickle.dumps(drawn)) == drawn and pickle.loads(pickle.dumps(PROGRAM)).function is line


def test_programs_that_cannot_be_pickled_say_so_and_name_a_way(tmp_path):
    with open(tmp_path / "text", "w") as file:

        def local(n):
            mean = numpyro.sample("mean", dist.Normal(len(file.name), 1))
            with numpyro.plate("rows", n):
                numpyro.sample("x", dist.Normal(mean, 1))

        program = bg.GenerativeProgram(local, label=None)
        with pytest.raises(bg.ModelError, match=r"local' of the program cannot be pickled.*top of a module.*fit\.save"):
            pickle.dumps(program)


def test_fits_are_sent_to_other_processes_and_cached(tmp_path):
    import joblib

    joblib.dump(CASE.exact, tmp_path / "fit")
    assert joblib.load(tmp_path / "fit") == CASE.exact and joblib.hash(CASE.model) == joblib.hash(
        copy.deepcopy(CASE.model)
    )


# --- values -------------------------------------------------------------------------------------------------------


def sent(value, **variables):
    """A value as it comes back."""
    encoder = Encoder(variables)
    part = encoder.part(value, "value")
    return decoded(encoder.nodes, (encoder.variables | variables).__getitem__, []) if isinstance(part, list) else part


SHARED = np.arange(3.0)
VALUES = {
    "plain": [None, True, 3, -(2**70), "é\ud800", 0.1, -0.0],
    "not finite": (np.nan, np.inf, -np.inf, 1j),
    "containers": (
        {"a": (1, [2]), 3: {}, (1, "b"): set()},
        frozenset([1, 2]),
        range(1, 9, 3),
        slice(None, 2),
        b"\x00a",
    ),
    "scalars": (np.float32(0.1), np.int8(3), np.bool_(True), np.str_("a"), np.datetime64("2020-01-02", "s")),
    "times": (datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3), pd.Timestamp("2020-01-02", tz="UTC")),
    "dtypes": (np.dtype("f4"), np.dtype("<U3"), np.float32, np.log1p),
    "small arrays": [
        np.array(cells) for cells in (1.5, [], [[1.0, np.nan]], [True], ["a", "bcd"], [1j], [None, "a", 2])
    ],
    "large arrays": [np.full((7, 13), value) for value in (0.1, np.nan, 3, True, 1j, "abc", np.float16(2))],
    "orders": [np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(300.0).reshape(3, 100).T, np.zeros((0, 5))],
    "sparse": csr_array(np.eye(3)),
    "distributions": (dist.Gamma(2.0, 3.0), dist.Uniform(0.5, 4.0), dist.Beta(1.0, np.array([2.0, 3.0]))),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_as_they_were(name):
    value = VALUES[name]
    again = sent(value)
    assert _same(again, value) and type(again) is type(value)
    for one, other in zip(again, value, strict=True) if isinstance(value, list) else ():
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert (
                one.dtype == other.dtype and one.flags.f_contiguous == other.flags.f_contiguous and one.flags.writeable
            )


def test_what_is_shared_stays_shared_and_equal_arrays_are_stored_once():
    large = np.arange(1000.0)
    encoder = Encoder({"posterior/a": large.copy()})
    part = encoder.part({"one": [large, large], "other": large.copy(), "more": large + 1, "again": large + 1}, "value")
    again = decoded(encoder.nodes, (encoder.variables | {"posterior/a": large}).__getitem__, [])
    assert part == [len(encoder.nodes) - 1] and list(encoder.variables) == [encoder.nodes[-3][1][3]["variable"]]
    assert again["one"][0] is again["one"][1] is not again["other"]
    assert (
        sent(jax.numpy.arange(3)).tolist() == [0, 1, 2]
        and sent(dist.LogNormal(1.0, 0.3)).mean == dist.LogNormal(1, 0.3).mean
    )


def test_bases_of_scikit_learn(path):
    X = pd.DataFrame({"a": np.linspace(0, 3, 23), "b": np.arange(23.0) % 3, "kind": list("xyz" * 8)[:23]})
    basis = make_column_transformer(
        (make_pipeline(StandardScaler(), SplineTransformer(3, degree=2)), ["a"]),
        (FunctionTransformer(np.log1p, feature_names_out="one-to-one"), ["b"]),
        (OneHotEncoder(), ["kind"]),
    )
    fit = bg.fit(bg.LinearRegression(basis), X, X.a**2 + X.b, method=bg.Exact())
    fit.save(path)
    assert answers(bg.load(path), X[:5], bg.BMA()) == answers(fit, X[:5], bg.BMA())


class Own(StandardScaler):
    pass


def test_what_files_cannot_hold_is_refused_by_name(path):
    X, y = RESPONSES["line"].data
    for basis, said in (
        (Own(), r"^fit\.model\.basis is of the class test_laws\.Own, and files .* keep the fit by pickle"),
        (FunctionTransformer(lambda x: x), r"^fit\.model\.basis\.func is the function '.*<lambda>'"),
    ):
        with pytest.raises(bg.ModelError, match=said.replace("test_laws", __name__)):
            bg.fit(bg.LinearRegression(basis), X, y, method=bg.Exact()).save(path)
    assert not path.exists()
    for value in (
        dist.Normal(0, 1).expand([3]),
        {1: [abs]},
        int,
        np.ma.masked_array([1.0]),
        type("Dict", (dict,), {})(),
    ):
        with pytest.raises(bg.ModelError, match=r"^value.* is (of the class|the function)"):
            sent([value])
