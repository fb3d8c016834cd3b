"""Running a program to see its sites: the one place where NumPyro's handlers are entered.

NumPyro keeps the handlers that are entered on one stack for the whole process, so programs that run in two threads
would see each other's. They run one after another, then; what has been compiled from them does not run them, and so
waits for nobody. Programs that a thread runs under handlers of its own, outside of bayesgen, are not waited for.
"""

import threading

from numpyro import handlers

_STACK = threading.RLock()  # may be taken again by the thread that has it: a program may look at another one


def sites_of(program, size, covariates):
    """Run a program, with its handlers, at `size` rows: name -> site, in the order of its statements."""
    with _STACK:
        return handlers.trace(program).get_trace(size, **covariates)
