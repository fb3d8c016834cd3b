"""`Comparison`: what several answers say of the same test rows, and how well, as tables, JSON and arrays."""

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray

from bayesgen.records import by_content
from bayesgen.typing import Shaped

from .answers import (
    Answer,
    Scored,
    difference_table,
    disagreement_table,
    prediction_table,
    score_rows,
    score_table,
)
from .costs import Cost, costly_rows
from .targets import Target

_NOT_IN_JSON = ["fit_seconds", "predict_seconds"]  # equal runs give equal results


@by_content
class Comparison:
    """What several answers say of the same test rows, and how well.

    answers: one `Answer` for each model and (method, rule) pair, refused ones included.
    target: what the test rows hold, which the answers are held against.
    rows: what each test row is called, shape (n,): its index in a pandas frame, otherwise its position.
    costs: what the costliest rows cost each answer, where that was asked for.
    config, versions: what was compared, and with which versions of what.
    """

    answers: tuple[Answer, ...]
    target: Target[Any]
    rows: Shaped[np.ndarray, " n"]
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The K class labels; none where the test rows have no classes."""
        return self.target.classes

    @property
    def truth(self) -> Shaped[np.ndarray, " n"] | None:
        """Index of each test row's true class, or its number; None where the densities of rows are compared."""
        return self.target.truth

    @functools.cached_property
    def scored(self) -> tuple[Scored, ...]:
        """The answers that were not refused, with the scores of each test row."""
        return score_rows(self.answers, self.target)

    def with_costs(self, X_test: Any) -> "Comparison":
        """The same, with what the costliest of these test rows cost each answer, and the columns that did it."""
        return replace(self, costs=costly_rows(self.scored, self.target, self.rows, X_test))

    @property
    def table(self) -> pd.DataFrame:
        """One row per answer.

        Of classes: `accuracy`; `log_score`, the mean of log p(true class), or of log p(row) where rows have no labels
        (and then the others are NaN), higher is better; `brier`, summed over the classes, from 0 to 2, and `ece`, the
        calibration error in 15 bins of equal mass, lower is better. `impossible` counts the test rows without
        probabilities, scored as certainty of a wrong class, and `ruled_out` the others whose true class got
        probability zero.

        Of numbers: `log_score`, the mean of log p(y | x), higher is better; `rmse`, of the mean, and `crps`, the
        continuous ranked probability score, in the units of y, lower is better; `coverage_50`, `coverage_80` and
        `coverage_95`, the shares of rows whose y lies in the central interval of 50, 80 and 95 %, and `width_50` and so
        on, the mean widths of these. `impossible` counts the rows without a density, scored as the worst there is, and
        `ruled_out` the others whose y has the density zero.

        `difference` is the mean log score minus that of the two-step MAP answer of the same model, and
        `difference_from_mean` the same from the plug-in at the posterior mean, each with the standard error of the
        paired difference. `refused` holds the message where there is no answer.
        """
        return score_table(self.answers, self.scored, self.target)

    @property
    def differences(self) -> pd.DataFrame:
        """One row per two answers, of any models: the paired difference in mean log score, standard error."""
        return difference_table(self.scored)

    @property
    def disagreements(self) -> pd.DataFrame:
        """One row per two answers and test row in which they differ, with the truth and what both say.

        Of classes: the rows to which they give different ones, both labels, and the probability of every class by both:
        `p[class]`, `other_p[class]`. Of numbers: the ten rows in which their log scores differ most, and by more than
        0.01, with mean, standard deviation, intervals and scores of both.
        """
        return disagreement_table(self.scored, self.target, self.rows)

    @property
    def predictions(self) -> pd.DataFrame:
        """One row per answer and test row, with the truth.

        Of classes: label (None where impossible), all probabilities. Of numbers: mean, standard deviation, ends of the
        central intervals (`lower_95`, ...), log score, CRPS, and `pit`, the probability of a value up to the truth,
        which is uniform over rows where answers are calibrated.
        """
        return prediction_table(self.scored, self.target, self.rows)

    def to_dict(self) -> dict[str, Any]:
        """`config`, `versions`, `pairs`, `disagreements`, `costs` in plain Python; None where a number is not finite.

        Lists of probabilities follow `config["classes"]`. Times are left out: equal runs give equal results.
        """
        return _plain(
            {
                "config": {**self.config, "classes": self.classes.tolist(), **self.target.reference},
                "versions": self.versions,
                "pairs": self.table.drop(columns=_NOT_IN_JSON).to_dict("records"),
                "disagreements": [self.target.record(row) for row in self.disagreements.to_dict("records")],
                "costs": [asdict(cost) for cost in self.costs],
            }
        )

    def to_json(self) -> str:
        """`to_dict` as strict JSON: what is not finite is null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    def to_datatree(self) -> xarray.DataTree:
        """Groups `scores` (pair), `log_scores` (pair, row) and `predictions` (pair, row) and further axes.

        The coordinates `model`, `method` and `rule` run along `pair`. What a refused pair lacks is NaN. Without labels
        there are no `predictions`.
        """
        keys = [answer.key for answer in self.answers]
        pair: dict[str, Any] = {"pair": [" · ".join(key.values()) for key in keys]}
        pair |= {name: ("pair", [key[name] for key in keys]) for name in keys[0]}
        row = {"row": self.rows} | {
            name: ("row", values) for name, values in self.target.truth_columns(slice(None)).items()
        }
        columns = self.table.drop(columns=[*keys[0], "refused"]).astype(float)
        log_scores = self._of_pairs([one.log_scores for one in self.scored])
        groups = {
            "scores": xarray.Dataset({str(n): ("pair", values.to_numpy()) for n, values in columns.items()}, pair),
            "log_scores": xarray.Dataset({"log_score": (("pair", "row"), log_scores)}, pair | row),
        }
        arrays = [self.target.arrays(one.answer.prediction, one.row_scores) for one in self.scored]
        if arrays and arrays[0]:
            variables = {
                name: (("pair", "row", *axes), self._of_pairs([of_answer[name][1] for of_answer in arrays]))
                for name, (axes, _) in arrays[0].items()
            }
            groups["predictions"] = xarray.Dataset(variables, pair | row | self.target.coordinates)
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs |= {
            "config": json.dumps(_plain(self.config)),
            "versions": json.dumps(_plain(self.versions)),
        }
        return tree

    def _of_pairs(self, of_given: list[np.ndarray]) -> np.ndarray:
        """Arrays of the answers that were not refused as one with the axis of pairs first; NaN for the others."""
        shape = of_given[0].shape if of_given else (len(self.rows),)
        whole = np.full((len(self.answers), *shape), np.nan)
        whole[[answer.refused is None for answer in self.answers]] = of_given
        return whole

    def __repr__(self) -> str:
        columns = ["model", "method", "rule", *self.target.headline, "difference", "standard_error"]
        return f"Comparison on {len(self.rows)} test rows\n{self.table[columns].to_string(index=False)}"


def _plain(value: Any) -> Any:
    """The value in what JSON knows: numbers that are not finite, and pandas' NA, as None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)
