"""`AverageModel`: an average of models that are yet to be fitted, itself a model."""

import dataclasses
from typing import Any

from bayesgen.data import Schema
from bayesgen.errors import DataError, FitError
from bayesgen.fitting import Exact, Method, Problem, Summaries, prepare
from bayesgen.program import Model

from .fit import AverageFit, check_read_often
from .weighting import Weighting


@dataclasses.dataclass(frozen=True)
class AverageModel(Model[AverageFit]):
    """Several models of the same data, one of which is the structure. `bayesgen.average` of models makes one.

    `Exact()` fits every member and weighs them; other methods refuse, because they give no log evidence. Models of rows
    without labels, such as mixtures, are fitted by any method, and weighed by the densities of rows left out;
    `ProbabilisticPCA` by any method, too, and weighed by approximate evidences.

    Attributes:
        members: the models.
        weighting: how they are weighed.
    """

    members: tuple[Model, ...]
    weighting: Weighting

    def __post_init__(self) -> None:
        self.weighting.check_models(self.members)


@dataclasses.dataclass(frozen=True)
class AverageProblem(Problem):
    """The problems of the members, whose fits are averaged.

    Attributes:
        model: the average.
        data: the problem of each member.
        X, y: the rows, for weightings that need them.
    """

    model: AverageModel
    data: tuple[Problem, ...]
    X: Any = None
    y: Any = None

    @property
    def has_labels(self) -> bool:
        """Whether its rows have labels."""
        return all(problem.has_labels for problem in self.data)

    @property
    def approximates_evidence(self) -> bool:
        """Whether all members do."""
        return all(problem.approximates_evidence for problem in self.data)

    def refusal_of(self, method: Method) -> str | None:
        """That of the first member that has one."""
        return next((why for member in self.data if (why := member.refusal_of(method)) is not None), None)

    def solved_by(self, method: Method) -> AverageFit:
        """The average of the members' fits by the method."""
        if not self.approximates_evidence:
            self.model.weighting.check_method(method, self.has_labels, self.refusal_of(Exact()))
        members = [dataclasses.replace(member, seed=self.seed, progress=self.progress) for member in self.data]
        return self.model.weighting.mix([member.solved_by(method) for member in members], self.X, self.y)


@prepare.register
def _(
    model: AverageModel,
    X: Any,
    y: Any = None,
    *,
    schema: Schema | None = None,
    sample_weight: Any = None,
    keeps_rows: bool = False,
) -> AverageProblem:
    if isinstance(X, Summaries):
        raise DataError(
            "Summaries belong to one model, and each member of an average needs its own. Give X and y, or fit each "
            "member to its summaries and average the fits."
        )
    check_read_often(X)
    if model.weighting.needs_rows and sample_weight is not None:
        raise FitError("Rows are left out to learn these weights: give X and y as they are, without sample_weight.")
    members = tuple(
        prepare(member, X, y, schema=schema, sample_weight=sample_weight, keeps_rows=keeps_rows)
        for member in model.members
    )
    rows = {"X": X, "y": y} if model.weighting.needs_rows else {}
    return AverageProblem(model, members, **rows)
