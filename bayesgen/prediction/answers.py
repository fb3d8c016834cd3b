"""Answers of predictions: of classes, of a continuous label, and densities of rows."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from bayesgen.data import as_array, check_index, labelled, named_classes, probability_names
from bayesgen.describe import Described, Description, shortened
from bayesgen.errors import PredictionError, as_numbers, check_integer
from bayesgen.predictives import PredictiveDistribution, joined_predictives
from bayesgen.records import by_content
from bayesgen.runtime import THREAD_CELLS, all_in_threads, as_key, chunks, even_chunks, generator
from bayesgen.statistics import MOST_MAGNITUDE
from bayesgen.typing import Bool, Float, Seed, Shaped, Values

from .scorers import ClassScorer, ContinuousScorer

if TYPE_CHECKING:
    import pandas as pd


@by_content
class ClassPrediction(Described):
    """Class probabilities of n new rows.

    Attributes:
        log_probabilities: log p(y = k | x); NaN for a row that is impossible under every class.
        classes: the labels in the order of the columns, of the labels' own type; empty for a program without classes,
            whose table has one column.
        log_marginal: log p(x) by the rule.
        standard_error: Monte Carlo standard error of each probability; None where it is exact.
        expected_entropy: posterior mean of the entropy of p(y | x, Q), in nats; None for a plug-in.
        pareto_k: tail index of the weights of draws, for `BMA` from draws. Above 0.7, few draws decide the answer of
            the row; 0 where the weights are even; NaN where they are uneven but were not examined. None for other rules
            and fits. See `bayesgen.prediction.averages`.
        device: "cpu" or "gpu", where it was computed.
        mutual_information_error: Monte Carlo standard error of the mutual information; None without one.
        is_robust: whether the probabilities would be practically the same for any weight of the heaviest draws; True
            where `pareto_k` is small, None where it is None. See `bayesgen.prediction.averages.are_robust`.
        index: the index of X, if X is a pandas frame; `to_frame` keeps it. Else None.
    """

    log_probabilities: Float[np.ndarray, "n K"]
    classes: Shaped[np.ndarray, " labels"]
    log_marginal: Float[np.ndarray, " n"]
    standard_error: Float[np.ndarray, "n K"] | None = None
    expected_entropy: Float[np.ndarray, " n"] | None = None
    pareto_k: Float[np.ndarray, " n"] | None = None
    device: str = "cpu"
    mutual_information_error: Float[np.ndarray, " n"] | None = None
    is_robust: Bool[np.ndarray, " n"] | None = None
    index: "pd.Index | None" = None

    def _description(self) -> Description:
        title = f"ClassPrediction of {_size(self.log_marginal)} by {len(self.classes)} classes"
        return title, self._lines() if self.log_marginal.size else {}

    def _lines(self) -> dict[str, str | None]:
        """The lines of `repr`, by name."""
        named = named_classes(self.log_probabilities)
        impossible = int(np.count_nonzero(named < 0))
        codes, counts = np.unique(named[named >= 0], return_counts=True)
        labels = self.classes[codes].tolist()
        top = [(labels[place], counts[place]) for place in np.argsort(-counts, kind="stable")]
        highest = np.exp(self.log_probabilities[named >= 0].max(axis=1))
        return {
            "labels": ", ".join(f"{label!r} {count:,} times" for label, count in top[:5])
            + (f" and {len(top) - 5} more" if len(top) > 5 else ""),
            "their probabilities": f"{highest.min():.3f} to {highest.max():.3f}, mean {highest.mean():.3f}"
            if highest.size
            else None,
            "standard error": _at_most(self.standard_error, ", as draws are finitely many"),
            "pareto k": _at_most(self.pareto_k, "; above 0.7, few draws decide the answer of a row"),
            "impossible rows": f"{impossible:,}, which every class rules out: their probabilities are NaN"
            if impossible
            else None,
            "next": "answer.probabilities, answer.labels, answer.to_frame()",
        }

    @property
    def probabilities(self) -> Float[np.ndarray, "n K"]:
        """Class probabilities; rows sum to 1."""
        return _exp(self.log_probabilities)

    @property
    def labels(self) -> Shaped[np.ndarray, " n"]:
        """The most probable class of each row, the first of several equal ones; None for a row of NaN.

        An array in the order of the rows of X, so that `X.assign(label=answer.labels)` joins it to X by position. To
        join by the index of X, take `answer.to_frame()["label"]`.
        """
        return labelled(named_classes(self.log_probabilities), self.classes)

    @property
    def entropy(self) -> Float[np.ndarray, " n"]:
        """Entropy of the class probabilities, in nats: the total uncertainty about the label."""
        return scipy.special.entr(self.probabilities).sum(-1)

    @property
    def mutual_information(self) -> Float[np.ndarray, " n"] | None:
        """Entropy less expected entropy: the part of the uncertainty that more training data would remove.

        None for a plug-in. An exact fit needs draws for it: see `BMA`. It is never negative.
        """
        if self.expected_entropy is None:
            return None
        return np.maximum(self.entropy - self.expected_entropy, 0.0)

    def score(self, y: Values) -> dict[str, float | int]:
        """Scores against the true labels, by name: those of `compare`.

        `accuracy`; `log_score`, the mean of log p(y | x), higher is better; `brier` score (summed over classes, 0 to 2)
        and `ece`, the expected calibration error in 15 bins of equal mass, lower is better; the numbers of rows that
        are `impossible` under every class, and of others whose true class is `ruled_out`.

        Args:
            y: the label of each row; where X and y are of pandas, they have one index.

        Raises:
            DataError: missing or unknown labels; another number of labels than of rows, or another index.

        >>> import bayesgen as bg
        >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"], method=bg.Exact())
        >>> answer = bg.predict(fit, [[1.5], [8.0], [6.0]], rule=bg.BMA())
        >>> answer.score(["a", "b", "a"])["accuracy"]
        0.6666666666666666
        >>> answer.confusion(["a", "b", "a"])
        label  a  b
        truth
        a      1  1
        b      0  1
        """
        scorer = self._scorer(y)
        return scorer.scores(scorer.row_frame(self))

    def confusion(self, y: Values) -> "pd.DataFrame":
        """A frame of numbers of rows by true label and most probable one; column None: rows that are impossible.

        Args:
            y: the label of each row, as `score` takes it.
        """
        import pandas as pd

        codes = self._scorer(y).codes
        labels: Any = [*self.classes.tolist(), None]
        counts = np.zeros((len(labels) - 1, len(labels)), int)
        np.add.at(counts, (codes, named_classes(self.log_probabilities)), 1)
        size = len(labels) if counts[:, -1].any() else len(labels) - 1
        truth, label = (pd.Index(labels[:end], dtype=object, tupleize_cols=False) for end in (-1, size))
        return pd.DataFrame(counts[:, :size], truth.rename("truth"), label.rename("label"))

    def _scorer(self, y: Values) -> ClassScorer:
        if self.log_probabilities.ndim > 2 or not len(self.classes):
            raise PredictionError(
                "Scores by labels are those of the classes that one fit predicts: ask predict(batch[0], X, rule=...) "
                "for that of a batch, and answer.log_marginal where there are no classes."
            )
        check_index(self, y, "y")
        return ClassScorer.of(self.classes, None, y, len(self.log_probabilities), "y")

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame: the label, and a column of probabilities for each class ("p[label]" for a class "label").

        It has the index of X; of a batch of fits, the number of the data set before it.
        """
        names: list[Any] = probability_names(self.classes.tolist())
        columns = {"label": self.labels}
        columns |= {name: self.probabilities[..., index] for index, name in enumerate(names)}
        return _frame(columns, self.index)


def with_information(
    answer: ClassPrediction,
    averages: Mapping[str, Float[np.ndarray, "n ..."]],
    *,
    unknown: Bool[np.ndarray, " n"] | bool,
) -> ClassPrediction:
    """The prediction with its entropy split in the ratio of the draws.

    Args:
        answer: a prediction from these draws or an exact one.
        averages: `expected_share`, the share of the entropy that is expected entropy, and `information_error`.
        unknown: rows for which the draws carry no information, so that the error is infinite.
    """
    return dataclasses.replace(
        answer,
        expected_entropy=answer.entropy * averages["expected_share"],
        mutual_information_error=np.where(unknown, np.inf, averages["information_error"]),
    )


def _at_most(values: Float[np.ndarray, "..."] | None, meaning: str) -> str | None:
    """The largest of some numbers in words, with their meaning, and how many are infinite; None without numbers."""
    numbers = np.asarray([] if values is None else values, float)
    numbers, num_unknown = numbers[np.isfinite(numbers)], int(np.isposinf(numbers).sum())
    largest = [f"at most {numbers.max():.2g}{meaning}"] if numbers.size else []
    unknown = [f"not known of {num_unknown:,} numbers, for which the draws are too few"] if num_unknown else []
    return "; ".join(largest + unknown) or None


def _exp(logs: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Exponentials, 0 for logs below -746, which NumPy computes one by one, twenty times as slowly."""
    if logs.min(initial=0.0) > -746.0:
        return np.exp(logs)
    underflows = logs < -746.0
    return np.where(underflows, 0.0, np.exp(np.where(underflows, 0.0, logs)))


def normalize(log_joint: Float[np.ndarray, "n K"]) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, " n"]]:
    """Turn a table of log-joints into log probabilities and log marginals; a row of -inf becomes NaN."""
    log_probabilities, log_marginal = np.empty_like(log_joint), np.empty(len(log_joint))

    def fill(part: slice) -> None:
        joints, log_probs, totals = log_joint[part], log_probabilities[part], log_marginal[part]
        for rows in chunks(len(joints)):
            table = joints[rows].T.copy()  # with many rows along the last axis: of few classes, three times as fast
            top = table.max(axis=0)
            with np.errstate(invalid="ignore", divide="ignore"):
                table -= np.where(np.isneginf(top), 0.0, top)
                log_total = np.log(_exp(table).sum(0))
                log_probs[rows], totals[rows] = (table - log_total).T, top + log_total

    all_in_threads(fill, even_chunks(len(log_joint), THREAD_CELLS / 8 / log_joint.shape[1]))
    return log_probabilities, log_marginal


@by_content
class ContinuousPrediction(Described):
    """The distribution of the label y of n new rows, where it is a number or a count.

    Attributes:
        outcomes: p(y | x) of each row.
        log_marginal: log p(x) by the rule; None where x is given and not modelled.
        standard_error: Monte Carlo standard error of each mean; None where it is exact.
        pareto_k: tail index of the weights of draws, see `ClassPrediction`; None where draws have no weights.
        device: "cpu" or "gpu", where it was computed.
        index: the index of X, if X is a pandas frame; `to_frame` keeps it. Else None.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [3.0], [4.0]], [2.1, 3.9, 6.2, 7.9]
    >>> fit = bg.fit(bg.JointGaussianRegression(), X, y, method=bg.Exact())
    >>> answer = bg.predict(fit, [[2.5], [3.5]], rule=bg.BMA())
    >>> answer.mean.round(1).tolist(), answer.quantile([0.25, 0.75]).shape, answer.draws(3).shape
    ([5.0, 6.6], (2, 2), (3, 2))
    """

    outcomes: PredictiveDistribution
    log_marginal: Float[np.ndarray, " n"] | None = None
    standard_error: Float[np.ndarray, " n"] | None = None
    pareto_k: Float[np.ndarray, " n"] | None = None
    device: str = "cpu"
    index: "pd.Index | None" = None

    def __len__(self) -> int:
        return self.outcomes.num_rows

    def _description(self) -> Description:
        values = self.mean
        lines: dict[str, str | None] = {}
        if len(self):
            lines = {
                "means": f"{values.min():,.6g} to {values.max():,.6g}",
                "standard deviations": f"{self.std.min():,.6g} to {self.std.max():,.6g}",
                "standard error of the means": _at_most(self.standard_error, ", as draws are finitely many"),
                "next": "answer.mean, answer.interval(0.9), answer.log_density(y), answer.to_frame()",
            }
        return f"ContinuousPrediction of {_size(values)}", lines

    @functools.cached_property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Means of p(y | x); NaN where they do not exist."""
        return np.asarray(self.outcomes.mean)

    @functools.cached_property
    def std(self) -> Float[np.ndarray, " n"]:
        """Standard deviations of p(y | x); infinite where they do not exist."""
        return np.asarray(self.outcomes.std)

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Quantiles of each row; of counts the smallest whose probability of as many or fewer reaches q.

        Args:
            q: a probability in (0, 1), or (m,) of them.

        Returns:
            (n,), or (n, m).
        """
        probabilities = as_numbers("The probability of a quantile", q, PredictionError)
        if probabilities.ndim > 1 or not ((probabilities > 0) & (probabilities < 1)).all():
            raise PredictionError(f"quantile takes a probability between 0 and 1, or a list of them; got {q!r}.")
        if probabilities.ndim == 0:
            return np.asarray(self.outcomes.quantile(float(probabilities)))
        columns = [self.outcomes.quantile(float(probability)) for probability in probabilities]
        return np.stack(columns, -1) if columns else np.zeros((len(self), 0))

    def interval(self, prob: float = 0.9) -> Float[np.ndarray, "n 2"]:
        """Central intervals of this probability, with equal probabilities below and above."""
        if not isinstance(prob, float | np.floating) or not 0 < prob < 1:
            raise PredictionError(f"interval takes a probability between 0 and 1, got {prob!r}.")
        return self.quantile([(1 - prob) / 2, (1 + prob) / 2])

    def cdf(self, y: ArrayLike) -> Float[np.ndarray, "... n"]:
        """P(y_i <= y | x_i) for y one number, one value for each row (n,), or several values for each row (m, n)."""
        return np.asarray(self.outcomes.cdf(self._values(y)))

    def log_density(self, y: ArrayLike) -> Float[np.ndarray, "... n"]:
        """log p(y | x_i) for y one number, one value for each row (n,), or several values for each row (m, n).

        It is the log probability of a count.
        """
        return np.asarray(self.outcomes.log_density(self._values(y)))

    def crps(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """The continuous ranked probability score of the observed y, in its units: the smaller the better.

        ∫ (F(u) − 1[u ≥ y])² du, a proper score (Gneiting & Raftery 2007, eq. 20), to a relative error of about 1e-8;
        for counts the sum over whole numbers u. y is one number, or one value for each row (n,). The score is infinite
        where y is infinite, and NaN where y is NaN.
        """
        values = self._values(y)
        if values.ndim > 1:
            raise PredictionError(f"crps takes a number, or one for each row; y has shape {values.shape}.")
        values = np.broadcast_to(values, (len(self),))
        is_finite = np.isfinite(values)
        scores = np.asarray(self.outcomes.crps(np.where(is_finite, values, 0.0)))
        return scores + np.where(is_finite, 0.0, np.abs(values))

    def pit(self, y: ArrayLike, *, seed: Seed = 0) -> Float[np.ndarray, "... n"]:
        """The probability integral transform P(y_i <= y | x_i), uniform over rows where forecasts are calibrated.

        That of a count is drawn uniformly between P(y_i < y | x_i) and P(y_i <= y | x_i) (Czado, Gneiting & Held 2009,
        section 2).
        """
        upto, spacing = self.cdf(y), self.outcomes.spacing
        below = self.cdf(self._values(y) - spacing) if spacing else upto
        return below + (upto - below) * generator(as_key(seed)).random(upto.shape)

    def draws(self, n: int, *, seed: Seed = 0) -> Float[np.ndarray, "draws n"]:
        """n draws of y for each row, independent of each other."""
        check_integer("draws: n", n, 1, PredictionError)
        return np.asarray(self.outcomes.draws(generator(as_key(seed)), int(n)))

    def score(self, y: ArrayLike) -> dict[str, float | int]:
        """Scores against the true numbers, by name: those of `compare`.

        `log_score`, the mean of log p(y | x), higher is better; `rmse` of the means and `crps`, in the units of y,
        lower is better; `coverage_50` and so on, the shares of rows in their central intervals, and `width_50` and so
        on, the mean widths of these; numbers of rows that are `impossible`, and of others whose y is `ruled_out`.

        Args:
            y: the number of each row; where X and y are of pandas, they have one index.

        Raises:
            DataError: missing values; another number of values than of rows, or another index.
        """
        if self.mean.ndim > 1:
            raise PredictionError("These are the answers of several fits: score predict(batch[0], X, rule=...).")
        check_index(self, y, "y")
        scorer = ContinuousScorer.of(y, len(self), of_counts=self.outcomes.spacing > 0, name="y")
        return scorer.scores(scorer.row_frame(self))

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame: mean, standard deviation, median and the 90% interval of each row.

        It has the index of X; of a batch of fits, the number of the data set before it.
        """
        low, median, high = np.moveaxis(self.quantile([0.05, 0.5, 0.95]), -1, 0)
        columns = {"mean": self.mean, "std": self.std, "median": median, "lower": low, "upper": high}
        return _frame(columns, self.index)

    def _values(self, y: ArrayLike) -> Float[np.ndarray, "..."]:
        values = _as_numbers(y)
        check_index(self, y, "y")
        if values.ndim and values.shape[-1] != len(self):
            raise PredictionError(
                f"y has shape {values.shape}, and {len(self)} rows were predicted: give one number for each row, a "
                "number for all, or (m, n) for m values of each row."
            )
        return values


def _as_numbers(y: ArrayLike) -> Float[np.ndarray, "..."]:
    """Values of y as numbers; NaN is kept."""
    numbers = None
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # of objects that are not numbers
        values = as_array(y, "y")
        if values.dtype.kind in "iuf" or (values.dtype.kind == "O" and not _has_text(values)):
            numbers = values.astype(np.float64)
    if numbers is None:
        raise PredictionError(
            f"y must be a number, one for each row, or (m, n) for m values of each row; got {shortened(repr(y))}."
        )
    if (np.isfinite(numbers) & (np.abs(numbers) > MOST_MAGNITUDE)).any():
        raise PredictionError(f"y has numbers beyond {MOST_MAGNITUDE:g}, whose squares overflow. Rescale y.")
    return numbers


def _has_text(values: Shaped[np.ndarray, "..."]) -> bool:
    """Whether some objects are texts or truth values, which would be read as numbers."""
    return any(isinstance(value, str | bytes | bool | np.bool_) for value in values.ravel())


@by_content
class DensityPrediction(Described):
    """Densities of n new rows under a model without classes: a program with label=None, an average over mixtures.

    Attributes:
        log_marginal: log p(x) by the rule; -inf for an impossible row.
        without_classes: message for requests of class probabilities.
        device: "cpu" or "gpu", where it was computed.
    """

    log_marginal: Float[np.ndarray, " n"]
    without_classes: str
    device: str = "cpu"

    def _description(self) -> Description:
        values = self.log_marginal
        lines = {
            "log density": f"{values.min():,.6g} to {values.max():,.6g}, mean {values.mean():,.6g}"
            if values.size
            else None,
            "next": "answer.log_marginal",
        }
        return f"DensityPrediction of {_size(values)}", lines

    @property
    def probabilities(self) -> NoReturn:
        """Refused."""
        raise PredictionError(self.without_classes)

    @property
    def log_probabilities(self) -> NoReturn:
        """Refused."""
        raise PredictionError(self.without_classes)

    @property
    def labels(self) -> NoReturn:
        """Refused."""
        raise PredictionError(self.without_classes)


def _size(values: Float[np.ndarray, "*data_sets n"]) -> str:
    """How many rows, and of how many data sets, have values."""
    return " by ".join(
        f"{size:,} {name}" for size, name in zip(values.shape, NAMES_OF_AXES[-values.ndim :], strict=True)
    )


def _frame(columns: Mapping[str, Shaped[np.ndarray, "*data_sets n"]], index: "pd.Index | None") -> "pd.DataFrame":
    """A frame with a line for each row, or for each data set and row."""
    import pandas as pd

    *num_sets, num_rows = next(iter(columns.values())).shape
    rows: Any = pd.RangeIndex(num_rows) if index is None else index
    if num_sets:
        rows = pd.MultiIndex.from_product([range(*num_sets), rows], names=["data_set", rows.name or "row"])
    return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()}, index=rows)


Predicted = TypeVar("Predicted", ClassPrediction, ContinuousPrediction)
NAMES_OF_AXES = ("data sets", "rows")
OF_ALL_ROWS = ("classes", "device", "index", "without_classes")  # fields that are the same for all rows


def by_field(answers: Sequence[Any], make: Callable[[list[Any]], Any]) -> Any:
    """The answer whose fields are made of those of several answers; None where no answer has any.

    Args:
        answers: of one kind; None, and None for each field, where there is no answer.
        make: function of the values of a field in all answers.
    """
    some = next(answer for answer in answers if answer is not None)
    names = [field.name for field in dataclasses.fields(some) if field.name not in OF_ALL_ROWS]
    parts = {name: [getattr(answer, name, None) for answer in answers] for name in names}
    values_by_field = {name: values for name, values in parts.items() if any(value is not None for value in values)}
    return dataclasses.replace(some, **{name: make(values) for name, values in values_by_field.items()})


def joined(answers: Sequence[Predicted]) -> Predicted:
    """The prediction of all rows from those of successive chunks."""

    def join(parts: list[Any]) -> Any:
        return joined_predictives(parts) if isinstance(parts[0], PredictiveDistribution) else np.concatenate(parts)

    return answers[0] if len(answers) == 1 else by_field(answers, join)
