"""The device on which JAX runs: the CPU, or a GPU if it is asked for or the work is large enough.

One step of a sampler or of a prediction starts some hundred kernels on a GPU, at 5 to 10 microseconds each: it takes
one or two milliseconds, however small the work. A CPU core makes about a billion multiplications with addition a second
in float64. So steps of `GPU_WORK` multiplications or more run on a GPU. Closed forms are computed by NumPy on the CPU.
"""

import contextlib
import contextvars
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np

from bayesgen.errors import BayesgenError, DataError
from bayesgen.typing import P, Result

Tree = TypeVar("Tree")

# in a process forked after JAX has run, the threads of JAX do not exist, and calls of JAX never return
_jax = {"has run": False, "was lost": False}


def check_not_forked() -> None:
    """Note that JAX runs in this process.

    Raises:
        BayesgenError: in a process forked after JAX had run, where it would hang.
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


DEVICES = ("cpu", "gpu")
GPU_WORK = 2e6  # `gpu` in benchmarks


@dataclasses.dataclass
class DeviceRequest:
    """The device that `device=` requests, and the device used: "gpu" if anything ran there."""

    device: str | None
    used: str = "cpu"


_request: contextvars.ContextVar[DeviceRequest | None] = contextvars.ContextVar("bayesgen_device", default=None)


@contextlib.contextmanager
def requested(device: str | None) -> Iterator[DeviceRequest]:
    """A context in which `placed` follows this request, and all other work of JAX stays on the CPU.

    Args:
        device: "cpu", "gpu", or None for the choice by size.

    Raises:
        DataError: another device, or "gpu" where JAX has none.
    """
    if device not in (None, *DEVICES):
        raise DataError(f"device must be None, 'cpu' or 'gpu', got {device!r}.")
    if device == "gpu" and not has("gpu"):
        raise DataError("device='gpu', and JAX has no GPU. Install jax[cuda12], or use device='cpu'.")
    request = DeviceRequest(device)
    token = _request.set(request)
    try:
        with jax.default_device(_home()):
            yield request
    finally:
        _request.reset(token)


@contextlib.contextmanager
def placed(work: float) -> Iterator[jax.Device]:
    """A context in which JAX runs on the requested device or, without one, on the faster one, which it yields.

    Args:
        work: rough number of multiplications of one step.
    """
    check_not_forked()
    request = _request.get() or DeviceRequest(None)
    name = request.device or ("gpu" if work >= GPU_WORK and has("gpu") else "cpu")
    device = find(name)
    if name == "gpu" or device.platform != "cpu":
        request.used = "gpu"
    # one name for the CPU everywhere: functions are compiled again for another
    with jax.default_device(_home() if name == "cpu" == device.platform else device):
        yield device


def in_float64(function: Callable[P, Result]) -> Callable[P, Result]:
    """The function, run with JAX in double precision."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Result:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return run


def devices_in_use() -> list[jax.Device]:
    """All devices of the kind on which JAX runs here."""
    config: Any = jax.config
    device = config.jax_default_device or jax.devices()[0]
    return jax.devices(getattr(device, "platform", device))


def divided(values: Tree) -> Tree:
    """Arrays whose first axis is divided among the devices in use; as they are where there is one device."""
    devices = devices_in_use()
    if len(devices) == 1:
        return values
    mesh = jax.sharding.Mesh(np.array(devices), ("first",))
    return jax.device_put(values, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("first")))


def used() -> str:
    """The device of the work since the request: "cpu" or "gpu"."""
    request = _request.get()
    return "cpu" if request is None else request.used


def _home() -> str | None:
    """The name of the CPU, so that closed forms need not ask for devices; None where JAX may not use it."""
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
    """The first device of this name, or of any name where JAX has none."""
    return jax.devices(name)[0] if has(name) else jax.devices()[0]


def memory() -> float:
    """Bytes of memory of this machine; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError):  # Windows
        return float("inf")


def beyond_memory(what: str, needed: float) -> str | None:
    """A sentence that says so where this many bytes are more than half of the memory; else None."""
    if needed <= memory() / 2:
        return None
    return f"{what} take {needed / 2**30:,.0f} GB, and this machine has {memory() / 2**30:,.0f}."
