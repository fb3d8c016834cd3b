"""In a sentence: whether the average or a plug-in predicts better, by how much, and whether that is more than noise."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from bayesgen.describe import Described, joined
from bayesgen.typing import Float

from .answers import Answer, paired_difference

NOISE = 2.0  # standard errors; shorter differences may be noise
SAME = 1e-9  # nats; answers are the same where no two of their log scores differ by more
NO_PAIR = "Averaging and plug-in cannot be compared here: only one of them has answers with scores."
LogScores: TypeAlias = Mapping[str, Float[np.ndarray, " units"]]  # by answer, of test rows or of training sets


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
        units: number of the pairs.
    """

    average: str
    plug_in: str
    same: tuple[str, ...]
    difference: float
    standard_error: float
    units: int

    @property
    def sign(self) -> int:
        """1 where the average is ahead by more than noise, -1 where it is behind by more, else 0."""
        is_more = math.isinf(self.difference) or abs(self.difference) > NOISE * self.standard_error
        return int(math.copysign(is_more, self.difference))

    @property
    def amount(self) -> str:
        """The absolute difference and its standard error, to two digits of the error."""
        if not self.standard_error > 0:
            return f"{abs(self.difference):.3g}".replace("inf", "∞")
        digits = max(0, 1 - math.floor(math.log10(self.standard_error)))
        return f"{abs(self.difference):.{digits}f} ± {self.standard_error:.{digits}f}"


def contrast(log_scores: LogScores, two_step: Collection[str]) -> Contrast | None:
    """The first average against the plug-in from which it is least ahead; None without such a pair.

    Args:
        log_scores: of each answer. Units in which one of a pair is NaN, which has no score, are left out.
        two_step: names of the plug-ins.
    """
    contrasts = []
    for average in [name for name in log_scores if name not in two_step][:1]:
        pairs = {name: np.stack([log_scores[average], log_scores[name]]) for name in log_scores if name in two_step}
        pairs = {name: pair[:, ~np.isnan(pair).any(axis=0)] for name, pair in pairs.items()}
        same = tuple(
            name for name, pair in pairs.items() if pair.size and np.allclose(pair[0], pair[1], rtol=0, atol=SAME)
        )
        for name, pair in pairs.items():
            if pair.size and (name not in same or len(same) == len(pairs)):
                is_ruled_out = np.isneginf(pair).any(axis=1).all()
                difference = (math.nan, math.nan) if is_ruled_out else paired_difference(*pair)
                contrasts.append(Contrast(average, name, same, *difference, pair.shape[1]))
    return min(contrasts, key=lambda c: (math.isnan(c.difference), c.difference), default=None)


def verdict_on_rows(answers: Sequence[Answer]) -> str:
    """The sentence on the scored answers of one model to the same test rows."""
    names = [f"{answer.method} + {answer.rule}" for answer in answers]
    two_step = [name for name, answer in zip(names, answers, strict=True) if answer.two_step]
    between = contrast({name: answer.log_scores for name, answer in zip(names, answers, strict=True)}, two_step)
    if between is None:
        return NO_PAIR
    average, plug_in = _names([between])
    rows = f"{between.units:,} test row{'s' * (between.units > 1)}"
    by, noise = f"mean log scores differ by {between.amount} nats a row on {rows}", "two standard errors over test rows"
    if between.plug_in in between.same:
        return f"{average} gives the same probabilities as {plug_in} on {rows}: here the two are one answer."
    if math.isnan(between.difference):
        return f"{average} and {plug_in} cannot be compared here: both give probability zero to a true value."
    if between.sign == 0:
        noise = f"less than {noise}" if between.units > 1 else "a single row has no standard error"
        return f"{average} and {plug_in} cannot be told apart here: their {by}, which may be noise ({noise})."
    better, worse = (average, plug_in) if between.sign > 0 else (plug_in, average)
    reason = f"{by}, which is more than noise ({noise})"
    if math.isinf(between.difference):
        reason = "the other gives probability zero to the true value of a row"
    return f"{better[0].upper()}{better[1:]} predicts better here than {worse[0].lower()}{worse[1:]}: {reason}."


def verdict_on_sizes(scores_by_size: Mapping[int, LogScores], two_step: Collection[str], unit: str) -> str:
    """The sentence on one model in a study.

    Args:
        scores_by_size: size of training sets -> log scores of training sets, NaN where a training set is refused.
        two_step: names of the plug-ins.
        unit: what a size counts.
    """
    by_size = {size: contrast(log_scores, two_step) for size, log_scores in scores_by_size.items()}
    contrasts = {size: between for size, between in by_size.items() if between is not None}
    if not contrasts:
        return NO_PAIR
    average, plug_in = _names([*contrasts.values()])
    if all(between.plug_in in between.same for between in contrasts.values()):
        return f"{average} gives the same probabilities as {plug_in}: here the two are one answer."
    clauses = list[str]()
    for sign, words in SIGNS.items():
        sizes = list[str]()
        for size, between in contrasts.items():
            if between.sign == sign:
                is_first = not (clauses or sizes)
                by = f" (by {between.amount}{' nats a row' * is_first})" * bool(sign)
                sizes.append(f"{size}{f' {unit}' * is_first}{by}")
        if sizes:
            than = "" if clauses else f" than {plug_in}"
            clauses.append(f"{words.format(than=than)} with {joined(sizes)}")
    return f"{average} predicts {'; '.join(clauses)}."


SIGNS = {1: "better{than}", -1: "worse{than}", 0: "neither better nor worse{than} beyond noise (two standard errors)"}


def _names(contrasts: Sequence[Contrast]) -> tuple[str, str]:
    """The average and the best plug-in in words; the latter may differ from size to size."""
    first, best = contrasts[0], " or ".join(dict.fromkeys(between.plug_in for between in contrasts))
    if first.plug_in in first.same:
        return f"Averaging ({first.average})", f"the plug-in ({best})"
    same = f", the same here as {joined(first.same)}" if first.same else ""
    return f"Averaging ({first.average}{same})", f"the best {'other ' * bool(same)}plug-in ({best})"
