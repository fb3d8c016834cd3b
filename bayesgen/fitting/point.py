"""`MLE` and `MAP`: the process at a maximum of an objective, in closed form, by EM or by search."""

import dataclasses
import itertools
import numbers
from collections.abc import Iterable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import DataError, FitError, ModelError
from bayesgen.families import Advice
from bayesgen.labels import Learned
from bayesgen.models import Conjugate
from bayesgen.posteriors import Point
from bayesgen.program import PRIOR_STARTS, OfStatistics, Prior, ProgramDensity, dispersed_starts
from bayesgen.records import copied, fill
from bayesgen.runtime import as_key, generator, placed
from bayesgen.solvers import climb, evaluator_of, maximize
from bayesgen.statistics import Classes, SufficientStatistics, merged
from bayesgen.typing import Float

from .discriminative import conditional_fit, hybrid_fit
from .em import CompleteDataObjective, Options, search_by_em
from .exact import Exact
from .fit import Fit
from .nuts import NUTS
from .problem import FiniteProblem, Method, ProgramProblem
from .starts import GivenClasses, GivenParameters, are_parameters, groupings, rows_of_classes


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

    `MLE` leaves p(Q) out. The fit is Q; Q~ is `fit.attributes["other_parameters"]`. Both are taken in unconstrained
    coordinates. Their units are C, the inverse of the curvature of the joint log density of one row, where the joint
    fit is: so a distance of d means a Kullback-Leibler divergence of about d^2 / 2 a row, for all units of columns
    and numbers of rows. The prior counts once: as the coupling goes to 0, the two processes are one, the
    joint fit of all rows; as it grows, Q is the fit by objective="conditional".

    Args:
        coupling: standard deviation of the distance between the two, in these units; positive.

    Raises:
        ModelError: a coupling that is not a positive number.

    Source: Lasserre, Bishop and Minka (2006), Principled hybrids of generative and discriminative models, section 3;
    there the prior counts twice, and coordinates are plain.

    >>> import bayesgen as bg
    >>> X = [[1.0], [2.0], [4.5], [3.5], [7.0], [9.0], [1.5], [8.5]]
    >>> y = ["low", "low", "low", "high", "high", "high", None, None]
    >>> fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MAP(objective=bg.Hybrid(1.0)))
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
    known = OBJECTIVES.get(objective) if isinstance(objective, str) else None
    if known is None:
        raise ModelError(f"objective must be one of {list(OBJECTIVES)} or Hybrid(coupling), got {objective!r}.")
    return known


ASSIGNMENTS = ("soft", "hard")
AVERAGING: tuple[Method, ...] = (Exact(), NUTS())
GROUPINGS = 2  # among the starts of a search where no row has its label: by k-means++, and about random rows
FIRST_STARTS = 2  # of a search for complete data, whose density seldom has several maxima
LABELLED_STARTS, UNLABELLED_STARTS = 4, 8  # if every row has its label, likelihoods seldom have several maxima


@dataclasses.dataclass(frozen=True)
class PointMethod(Method):
    """A method whose fit is a point. See `MLE` and `MAP` for its arguments."""

    has_prior: ClassVar[bool]
    """Whether the prior counts."""

    num_starts: int | None = None
    starts: Any = None
    assignment: str = "soft"
    unlabelled_weight: float = 1.0
    objective: Any = "joint"

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.num_starts is not None:
            self.check_counts(num_starts=self.num_starts)
        if self.assignment not in ASSIGNMENTS:
            raise ModelError(f"{name}: assignment must be one of {list(ASSIGNMENTS)}, got {self.assignment!r}.")
        weight = self.unlabelled_weight
        if not isinstance(weight, numbers.Real) or isinstance(weight, bool) or not 0 <= weight < np.inf:
            raise ModelError(f"{name}: unlabelled_weight must be a finite number and at least 0, got {weight!r}.")
        if self.starts is not None and not isinstance(self.starts, GivenClasses | GivenParameters):
            fill(self, starts=(GivenParameters if are_parameters(self.starts) else GivenClasses)(self.starts))
        fill(self, objective=as_objective(self.objective))
        if self.needs_rows and self.assignment == "hard":
            raise ModelError(
                f"{name}: assignment='hard' is for objective='joint' alone, which is what k-means maximises."
            )
        stated = {"starts": isinstance(self.starts, GivenClasses), "unlabelled_weight": weight != 1}
        idle = [argument for argument, is_stated in stated.items() if is_stated]
        if idle and not self.objective.looks_at_unlabelled:
            raise ModelError(
                f"{name}: {' and '.join(idle)} {'is' if len(idle) == 1 else 'are'} for rows without labels, which have "
                f"no part in objective={self.objective!r}. Leave {'it' if len(idle) == 1 else 'them'} out, or use "
                "objective='joint' or Hybrid(coupling)."
            )

    def __repr__(self) -> str:
        fields = [field.name for field in dataclasses.fields(self) if field.name != "objective" or self.needs_rows]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"

    @property
    def needs_rows(self) -> bool:
        return self.objective.needs_rows

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

    @property
    def what(self) -> str:
        """The name of the joint density in messages."""
        return "posterior density" if self.has_prior else "likelihood"

    def solve_finite(self, problem: FiniteProblem[Learned]) -> Learned:
        return problem.maximised(self, self.has_prior)

    @property
    def prior(self) -> Prior:
        """The log prior density that is added to log-likelihoods: in the coordinates that are reported, or none."""
        return Prior.PARAMETERS if self.has_prior else Prior.NONE

    def joint_fit(self, problem: ProgramProblem) -> Fit:
        """The fit that maximises the joint density of rows and labels."""
        conjugate, statistics = problem.conjugate, self.counted(problem.data.statistics)
        if self.has_prior:
            problem.warn_of_constant_columns()
        elif conjugate is not None and statistics.unlabelled is None:
            conjugate.check_estimable(statistics)
        problem.warn_of_unnamed_classes()
        if conjugate is None or (self.has_prior and not conjugate.is_number):
            return problem.result(self, self._by_search(problem, statistics))
        objective = CompleteDataObjective.of(copied(conjugate, advice=_advice(problem, conjugate)), self.has_prior)
        if statistics.is_complete and self.starts is not None:
            raise DataError(
                f"{type(self).__name__}: starts= says where EM starts, and of data of which nothing is missing or "
                "hidden the maximum has a closed form. Leave it out."
            )
        if statistics.is_complete:
            return problem.result(self, Point(None, objective.maximum(statistics), conjugate))
        options = Options(self.climbs(is_labelled=False), self.starts, self.assignment == "hard")
        search = search_by_em(problem, conjugate, objective, statistics, options)
        point = Point(None, search.best.point, conjugate)
        return problem.result(self, point, search.attributes)

    def counted(self, statistics: SufficientStatistics) -> SufficientStatistics:
        """The statistics, rows without labels with their weights in the objective."""
        rows = statistics.unlabelled
        if rows is None and isinstance(self.starts, GivenClasses):
            raise DataError(
                f"{type(self).__name__}: starts= says where to start looking for the classes of rows without labels, "
                "and every row has its label. Leave it out."
            )
        if rows is None or self.unlabelled_weight == 1:
            return statistics
        assert rows.weights is not None
        weighted = dataclasses.replace(rows, weights=rows.weights * self.unlabelled_weight)
        return dataclasses.replace(statistics, unlabelled=weighted if self.unlabelled_weight else None)

    def joint_density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> ProgramDensity:
        """The density that a joint fit of a program maximises."""
        data = OfStatistics(statistics, hard=self.assignment == "hard")
        return ProgramDensity(problem.program, (data,), self.prior)

    def _by_search(self, problem: ProgramProblem, statistics: SufficientStatistics) -> Point:
        """The point at the maximum of the density of the problem's program.

        Raises:
            FitError: where the density is unbounded or its mode not unique; names the site.
        """
        program, density = problem.program, self.joint_density(problem, statistics.padded())
        if density.dimension == 0:
            raise FitError(
                "There is nothing to learn: the program has no continuous latent site, so it is one known process. Ask "
                "it for program.log_joint({}, X)."
            )
        with jax.enable_x64(True), placed(density.cost):
            if isinstance(self.starts, GivenParameters):
                origin = density.constrain(jnp.zeros(density.dimension))
                others = program.parameters_of({name: origin[name] for name in program.latents})
                starts, num_searches = self.starts.vectors(program, others), len(self.starts.given)
            else:
                starts, num_searches = self._starts_of_search(problem, statistics, density)
            optimum = maximize(density, starts, num_searches)
            optimum.check(density, self.what)
            values = density.constrain(jnp.asarray(optimum.vector))
        return Point(program, program.parameters_of({name: np.asarray(value) for name, value in values.items()}))

    def _starts_of_search(
        self, problem: ProgramProblem, statistics: SufficientStatistics, density: ProgramDensity
    ) -> tuple[Float[np.ndarray, "starts D"], int]:
        """The starts of a search, and how many of them are searched from. Inside float64.

        Where labels are missing, searches start at the maxima for complete data, and at dispersed points where more are
        wanted.
        """
        complete = _complete_data(problem, statistics, self.starts)
        num_searches = len(complete) if self.starts else self.climbs(statistics.unlabelled is None)
        others = dispersed_starts(problem.program, problem.seed, max(PRIOR_STARTS, num_searches))
        if density.has_symmetries:  # at the origin all components are equal, and a search from there ends at a saddle
            others = others[1:]
        of_complete = (density.given(OfStatistics(each.padded())) for each in complete)
        tops = [climb(evaluator_of(each), others[:FIRST_STARTS])[0].vector[None] for each in of_complete]
        starts = np.concatenate([*tops, others])
        return starts[:num_searches] if len(tops) >= num_searches else starts, num_searches

    def climbs(self, is_labelled: bool = True) -> int:
        """The number of starts of a search, where every row has its label and where some have none."""
        return self.num_starts or (LABELLED_STARTS if is_labelled else UNLABELLED_STARTS)


def _advice(problem: ProgramProblem, conjugate: Conjugate) -> Advice:
    """Recommendations for messages: the first averaging method that solves the problem."""
    answering = [f"{type(method).__name__}()" for method in AVERAGING if method.refusal(problem) is None]
    if problem.has_labels:
        without_class = Advice.without_class
    else:
        without_class = "leave that column out" if conjugate.class_prior is None else "ask for fewer components"
    return Advice(answering[0] if answering else "MAP()", without_class)


def _complete_data(
    problem: ProgramProblem, statistics: SufficientStatistics, starts: GivenClasses | None
) -> list[SufficientStatistics]:
    """Complete data at whose maxima a search starts: the labelled rows, or all rows with classes as given.

    Rows without labels are kept with weight 0, so that the compiled density is that of the incomplete data.
    """
    data, rows = problem.data, statistics.unlabelled
    if rows is None:
        return []
    silent = dataclasses.replace(rows, weights=np.zeros(rows.num_rows))
    labelled = dataclasses.replace(statistics, unlabelled=silent)
    if starts is None and statistics.class_weights.any():
        return [labelled]
    if starts is None:
        rng = generator(as_key(problem.seed))
        given: Iterable[Classes] = itertools.islice(groupings(rows, None, problem.program.num_classes, rng), GROUPINGS)
    else:
        assert data.unlabelled_places is not None
        given = starts.classes(data.scaled_schema, data.num_rows, data.unlabelled_places)
    return [merged([labelled, data.model.summarize(data.schema, rows_of_classes(rows, classes))]) for classes in given]


@dataclasses.dataclass(frozen=True, repr=False)
class MAP(PointMethod):
    """Maximum a posteriori: argmax_Q p(Q | T), the first of the two steps.

    For built-in models the joint mode over probabilities, rates, means and variances or covariances, in closed form
    where no hyperparameter is a distribution and every row has its label (jointly normal ones all cells); by EM where
    labels or cells are missing. For a program of one's own, the mode of the density of its sample sites in the
    constrained space. A mode is not invariant: in other coordinates it is another process.

    Args:
        num_starts, starts, assignment, unlabelled_weight, objective: see `MLE`. The log prior counts once in all of
            them; it decides between processes with one p(y | x), and bounds the objective for separable classes, unless
            it is flat.
    """

    has_prior = True


@dataclasses.dataclass(frozen=True, repr=False)
class MLE(PointMethod):
    """Maximum likelihood: argmax_Q p(T | Q). The prior is ignored.

    Built-in models have it in closed form where every row has its label (and jointly normal ones all cells); else by
    EM. For a program of one's own the compressed likelihood is maximised from several starts. A row without label
    counts by its density, log sum_k p(x, k | Q).

    Args:
        num_starts: number of starting points, where it is a search or EM; None for 8 where labels are missing, else 4.
        starts: starting points of EM: labels (n,) or responsibilities (n, K) of the rows of X, which are used for rows
            without labels, or a list of such arrays. Or parameters, as a mapping from names to arrays, or a list of
            these, which also start the search of a program of one's own. A parameter that a mapping lacks has its
            value at the default start of EM (of a search: at the origin of the unconstrained space). None starts at the
            posterior centre of the labelled rows, and at those with one random row more in each class; where no row
            has a label, at rows grouped by k-means++ and about random rows in turn.
        assignment: "soft", or "hard": a row without label counts by its most probable class alone, log max_k
            p(x, k | Q), which is what k-means maximises.
        unlabelled_weight: how much a row without label counts, of a row with one (EM-lambda). Where the model is wrong,
            many of them can outvote the labels.
        objective: "joint", log p(X, y | Q): generative training. "conditional", log p(y | X, Q): discriminative
            training, in which rows without labels say nothing and are left out, so that `starts` and
            `unlabelled_weight` are refused. `Hybrid(coupling)` is between the two.

    The last two are found by one search from the joint fit, and need the rows: `Summaries` are refused, and their fits
    are not updated. Many processes may have one p(y | x): the one that the search reaches is returned. Where y is a
    class, `fit.attributes["unidentified_directions"]` counts the directions in which p(y | x) of the training rows does
    not change there (None beyond 1,200 dimensions). `fit.attributes["objective"]` is the objective at the fit, and for
    "conditional" "objective_of_joint_fit" that at the joint fit. Where classes are separable, log p(y | X, Q) has no
    maximum, and is refused. Where y is continuous, "conditional" needs log p(x | Q) in closed form, so the columns must
    not be made from y.

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
