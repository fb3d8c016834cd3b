"""Work in threads leaves the process as it was."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from bayesgen import threads


def limits():
    np.linalg.inv(np.eye(3))  # the libraries are loaded
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_overlapping_work_gives_the_libraries_their_threads_back():
    before, inside, leave = limits(), threading.Event(), threading.Event()

    def first():
        with threads.ONE_THREAD_A_PRODUCT:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with threads.ONE_THREAD_A_PRODUCT:  # entered after the other, left after it
        leave.set()
        thread.join()
    assert limits() == before


def test_results_come_in_order_and_errors_come_through(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert list(threads.in_threads(lambda part: part**2, range(23))) == [part**2 for part in range(23)]
    with pytest.raises(ZeroDivisionError):
        list(threads.in_threads(lambda part: 1 / (part - 7), range(23)))
