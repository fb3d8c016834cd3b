"""Work in threads: NumPy and compiled JAX functions let go of the interpreter."""

import _thread
import collections
import contextlib
import functools
import importlib.metadata
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")
MOST_THREADS = 6  # each with its buffers, which are to stay in bounds on machines of many cores too


@functools.cache  # looking takes half a millisecond
def num_cores() -> int:
    """How many cores this process may use: as many as its affinity and the limits of its container leave it."""
    return joblib.cpu_count()


class Pool(ThreadPoolExecutor):
    """A pool whose block waits for its threads, unless Ctrl-C ends it: compiled code cannot be stopped, but left.

    Attributes:
        is_left: whether the block has ended by an interrupt (or in a generator that was closed), so that work still
            going on is for nobody.
    """

    is_left = False

    def results(self, function: Callable[..., Result], *parts: Sequence[Any]) -> list[Result]:
        """The results of a function of parts, in order, waited for so that Ctrl-C gets through."""
        return [result_of(future) for future in [self.submit(function, *part) for part in zip(*parts, strict=True)]]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_left = kind is not None and not issubclass(kind, Exception)
        self.shutdown(wait=not self.is_left, cancel_futures=kind is not None)


def result_of(future: Future[Result]) -> Result:
    """The result, waited for with interruptions: on Windows, and by some libraries' handlers, Ctrl-C ends no wait."""
    while not future.done():
        with contextlib.suppress(TimeoutError):  # of the waiting alone: what the work raises is not raised here
            future.exception(timeout=0.2)
    return future.result()


def in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """Map a function over the parts of a pass, several at a time; results in order, each let go of once it is taken.

    Not for functions that run NumPyro programs: its handlers are kept in one place for all threads.
    """
    num_threads = min(num_cores(), MOST_THREADS, len(parts))
    if num_threads < 2:
        yield from map(function, parts)
        return
    waiting: collections.deque = collections.deque()
    # one thread for each matrix product: threads of threads would wait for each other
    with ONE_THREAD_A_PRODUCT, _WARNINGS_AS_BEFORE, Pool(num_threads) as pool:
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > num_threads:
                yield result_of(waiting.popleft())
        while waiting:
            yield result_of(waiting.popleft())


@contextlib.contextmanager
def interrupts_kept() -> Iterator[None]:
    """A block in which no Ctrl-C is lost: one that arrives in a callback of the garbage collector comes again.

    JAX has such a callback, and what is raised there is only reported to `sys.unraisablehook`.
    """
    usual = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            threading.Timer(0.05, _interrupt, [threading.get_ident()]).start()  # when the collector has finished
        else:
            usual(unraisable)

    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _interrupt(main_thread: int) -> None:
    """Do to the main thread what Ctrl-C does."""
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(main_thread, signal.SIGINT)  # which also wakes it, where it waits


def interruptibly(work: Callable[[], Result]) -> Result:
    """The result of work done in another thread, while this one waits where Ctrl-C reaches it at once.

    In the main thread a signal would wait until compiled code returns. After an interrupt the work goes on, until
    the process ends.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result_of(future)


def all_in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The results of `in_threads`, all of them."""
    return list(in_threads(function, parts))


class _Shared:
    """A context that holds for the whole process, so the first to come enters it and the last to leave ends it."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
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

    return ThreadpoolController()  # looks through all libraries that are loaded, so once


ONE_THREAD_A_PRODUCT = _Shared(lambda: _libraries().limit(limits=1, user_api="blas"))  # each matrix product, that is


def _warnings_kept() -> AbstractContextManager[Any]:
    """A block after which warnings go where they went before, and by the same filters.

    Both are the process's, and pandas 2 changes them for a while in each of its threads: the last of two that do so at
    once puts back what the first had changed. Later ones do not, and need no `catch_warnings`, after which warnings
    that were shown once are shown again.
    """
    changes_them = int(importlib.metadata.version("pandas").partition(".")[0]) < 3
    return warnings.catch_warnings() if changes_them else contextlib.nullcontext()


_WARNINGS_AS_BEFORE = _Shared(_warnings_kept)
