"""`MLE` and `MAP`: the process at a maximum of an objective, in closed form, by EM or by search."""

import dataclasses
import numbers
from typing import Any

import numpy as np

from bayesgen.errors import ModelError
from bayesgen.program import Conjugate
from bayesgen.records import fill

from .discriminative import conditional_fit, hybrid_fit
from .fit import Fit
from .integrating import fit_of_learned_prior
from .joint import JointMethod
from .problem import ProgramProblem
from .starts import GivenClasses


@dataclasses.dataclass(frozen=True, repr=False)
class TrainingObjective:
    """The function of the process that `MLE` and `MAP` maximise, the prior aside: see `Hybrid`.

    A coupling of 0 is log p(X, y | Q), generative training; an infinite one log p(y | X, Q), discriminative training.
    """

    coupling: float

    @property
    def needs_rows(self) -> bool:
        """Whether it needs the rows besides their sufficient statistics."""
        return self.coupling > 0

    @property
    def looks_at_unlabelled(self) -> bool:
        """Whether rows without labels contribute to it."""
        return bool(self.coupling < np.inf)

    def __repr__(self) -> str:
        return repr(next(name for name, objective in OBJECTIVES.items() if objective == self))


@dataclasses.dataclass(frozen=True, repr=False)
class Hybrid(TrainingObjective):
    """Generative and discriminative training at once, by two coupled processes.

    Labels given attributes follow one process Q, attributes another one Q~. Both are found by maximising::

        log p(Q) + log N(Q~ | Q, coupling^2 C) + sum_labelled log p(y | x, Q) + sum_all rows log p(x | Q~)

    `MLE` leaves p(Q) out. The fit is Q; Q~ is `fit.attributes["other_parameters"]`. Both are vectors of unconstrained
    coordinates. C is the inverse curvature of the joint log density of one row at the joint fit, so that a distance of
    d means a Kullback-Leibler divergence of about d^2 / 2 per row, whatever the units of the columns and the number of
    rows. The prior counts once. As the coupling goes to 0, both processes become the joint fit of all rows; as it
    grows, Q becomes the fit by objective="conditional".

    Args:
        coupling: standard deviation of the distance between the two, in these units; positive.

    Raises:
        ModelError: a coupling that is not a positive number.

    Source: Lasserre, Bishop and Minka (2006), Principled hybrids of generative and discriminative models, section 3;
    there the prior counts twice, and coordinates are plain.

    >>> import bayesgen as bg
    >>> X = [[1.0], [2.0], [4.5], [3.5], [7.0], [9.0], [1.5], [8.5]]
    >>> y = ["low", "low", "low", "high", "high", "high", None, None]
    >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MAP(objective=bg.Hybrid(1.0)))
    >>> sorted(fit.attributes["other_parameters"]) == sorted(fit.parameters)
    True
    """

    def __post_init__(self) -> None:
        coupling = self.coupling
        if not isinstance(coupling, numbers.Real) or isinstance(coupling, bool) or not 0 < coupling < np.inf:
            raise ModelError(
                f"Hybrid: coupling must be a positive number, got {coupling!r}. Its limits are objective='joint', for "
                "0, and objective='conditional', for infinity."
            )

    def __repr__(self) -> str:
        return f"Hybrid(coupling={self.coupling!r})"


OBJECTIVES = {"joint": TrainingObjective(0.0), "conditional": TrainingObjective(np.inf)}


def as_objective(objective: Any) -> TrainingObjective:
    """The objective of that name; an objective is returned as it is.

    Raises:
        ModelError: neither a known name nor an objective.
    """
    if isinstance(objective, TrainingObjective):
        return objective
    named_objective = OBJECTIVES.get(objective) if isinstance(objective, str) else None
    if named_objective is None:
        raise ModelError(f"objective must be one of {list(OBJECTIVES)} or Hybrid(coupling), got {objective!r}.")
    return named_objective


@dataclasses.dataclass(frozen=True)
class PointMethod(JointMethod):
    """A method whose fit is a point. See `MLE` and `MAP` for its arguments."""

    objective: Any = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        fill(self, objective=as_objective(self.objective))
        if self.needs_rows and self.assignment == "hard":
            raise ModelError(
                f"{name}: assignment='hard' is for objective='joint' alone, which is what k-means maximises."
            )
        stated = {"starts": isinstance(self.starts, GivenClasses), "unlabelled_weight": self.unlabelled_weight != 1}
        idle = [argument for argument, is_stated in stated.items() if is_stated]
        if idle and not self.objective.looks_at_unlabelled:
            raise ModelError(
                f"{name}: {' and '.join(idle)} {'is' if len(idle) == 1 else 'are'} for rows without labels, which have "
                f"no part in objective={self.objective!r}. Leave {'it' if len(idle) == 1 else 'them'} out, or use "
                "objective='joint' or Hybrid(coupling)."
            )

    def __repr__(self) -> str:
        usual = {"objective": not self.needs_rows, "integrate_out": not getattr(self, "integrate_out", False)}
        fields = [field.name for field in dataclasses.fields(self) if not usual.get(field.name)]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"

    @property
    def needs_rows(self) -> bool:
        return self.objective.needs_rows

    def has_closed_form(self, conjugate: Conjugate) -> bool:
        return not self.needs_rows and super().has_closed_form(conjugate)

    def solve(self, problem: ProgramProblem) -> Fit:
        """Maximise the objective.

        Raises:
            ModelError: a weight of rows without class, where the label is continuous.
        """
        if problem.data.model.response is not None and self.unlabelled_weight != 1:
            raise ModelError(
                f"{type(self).__name__}: unlabelled_weight={self.unlabelled_weight!r} is of rows without a class, and "
                "this model's label is continuous: y is a cell like others there. Leave it out, and give rows without "
                "y a weight of their own by sample_weight."
            )
        if not self.needs_rows:
            return self.joint_fit(problem)
        if not self.objective.looks_at_unlabelled:
            return conditional_fit(self, problem)
        return hybrid_fit(self, problem, float(self.objective.coupling))


@dataclasses.dataclass(frozen=True, repr=False)
class MAP(PointMethod):
    """Maximum a posteriori: argmax_Q p(Q | T), the first of the two steps.

    For built-in models this is the joint mode over probabilities, rates, means and variances or covariances. It has a
    closed form where no hyperparameter is a distribution, every row has its label, and jointly normal rows have all
    their cells; EM finds it where labels or cells are missing. For a program of your own it is the mode of the density
    of its sample sites in the constrained space. A mode is not invariant: in other coordinates it is another process.

    Args:
        num_starts, starts, assignment, unlabelled_weight, objective: see `MLE`. The log prior is added once to every
            objective. Unless it is flat, it chooses between processes with the same p(y | x), and bounds the objective
            of separable classes.
        integrate_out: True to maximise evidence times prior density of the latents without a closed form, such as
            hyperparameters, with the others integrated out: the prior is learned from the data (type II maximum
            likelihood, with a prior of its own). The posterior of the others is exact given these, and answers as that
            of an exact fit does: at its mean and mode, and averaged. The fit has no log evidence.
    """

    integrate_out: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.integrate_out, bool):
            raise ModelError(f"MAP: integrate_out is True or False, got {self.integrate_out!r}.")
        is_stated = self.starts is not None or self.assignment != "soft" or self.unlabelled_weight != 1
        if self.integrate_out and (is_stated or self.needs_rows):
            raise ModelError(
                "MAP: integrate_out=True maximises evidence of complete data, so starts, assignment, unlabelled_weight "
                "and objective have no part in it. Leave them out."
            )

    def has_closed_form(self, conjugate: Conjugate) -> bool:
        return not self.integrate_out and super().has_closed_form(conjugate)

    def solve(self, problem: ProgramProblem) -> Fit:
        return fit_of_learned_prior(self, problem) if self.integrate_out else super().solve(problem)


@dataclasses.dataclass(frozen=True, repr=False)
class MLE(PointMethod):
    """Maximum likelihood: argmax_Q p(T | Q). The prior is ignored.

    For built-in models it has a closed form where every row has its label and jointly normal rows have all their cells;
    EM finds it otherwise. For a program of your own, a search maximises the likelihood from several starts. A row
    without a label contributes its log density, log sum_k p(x, k | Q).

    Args:
        num_starts: number of starting points of EM or a search; None for 8 where labels are missing, else 4.
        starts: starting points of EM: labels (n,) or responsibilities (n, K) of the rows of X, which are used for rows
            without labels, or a list of such arrays. Or parameters, as a mapping from names to arrays, or a list of
            these, which also start the search of a program of one's own. A parameter that a mapping lacks has its
            value at the default start of EM (of a search: at the origin of the unconstrained space). None starts at the
            posterior centre of the labelled rows, and of the labelled rows with one random row added to each class.
            Where no row has a label, it starts at groups of rows, formed by k-means++ and about random rows in turn.
        assignment: "soft", or "hard": a row without a label contributes its most probable class alone,
            log max_k p(x, k | Q), as in k-means.
        unlabelled_weight: the weight of a row without a label, relative to a row with one (EM-lambda). Where the model
            is wrong, many rows without labels can outvote the labels.
        objective: "joint", log p(X, y | Q): generative training. "conditional", log p(y | X, Q): discriminative
            training, which ignores rows without labels, and refuses `starts` and `unlabelled_weight`.
            `Hybrid(coupling)` is between the two.

    One search from the joint fit maximises the last two objectives. It needs the rows, so that `Summaries` are refused
    and the fits cannot be updated. Many processes may have the same p(y | x); the fit is the process that the search
    reaches. Where covariances are tied, it has that of the joint fit, and the search is one for log odds. Where y is a
    class, `fit.attributes["unidentified_directions"]` counts the directions in which p(y | x) of the training rows does
    not change there (None where they are too many to count). `fit.attributes["objective"]` is the objective at the fit;
    for "conditional", "objective_of_joint_fit" is the objective at the joint fit. Where classes are separable, log p(y
    | X, Q) has no maximum, and the fit is refused. Where y is continuous, "conditional" needs log p(x | Q) in closed
    form, so the columns must not be made from y.

    Without labels the likelihood of variances that are not pooled is unbounded: starts that lead to a singular class
    are dropped and counted, in `fit.attributes["num_starts_dropped"]`.

    Source: Nigam, McCallum, Thrun and Mitchell (2000), Text classification from labeled and unlabeled documents using
    EM, section 5; Celeux and Govaert (1992), A classification EM algorithm, for hard assignments; Minka (2005),
    Discriminative models, not discriminative training.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [7.0], [9.0], [1.5], [8.5], [2.5], [7.5]], ["low", "low", "high", "high"] + 4 * [None]
    >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    >>> fit.parameters["real_mean"].round(2).tolist()
    [[8.0], [1.75]]
    >>> X, y = [[1.0], [2.0], [4.5], [3.5], [7.0], [9.0]], ["low", "low", "low", "high", "high", "high"]
    >>> fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MLE(objective="conditional"))
    >>> bg.predict(fit, [[4.0]], rule=bg.PlugIn()).probabilities.round(3).tolist()  # as logistic regression has it
    [[0.456, 0.544]]
    """

    has_prior = False
