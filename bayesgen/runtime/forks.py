"""Processes made by fork after JAX has run: its threads are not there, so that work given to JAX never comes back."""

import os

from bayesgen.errors import BayesgenError

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
