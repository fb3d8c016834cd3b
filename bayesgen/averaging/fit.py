"""`AverageFit`: an average of fits of several structures."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
import scipy.special

from bayesgen.data import Rows, Table, category_array, read_table
from bayesgen.describe import amount, counted, described
from bayesgen.errors import DataError, FitError, PredictionError
from bayesgen.fitting import Fit
from bayesgen.labels import AnyLabel
from bayesgen.posteriors import At, AveragePosterior, Mixes, rows_of_members
from bayesgen.prediction import BMA, ContinuousPrediction, DensityPrediction, PlugIn, Rule, answer, log_densities
from bayesgen.predictives import MixturePredictive
from bayesgen.records import by_content
from bayesgen.runtime import as_key, used
from bayesgen.typing import Float, Int, Seed, Shaped

if TYPE_CHECKING:
    import xarray

WITHOUT_CLASSES = (
    "The members of this average have classes, or components, of their own or none at all, and it has none: there are "
    "no class "
    "probabilities or responsibilities. Its densities are answer.log_marginal; for responsibilities ask one member, "
    "predict(fit.best, X, rule=...)."
)


@by_content
class AverageFit(Fit[AnyLabel]):
    """An average of fits of several structures, as `bayesgen.average` makes it.

    Its schema, program, prior and parameters are those of the best structure.

    Attributes:
        members: the fits, in the order in which they were given.
        scores: log evidences, or sums of log scores of held-out rows, from which the weights are computed.
    """

    posterior: AveragePosterior
    members: tuple[Fit, ...] = dataclasses.field(default=(), repr=False)
    scores: Float[np.ndarray, " M"] | None = dataclasses.field(default=None, repr=False)

    def __repr__(self) -> str:
        order = np.argsort(-self.weights, kind="stable")[:3]
        structures = {
            f"weight {self.weights[index]:.3f}, member {index}": repr(self.members[index].model) for index in order
        }
        fingerprints = {
            "method": repr(self.method),
            "rows (total weight)": amount(self.best.attributes.get("total_weight")),
            "classes": counted(self.classes),
            "log evidence": amount(self.log_evidence),
            "approximate log evidence, which weights are made of": amount(self.approximate_log_evidence),
            **structures,
            "next": "predict(fit, X, rule=BMA()), fit.weights, fit.members, fit.best",
        }
        return described(f"AverageFit of {len(self.members)} structures", fingerprints)

    @property
    def weights(self) -> Float[np.ndarray, " M"]:
        """The weight of each member; under weights="evidence" its posterior probability."""
        return self.posterior.weights

    @property
    def best(self) -> Fit:
        """The member with the largest weight."""
        return self.members[int(np.argmax(self.weights))]

    def rows_of(self, table: Table) -> Rows:
        """The rows of a table as read by each member, together."""
        return rows_of_members([fit.rows_of(table) for fit in self.members])

    def update(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, seed: Seed = 0, progress: bool | None = None
    ) -> "AverageFit":
        """The average of the updated members, with weights by their new evidences. See `Fit.update`."""
        more = {"sample_weight": sample_weight, "seed": seed, "progress": progress}
        return self._reweighted(X, lambda fit: fit.update(X, y, **more))

    def add_class(
        self, label: Any, X: Any, *, sample_weight: Any = None, seed: Seed = 0, progress: bool | None = None
    ) -> "AverageFit":
        """The average of the members with one more class, with new weights. See `Fit.add_class`."""
        more = {"sample_weight": sample_weight, "seed": seed, "progress": progress}
        return self._reweighted(X, lambda fit: fit.add_class(label, X, **more))

    def _reweighted(self, X: Any, learn: Callable[[Fit], Fit]) -> "AverageFit":
        """The average of the members trained further, with new weights."""
        if self.method.needs_rows:
            raise FitError(
                "The weights of this average were learned on rows left out of all rows, which it does not keep. Let "
                "each member learn, fit.members[0].update(X, y) and so on, and average the members with X= and y= of "
                "all rows."
            )
        check_rereadable(X)
        return self.method.mix([learn(fit) for fit in self.members], None, None)

    def simulate(self, n: int, *, seed: Seed = 0, **covariates: Any) -> dict[str, np.ndarray]:
        """Generate n instances from one process of one structure, chosen by weight. See `Fit.simulate`."""
        first, second = jax.random.split(as_key(seed))
        index = int(np.searchsorted(np.cumsum(self.weights), float(jax.random.uniform(first)), side="right"))
        return self.members[min(index, len(self.members) - 1)].simulate(n, seed=second, **covariates)

    def to_datatree(self, num_draws: int = 1000, seed: Seed = 0) -> "xarray.DataTree":
        """Export to an `xarray.DataTree`: `structures`, and a group for each member, as its own export.

        `structures` holds `weight` and `score` along `member`; the groups are called member_0, member_1, ...
        """
        import xarray

        names = [f"member_{index}" for index in range(len(self.members))]
        about = {"member": names, "model": ("member", [repr(fit.model) for fit in self.members])}
        values = {"weight": ("member", self.weights), "score": ("member", self.scores)}
        trees = {name: fit.to_datatree(num_draws, seed) for name, fit in zip(names, self.members, strict=True)}
        return xarray.DataTree.from_dict({"structures": xarray.Dataset(values, about), **trees})


def check_rereadable(X: Any) -> None:
    """DataError for data that can be read only once, such as a generator: each member of an average reads them."""
    if hasattr(X, "__next__"):
        raise DataError("An average reads the data once for each of its members: give an iterable of chunks as a list.")


@by_content
class AverageDensityFit(AverageFit):
    """An average of fits to rows without labels, such as mixtures of several numbers of components.

    Its predictions are densities of rows: `PlugIn()` gives that of the best member, `BMA()` sum_m weight_m p_m(x). Its
    members have different classes, so there are no class probabilities.
    """

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """Empty: classes belong to the members."""
        return category_array(())


@answer.register
def _(fit: AverageDensityFit, rule: Rule, X: Any) -> DensityPrediction:
    table = read_table(X, least_rows=0)
    if not isinstance(rule, PlugIn | BMA):
        raise PredictionError(
            f"An average of fits without labels predicts densities, by PlugIn() or BMA(), and {type(rule).__name__}() "
            "is neither: its members have no classes in common to average over. Use BMA()."
        )
    if isinstance(rule, PlugIn):
        densities = log_densities(fit.best, table, rule)
    else:
        parts = [
            np.log(weight) + log_densities(member, table, PlugIn() if member.posterior.is_point else rule)
            for weight, member in zip(fit.weights, fit.members, strict=True)
            if weight > 0
        ]
        densities = scipy.special.logsumexp(parts, axis=0)
    return DensityPrediction(densities, WITHOUT_CLASSES, used())


def average_fit(
    fits: Sequence[Fit],
    weights: Float[np.ndarray, " M"],
    scores: Sequence[float | None] | Float[np.ndarray, " M"],
    method: Any,
    *,
    mixes: Mixes,
    log_evidence: float | None = None,
    approximate_log_evidence: float | None = None,
    kind: type[AverageFit] | None = None,
) -> AverageFit:
    """The average of fits with these weights, of the kind that suits them."""
    fits = tuple(fits)
    best = fits[int(np.argmax(weights))]
    return (kind or (AverageDensityFit if mixes == "marginal" else AverageFit))(
        model=tuple(fit.model for fit in fits),
        schema=best.schema,
        method=method,
        posterior=AveragePosterior(tuple(fit.posterior for fit in fits), np.asarray(weights), mixes, log_evidence),
        concrete=best.concrete,
        attributes={"weights": tuple(np.asarray(weights).tolist())},
        approximate_log_evidence=approximate_log_evidence,
        members=fits,
        scores=np.asarray(scores),
    )


@by_content
class AverageResponseFit(AverageFit):
    """An average of fits with a continuous label.

    `PlugIn()` predicts by the best member. `BMA()` mixes predictive distributions: if weights are posterior and members
    model x, p(y | x) = sum_m weight_m p_m(x, y) / sum_m weight_m p_m(x); else, as for weights from held-out rows,
    p(y | x) = sum_m weight_m p_m(y | x).
    """

    def log_joint(
        self, X: Any, at: At | Literal["draws"] = "mean", rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "*draws n K"]:
        """Refused: members may model other columns."""
        raise PredictionError(
            "An average of fits with a continuous label has no table of log-joints. Ask for "
            "predict(fit, X, rule=BMA()), its log_density(y) and log_marginal, or ask one member, fit.members[i]."
        )


@answer.register
def _(fit: AverageResponseFit, rule: Rule, X: Any) -> ContinuousPrediction:
    table = read_table(X, least_rows=0)
    if isinstance(rule, PlugIn):
        best: ContinuousPrediction = answer(fit.best, rule, table)
        return best
    if not isinstance(rule, BMA):
        raise PredictionError(fit.posterior.refusals["draws"])
    counting = np.flatnonzero(fit.weights > 0)
    answers: list[ContinuousPrediction] = [answer(fit.members[index], rule, table) for index in counting]
    with np.errstate(divide="ignore"):
        log_weights = np.log(fit.weights[counting])[:, None] + np.zeros((1, table.num_rows))
    marginals = [one.log_marginal for one in answers if one.log_marginal is not None]
    log_marginal: Float[np.ndarray, " n"] | None = None
    if len(marginals) == len(answers) and fit.posterior.mixes == "joint":
        log_weights = log_weights + np.stack(marginals)
        log_marginal = scipy.special.logsumexp(log_weights, axis=0)
        log_weights = log_weights - log_marginal
    predictive = MixturePredictive(log_weights, tuple(one.outcomes for one in answers))
    return ContinuousPrediction(predictive, log_marginal, device=answers[0].device, index=table.index)
