"""Fits, answers and experiments on a cluster, Dask's and Spark's, equal those in memory."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import uuid
import warnings

import jax.numpy as jnp
import joblib
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.data import sources

from .travelling import program_of_a_column

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
N = 900
RNG = np.random.default_rng(5)
CODES = RNG.integers(0, 3, N)
FRAME = pd.DataFrame(
    {
        "a": np.where(RNG.random(N) < 0.1, np.nan, 1e6 + RNG.normal(size=N) + CODES),
        "sky": pd.Series(RNG.choice(["blue", "grey", "red"], N)).where(RNG.random(N) < 0.9, None),
        "wet": RNG.random(N) < 0.3,
        "legs": RNG.poisson(3, N),
        "species": np.array(["ape", "bear", "cat"])[CODES],
        "w": RNG.integers(0, 3, N),
    }
)
COUNTED = bg.NaiveBayes({"legs": bg.GammaPoisson()})
JOINT = bg.GaussianDiscriminant()
REGRESSED = pd.DataFrame({"u": FRAME["legs"], "v": RNG.poisson(1, N), "w": FRAME["w"]})


@pytest.fixture(scope="module")
def dask():
    """A function of a frame: a Dask DataFrame in two processes of two threads."""
    frames = pytest.importorskip("dask.dataframe", reason="Dask is of the extra 'dask'")
    distributed = pytest.importorskip("distributed", reason="Dask is of the extra 'dask'")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield lambda frame, partitions=5: frames.from_pandas(frame, npartitions=partitions, sort=False)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A function of a frame: a Spark DataFrame, each partition of which is tried twice."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none")
    sql = pytest.importorskip("pyspark.sql", reason="Spark is of the extra 'spark'")
    builder = sql.SparkSession.builder.master("local[2, 2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    folder = tmp_path_factory.mktemp("rows")

    def frame_of(frame, partitions=5):
        path = str(folder / f"{len(list(folder.iterdir()))}.parquet")
        frame.to_parquet(path, index=False)
        return session.read.parquet(path).repartition(partitions)

    yield frame_of
    session.stop()


@pytest.fixture(params=["dask", "spark"])
def cluster(request):
    return request.getfixturevalue(request.param)


def assert_equal_fits(model, frame, source, y="species", weight="w", method=None):
    tolerance = 1e-9 if method is None else 1e-6  # EM stops a little before its limit, and not at the same place
    method = method or bg.Exact()
    expected = bg.fit(model, frame, y, sample_weight=weight, method=method)
    fit = bg.fit(model, source, y, sample_weight=weight, method=method)
    assert fit.schema == expected.schema
    np.testing.assert_allclose(fit.log_evidence or 0, expected.log_evidence or 0, rtol=1e-12)
    for name, values in expected.parameters.items():
        np.testing.assert_allclose(fit.parameters[name], values, rtol=tolerance, atol=1e-12)
    return fit


def test_a_fit_of_a_cluster_is_that_of_its_rows(cluster):
    fit = assert_equal_fits(COUNTED, FRAME, cluster(FRAME))
    assert fit.attributes["statistics"]["by"] in ("engine", "workers")


def test_workers_summarise_what_no_query_says(cluster):
    fit = assert_equal_fits(bg.NaiveBayesRegression(), REGRESSED, cluster(REGRESSED), y="u")
    assert fit.attributes["statistics"] | {"bytes": 0, "queries": 0, "passes": 0, "engine": ""} == {
        "by": "workers",
        "engine": "",
        "queries": 0,
        "passes": 0,
        "bytes": 0,
    }
    assert fit.attributes["statistics"]["bytes"] < 20_000


def test_missing_cells_of_joint_families(cluster):
    frame = pd.DataFrame({"a": FRAME["a"], "b": RNG.normal(size=N), "species": FRAME["species"]})
    assert_equal_fits(JOINT, frame, cluster(frame), weight=None, method=bg.MAP())


def test_partitions_may_be_empty_and_lack_classes_and_have_categories_of_their_own(cluster):
    frame = FRAME.sort_values(["species", "sky"], ignore_index=True)
    assert_equal_fits(COUNTED, frame, cluster(frame, 7))
    few = FRAME.head(4)
    few = few.assign(species=["ape", "bear", "ape", "bear"], w=1, sky=["u", "v", "v", "u"])
    assert_equal_fits(COUNTED, few, cluster(few, 6))


def test_categories_in_another_order_in_another_partition(dask):
    import dask.dataframe

    parts = [FRAME[:450].assign(sky=FRAME["sky"][:450].astype("category")), FRAME[450:]]
    parts[1] = parts[1].assign(sky=pd.Categorical(parts[1]["sky"], ["red", "grey", "blue"]))
    frame = dask.dataframe.concat([dask.dataframe.from_pandas(part, npartitions=2) for part in parts])
    expected = bg.fit(COUNTED, FRAME, "species", method=bg.Exact())
    fit = bg.fit(COUNTED, frame, "species", method=bg.Exact())
    np.testing.assert_allclose(fit.log_evidence, expected.log_evidence, rtol=1e-12)


def test_a_program_of_ones_own_is_summarised_by_threads_of_two_processes(cluster):
    model = program_of_a_column()
    frame = pd.DataFrame({"a": RNG.normal(size=N) + CODES, "species": FRAME["species"]})
    expected = bg.fit(model, frame, "species", method=bg.MAP())
    fit = bg.fit(model, cluster(frame, 8), "species", method=bg.MAP())
    assert fit.attributes["statistics"]["by"] == "workers"
    np.testing.assert_allclose(fit.parameters["loc"], expected.parameters["loc"], rtol=1e-8)


def test_bad_cells_on_workers_are_refused(cluster):
    frame = FRAME.assign(legs=np.where(np.arange(N) == 700, -1, FRAME["legs"]))
    with pytest.raises(bg.DataError, match="Column 'legs' is count, and has -1"):
        bg.fit(COUNTED, cluster(frame), "species", method=bg.Exact())
    with pytest.raises(bg.DataError, match="ithout a label"):
        bg.fit(COUNTED, cluster(FRAME), "sky", method=bg.MAP())


def losing_one(reduce, folder, is_killed):
    """The same function of a partition, where the first call of all does its work and is lost then."""

    def reduced(chunks):
        content = reduce(chunks)
        with contextlib.suppress(FileExistsError):
            (folder / "lost").touch(exist_ok=False)
            if is_killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("this partition is lost")
        (folder / uuid.uuid4().hex).touch()
        return content

    return reduced


@pytest.mark.filterwarnings("ignore:Dask annotations:UserWarning")  # of frames, which are no tasks
@pytest.mark.parametrize("is_killed", [False, True], ids=["error", "killed worker"])
def test_a_partition_that_is_lost_and_tried_again_counts_once(cluster, is_killed, tmp_path, monkeypatch):
    import dask

    for kind in (sources.DaskSource, sources.SparkSource):

        def summarized(source, columns, summarize, merge, original=kind.summarized):
            return original(source, columns, losing_one(summarize, tmp_path, is_killed), merge)

        monkeypatch.setattr(kind, "summarized", summarized)
    with dask.annotate(retries=1):
        assert_equal_fits(bg.NaiveBayesRegression(), REGRESSED, cluster(REGRESSED, 6), y="u")
    assert (tmp_path / "lost").exists() and len(list(tmp_path.iterdir())) >= 1 + 6


def test_a_worker_that_is_lost_changes_nothing(dask):
    import distributed

    source = dask(FRAME, 40)
    client = distributed.default_client()
    expected = bg.fit(COUNTED, FRAME, "species", method=bg.Exact()).log_evidence
    address = next(iter(client.scheduler_info()["workers"]))
    client.retire_workers([address], close_workers=True)
    np.testing.assert_allclose(bg.fit(COUNTED, source, "species", method=bg.Exact()).log_evidence, expected, rtol=1e-12)


CONNECTED = """
import sys
import pandas as pd
from pyspark.sql import SparkSession
import bayesgen as bg

spark = SparkSession.builder.remote("local[2]").getOrCreate()
frame, rows = pd.read_parquet(sys.argv[1]), spark.read.parquet(sys.argv[1]).repartition(5)
model = bg.NaiveBayes({"legs": bg.GammaPoisson()})
for model, label in ((model, "species"), (bg.NaiveBayesRegression(), "legs")):
    columns = ["a", "legs", "species"] if label == "species" else ["legs", "w"]
    expected = bg.fit(model, frame[columns], label, method=bg.Exact())
    fit = bg.fit(model, rows.select(columns), label, method=bg.Exact())
    assert abs(fit.log_evidence / expected.log_evidence - 1) < 1e-12, (fit.log_evidence, expected.log_evidence)
    print(fit.attributes["statistics"]["by"])
    answers = bg.predict(fit, rows, rule=bg.BMA(), keep=["w"] if label == "species" else [])
    print(len(answers.toPandas()))
spark.stop()
"""


def test_spark_connect_is_spark(tmp_path):
    """In a process of its own: Spark has classic sessions or those of Connect in one."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none")
    for module in ("pyspark", "grpc", "grpc_status"):
        pytest.importorskip(module, reason="Spark Connect is of pyspark[connect]")
    FRAME.to_parquet(path := tmp_path / "rows.parquet", index=False)
    command = [sys.executable, "-c", CONNECTED, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.split() == ["engine", f"{N}", "workers", f"{N}"]


def test_answers_stay_on_the_cluster(cluster):
    rows = FRAME.assign(**{"i.d": np.arange(N), "legs": FRAME["legs"].where(FRAME["legs"] > 0, None)})
    fit = bg.fit(COUNTED, FRAME.drop(columns="w"), "species", method=bg.Exact())
    answers = bg.predict(fit, cluster(rows), rule=bg.BMA(), keep=["w", "i.d"])
    assert list(answers.columns) == ["w", "i.d", "label", "ape", "bear", "cat"]
    frame = (answers.compute() if hasattr(answers, "compute") else answers.toPandas()).sort_values("i.d")
    expected = bg.predict(fit, rows[["a", "sky", "wet", "legs"]], rule=bg.BMA()).to_frame()
    assert frame["label"].tolist() == expected["label"].tolist()
    assert frame["w"].tolist() == FRAME["w"].tolist()
    np.testing.assert_allclose(frame[["ape", "bear", "cat"]], expected[["ape", "bear", "cat"]], rtol=1e-12)


def test_experiments_run_on_the_cluster_and_numpyro_in_one_thread_at_a_time(dask):
    def program(n):
        mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 2.0).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(jnp.array([0.4, 0.6])))
            numpyro.sample("x", dist.Normal(mean[y], 1.0))

    models = {"bayes": bg.NaiveBayes(), "program": bg.GenerativeProgram(program, classes=["a", "b"])}
    pairs = [(bg.MAP(), bg.PlugIn()), (bg.NUTS(num_warmup=20, num_samples=10), bg.BMA())]

    def studied():
        options = {"sizes": [3, 5], "repeats": 2, "pairs": pairs, "test": 20, "seed": 1}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bg.ConvergenceWarning)
            return bg.study(models, simulate=models["program"], **options).table.drop(columns="seconds")

    with joblib.parallel_config(backend="dask"):
        elsewhere = studied()
    pd.testing.assert_frame_equal(elsewhere, studied())
