"""Where JAX runs: on the CPU, or on a GPU if one is asked for or the work is large enough to keep it busy.

One step of a sampler or of a prediction starts some hundred kernels on a GPU, at 5 to 10 microseconds each: it takes
one or two milliseconds however little there is to do. A processor core makes about a billion multiplications with
addition a second in float64. So work goes to a GPU from `GPU_WORK` of them a step. Closed forms are NumPy's, and stay
where they are.
"""

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

from bayesgen.errors import BayesgenError, DataError

# Processes made by fork after JAX has run: its threads are not there, so that work given to JAX never comes back.

_jax = {"has run": False, "was lost": False}


def check_not_forked() -> None:
    """Say that JAX is about to run here.

    Raises:
        BayesgenError: in a process that was forked from one where JAX had run: it would wait for ever.
    """
    if _jax["was lost"]:
        raise BayesgenError(
            "This process was forked from one in which JAX had run, and JAX does not survive a fork: it would hang. "
            "Start workers by multiprocessing.get_context('spawn') or 'forkserver', use threads, or fork before the "
            "first fit."
        )
    _jax["has run"] = True


def _after_fork() -> None:
    _jax["was lost"] = _jax["has run"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


Result = TypeVar("Result")
DEVICES = ("cpu", "gpu")
GPU_WORK = 2e6


class Request:
    """What `device=` asked for, and what was used in the end: "gpu" as soon as anything ran there."""

    def __init__(self, asked: str | None) -> None:
        self.asked, self.used = asked, "cpu"


_request: contextvars.ContextVar[Request | None] = contextvars.ContextVar("bayesgen_device", default=None)


@contextlib.contextmanager
def requested(device: str | None) -> Iterator[Request]:
    """Inside, `placed` follows this request, and all else that JAX does stays on the CPU.

    Args:
        device: "cpu", "gpu", or None for the choice by size.

    Raises:
        DataError: another word, or "gpu" where JAX has none.
    """
    if device not in (None, *DEVICES):
        raise DataError(f"device must be None, 'cpu' or 'gpu', got {device!r}.")
    if device == "gpu" and not has("gpu"):
        raise DataError("device='gpu', and JAX has none. Install it with one, jax[cuda12], or take device='cpu'.")
    request = Request(device)
    token = _request.set(request)
    try:
        with jax.default_device(_home()):
            yield request
    finally:
        _request.reset(token)


@contextlib.contextmanager
def placed(work: float) -> Iterator[jax.Device]:
    """Inside, JAX runs where it was asked to or, where that was left open, where the work is done sooner: yields it.

    Args:
        work: multiplications of one step, roughly.
    """
    check_not_forked()
    request = _request.get() or Request(None)
    name = request.asked or ("gpu" if work >= GPU_WORK and has("gpu") else "cpu")
    device = find(name)
    if name == "gpu" or device.platform != "cpu":
        request.used = "gpu"
    # the processor by one name everywhere: what was compiled under another is compiled again
    with jax.default_device(_home() if name == "cpu" == device.platform else device):
        yield device


def carrying(function: Callable[..., Result]) -> Callable[..., Result]:
    """The function with the device and the precision of this thread, to be run in another: JAX keeps them by thread."""
    config: Any = jax.config
    device, precise = config.jax_default_device, config.jax_enable_x64

    def run(*args: Any, **kwargs: Any) -> Result:
        with jax.enable_x64(precise), jax.default_device(device):
            return function(*args, **kwargs)

    return run


def used() -> str:
    """Where the work since the request has run: "cpu" or "gpu"."""
    request = _request.get()
    return "cpu" if request is None else request.used


def _home() -> str | None:
    """The processor by name, so that closed forms need not look for devices; None where JAX was told to leave it."""
    config: Any = jax.config
    platforms = config.jax_platforms
    return "cpu" if not platforms or "cpu" in platforms.split(",") else None


def has(name: str) -> bool:
    """Whether JAX has a device of this name."""
    try:
        return bool(jax.devices(name))
    except RuntimeError:
        return False


def find(name: str) -> jax.Device:
    """The first device of this name (of any, where JAX was told to leave the processor alone)."""
    return jax.devices(name)[0] if has(name) else jax.devices()[0]
