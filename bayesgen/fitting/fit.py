"""`Fit`: the questions that a trained model answers."""

import dataclasses
import os
from typing import Any, Generic, Literal

import jax
import numpy as np

import bayesgen.fitting.components as components
import bayesgen.fitting.export as export
import bayesgen.fitting.growth as growth
import bayesgen.fitting.sampling as sampling
import bayesgen.fitting.tables as tables
import bayesgen.fitting.unobserved as unobserved
from bayesgen.data import RowsLike, read_table
from bayesgen.describe import amount, counted, described, quote_some, shapes, shortened
from bayesgen.errors import DataError, ModelError, PredictionError
from bayesgen.labels import Labelled
from bayesgen.models import FactorCoordinates
from bayesgen.posteriors import At, ProcessPosterior, chains_joined
from bayesgen.program import Reduction, log_joint_draws, reduce_draws
from bayesgen.records import by_content
from bayesgen.runtime import as_key, in_batches
from bayesgen.saving import save
from bayesgen.typing import Data, Float, Int, Seed

from .trained import TrainedProgram

LOG_JOINT_KINDS = ("mean", "mode", "draws", "predictive")


@by_content
class Fit(TrainedProgram, Generic[Labelled]):
    """A trained model, and what it answers. Most methods are functions of other modules of this room.

    `parameters` go by the program's sites, `{block}_{parameter}`; `parameters_of(column)` gives those of one column.

    Attributes:
        model: the model that was fitted.
        schema: the resolved schema of the training data.
        concrete: the model with its choices made for these columns.
        method: the training method.
        posterior: a point, a conjugate posterior or draws.
        summaries: the summarised training data, for `update` and `add_class`; None for `NUTS`, and where rows have no
            sufficient statistic.
        approximate_log_evidence: a named approximation of the log evidence, where the model has one
            (`ProbabilisticPCA`), up to a function of the numbers of rows and columns; else None.
        attributes: how the fit came about (path of the sampler, device, total weight of the training rows), by name.
    """

    samples, draws, predictive = sampling.samples, sampling.draws, sampling.predictive
    log_likelihood, to_datatree = sampling.log_likelihood, export.to_datatree
    summary, diagnose, relabel = tables.summary, tables.diagnose, components.relabel
    states, local, impute = unobserved.states, unobserved.local, unobserved.impute
    update, add_class = growth.update, growth.add_class

    def __repr__(self) -> str:
        return described(f"Fit of {self.model!r}", _description(self))

    def parameters_of(self, column: str) -> dict[str, np.ndarray]:
        """The parameters of one column of a built-in model, name -> array.

        They are the parameters of its block, without the axis of columns: {"probs": (K, r)} for a categorical column
        with r values, {"mean": (K,), "variance": (K,)} for a real column. Axes of draws come first. A covariance gives
        the row of the column: its covariances with all columns of the block.

        Raises:
            DataError: no such column.
            ModelError: a program of your own, whose parameters have the names of its sites.
        """
        conjugate = self.concrete.conjugate(self.schema)
        if conjugate is None:
            raise ModelError("A program of one's own names its parameters itself, by its sites: see fit.parameters.")
        block = conjugate.block_of(column)
        if block is None:
            raise DataError(f"There is no column {column!r}. The columns are {quote_some(self.schema.columns or ())}.")
        return block.column_parameters(column, self.parameters)

    def log_joint(
        self,
        X: RowsLike,
        at: At | Literal["draws"] = "mean",
        rows: list[int] | Int[np.ndarray, " m"] | None = None,
        *,
        seed: Seed = 0,
    ) -> Float[np.ndarray, "*draws n K"]:
        """The table of log-joints, log p(x_i, y = k | Q), of the values themselves: without scales and masks of rows.

        Args:
            X: rows, in any form that `fit` takes, or as `read` gives them.
            at: which process Q: "mean" or "mode" of the posterior (a point fit: the point), "draws" for a table of
                each draw, "predictive" for the exact posterior predictive.
            rows: positions of the rows that are wanted; None for all.
            seed: integer or JAX key, of the 1,000 draws that at="draws" makes of a posterior in closed form.

        Returns:
            (n, K); with at="draws" (draws, n, K), chains one after another.
        """
        if not isinstance(at, str) or at not in LOG_JOINT_KINDS:
            raise PredictionError(
                f"at must be one of {list(LOG_JOINT_KINDS)}, got {shortened(repr(at))}. Rows are taken without labels: "
                "log_joint(X, at=..., rows=...)."
            )
        response = self.concrete.response
        if response is not None and response.is_parent:
            raise PredictionError(
                f"The model makes attributes from the continuous label, so log p(x) is an integral over "
                f"{response.site!r}. Ask for predict(fit, X, rule=...).log_marginal."
            )
        all_rows = self.read(X)
        if response is not None and response.is_only_attribute(all_rows):
            raise PredictionError(
                "X is given and not modelled, so there is no log p(x). Ask for "
                "predict(fit, X, rule=...).log_density(y)."
            )
        chosen = all_rows if rows is None else all_rows.take(rows)
        if at != "draws":
            return self.posterior.log_joint(chosen, at)
        latents = chains_joined(self.posterior.draws(1000, as_key(seed)))
        return log_joint_draws(self.program.for_prediction, latents, chosen)

    def reduce_draws(
        self, X: RowsLike, reduction: Reduction, *, num_batches: int = 100, num_draws: int = 4000, seed: Seed = 0
    ) -> tuple[dict[str, np.ndarray], int]:
        """Reduce the log-joint tables of draws, batch by batch: all of them are never in memory together.

        Batches are of successive draws of one chain; a few draws may be in none of them.

        Returns:
            (dict of arrays (n, ...), number of draws that were used).
        """
        batches = in_batches(self.posterior.draws(int(num_draws), as_key(seed)), num_batches)
        count, size = next(iter(batches.values())).shape[:2]
        return reduce_draws(self.program.for_prediction, batches, self.read(X), reduction), count * size

    def simulate(self, n: int, *, seed: Seed = 0, **covariates: Any) -> Any:
        """Generate n instances from one process of the fit: the point, or one draw from the posterior.

        Args:
            n: number of rows.
            seed: integer or JAX key.
            covariates: name -> (n,), or one number for all rows, such as the totals of multinomial rows, or the lengths
                of sequences, `{block}_length`.

        Returns:
            A pandas frame like the data, with the label as a further column, of models of columns: "y", or "y_" where
            a column of the data is called so. A mapping of
            programs of one's own, and where columns are sequences or given and not generated: attribute sites,
            covariates and labels by name. The sites of a built-in model are its blocks, with categories as
            codes. Sequences are padded, (n, T) or (n, T, columns); a column of symbols is an array of codes,
            `bayesgen.data.CodedSequences`, and `fit.schema.decode(column, codes)` turns them into strings.
            `bayesgen.predict` takes all of these.

        >>> import bayesgen as bg
        >>> X = {"windy": [True, True, False, False], "sky": ["grey", "grey", "blue", "grey"]}
        >>> fit = bg.fit(bg.NaiveBayes(), X, ["rain", "rain", "dry", "dry"], method=bg.Exact())
        >>> fit.simulate(3, seed=1).columns.tolist()
        ['windy', 'sky', 'y']
        """
        return tables.frame_of_rows(self, self.simulate_sites(n, seed=seed, **covariates))

    def simulate_sites(self, n: int, *, seed: Seed = 0, **covariates: Any) -> dict[str, np.ndarray]:
        """The rows of `simulate` by site: attributes, covariates, and labels under the label site's name."""
        first, second = jax.random.split(as_key(seed))
        if self.posterior.can("draws"):
            draws = chains_joined(self.posterior.draws(1, first))
            index = int(jax.random.randint(first, (), 0, len(next(iter(draws.values())))))
            process = {name: value[index] for name, value in draws.items()}
        else:
            process = self.program.latents_of(self.parameters)
        latents = {name: process[name] for name in self.program.latents}
        rows = self.program.simulate(n, seed=second, latents=latents, **covariates)
        self.schema.check_ranges(rows)
        return rows

    def transform(self, X: Data) -> FactorCoordinates:
        """The posterior of the coordinates of rows on a surface of few dimensions, of `ProbabilisticPCA`.

        The process is the point of the fit, or the posterior mean, with the nearest covariance that the model allows.
        `numpy.asarray` of the answer gives the means, (n, k). Cells may be missing.

        Args:
            X: rows, in any form that `fit` takes.

        Raises:
            ModelError: a model that has no such coordinates; an average, whose members have coordinates of their own.

        >>> import bayesgen as bg
        >>> X = [[1.0, 2.1, 0.1], [2.0, 3.9, 0.0], [3.0, 6.2, -0.1], [4.0, 7.9, 0.1], [5.0, 10.1, 0.0]]
        >>> fit = bg.fit(bg.ProbabilisticPCA(1), X, method=bg.MLE())
        >>> fit.transform(X).mean.round(1).ravel().tolist()
        [-1.4, -0.7, 0.0, 0.7, 1.4]
        """
        if not isinstance(self.posterior, ProcessPosterior):
            raise ModelError("The members of an average have coordinates of their own: ask one, fit.best.transform(X).")
        table = read_table(X)
        coordinates = self.concrete.transform(self.posterior.mean, self.read(table))
        if coordinates is None:
            raise ModelError(
                f"{type(self.model).__name__} has no coordinates of rows: transform is for ProbabilisticPCA(), whose "
                "rows lie near a surface."
            )
        return dataclasses.replace(coordinates, index=table.index)

    def save(self, path: str | os.PathLike) -> None:
        """Write the fit to a file, which `bayesgen.load(path)` reads: no pickle, and nothing is executed on loading.

        The file is netCDF. Draws and points stand in the groups `posterior`, `sample_stats` and `point_estimate`, which
        ArviZ and `xarray.open_datatree(path)` read; of an exact posterior, which has no draws,
        `fit.to_datatree().to_netcdf(path)` writes some. The model, the schema and the statistics are in the group
        `bayesgen`. A file is replaced when the new one is complete.

        Programs of one's own are saved by their results; `load` is then given the program. Fits can also be pickled.

        Args:
            path: of the file.

        Raises:
            ModelError: a fit that holds what a file cannot, naming it: families and transformers of one's own.
        """
        save(self, path, export.tree_to_save(self))


def _description(fit: Fit) -> dict[str, str | None]:
    """The lines of `repr` of a fit, by name."""
    about_draws = fit.posterior.described
    kind = ", a point" if fit.posterior.is_point else " of each draw" if fit.is_sampled else ", posterior means"
    return {
        "method": repr(fit.method),
        "rows (total weight)": amount(fit.attributes.get("total_weight")),
        "columns": counted(fit.schema.columns or fit.program.attributes),
        "components" if fit.concrete.class_axis == "component" else "classes": counted(fit.classes),
        "rows without labels (weight)": _unlabelled_rows(fit),
        "log evidence": amount(fit.log_evidence),
        "approximate log evidence, up to a constant of rows and columns": amount(fit.approximate_log_evidence),
        "draws": f"{about_draws}, path {fit.attributes.get('path')!r}" if about_draws else None,
        f"parameters{kind}": shapes(fit.parameters, skip=2 if fit.is_sampled else 0),
        "next": f"{_next_step(fit)}, fit.summary(), fit.to_datatree()",
    }


def _unlabelled_rows(fit: Fit) -> str | None:
    """The weight of the rows without labels, and the classes of which no row has one."""
    weight, unnamed = (fit.attributes.get(name) for name in ("total_weight_unlabelled", "classes_without_labels"))
    lacking = f"; no row has the label {quote_some(unnamed)}" if unnamed else ""
    return None if weight is None else f"{amount(weight)}{lacking}"


def _next_step(fit: Fit) -> str:
    """How to predict for new rows."""
    if len(fit.classes) == 0 and fit.concrete.response is None:
        return "fit.log_joint(X)"
    order = "" if fit.posterior.is_identified else "fit.relabel(), "
    return f"{order}predict(fit, X, rule={'PlugIn()' if fit.posterior.is_point else 'BMA()'})"
