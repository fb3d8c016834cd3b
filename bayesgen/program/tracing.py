"""Running a program to see its sites: the one place where NumPyro's handlers are entered.

NumPyro keeps the handlers that are entered on one stack for the whole process. Programs of bayesgen therefore run one
after another, and do not see handlers entered around them. Plain NumPyro in another thread at the same time shares the
stack, as it does without bayesgen. Compiled functions run no programs, and need not wait.
"""

import os
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import jax
import numpy
import numpyro
from numpyro import handlers
from numpyro.primitives import Messenger

from bayesgen.errors import ModelError
from bayesgen.runtime import check_not_forked
from bayesgen.typing import Array, PRNGKeyArray

from .messages import Message, Trace, check_statement, is_deterministic, is_drawn, is_sample

_RUNNING = threading.RLock()  # may be taken again by the thread that has it: a program may look at another one
_LIBRARIES = tuple(f"{Path(str(module.__file__)).parent}{os.sep}" for module in (jax, numpyro, numpy))
_BAYESGEN = f"{Path(__file__).parents[1]}{os.sep}"
# the methods by which `if y:` and `float(y)` convert an array to a truth value or a number
_CONVERSIONS = {
    getattr(jax.core.Tracer, name).__code__ for name in ("__bool__", "__int__", "__float__", "__complex__", "__index__")
}


Choose: TypeAlias = Callable[[Message], Array | None]
"""Sample site that has no value yet -> its value, or None where it is to be drawn."""


def sites_of(
    function: Callable[..., object],
    size: int,
    covariates: Mapping[str, Array],
    key: PRNGKeyArray,
    choose: Choose = lambda message: None,
) -> Trace:
    """The messages of a program's sites, run with its handlers at `size` rows and with chosen values.

    Raises:
        ModelError: a program that needs the values of traced arrays in Python, indexes by truth values,
            repeats a site, has parameters or subsamples.
    """
    check_not_forked()
    program = handlers.substitute(
        handlers.seed(function, key), substitute_fn=lambda message: choose(message) if is_drawn(message) else None
    )
    with _RUNNING, handlers.block():
        try:
            return handlers.trace(_Checked(program)).get_trace(size, **covariates)
        except jax.errors.NonConcreteBooleanIndexError as error:
            raise ModelError(
                f"The program indexes by truth values{_where(error)}: index by whole numbers, table[g.astype(int)] "
                "for table[g]."
            ) from None
        except (TypeError, ValueError) as error:
            if not isinstance(error, jax.errors.JAXTypeError) and not _comes_of_conversion(error):
                raise
            raise ModelError(
                f"The program decides by a value that is not known while it is traced, or takes it out of JAX"
                f"{_where(error)}. Write jnp.where(condition, a, b) for an if, and jax.numpy in place of numpy, "
                "float() and int()."
            ) from None


class _Checked(Messenger):
    """Refuses what no program can have, and two sites of one name."""

    def __init__(self, program: Callable[..., object]) -> None:
        super().__init__(program)
        self.names: set[str] = set()

    def process_message(self, msg: Message) -> None:
        """Check the statement, and note its name."""
        check_statement(msg)
        if is_sample(msg) or is_deterministic(msg):
            if msg["name"] in self.names:
                raise ModelError(
                    f"The program has two sites called {msg['name']!r}. Give every site a name of its own."
                )
            self.names.add(msg["name"])


def _comes_of_conversion(error: Exception) -> bool:
    """Whether an error came from converting a traced array to a truth value or a number."""
    return any(frame.f_code in _CONVERSIONS for frame, _ in traceback.walk_tb(error.__traceback__))


def _where(error: Exception) -> str:
    """The line of the program that raised an error, if it is known."""
    frames = traceback.extract_tb(error.__traceback__)
    program_frames = [frame for frame in frames if not frame.filename.startswith((*_LIBRARIES, _BAYESGEN))]
    if not program_frames:
        return ""
    last = program_frames[-1]
    return f" (line {last.lineno} of {last.name}: {last.line})"
