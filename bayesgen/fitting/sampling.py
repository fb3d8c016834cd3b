"""Draws, log-likelihoods and generated rows of a fit, as NumPyro gives them."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from bayesgen.data import PADDING, Rows, RowsLike, Table, read_table
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError, PredictionError, check_integer, warn
from bayesgen.models import covariate_name
from bayesgen.posteriors import ParameterArrays, ProcessPosterior, chains_joined
from bayesgen.program import log_probs_by_site, row_digests, scores_of_draws
from bayesgen.runtime import ROUNDING, as_key, beyond_memory, generator, public
from bayesgen.typing import Float, PRNGKeyArray, Seed, Values

from .summaries import encoded_rows
from .trained import TrainedProgram

TOTAL = "log_likelihood"  # the sum of those of all sites


def samples(
    self: TrainedProgram, group_by_chain: bool = False, *, num_draws: int = 1000, seed: Seed = 0
) -> dict[str, np.ndarray]:
    """Draws of the latent and deterministic sites, as `numpyro.infer.MCMC.get_samples` gives them.

    Continuous latents of the training rows are among them. Deterministic sites with a value for each row are not:
    `predictive` evaluates them at rows. They are what `numpyro.infer.Predictive(fit.program, fit.samples())` takes.

    Args:
        group_by_chain: whether chains are an axis of their own, (chain, draw, ...); else (chain * draw, ...).
        num_draws, seed: of an exact fit, whose draws are independent, in four chains.

    Raises:
        PredictionError: a point estimate; an average over structures.

    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"], method=bg.Exact())
    >>> {name: value.shape for name, value in fit.samples().items()}
    {'class_probs': (1000, 2), 'real_variance': (1000, 2, 1), 'real_mean': (1000, 2, 1)}
    """
    self.posterior.require("draws")
    values, structure = _draws_by_chain(self, num_draws, seed), self.program.structure
    sites = {name: values[name] for name in structure.deterministics if name in values} | latent_draws(self, values)
    local = {name: site.position for name, site in structure.continuous_local if name in values}
    sites |= {name: np.moveaxis(values[name], 2, 2 + position) for name, position in local.items()}
    return sites if group_by_chain else chains_joined(sites)


def draws(self: TrainedProgram, n: int, *, seed: Seed = 0) -> dict[str, np.ndarray]:
    """n draws of the parameters from the posterior, name -> (n, ...).

    They are independent in exact fits. Of chains they are chosen at random, without replacement while there are as
    many.

    Raises:
        PredictionError: a point estimate; an average over structures.

    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"], method=bg.Exact())
    >>> fit.draws(3, seed=1)["real_mean"].shape
    (3, 2, 1)
    """
    check_integer("draws: n", n, 1, PredictionError)
    self.posterior.require("draws")
    values, positions = chains_joined(_draws_by_chain(self, n, seed)), np.arange(n)
    if self.is_sampled:
        total = len(next(iter(values.values())))
        positions = generator(as_key(seed)).choice(total, int(n), replace=n > total)
    return {name: value[positions] for name, value in values.items()}


@public
def predictive(
    self: TrainedProgram, num_samples: int, X: RowsLike | None = None, *, new_rows: bool = False, seed: Seed = 0
) -> dict[str, np.ndarray]:
    """Rows that draws from the posterior generate, as `numpyro.infer.Predictive` gives them.

    Args:
        num_samples: number of draws, each of which generates all rows; of a point fit, the point.
        X: rows whose number and covariates the generated ones have; None for as many as there were in the training.
            Of a program of one's own the covariates are enough.
        new_rows: whether continuous latents of rows are drawn anew. Else those of the training rows, which `NUTS`
            sampled, are used where X is None or has the training rows; for other rows they are drawn anew, with a
            warning.
        seed: integer or JAX key.

    Returns:
        Site -> (draws, n, ...), the label and local latents included; labels and categories are codes.
        Deterministic sites are evaluated at these rows; those without a value for each row are (draws, ...).

    Raises:
        DataError: covariates that are not known, because X is not given.
        PredictionError: an average over structures; more numbers than half of the memory.

    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"], method=bg.Exact())
    >>> {name: value.shape for name, value in fit.predictive(100, seed=1).items()}
    {'real': (100, 4, 1), 'y': (100, 4)}
    """
    check_integer("predictive: num_samples", num_samples, 1, PredictionError)
    first, second = jax.random.split(as_key(seed))
    if process_posterior(self).is_point:
        values = {k: np.repeat(np.asarray(v)[None], num_samples, axis=0) for k, v in self.parameters.items()}
    else:
        values = draws(self, num_samples, seed=first)
    rows = None if X is None else self.rows_to_generate(X)
    by_chain = {name: value[None] for name, value in values.items()}
    return generated_rows(self, rows, latents_at(self, by_chain, rows, new_rows), second)


@public
def log_likelihood(
    self: TrainedProgram, X: RowsLike, y: Values | None = None, *, num_draws: int = 1000, seed: Seed = 0
) -> dict[str, np.ndarray]:
    """Log probabilities of rows by site and draw, as `numpyro.infer.log_likelihood` gives them.

    Args:
        X, y: rows and labels, as `fit` takes them.
        num_draws, seed: of an exact fit, whose draws are independent.

    Returns:
        Site -> (draws, n): log p of the observed cells of the site, given the label; log p of the label, under its
        name, and log p(y | x), "{label}_given_x"; last their sum, "log_likelihood" (without `y_given_x`). That is
        the only entry where labels are missing, or rows have latents of their own, which are marginalised; and a
        site that is the only one is its own sum.

    Raises:
        DataError: rows that do not fit the schema; a regression without y.
        PredictionError: an average over structures; more numbers than half of the memory.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"]
    >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    >>> {name: value.shape for name, value in fit.log_likelihood(X, y).items()}
    {'real': (1000, 4), 'y': (1000, 4), 'y_given_x': (1000, 4), 'log_likelihood': (1000, 4)}
    """
    table = read_table(X, y)
    if y is None and self.concrete.response is not None:
        raise DataError("y is missing: the likelihood of this model is that of its label. Give log_likelihood(X, y).")
    values, rows = _draws_by_chain(self, num_draws, seed), labelled_rows(self, table)
    return chains_joined(log_likelihoods_by_site(self, values, rows))


def process_posterior(fit: TrainedProgram) -> ProcessPosterior:
    """The posterior of a fit of one program.

    Raises:
        PredictionError: an average, whose members have no parameters in common.
    """
    if not isinstance(fit.posterior, ProcessPosterior):
        fit.posterior.require("draws")
    assert isinstance(fit.posterior, ProcessPosterior)
    return fit.posterior


def _draws_by_chain(fit: TrainedProgram, num_draws: int, seed: Seed) -> ParameterArrays:
    """At least so many independent draws of the parameters, as four chains; or all of Markov chains, or the point."""
    return process_posterior(fit).parameter_draws(-(-int(num_draws) // 4), as_key(seed))


def latent_draws(fit: TrainedProgram, values: ParameterArrays) -> dict[str, np.ndarray]:
    """Latent site -> its draws, from those of the parameters, with the same leading axes."""
    sites = fit.program.latents_of(values)
    return {name: sites[name] for name in fit.program.latents}


def latents_at(fit: TrainedProgram, values: ParameterArrays, rows: Rows | None, new_rows: bool) -> ParameterArrays:
    """Latent site -> (draws, ...), with the continuous latents of rows where these are the training rows, or None.

    Warns of rows that are others, unless new rows are asked for.

    Args:
        values: draws of the parameters, (chain, draw, ...).
    """
    sites = chains_joined(latent_draws(fit, values))
    local = {name: site for name, site in fit.program.structure.continuous_local if name in values}
    if not local or new_rows:
        return sites
    training_digests, digests = fit.attributes.get("row_digests", {}), {} if rows is None else row_digests(rows)
    digests.pop(fit.program.response_site or "", None)
    if any(training_digests.get(name) != digest for name, digest in digests.items()):
        warn(
            f"X are other rows than those of training, so their latents {quote_some(local)} are drawn anew: new rows "
            "of the same population. Write predictive(num_samples, X, new_rows=True) if that is meant; the training "
            "rows are known by their covariates and attributes."
        )
        return sites
    local_draws = chains_joined({name: values[name] for name in local})
    return sites | {name: np.moveaxis(local_draws[name], 1, 1 + site.position) for name, site in local.items()}


def log_likelihoods_by_site(fit: TrainedProgram, values: ParameterArrays, rows: Rows) -> dict[str, np.ndarray]:
    """Site -> log probabilities, (chain, draw, n), the total last: see `Fit.log_likelihood`."""
    program, sites = fit.program, chains_joined(latent_draws(fit, values))
    has_label, given_x, log_probs = program.label is not None, f"{program.label}_given_x", dict[str, np.ndarray]()
    _check_memory("log-likelihoods", len(next(iter(sites.values()))) * rows.num_rows * (len(program.attributes) + 2))
    if not program.local and not (has_label and (rows.labels is None or np.any(np.asarray(rows.labels) < 0))):
        log_probs = log_probs_by_site(program, sites, dataclasses.replace(rows, covariates=_covariates(fit, rows)))
    if not log_probs or (has_label and program.attributes):
        label_given_x, joint = scores_of_draws(program, sites, rows)
        log_probs |= {given_x: label_given_x} if log_probs else {TOTAL: joint}
    if len(log_probs) > 1:
        log_probs[TOTAL] = functools.reduce(np.add, [table for name, table in log_probs.items() if name != given_x])
    return by_chain(values, log_probs)


def with_uneven_tails(log_probs: Float[np.ndarray, "*draws n"]) -> Float[np.ndarray, "*draws n"]:
    """Log-likelihoods of rows under draws, where those of a row that are the same differ by rounding.

    Draws are weighted by one over the likelihood of a row that is left out. Pareto-smoothed weights, of ArviZ too, take
    the distribution of the largest, a fifth of them at most, and do not exist where these are one number: of a row
    without observed cells, or one whose density no latent changes.
    """
    by_draw = log_probs.reshape(-1, log_probs.shape[-1])
    last_of_tail = len(by_draw) // 5 - 1
    if last_of_tail < 1:
        return log_probs
    smallest = by_draw.min(axis=0)
    is_even = (np.partition(by_draw, last_of_tail, axis=0)[last_of_tail] == smallest) & np.isfinite(smallest)
    rising = ROUNDING * np.linspace(0.0, 1.0, len(by_draw))[:, None] * np.maximum(1.0, np.abs(smallest))
    return (by_draw + np.where(is_even, rising, 0.0)).reshape(log_probs.shape)


def prior_draws(fit: TrainedProgram, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
    """Draws of the parameters from the prior, (1, draw, ...).

    Raises:
        FitError: an improper prior.
    """
    program, conjugate = fit.program, fit.concrete.column_blocks(fit.schema)
    for name, family in () if conjugate is None else conjugate.families():
        if not family.is_proper:
            raise FitError(f"prior=True: the prior of block {name!r} is improper, so there are no draws from it.")
    if conjugate is not None and conjugate.is_closed:
        return conjugate.sample((1, num_draws), generator(key))
    examples: dict[str, Any] = dict(program.example_covariates(program.num_classes))
    sites, _ = program.generate(program.num_classes, num_draws, seed=key, **examples)
    return program.parameters_of({n: value[None] for n, value in sites.items() if n not in program.row_statistics})


def generated_rows(
    fit: TrainedProgram, rows: Rows | None, latents: Mapping[str, np.ndarray], key: PRNGKeyArray
) -> dict[str, np.ndarray]:
    """Site -> as many rows as these, with their covariates, (draws, n, ...); None for those of the training."""
    program, num_worlds = fit.program, len(next(iter(latents.values())))
    num_rows = max(1, round(fit.attributes["total_weight"])) if rows is None else rows.num_rows
    cells = sum(np.prod(site.row_shape, dtype=float) for _, site in program.structure.row_sites) + 1
    _check_memory("generated rows", num_worlds * num_rows * cells)
    covariates = {} if rows is None else _covariates(fit, rows)
    if set(program.covariates) - covariates.keys():
        raise DataError(
            f"The rows are generated given {sorted(program.covariates)}, so give rows that have them: X=..."
        )
    sites_without_rows, sites = program.generate(num_rows, num_worlds, seed=key, latents=latents, **covariates)
    return sites | {name: sites_without_rows[name] for name in program.structure.deterministics}


def _check_memory(what: str, num_cells: float) -> None:
    """Refuse arrays beyond memory."""
    refusal = beyond_memory(f"The {what} of all draws", 8.0 * num_cells)
    if refusal:
        raise PredictionError(f"{refusal} Give fewer rows, or fewer draws.")


def _covariates(fit: TrainedProgram, rows: Rows) -> dict[str, Any]:
    """The covariates of rows: of blocks of columns also the totals of counts, and the lengths of sequences."""
    covariates: dict[str, Any] = {name: np.asarray(value) for name, value in rows.covariates.items()}
    conjugate = fit.concrete.column_blocks(fit.schema)
    for block in () if conjugate is None else conjugate.blocks:
        if block.family.traits.covariate is not None and block.source is None:
            cells, observed = dense(rows.values[block.name]), rows.observed.get(block.name)
            name = covariate_name(block.name, block.family.traits.covariate)
            covariates[name] = _lengths(cells, observed) if block.family.kind.has_steps else cells.sum(1)
    return covariates


def _lengths(cells: np.ndarray, observed: Any) -> np.ndarray:
    """The number of time steps of each row, up to the last one of symbols, or the last observed one of numbers."""
    are_symbols = np.issubdtype(cells.dtype, np.integer) or observed is None
    inside = (cells != PADDING if are_symbols else np.asarray(observed)).reshape(*cells.shape[:2], -1).any(2)
    return np.asarray((inside * np.arange(1, cells.shape[1] + 1)).max(1, initial=0))


def labelled_rows(fit: TrainedProgram, table: Table) -> Rows:
    """The rows of a table with their labels, if it has any."""
    return fit.rows_of(table) if table.labels is None else encoded_rows(fit.concrete, fit.schema, table)


def dense(cells: Any) -> np.ndarray:
    """Cells as an array that is not sparse."""
    return cells.toarray() if hasattr(cells, "toarray") else np.asarray(cells)


def by_chain(values: ParameterArrays, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of all draws, (chain * draw, ...), with the axes of chains and draws that these parameters have."""
    shape = next(iter(values.values())).shape[:2]
    return {name: np.asarray(value).reshape(*shape, *np.shape(value)[1:]) for name, value in arrays.items()}
