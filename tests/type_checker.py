"""What types are checked with: an int is a float, as for type checkers, and Self is the class of the method."""

from collections.abc import Callable
from typing import Any, Self

from beartype import BeartypeConf, FrozenDict, beartype


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, checked. Functions come one by one, so that what Self means is told by their names."""
    overrides, (owner, _, _) = {}, function.__qualname__.rpartition(".")
    if owner:
        overrides = {Self: f"{function.__module__}.{owner}"}
    conf = BeartypeConf(is_pep484_tower=True, hint_overrides=FrozenDict(overrides))
    return beartype(conf=conf)(function)
