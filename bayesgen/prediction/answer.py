"""`ClassPrediction`: class probabilities of new rows, their errors and entropies."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special

from bayesgen.data import labelled
from bayesgen.describe import described
from bayesgen.records import by_content
from bayesgen.runtime import all_in_threads, chunks
from bayesgen.typing import Bool, Float, Int, Shaped

if TYPE_CHECKING:
    import pandas as pd

BY_ROW = (
    "log_probabilities",
    "log_marginal",
    "standard_error",
    "expected_entropy",
    "pareto_k",
    "is_robust",
    "mutual_information_error",
)


@by_content
class ClassPrediction:
    """Class probabilities of n new rows.

    Attributes:
        log_probabilities: log p(y = k | x); NaN for a row that is impossible under every class.
        classes: the labels in the order of the columns, of the labels' own type; empty for a program without classes,
            whose table has one column.
        log_marginal: log p(x) by the rule.
        standard_error: Monte Carlo standard error of each probability; None where it is exact.
        expected_entropy: posterior mean of the entropy of p(y | x, Q), in nats; None for a plug-in.
        pareto_k: tail index of the weights of draws, for BMA from draws: above 0.7 the row's answer depends on few
            draws; 0 where the weights are even, NaN where they are uneven and were not examined, None elsewhere. See
            `bayesgen.prediction.batches`.
        device: "cpu" or "gpu", where it was computed.
        mutual_information_error: Monte Carlo standard error of the mutual information; None where that is None.
        is_robust: whether the probabilities are practically the same for every weight of the heaviest draws, as where
            `pareto_k` is small; None where that is None. See `bayesgen.prediction.batches.are_robust`.
        index: the index of X if it is a pandas frame, which `to_frame` keeps; else None.
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

    def __repr__(self) -> str:
        title = f"ClassPrediction of {len(self.log_marginal)} rows by {len(self.classes)} classes"
        return described(title, self._lines() if len(self.log_marginal) else {})

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
            "standard error": _at_most(self.standard_error),
            "pareto k": _at_most(self.pareto_k),
            "impossible rows": f"{impossible:,}, whose probabilities are NaN" if impossible else None,
            "next": "answer.probabilities, answer.labels, answer.to_frame()",
        }

    @property
    def probabilities(self) -> Float[np.ndarray, "n K"]:
        """Class probabilities; rows sum to 1."""
        return np.exp(self.log_probabilities)

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
        return scipy.special.entr(self.probabilities).sum(1)

    @property
    def mutual_information(self) -> Float[np.ndarray, " n"] | None:
        """Entropy less expected entropy: the part of the uncertainty that more training data would remove.

        None for a plug-in. In an exact fit it takes draws: see `BMA`. It is never negative.
        """
        if self.expected_entropy is None:
            return None
        return np.maximum(self.entropy - self.expected_entropy, 0.0)

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame: the label, and a column of probabilities for each class. It has the index of X."""
        import pandas as pd

        columns = {"label": self.labels}
        columns |= {label: self.probabilities[:, index] for index, label in enumerate(self.classes.tolist())}
        return pd.DataFrame(columns, index=self.index)


def named_classes(log_probabilities: Float[np.ndarray, "n K"]) -> Int[np.ndarray, " n"]:
    """The index of the most probable class of each row, the first of equals; -1 for a row of NaN."""
    return np.where(np.isnan(log_probabilities).any(axis=1), -1, np.argmax(log_probabilities, axis=1))


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


def _at_most(values: Float[np.ndarray, "..."] | None) -> str | None:
    """The largest of some numbers in words; None where there are none."""
    known = np.asarray([] if values is None else values, float)
    known = known[~np.isnan(known)]
    return f"at most {known.max():.2g}" if known.size else None


def normalize(log_joint: Float[np.ndarray, "n K"]) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, " n"]]:
    """Turn a table of log-joints into log probabilities and log marginals; a row of -inf becomes NaN."""
    log_probabilities, log_marginal = np.empty_like(log_joint), np.empty(len(log_joint))

    def fill(rows: slice) -> None:
        log_probabilities[rows], log_marginal[rows] = _normalize(log_joint[rows])

    all_in_threads(fill, chunks(len(log_joint)))
    return log_probabilities, log_marginal


def _normalize(log_joint: Float[np.ndarray, "n K"]) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, " n"]]:
    top = log_joint.max(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = log_joint - np.where(np.isneginf(top), 0.0, top)[:, None]
        log_total = np.log(np.exp(shifted).sum(1))
        return shifted - log_total[:, None], top + log_total


def joined_class_predictions(answers: Sequence[ClassPrediction]) -> ClassPrediction:
    """The prediction of all rows from those of successive chunks."""
    if len(answers) == 1:
        return answers[0]

    def join(name: str) -> Any:
        parts = [getattr(answer, name) for answer in answers]
        return None if parts[0] is None else np.concatenate(parts)

    return dataclasses.replace(answers[0], **{name: join(name) for name in BY_ROW})
