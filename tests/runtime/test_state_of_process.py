"""Verbs that run in several threads leave the state of the process as it was, and hear their caller's context."""

import os
import signal
import sys
import threading
import warnings
from multiprocessing.pool import ThreadPool

import jax
import joblib
import numpy as np
import numpyro
import pytest
from threadpoolctl import threadpool_info

import bayesgen as bg
from bayesgen.errors import warn, without_warnings
from bayesgen.runtime import at_work, devices, in_threads, threads

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 2)).round(3), np.array(list("ab") * 20, object)
UNLABELLED = np.where(np.arange(40) % 5 == 0, None, Y)
SINGULAR = np.column_stack([X[:, 0], np.ones(40)])  # a column that does not vary: a warning
WEIGHTS = RNG.multinomial(40, np.full(40, 1 / 40), size=3).astype(float)
MODEL, PAIRS = bg.GaussianDiscriminant("tied"), [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
PRIOR = bg.NaiveBayes(bg.NormalInverseGamma(0.0, 1.0, 2.0, 1.0))


def state():
    """What belongs to the process and not to a thread."""
    return {
        "filters": list(warnings.filters),
        "shown by": (warnings.showwarning, warnings._showwarnmsg_impl),
        "floating point": np.geterr(),
        "JAX": (jax.config.jax_enable_x64, jax.config.jax_default_device, jax.config.jax_platforms),
        "handlers": len(numpyro.primitives._PYRO_STACK),
        "hooks": (sys.unraisablehook, sys.excepthook, threading.excepthook),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "printing": np.get_printoptions(),
        "BLAS": [library["num_threads"] for library in threadpool_info()],
    }


def saved_and_loaded(folder):
    path = folder / f"{threading.get_ident()}.nc"
    fit = bg.fit(MODEL, X, Y, method=bg.Exact())
    fit.save(path)
    assert bg.load(path) == fit


def table_read(folder):
    path = folder / f"{threading.get_ident()}.csv"
    path.write_text("a,b\n1,2,3\n")
    with pytest.raises(bg.DataError, match="its header has 2 names, and 1 of its rows"):
        bg.load_dataset(path)


VERBS = {
    "fit": lambda folder: bg.fit(MODEL, SINGULAR, UNLABELLED, method=bg.MAP(num_starts=2)),
    "predict": lambda folder: bg.predict(bg.fit(MODEL, X, Y, method=bg.Exact()), X, rule=bg.BMA()).to_frame(),
    "simulate, impute, update": lambda folder: (
        (fit := bg.fit(PRIOR, X, Y, method=bg.Exact())).simulate(6),
        fit.update(X, Y),
        fit.impute(np.where(X > 1, np.nan, X)),
        fit.log_joint(X, at="draws"),
    ),
    "fit_many": lambda folder: bg.fit_many(MODEL, X, UNLABELLED, weights=WEIGHTS, method=bg.MAP(num_starts=2)),
    "predict of many": lambda folder: bg.predict(
        bg.fit_many(MODEL, SINGULAR, Y, weights=WEIGHTS, method=bg.Exact()), SINGULAR[:3], rule=bg.BMA()
    ),
    "compare": lambda folder: bg.compare(MODEL, SINGULAR, Y, SINGULAR, Y, methods=PAIRS),
    "study": lambda folder: bg.study(MODEL, X, Y, sizes=[8], repeats=2, pairs=PAIRS[1:]),
    "prequential": lambda folder: bg.prequential(PRIOR, X[:9], Y[:9]),
    "leave_one_out": lambda folder: bg.leave_one_out(bg.fit(MODEL, X, Y, method=bg.Exact()), X, Y),
    "average": lambda folder: bg.average([MODEL, bg.GaussianDiscriminant("diag")], X=X, y=Y),
    "calibrate": lambda folder: bg.calibrate(
        bg.fit(PRIOR, X, Y, method=bg.Exact()), method=bg.Exact(), n=6, simulations=4
    ),
    "save and load": saved_and_loaded,
    "read a table": table_read,
    "export": lambda folder: bg.fit(PRIOR, X, Y, method=bg.Exact()).to_datatree(num_draws=8),
}


@pytest.mark.parametrize("verbs_of_a_thread", [2, pytest.param(len(VERBS), marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::bayesgen.BayesgenWarning")
def test_verbs_in_eight_threads_leave_the_process_as_it_was(verbs_of_a_thread, tmp_path):
    for verb in VERBS.values():
        verb(tmp_path)  # libraries are loaded, some of which add filters of their own
    before, interval, errors = state(), sys.getswitchinterval(), []

    def work(thread):
        verbs = [*VERBS.items()] * 3
        for name, verb in verbs[2 * thread : 2 * thread + verbs_of_a_thread]:
            try:
                verb(tmp_path)
            except Exception as error:
                errors.append((name, error))

    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=[number]) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert state() == before


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_fits_in_pools_are_those_of_a_loop(backend):
    def evidence(rows):
        fit = bg.fit(MODEL, X[rows], Y[rows], method=bg.Exact())
        return fit.log_evidence, bg.predict(fit, X, rule=bg.BMA()).probabilities

    samples = [np.random.default_rng(seed).permutation(40)[:30] for seed in range(8)]
    loop = [evidence(rows) for rows in samples]
    with ThreadPool(8) as pool:
        pooled = pool.map(evidence, samples)
    apart = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(evidence)(rows) for rows in samples)
    for answers in (pooled, apart):
        np.testing.assert_array_equal([value for value, _ in answers], [value for value, _ in loop])
        np.testing.assert_array_equal([table for _, table in answers], [table for _, table in loop])


def test_a_python_without_its_global_lock_is_told_what_is_not_supported(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.warns(bg.BayesgenWarning, match="from several threads at once are not supported"), at_work("a call"):
        pass


def test_warnings_of_a_block_are_kept_from_no_other_thread():
    inside, done = threading.Event(), threading.Event()

    def silent():
        with without_warnings(bg.BayesgenWarning):
            inside.set()
            done.wait()
            warn("not shown")

    thread = threading.Thread(target=silent)
    thread.start()
    inside.wait()
    with pytest.warns(bg.BayesgenWarning, match="shown") as caught:
        warn("shown")
        done.set()
        thread.join()
    assert len(caught) == 1


def test_workers_follow_the_device_the_precision_and_the_warnings_of_their_caller(monkeypatch):
    """There is a GPU as far as the choice by size goes, and the work is large enough for it."""
    monkeypatch.setattr(threads, "num_cores", lambda: 2)
    monkeypatch.setattr(devices, "has", lambda name: True)
    asked = []
    monkeypatch.setattr(devices, "find", lambda name: asked.append(name) or jax.devices("cpu")[0])

    def work(part):
        warn(f"part {part}")
        with devices.placed(1e9), np.errstate():
            return threading.get_ident(), jax.config.jax_enable_x64, np.geterr()["over"]

    with (
        np.errstate(over="raise"),
        jax.enable_x64(True),
        devices.requested("cpu"),
        without_warnings(bg.BayesgenWarning),
    ):
        answers = list(in_threads(work, range(6)))
    assert set(asked) == {"cpu"} and threading.get_ident() not in {thread for thread, *_ in answers}
    assert {answer[1:] for answer in answers} == {(True, "raise")}
