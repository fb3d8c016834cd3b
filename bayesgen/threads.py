"""Work in threads: NumPy and compiled JAX functions let go of the interpreter."""

import collections
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")
MOST_THREADS = 6  # each with its buffers, which are to stay in bounds on machines of many cores too


def in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """Map a function over the parts of a pass, several at a time; results in order, each let go of once it is taken.

    Not for functions that run NumPyro programs: its handlers are kept in one place for all threads.
    """
    num_threads = min(os.cpu_count() or 1, MOST_THREADS, len(parts))
    if num_threads < 2:
        yield from map(function, parts)
        return
    waiting: collections.deque = collections.deque()
    # one thread for each matrix product: threads of threads would wait for each other
    with ONE_THREAD_A_PRODUCT, ThreadPoolExecutor(num_threads) as pool:
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > num_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def all_in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The results of `in_threads`, all of them."""
    return list(in_threads(function, parts))


class _SharedLimit:
    """A context in which matrix products take one thread each.

    The limit holds for the whole process, so the first to come sets it and the last to leave takes it back.
    """

    def __init__(self):
        self._lock, self._users = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self):
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limit = _libraries().limit(limits=1, user_api="blas")

    def __exit__(self, *error):
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


ONE_THREAD_A_PRODUCT = _SharedLimit()


@functools.cache
def _libraries():
    import scipy.linalg  # noqa: F401, which brings a library of its own

    return ThreadpoolController()  # looks through all libraries that are loaded, so once
