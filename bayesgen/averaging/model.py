"""`AverageModel`: an average of models that are yet to be fitted, itself a model."""

import dataclasses
import functools
from typing import Any

from bayesgen.errors import DataError, FitError
from bayesgen.fitting import Exact, Problem, Summaries, prepare, train

from .weighting import Weighting


@dataclasses.dataclass(frozen=True)
class AverageModel:
    """Several models of the same data, one of which is the structure. `bayesgen.average` of models makes one.

    `Exact()` fits every member and weighs them; other methods refuse, because they give no log evidence.

    Attributes:
        members: the models.
        weighting: how they are weighed.
    """

    members: tuple[Any, ...]
    weighting: Weighting

    def __post_init__(self):
        self.weighting.check_models()


@dataclasses.dataclass(frozen=True)
class MemberData:
    """Training data as each member of an average takes them.

    Attributes:
        model: the average.
        members: the data of each member.
        X, y: the rows, for weightings that need them.
    """

    model: AverageModel
    members: tuple[Any, ...]
    X: Any = None
    y: Any = None


@prepare.register
def _(model: AverageModel, X, y=None, *, schema=None, sample_weight=None):
    if isinstance(X, MemberData) and X.model is model:
        return X
    if isinstance(X, Summaries | MemberData):
        raise DataError(
            "Summaries belong to one model, and each member of an average needs its own. Give X and y, or fit each "
            "member to its summaries and average the fits."
        )
    if _is_read_once(X):
        raise DataError("An average reads the data once for each of its members: give an iterable of chunks as a list.")
    if model.weighting.needs_rows and (y is None or sample_weight is not None):
        raise FitError("Rows are left out to learn these weights: give X and y as they are, without sample_weight.")
    members = tuple(prepare(each, X, y, schema=schema, sample_weight=sample_weight) for each in model.members)
    return MemberData(model, members, *((X, y) if model.weighting.needs_rows else ()))


def _is_read_once(X):
    """Whether X can be read only once, as a generator can."""
    return hasattr(X, "__next__")


@train.register
def _(model: AverageModel, method, problem):
    return train_members(method, problem)


@functools.singledispatch
def train_members(method, problem):
    """Train an `AverageModel`: only `Exact` can."""
    raise FitError(
        f"An average over structures weighs exact fits, and that of {type(method).__name__}() is none: it has no log "
        "evidence. Use Exact(), or fit a single structure."
    )


@train_members.register
def _(method: Exact, problem):
    data = problem.data
    fits = [
        train(each.model, method, Problem(member, each, problem.seed, problem.progress))
        for member, each in zip(data.model.members, data.members, strict=True)
    ]
    return data.model.weighting.mix(fits, data.X, data.y)
