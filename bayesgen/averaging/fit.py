"""`AverageFit`: an average of fits of several structures, which mixes their answers."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
import scipy.special

from bayesgen.data import Rows, RowsLike, Table, category_array, read_table, warn_of_unknown
from bayesgen.describe import Description, amount, counted, stated
from bayesgen.errors import DataError, FitError, PredictionError
from bayesgen.fitting import Fit, Summaries
from bayesgen.labels import AnyLabel
from bayesgen.posteriors import At, ParameterArrays, Posterior
from bayesgen.prediction import (
    BMA,
    ClassPrediction,
    ContinuousPrediction,
    DensityPrediction,
    PlugIn,
    Rule,
    answer,
    in_chunks,
    joined,
)
from bayesgen.predictives import MixturePredictive
from bayesgen.program import Conjugate, Densities
from bayesgen.records import by_content
from bayesgen.runtime import as_key, used
from bayesgen.typing import Data, Float, Int, Seed, Shaped, Values

if TYPE_CHECKING:
    import xarray

Mixes = Literal["joint", "conditional", "marginal"]
AnyPrediction = ClassPrediction | ContinuousPrediction | DensityPrediction
WITHOUT_CLASSES = (
    "The members of this average have classes, or components, of their own or none at all, and it has none: there are "
    "no class "
    "probabilities or responsibilities. Its densities are answer.log_marginal; for responsibilities ask one member, "
    "predict(fit.best, X, rule=...)."
)


WITHOUT_DRAWS = (
    "An average over structures has no draws, because its members have no parameters in common. Predict with BMA(), or "
    "take draws from one member: fit.members[i]."
)
WITHOUT_A_TABLE = (
    "The members of this average have classes, or components, of their own, so it has no table of classes. Ask for "
    "densities, predict(fit, X, rule=BMA()).log_marginal, or ask one member."
)


@by_content
class AveragePosterior(Posterior):
    """Several posteriors, each with a weight.

    Generative story, for weights that are posterior probabilities::

        structure ~ Categorical(weights)
        process   ~ the posterior of that structure
        x, y      ~ process

    Attributes:
        members: the posteriors.
        weights: (M,) nonnegative, summing to 1.
        mixes: the mixed density: "joint", p(x, y); "conditional", p(y | x), for weights learned on class probabilities,
            whose members may be densities of different data; or "marginal", p(x), for members with different classes.
        log_evidence: log p(X, y), structures marginalised; None where the weights are no posterior.
    """

    members: tuple[Posterior, ...]
    weights: Float[np.ndarray, " M"]
    mixes: Mixes = "joint"
    log_evidence: float | None = None

    @property
    def refusals(self) -> Mapping[str, str]:
        """Draws; and the predictive, where the members have no classes in common, and so no common table."""
        return {"draws": WITHOUT_DRAWS} | ({"predictive": WITHOUT_A_TABLE} if self.mixes == "marginal" else {})

    @property
    def parameters(self) -> ParameterArrays:
        """The parameters of the member with the largest weight."""
        return self.members[int(np.argmax(self.weights))].parameters

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        raise PredictionError(
            "An average over structures has no density by blocks. Ask one of its members, fit.best or fit.members[i]."
        )

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]:
        raise PredictionError("The members of an average read rows each in its own way: ask fit.log_joint(X, at=...).")


@by_content
class AverageFit(Fit[AnyLabel]):
    """An average of fits of several structures, made by `bayesgen.average`.

    Its schema, program, prior and parameters are those of the best structure. `PlugIn()` predicts by the best member,
    `BMA()` mixes the members' tables of classes, densities or distributions of a number.

    Attributes:
        members: the fits, in the order in which they were given.
        scores: log evidences, or sums of log scores of held-out rows, from which the weights are computed.
    """

    posterior: AveragePosterior
    members: tuple[Fit, ...] = dataclasses.field(default=(), repr=False)
    scores: Float[np.ndarray, " M"] | None = dataclasses.field(default=None, repr=False)

    def _description(self) -> Description:
        order = np.argsort(-self.weights, kind="stable")[:3]
        structures = {
            f"weight {self.weights[index]:.3f}, member {index}": stated(self.members[index].model) for index in order
        }
        fingerprints = {
            "method": self.method_in_words,
            "rows (total weight)": amount(self.best.attributes.get("total_weight")),
            "classes": counted(self.classes),
            "log evidence": amount(self.log_evidence),
            "approximate log evidence, which weights are made of": amount(self.approximate_log_evidence),
            **structures,
            "next": "predict(fit, X, rule=BMA()), fit.weights, fit.members, print(fit.best)",
        }
        return f"AverageFit of {len(self.members)} structures", fingerprints

    @property
    def weights(self) -> Float[np.ndarray, " M"]:
        """The weight of each member; under weights="evidence" its posterior probability."""
        return self.posterior.weights

    @property
    def best(self) -> Fit:
        """The member with the largest weight."""
        return self.members[int(np.argmax(self.weights))]

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The classes that all members share; empty where the members have different classes."""
        return super().classes if self.posterior.can("predictive") else category_array(())

    def log_joint(
        self,
        X: RowsLike,
        at: At | Literal["draws"] = "mean",
        rows: list[int] | Int[np.ndarray, " m"] | None = None,
        *,
        seed: Seed = 0,
    ) -> Float[np.ndarray, "*draws n K"]:
        """Log-joints of the best member; with at="predictive", log-joints of the mixture. See `Fit.log_joint`."""
        if self.concrete.response is not None:
            raise PredictionError(
                "An average of fits with a continuous label has no table of log-joints. Ask for "
                "predict(fit, X, rule=BMA()), its log_density(y) and log_marginal, or ask one member, fit.members[i]."
            )
        if not isinstance(at, str) or at not in ("predictive", "draws"):
            return self.best.log_joint(X, at, rows)
        self.posterior.require(at)
        table = X if isinstance(X, Table) else read_table(X)
        table = table if rows is None else table.rows(np.asarray(rows))
        log_joint = self._predictive(table)
        if not isinstance(X, Table):
            warn_of_unknown(table.unknown_cells)
        return log_joint

    def _predictive(self, table: Table) -> Float[np.ndarray, "n K"]:
        """The table of the mixture of the members' predictives."""
        counting = np.flatnonzero(self.weights)
        members = [self.members[index] for index in counting.tolist()]
        read = [table, *(read_table(table) for _ in members[1:])]  # so that unknown values are counted once
        tables = [
            member._predictive(part)
            if isinstance(member, AverageFit)
            else member.log_joint(member.rows_of(part), at="predictive")
            for member, part in zip(members, read, strict=True)
        ]
        if self.posterior.mixes == "conditional":
            tables = [log_conditional(table_of_member) for table_of_member in tables]
        return log_mixture(np.log(self.weights[counting]), tables)

    def update(
        self,
        X: Data | Summaries,
        y: Values | None = None,
        *,
        sample_weight: Values | None = None,
        seed: Seed = 0,
        progress: bool | None = None,
    ) -> "AverageFit":
        """The average of the updated members, with weights by their new evidences. See `Fit.update`."""

        options: dict[str, Any] = {"sample_weight": sample_weight, "seed": seed, "progress": progress}
        return self._reweighted(X, lambda fit: fit.update(X, y, **options))

    def add_class(
        self,
        label: Any,
        X: Data,
        *,
        sample_weight: Values | None = None,
        seed: Seed = 0,
        progress: bool | None = None,
    ) -> "AverageFit":
        """The average of the members with one more class, with new weights. See `Fit.add_class`."""

        options: dict[str, Any] = {"sample_weight": sample_weight, "seed": seed, "progress": progress}
        return self._reweighted(X, lambda fit: fit.add_class(label, X, **options))

    def _reweighted(self, X: Data | Summaries, learn: Callable[[Fit], Fit]) -> "AverageFit":
        """The average of the members trained further, with new weights."""
        if self.method.needs_rows:
            raise FitError(
                "The weights of this average were learned on rows left out of all rows, which it does not keep. Let "
                "each member learn, fit.members[0].update(X, y) and so on, and average the members with X= and y= of "
                "all rows."
            )
        check_rereadable(X)
        return self.method.mix([learn(fit) for fit in self.members], None, None)

    def simulate(self, n: int, *, seed: Seed = 0, **covariates: Any) -> Any:
        """Generate n instances from one process of one structure, chosen by weight. See `Fit.simulate`."""
        first, second = jax.random.split(as_key(seed))
        index = int(np.searchsorted(np.cumsum(self.weights), float(jax.random.uniform(first)), side="right"))
        return self.members[min(index, len(self.members) - 1)].simulate(n, seed=second, **covariates)

    def to_datatree(self, X: RowsLike | None = None, y: Values | None = None, **options: Any) -> "xarray.DataTree":
        """Export to an `xarray.DataTree`: the group `structures`, and one group with the export of each member.

        `structures` holds `weight` and `score` along `member`; the groups are called member_0, member_1, ... The
        arguments are those of `Fit.to_datatree`.
        """
        import xarray

        names = [f"member_{index}" for index in range(len(self.members))]
        about = {"member": names, "model": ("member", [repr(fit.model) for fit in self.members])}
        values = {"weight": ("member", self.weights), "score": ("member", self.scores)}
        trees = {name: fit.to_datatree(X, y, **options) for name, fit in zip(names, self.members, strict=True)}
        return xarray.DataTree.from_dict({"structures": xarray.Dataset(values, about), **trees})


def check_rereadable(X: Data | Summaries) -> None:
    """DataError for data that can be read only once, such as a generator: each member of an average reads them."""
    if hasattr(X, "__next__"):
        raise DataError("An average reads the data once for each of its members: give an iterable of chunks as a list.")


@answer.register
def _(fit: AverageFit, rule: Rule, table: Table) -> AnyPrediction:
    """`PlugIn` asks the best member, `BMA` mixes the answers of all; other rules ask the average itself."""
    posterior, has_joint = fit.posterior, fit.posterior.can("predictive")
    if isinstance(rule, PlugIn):
        best = answer(fit.best, rule, table)
        return best if has_joint else mixture([best], np.zeros(1), posterior.mixes)
    if fit.concrete.response is None and has_joint:
        numbers_per_row = (1 + len(fit.members)) * len(fit.classes)
        prediction = joined(in_chunks(fit, table, numbers_per_row, lambda part: rule.apply(fit, part)))
        return dataclasses.replace(prediction, device=used(), index=table.index)
    if has_joint and not (isinstance(rule, BMA) and not rule.entropy_draws):
        posterior.require("draws")
    if not isinstance(rule, BMA):
        raise PredictionError(
            f"An average of fits without labels predicts densities, by PlugIn() or BMA(), and {type(rule).__name__}() "
            "is neither: its members have no classes in common to average over. Use BMA()."
        )
    members = [member for member, weight in zip(fit.members, fit.weights, strict=True) if weight > 0]
    rules = [PlugIn() if member.posterior.is_point else rule for member in members]
    tables = [table, *(read_table(table) for _ in members[1:])]  # so that unknown values are counted once
    answers = list(map(answer, members, rules, tables))
    return mixture(answers, np.log(fit.weights[fit.weights > 0]), posterior.mixes)


def mixture(answers: Sequence[Any], log_weights: Float[np.ndarray, " M"], mixes: Mixes) -> AnyPrediction:
    """The mixture of densities of the same rows, or of distributions of a number.

    Of densities, sum_m weight_m p_m(x). Of numbers, p(y | x) = sum_m weight_m p_m(x, y) / sum_m weight_m p_m(x), where
    the joints are mixed and the members model x; else p(y | x) = sum_m weight_m p_m(y | x).
    """
    first, log_marginals = answers[0], [part.log_marginal for part in answers]
    if mixes == "marginal":
        return DensityPrediction(log_mixture(log_weights, log_marginals), WITHOUT_CLASSES, used())
    log_shares: Float[np.ndarray, "M n"] = log_weights[:, None] + np.zeros(len(first))
    marginal: Float[np.ndarray, " n"] | None = None
    if mixes == "joint" and all(values is not None for values in log_marginals):
        marginal = log_mixture(log_weights, log_marginals)
        log_shares = log_shares + np.stack(log_marginals) - marginal
    predictive = MixturePredictive(log_shares, tuple(part.outcomes for part in answers))
    return ContinuousPrediction(predictive, marginal, device=first.device, index=first.index)


def log_mixture(
    log_weights: Float[np.ndarray, " M"], logs: Sequence[Float[np.ndarray, "n ..."]]
) -> Float[np.ndarray, "n ..."]:
    """Logs of weighted sums of exponentials."""
    terms = [log_weight + values for log_weight, values in zip(log_weights, logs, strict=True)]
    return np.asarray(scipy.special.logsumexp(terms, axis=0))


def log_conditional(table: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K"]:
    """log p(y | x) from log-joints; -inf for all classes of a row that is impossible under all of them."""
    with np.errstate(invalid="ignore"):
        conditional = table - scipy.special.logsumexp(table, axis=1, keepdims=True)
    return np.where(np.isnan(conditional), -np.inf, conditional)


def average_fit(
    fits: Sequence[Fit],
    weights: Float[np.ndarray, " M"],
    scores: Sequence[float | None] | Float[np.ndarray, " M"],
    method: Any,
    *,
    mixes: Mixes,
    log_evidence: float | None = None,
    approximate_log_evidence: float | None = None,
) -> AverageFit:
    """The average of fits with these weights."""
    fits, best = tuple(fits), fits[int(np.argmax(weights))]
    return AverageFit(
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
