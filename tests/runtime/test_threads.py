"""Work in threads leaves the process as it was."""

import gc
import os
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.linalg  # noqa: F401, whose library is to be loaded before the first look
from threadpoolctl import threadpool_info, threadpool_limits

import bayesgen as bg
from bayesgen.runtime import in_threads, threads


def limits():
    np.linalg.inv(np.eye(3))  # the libraries are loaded
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_overlapping_work_gives_the_libraries_their_threads_back():
    inside, leave = threading.Event(), threading.Event()

    def first():
        with threads.SINGLE_THREADED_BLAS:
            inside.set()
            leave.wait()

    with threadpool_limits(2, user_api="blas"):
        before = limits()
        thread = threading.Thread(target=first)
        thread.start()
        inside.wait()
        with threads.SINGLE_THREADED_BLAS:  # entered after the other, left after it
            leave.set()
            thread.join()
        assert limits() == before and 2 in before


def test_parts_of_work_in_a_pool_follow_one_another(monkeypatch):
    monkeypatch.setattr(threads, "num_cores", lambda: 4)

    def inner(part):
        return set(in_threads(lambda _: threading.get_ident(), range(5))) == {threading.get_ident()}

    assert list(in_threads(inner, range(4))) == [True] * 4
    assert len(set(in_threads(lambda _: (time.sleep(0.01), threading.get_ident())[1], range(8)))) > 1  # outside of one


def test_results_come_in_order_and_errors_come_through(monkeypatch):
    monkeypatch.setattr(threads, "num_cores", lambda: 4)
    assert list(threads.in_threads(lambda part: part**2, range(23))) == [part**2 for part in range(23)]
    with pytest.raises(ZeroDivisionError):
        list(threads.in_threads(lambda part: 1 / (part - 7), range(23)))


@pytest.mark.skipif(int(pd.__version__.partition(".")[0]) >= 3, reason="later pandas leave warnings alone in threads")
def test_filters_of_warnings_are_as_before_whatever_threads_do_to_them(monkeypatch):
    """Each enters `catch_warnings` and leaves it in the order in which they came, as pandas' do now and then."""
    monkeypatch.setattr(threads, "num_cores", lambda: 2)
    entered, left = [threading.Event() for _ in range(2)], threading.Event()

    def work(part):
        if part == 1:
            entered[0].wait()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entered[part].set()
            (entered[1] if part == 0 else left).wait()
        left.set()

    filters, before = warnings.filters, list(warnings.filters)
    assert list(threads.in_threads(work, range(2))) == [None, None]
    assert warnings.filters is filters and list(filters) == before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinities")
def test_as_many_threads_work_as_the_process_may_use_cores():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        alone = threads.num_cores.__wrapped__()  # nothing is kept of another time
    finally:
        os.sched_setaffinity(0, allowed)
    assert alone == 1 <= threads.num_cores() <= len(allowed)


def interrupt_soon():
    threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()


def test_an_interrupt_does_not_wait_for_work_that_cannot_be_stopped():
    seen, leave = [], threading.Event()

    def work(part):
        leave.wait()
        seen.append(part)

    interrupt_soon()
    with pytest.raises(KeyboardInterrupt), threads.Pool(1) as pool:
        pool.results(work, range(3))
    assert pool.was_interrupted and seen == []
    leave.set()
    pool.shutdown()
    assert seen == [0]  # what had not begun is dropped
    leave.clear()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        threads.interruptibly(leave.wait)
    leave.set()


def test_a_pool_waits_where_nothing_interrupts():
    with threads.Pool(1) as pool:
        slow = pool.submit(time.sleep, 0.05)
    assert slow.done() and not pool.was_interrupted
    with pytest.raises(ZeroDivisionError), threads.Pool(1) as pool:
        slow = pool.submit(time.sleep, 0.05)
        raise ZeroDivisionError
    assert slow.done() and not pool.was_interrupted


def test_work_done_interruptibly_gives_its_result_or_its_error():
    assert threads.interruptibly(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        threads.interruptibly(lambda: 1 / 0)


@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_an_interrupt_in_a_callback_of_the_garbage_collector_is_not_lost(verb):
    X, y = np.array([[1.0], [2.0], [7.0], [9.0]]), ["a", "a", "b", "b"]
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    gc.freeze()  # what is there already, and takes long to look through

    def interrupt(phase, info):
        gc.callbacks.remove(interrupt)
        signal.raise_signal(signal.SIGINT)

    class Collecting:  # an array that collects garbage when it is read first
        is_new = True

        def __array__(self, *args, **kwargs):
            if self.is_new:
                self.is_new = False
                gc.callbacks.append(interrupt)
                gc.collect()
            return X

    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        if verb == "fit":
            bg.fit(bg.NaiveBayes(), Collecting(), y, method=bg.Exact())
        else:
            bg.predict(fit, Collecting(), rule=bg.BMA())
        time.sleep(5)
    assert interrupt not in gc.callbacks and sys.unraisablehook is hook
    again = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    assert again.log_evidence == fit.log_evidence


def test_a_timeout_of_the_work_itself_comes_through():
    def work(part):
        raise TimeoutError(part)

    with pytest.raises(TimeoutError, match="3"), threads.Pool(1) as pool:
        pool.results(work, [3])
    with pytest.raises(TimeoutError, match="7"):
        threads.interruptibly(lambda: work(7))


def test_threads_are_given_the_device_and_the_precision_of_the_one_that_starts_them():
    def settings():
        return jax.config.jax_enable_x64, jax.config.jax_default_device

    device = jax.devices()[0]
    with ThreadPoolExecutor(1) as pool, jax.enable_x64(True), jax.default_device(device):
        assert pool.submit(settings).result() == (False, None)
        assert pool.submit(threads._carrying(settings)).result() == (True, device)
        assert pool.submit(settings).result() == (False, None)
