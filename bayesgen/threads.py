"""Work in threads: NumPy and compiled JAX functions let go of the interpreter."""

import collections
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
    with _libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(num_threads) as pool:
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > num_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def all_in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The results of `in_threads`, all of them."""
    return list(in_threads(function, parts))


@functools.cache
def _libraries():
    return ThreadpoolController()  # looks through all libraries that are loaded, so once
