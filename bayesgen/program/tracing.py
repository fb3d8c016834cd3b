"""Running a program to see its sites: the one place where NumPyro's handlers are entered.

NumPyro keeps the handlers that are entered on one stack for the whole process. Programs of bayesgen run one after
another, each on a stack of its own: no other thread sees its handlers, and it sees none of theirs. What has been
compiled from programs does not run them, and so waits for nobody.
"""

import collections.abc
import contextlib
import importlib
import threading
import traceback
from pathlib import Path

import jax
import numpy
import numpyro
from numpyro import handlers
from numpyro.primitives import Messenger

from bayesgen.errors import ModelError
from bayesgen.runtime import check_not_forked

_RUNNING = threading.RLock()  # may be taken again by the thread that has it: a program may look at another one
# the modules of NumPyro that hold the stack by name
_HOLDERS = [
    importlib.import_module(f"numpyro.{name}")
    for name in ("primitives", "handlers", "contrib.control_flow.cond", "contrib.control_flow.scan")
]
_LIBRARIES = tuple(str(Path(str(module.__file__)).parent) for module in (jax, numpyro, numpy))
_BAYESGEN = str(Path(__file__).parents[1])


def sites_of(program, size, covariates):
    """Run a program, with its handlers, at `size` rows: name -> site, in the order of its statements.

    Raises:
        ModelError: a program that looks at values which are not known while it is traced, or repeats a site.
    """
    check_not_forked()
    with _RUNNING, _stack_of_its_own():
        try:
            return handlers.trace(_Distinct(program)).get_trace(size, **covariates)
        except jax.errors.JAXTypeError as error:
            raise ModelError(
                f"The program decides by a value that is not known while it is traced, or takes it out of JAX"
                f"{_where(error)}. Write jnp.where(condition, a, b) for an if, and jax.numpy in place of numpy, "
                "float() and int()."
            ) from None


class _Distinct(Messenger):
    """Refuses two sites of one name."""

    def __init__(self, program):
        super().__init__(program)
        self.names = set()

    def process_message(self, msg):
        """Note the name."""
        if msg["type"] in ("sample", "deterministic"):
            if msg["name"] in self.names:
                raise ModelError(
                    f"The program has two sites called {msg['name']!r}. Give every site a name of its own."
                )
            self.names.add(msg["name"])


class _StackOfThread(collections.abc.MutableSequence):
    """Handlers by thread: those that one thread enters, and for all other threads the stack that was there before."""

    def __init__(self, before):
        self.thread, self.inside, self.before = threading.get_ident(), [], before

    @property
    def _mine(self):
        return self.inside if threading.get_ident() == self.thread else self.before

    def __getitem__(self, index):
        return self._mine[index]

    def __setitem__(self, index, handler):
        self._mine[index] = handler

    def __delitem__(self, index):
        del self._mine[index]

    def __len__(self):
        return len(self._mine)

    def insert(self, index, handler):
        """Insert for this thread."""
        self._mine.insert(index, handler)


@contextlib.contextmanager
def _stack_of_its_own():
    before = numpyro.primitives._PYRO_STACK
    stack = _StackOfThread(before)
    try:
        _put(stack)
        yield
    finally:
        _put(before)


def _put(stack):
    for module in _HOLDERS:
        setattr(module, "_PYRO_STACK", stack)  # noqa: B010, which type checkers do not know


def _where(error):
    """The line of the program at which an error came up, as far as it is known."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((*_LIBRARIES, _BAYESGEN))]
    return f" (line {own[-1].lineno} of {own[-1].name}: {own[-1].line})" if own else ""
