"""`leave_one_out`: each training row predicted from all others."""

import dataclasses
import functools
import importlib
import math
from typing import TYPE_CHECKING, Any

import arviz_stats
import jax
import numpy as np
import scipy.special
import xarray
from arviz_stats.base import array_stats

from bayesgen.averaging import check_trained_on
from bayesgen.data import Rows, Table, as_array, as_weights, columns_by_name, read_table
from bayesgen.describe import Described, Description
from bayesgen.errors import DataError, FitError, PredictionError, check_object
from bayesgen.fitting import Fit, Trained, encoded_rows, log_likelihoods_by_site, with_uneven_tails
from bayesgen.posteriors import Draws, ProcessPosterior, chains_joined
from bayesgen.prediction import BMA, MAX_K, Rule, refitted, scores_by, scores_without, table_by
from bayesgen.program import Response, scores_of_draws
from bayesgen.records import by_content
from bayesgen.runtime import public, table_chunks
from bayesgen.typing import Data, Float, Int, Values

if TYPE_CHECKING:
    from arviz_stats.utils import ELPDData


@by_content
class LeaveOneOut(Described):
    """Scores of training rows, each predicted from the others.

    Attributes:
        log_scores: log p(y_i | x_i, all rows but i) by a rule; for rows without labels log p(x_i | all rows but i). NaN
            where the other rows give no estimate, and of rows of weight 0.
        in_sample: the same scores with the row itself among the training rows.
        pareto_k: tail index of the weights of draws, above 0.7 where the score is not reliable; None where scores are
            exact.
        weights: the weight of each row; None where all are 1.
    """

    log_scores: Float[np.ndarray, " n"]
    in_sample: Float[np.ndarray, " n"]
    pareto_k: Float[np.ndarray, " n"] | None = None
    num_draws: int = 1
    weights: Float[np.ndarray, " n"] | None = None

    @property
    def frequencies(self) -> Float[np.ndarray, " n"]:
        """The weight of each row, 1 where there are no weights."""
        return np.ones(len(self.log_scores)) if self.weights is None else self.weights

    @property
    def total(self) -> float:
        """The sum of the scores, each by its weight: the log predictive density of equally many new rows, estimated."""
        return float(self._weighted(self.log_scores).sum())

    @property
    def standard_error(self) -> float:
        """Standard error of the total, over rows; NaN where some score is minus infinity."""
        weights = self.frequencies[self.frequencies > 0]
        number, scores = weights.sum(), self.log_scores[self.frequencies > 0]
        if not np.isfinite(scores).all():
            return math.nan
        squares = (weights * (scores - np.average(scores, weights=weights)) ** 2).sum()
        return math.sqrt(number / (number - 1) * squares) if number > 1 else math.nan

    def _weighted(self, scores: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
        """Scores by their weights, of rows that have any."""
        return (self.frequencies * scores)[self.frequencies > 0]

    def _description(self) -> Description:
        k, unscored = self.pareto_k, int(np.isnan(self._weighted(self.log_scores)).sum())
        lines = {
            "total log score": f"{self.total:,.6g}, standard error {self.standard_error:,.3g}; higher is better",
            "in sample": f"{self._weighted(self.in_sample).sum():,.6g}",
            "rows without a score": f"{unscored:,}, which the fits to the other rows rule out" if unscored else None,
            "pareto k above 0.7": None
            if k is None
            else f"{int((k > MAX_K).sum())} rows; their scores rest on few draws",
            "next": "result.log_scores, result.total, result.to_elpd()",
        }
        return f"LeaveOneOut of {len(self.log_scores)} rows", lines

    def to_elpd(self) -> "ELPDData":
        """The scores as ArviZ's `ELPDData`, for `arviz_stats.compare`."""
        utils: Any = importlib.import_module("arviz_stats.utils")
        # ArviZ 1 has a class for each estimator
        make_elpd = getattr(utils, "ELPDDataLOO", None) or functools.partial(utils.ELPDData, kind="loo")
        by_row = xarray.DataArray(self._weighted(self.log_scores), dims=["row"])
        k = None if self.pareto_k is None else xarray.DataArray(self.pareto_k[self.frequencies > 0], dims=["row"])
        return make_elpd(
            elpd=self.total,
            se=self.standard_error,
            p=float(self._weighted(self.in_sample).sum() - self.total),
            n_samples=self.num_draws,
            n_data_points=len(by_row),
            scale="log",
            warning=k is not None and bool((k > MAX_K).any()),
            good_k=MAX_K,
            elpd_i=by_row,
            pareto_k=k,
        )


@public
def leave_one_out(
    fit: Trained[Any],
    X: Data,
    y: Values | None = None,
    *,
    sample_weight: Values | None = None,
    rule: Rule | None = None,
    folds: Int[np.ndarray, " n"] | None = None,
    refit: bool = False,
) -> LeaveOneOut:
    """Predict each training row from all others, or from the other folds.

    Fits in closed form merge the sufficient statistics of all other rows, or take the row out of the posterior where it
    is no large part of it, so that scores are exact and cost little more than a prediction. Draws are weighted by one
    over the density of the row, with Pareto-smoothed weights. The prior of the fit is kept. A row with a weight is left
    out with all its weight.

    Args:
        fit: a fit by `Exact`, `MLE`, `MAP` or `NUTS`; or an `Exact` fit of a concept learner, whose examples are scored
            by their log probability given the others.
        X, y, sample_weight: the rows that it was trained on. Those of weight 0 have no score.
        rule: rule of prediction; None for `BMA()`. Point fits take `PlugIn()`.
        folds: the fold of each row, whole numbers (n,); each fold is left out as a whole. None leaves out each row
            alone. Fits by `NUTS` are made anew without each fold.
        refit: whether the rows whose weights of draws have a tail index above 0.7 are scored by a fit without the row,
            made anew by the same method. Their `pareto_k` is then 0.

    Raises:
        DataError: other rows than those of the training.
        PredictionError: a rule that the fit cannot answer.

    Source: Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out cross-validation
    and WAIC, for draws.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [3.0], [7.0], [8.0], [9.0]], ["a", "a", "a", "b", "b", "b"]
    >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    >>> bg.leave_one_out(fit, X, y).log_scores.round(3).tolist()
    [-0.015, -0.024, -0.075, -0.075, -0.024, -0.015]
    """
    if isinstance(fit, Trained) and not isinstance(fit, Fit):
        is_plain = sample_weight is None and folds is None and rule in (None, BMA())
        return LeaveOneOut(*fit.scores_left_out(X, y, is_plain))
    if not isinstance(fit, Fit) or not isinstance(fit.posterior, ProcessPosterior):
        raise PredictionError(
            "leave_one_out takes a result of bayesgen.fit for one model. Ask the members of an average."
        )
    rule = BMA() if rule is None else rule
    check_object("rule", rule, Rule, PredictionError)
    table = read_table(X, y, sample_weight)
    rows = _training_rows(fit, table)
    check_trained_on(fit, rows, "with the sample_weight= that they had")
    num_rows, rows_kept = (
        table.num_rows + table.num_dropped,
        slice(None) if table.positions is None else table.positions,
    )
    numbers = np.arange(num_rows) if folds is None else as_array(folds, "folds")
    if numbers.shape != (num_rows,) or numbers.dtype.kind not in "iu":
        raise DataError(f"folds has to hold a whole number for each of the {num_rows} rows.")
    if isinstance(fit.posterior, Draws) and folds is None:
        result = _by_draws(fit, rows, rule, refit)
    else:
        codes = np.arange(rows.num_rows)
        if folds is not None:
            codes = np.unique(numbers[rows_kept], return_inverse=True)[1]
        log_joint = table_by(fit, rule, rows)
        in_sample = scores_by(fit, rule, rows, log_joint).given_row
        scores = scores_without(fit, rule, rows, codes, (DataError, FitError), log_joint).given_row
        result = LeaveOneOut(scores, in_sample, weights=None if rows.weights is None else np.asarray(rows.weights))
    return result if table.positions is None else _among_all_rows(result, table.positions, num_rows)


def _among_all_rows(result: LeaveOneOut, places: Int[np.ndarray, " m"], num_rows: int) -> LeaveOneOut:
    """The scores at these places among all rows; the other rows have weight 0, and no score."""

    def spread(values: Float[np.ndarray, " m"] | None, fill: float = np.nan) -> Any:
        if values is None:
            return None
        spread_values = np.full(num_rows, fill)
        spread_values[places] = values
        return spread_values

    scores, in_sample, tails = map(spread, (result.log_scores, result.in_sample, result.pareto_k))
    return LeaveOneOut(scores, in_sample, tails, result.num_draws, spread(result.frequencies, 0.0))


def _training_rows(fit: Fit, table: Table) -> Rows:
    """The rows with labels and weights, encoded as in the training."""
    if fit.concrete.response is None and table.labels is None and len(fit.classes) and fit.concrete.has_labels:
        raise DataError("y is missing: rows are scored by the probabilities of their labels. Give y.")
    return encoded_rows(fit.concrete, fit.schema, table)


LEAST_DRAWS = 25  # a fifth of which are as many as a tail takes


def _why_not_weighted(response: Response | None, rule: Rule, num_draws: int) -> str | None:
    """The reason why draws of all rows do not score rows that are left out; None where they do."""
    if not isinstance(rule, BMA):
        return f"{rule!r} does not average over draws"
    if response is not None and response.is_parent:
        return f"log p(x) is an integral over {response.site!r}, from which attributes are made"
    return None if num_draws >= LEAST_DRAWS else f"there are {num_draws}, and tails take {LEAST_DRAWS} at least"


def _by_draws(fit: Fit, rows: Rows, rule: Rule, refit: bool) -> LeaveOneOut:
    """Scores by draws given all rows, each with the weight of one over the density of the row.

    Rows of heavy weights are scored by a fit without them, where that is wanted.
    """
    response = fit.concrete.response
    latents = chains_joined(fit.posterior.draws(0, jax.random.key(0)))
    num_draws = len(next(iter(latents.values())))
    reason = _why_not_weighted(response, rule, num_draws)
    if reason is not None:
        raise PredictionError(
            f"Draws of all rows are not weighted to leave one out: {reason}. Give folds=, such as folds=np.arange(n) % "
            "10: the fit is made anew without each."
        )
    program = fit.program.for_prediction
    scores, in_sample, tails = np.empty((3, rows.num_rows))
    for chunk in table_chunks(rows.num_rows, num_draws * max(1, len(fit.classes)) * 4):
        part = rows.take(chunk)
        given_row, joint = scores_of_draws(program, latents, part)
        if response is not None:
            marginal = scores_of_draws(program, latents, response.without(part))[1]
            given_row = np.where(np.isnan(response.values(part)), joint, joint - marginal)
        counted = joint if program is fit.program else scores_of_draws(fit.program, latents, part)[1]
        weights, tails[chunk] = array_stats.psislw(with_uneven_tails(counted * part.frequencies).T)
        given_row, joint = given_row.T, joint.T
        for scored, logs in ((scores, weights), (in_sample, np.zeros_like(weights))):
            log_mean_x = scipy.special.logsumexp(logs + (joint - given_row), axis=-1)
            scored[chunk] = scipy.special.logsumexp(logs + joint, axis=-1) - log_mean_x
    if refit:
        unsure = tails > MAX_K
        folds = np.where(unsure, np.arange(rows.num_rows), -1)
        scores[unsure] = scores_without(fit, rule, rows, folds).given_row[unsure]
        tails[unsure] = 0.0
    return LeaveOneOut(scores, in_sample, tails, num_draws, None if rows.weights is None else np.asarray(rows.weights))


class SamplingWrapper(arviz_stats.SamplingWrapper):
    """Refits a fit without some of its rows, under its prior and by its method, for `arviz_stats.reloo`.

    Args:
        fit: a fit by `NUTS` or `Exact`.
        X, y, sample_weight: its training rows. A row with a weight is left out with all its weight.
        var_name: the log-likelihood that is scored: the sum of all sites, or the name of another table of
            `fit.to_datatree(X, y)`, such as "y_given_x".

    `arviz_stats.reloo(SamplingWrapper(fit, X, y))` scores rows by fits without them where draws of all rows do not.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [1.2], [1.9], [7.0], [7.7], [8.0], [9.0]], list("aaabbbb")
    >>> wrapper = bg.SamplingWrapper(bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact()), X, y)
    >>> others, first = wrapper.sel_observations(0)
    >>> wrapper.sample(others).attributes["total_weight"]
    6.0
    """

    def __init__(
        self,
        fit: Fit,
        X: Data,
        y: Values | None = None,
        *,
        var_name: str | None = None,
        sample_weight: Values | None = None,
    ) -> None:
        X, y, sample_weight = columns_by_name(X, y, sample_weight)
        check_trained_on(fit, _training_rows(fit, read_table(X, y, sample_weight)), "with their sample_weight=")
        super().__init__(fit, idata_orig=fit.to_datatree(X, y))
        self.fit, self.var_name = fit, var_name or str(next(iter(self.idata_orig["log_likelihood"].data_vars)))
        rows = encoded_rows(fit.concrete, fit.schema, read_table(X, y))
        self.rows = dataclasses.replace(rows, weights=as_weights(sample_weight, rows.num_rows))

    def __repr__(self) -> str:
        return f"SamplingWrapper of {self.rows.num_rows:,} rows, for a fit of {type(self.fit.model).__name__}"

    def sel_observations(self, idx: Int[np.ndarray, "..."]) -> tuple[Rows, Rows]:
        """The other rows, and these."""
        is_out = np.isin(np.arange(self.rows.num_rows), idx)
        return self.rows.take(np.flatnonzero(~is_out & (self.rows.frequencies > 0))), self.rows.take(
            np.flatnonzero(is_out)
        )

    def sample(self, modified_observed_data: Rows) -> Fit:
        """The fit of these rows."""
        return refitted(self.fit, modified_observed_data)

    def get_inference_data(self, fitted_model: Fit) -> Any:
        """The fit as a tree."""
        return fitted_model.to_datatree()

    def log_likelihood__i(self, excluded_obs: Rows, idata__i: Any) -> xarray.DataArray:
        """Log-likelihoods of rows under each draw."""
        values = {str(name): value.values for name, value in idata__i["posterior"].data_vars.items()}
        tables = log_likelihoods_by_site(self.fit, values, excluded_obs)
        return xarray.DataArray(tables[self.var_name], dims=["chain", "draw", "row"])
