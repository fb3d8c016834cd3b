"""Work in threads, in which NumPy and compiled JAX functions run in parallel, and interrupts."""

import collections
import contextlib
import contextvars
import functools
import importlib.metadata
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

import jax
import joblib
from threadpoolctl import ThreadpoolController

from bayesgen.typing import P, Result

Part = TypeVar("Part")


@functools.cache  # a call takes half a millisecond
def num_cores() -> int:
    """The number of cores that this process may use, by its affinity and the limits of its container."""
    return joblib.cpu_count()


def _carrying(function: Callable[P, Result]) -> Callable[P, Result]:
    """The function, with the JAX device and precision of this thread when run in another one."""
    config: Any = jax.config
    device, precise = config.jax_default_device, config.jax_enable_x64

    def run(*args: P.args, **kwargs: P.kwargs) -> Result:
        with jax.enable_x64(precise), jax.default_device(device):
            return function(*args, **kwargs)

    return run


_IN_POOL: contextvars.ContextVar[bool] = contextvars.ContextVar("_IN_POOL", default=False)


class Pool(ThreadPoolExecutor):
    """A pool whose threads work in the context of their caller: device, precision, who is told of warnings.

    Its block waits for its threads, unless Ctrl-C ends it: compiled code cannot be stopped.

    Attributes:
        was_interrupted: whether the block was ended by an interrupt (or a closed generator), so that running work is of
            no use.
    """

    was_interrupted = False

    def submit(self, function: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        context = contextvars.copy_context()
        context.run(_IN_POOL.set, True)
        return super().submit(context.run, _carrying(function), *args, **kwargs)

    def results(self, function: Callable[..., Result], *parts: Sequence[Any]) -> list[Result]:
        """The results of a function of parts, in order; Ctrl-C interrupts the waiting."""
        return [result_of(future) for future in [self.submit(function, *part) for part in zip(*parts, strict=True)]]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.was_interrupted = kind is not None and not issubclass(kind, Exception)
        self.shutdown(wait=not self.was_interrupted, cancel_futures=kind is not None)


def result_of(future: Future[Result]) -> Result:
    """The result, waited for in short intervals: on Windows, and with some libraries, Ctrl-C ends no longer wait."""
    while not future.done():
        with contextlib.suppress(TimeoutError):  # of this call alone, which does not raise errors of the work
            future.exception(timeout=0.2)
    return future.result()


def in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """Map a function over parts in threads; results in order, each freed once it is taken.

    Not for functions that run NumPyro programs, whose handlers are shared by all threads. In a thread of a pool, whose
    others are at work, parts follow one another.
    """
    num_threads = 1 if _IN_POOL.get() else min(num_cores(), 6, len(parts))  # each has its own buffers in memory
    if num_threads < 2:
        yield from map(function, parts)
        return
    waiting: collections.deque = collections.deque()
    # each matrix product in one thread, as threads of threads would wait for each other
    with SINGLE_THREADED_BLAS, _WARNINGS_AS_BEFORE, Pool(num_threads) as pool:
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > num_threads:
                yield result_of(waiting.popleft())
        while waiting:
            yield result_of(waiting.popleft())


def interruptibly(work: Callable[[], Result]) -> Result:
    """The result of work done in another thread, while Ctrl-C interrupts this one at once.

    In the main thread a signal would wait until compiled code returns. After an interrupt the work goes on until
    the process ends.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=[run], daemon=True).start()
    return result_of(future)


def all_in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The results of `in_threads`, all of them."""
    return list(in_threads(function, parts))


def mostly_in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The results for all parts. First and last part may compile, and so run the program, in this thread."""
    *earlier, last = parts
    first, end = list(map(function, earlier[:1])), [function(last)]
    return [*first, *in_threads(function, earlier[1:]), *end]


class _Shared:
    """A context of the whole process: the first user enters it, and the last one ends it."""

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._make, self._ends = make, contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._ends.enter_context(self._make())
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._ends.close()


@functools.cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401, which brings a library of its own

    return ThreadpoolController()  # inspects all loaded libraries, so once


SINGLE_THREADED_BLAS = _Shared(lambda: _libraries().limit(limits=1, user_api="blas"))


@functools.cache  # the version is read from a file
def _pandas_changes_filters() -> bool:
    return int(importlib.metadata.version("pandas").partition(".")[0]) < 3


def _warnings_kept() -> AbstractContextManager[object]:
    """A context that restores the filters of warnings, and where warnings are shown.

    Both belong to the process, and pandas 2 changes them temporarily in each of its threads: two threads that do so at
    once restore the wrong ones. Later versions do not, and need no `catch_warnings`, after which warnings that were
    shown once are shown again.
    """
    return warnings.catch_warnings() if _pandas_changes_filters() else contextlib.nullcontext()


_WARNINGS_AS_BEFORE = _Shared(_warnings_kept)
