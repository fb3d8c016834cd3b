"""In a sentence: whether the average or a plug-in predicts better, by how much, and whether that is more than noise."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from bayesgen.describe import Described, joined, with_error
from bayesgen.typing import Float

from .answers import paired_difference

SAME = 1e-9  # nats; answers are the same where no two of their log scores differ by more
NO_PAIR = "Averaging and plug-in cannot be compared here: only one of them has answers with scores."
# with what stands once in a sentence: the other answer, and what noise is
WORDS = {
    1: "better{} by more than noise{}",
    -1: "worse{} by more than noise{}",
    0: "neither better nor worse{} beyond noise{}",
}
ScoresByAnswer: TypeAlias = Mapping[str, Float[np.ndarray, " units"]]  # by answer, of test rows or of training sets


class Judged(Described):
    """A result that says of each model which of the two answers predicts better."""

    @property
    def verdicts(self) -> dict[str, str]:
        """Model -> which of the two answers predicts better, by how much, and whether that is more than noise."""
        raise NotImplementedError

    @property
    def verdict(self) -> str:
        """The `verdicts` as a text, on a line for each model."""
        return "\n".join(": ".join(entry) if len(self.verdicts) > 1 else entry[1] for entry in self.verdicts.items())

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """A report as one page of HTML that needs nothing else: the verdict, scores, figures, and how to run it again.

        Args:
            path: a file to which it is written as well.
            title: heading of the page, such as the name of the data; None for one of the models.
        """
        return self._page(path, title)

    def _page(self, path: str | Path | None, title: str | None) -> str:
        """The page of `to_html`."""
        raise NotImplementedError

    @property
    def _verdict_entries(self) -> dict[str, str]:
        """The verdicts by names for a description."""
        return {f"verdict{f' on {name}' * (len(self.verdicts) > 1)}": text for name, text in self.verdicts.items()}


@dataclasses.dataclass(frozen=True)
class Contrast:
    """The average against the best plug-in.

    Attributes:
        average, plug_in: their names.
        same: the plug-ins that have the scores of the average; the best one is another where there are others.
        difference, standard_error: of mean log scores, the average's less the plug-in's, by pairs; NaN where both rule
            out a truth.
    """

    average: str
    plug_in: str
    same: tuple[str, ...]
    difference: float
    standard_error: float

    @property
    def sign(self) -> int:
        """1 where the average is ahead by more than two standard errors, -1 where it is behind by more, else 0."""
        is_more = math.isinf(self.difference) or abs(self.difference) > 2 * self.standard_error
        return int(math.copysign(is_more, self.difference))

    def text(self, pattern: str) -> str:
        """The difference with its error, in the pattern, or why there is none."""
        difference = with_error(self.difference, self.standard_error)
        if not difference:
            return "both rule out a truth" if math.isnan(self.difference) else "the same"
        is_error_unknown = math.isfinite(self.difference) and math.isnan(self.standard_error)
        return pattern.format(difference) + ", of unknown error" * is_error_unknown


def contrast(log_scores: ScoresByAnswer, two_step: Collection[str]) -> Contrast | None:
    """The first average with scores against the plug-in from which it is least ahead; None without such a pair.

    Args:
        log_scores: of each answer. Units in which one of a pair is NaN, which has no score, are left out.
        two_step: names of the plug-ins.
    """
    scored = [name for name, scores in log_scores.items() if not np.isnan(scores).all()]
    average = next((name for name in scored if name not in two_step), "")
    plug_ins = [name for name in scored if name in two_step and average]
    pairs = {name: np.stack([log_scores[average], log_scores[name]]) for name in plug_ins}
    pairs = {name: pair[:, ~np.isnan(pair).any(axis=0)] for name, pair in pairs.items()}
    pairs = {name: pair for name, pair in pairs.items() if pair.size}
    same = tuple(name for name, pair in pairs.items() if np.allclose(pair[0], pair[1], rtol=0, atol=SAME))
    contrasts = []
    for name, pair in pairs.items():
        is_ruled_out = np.isneginf(pair).any(axis=1).all()
        difference = (math.nan, math.nan) if is_ruled_out else paired_difference(*pair)
        contrasts.append(Contrast(average, name, same, *difference))
    return min(contrasts, key=lambda c: (c.plug_in in same, math.isnan(c.difference), c.difference), default=None)


def verdict(log_scores: Mapping[str, ScoresByAnswer], two_step: Collection[str]) -> str:
    """The sentence on one model.

    Args:
        log_scores: where, such as "on 40 test rows" or "with 5 training rows" -> log scores, NaN where there are none.
        two_step: names of the plug-ins.
    """
    by_place = {place: contrast(scores, two_step) for place, scores in log_scores.items()}
    contrasts = {place: between for place, between in by_place.items() if between is not None}
    if not contrasts:
        return NO_PAIR
    first, best = next(iter(contrasts.values())), " or ".join(dict.fromkeys(c.plug_in for c in contrasts.values()))
    if all(between.plug_in in between.same for between in contrasts.values()):
        return (
            f"Averaging ({first.average}) and the plug-in ({best}) are one answer here: their log scores are the same."
        )
    texts_by_sign = dict[int, list[str]]()
    for place, between in contrasts.items():
        by = between.text("{}" if texts_by_sign else "mean log score {} nats a row")
        texts_by_sign.setdefault(between.sign, []).append(f"{place} ({by})")
    same_everywhere = [name for name in first.same if all(name in between.same for between in contrasts.values())]
    same = f", the same here as {joined(same_everywhere)}" if same_everywhere else ""
    once = [(f" than the best {'other ' * bool(same)}plug-in ({best})", " (two standard errors)")]
    clauses = [
        f"{WORDS[sign].format(*words)} {joined(texts)}"
        for (sign, texts), words in zip(texts_by_sign.items(), [*once, ("", ""), ("", "")], strict=False)
    ]
    return f"Averaging ({first.average}{same}) predicts {'; '.join(clauses)}."
