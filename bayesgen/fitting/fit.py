"""`Fit`: the questions that a trained model answers, in numbers, tables and generated rows."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal

import jax
import numpy as np

import bayesgen.fitting.components as components
import bayesgen.fitting.export as export
import bayesgen.fitting.growth as growth
import bayesgen.fitting.sampling as sampling
import bayesgen.fitting.sql as sql
import bayesgen.fitting.unobserved as unobserved
from bayesgen.data import Rows, RowsLike, norm, read_table
from bayesgen.describe import Described, Description, free_name, quote_some, shortened, stated
from bayesgen.errors import DataError, ModelError, PredictionError, check_integer, check_text
from bayesgen.labels import Labelled
from bayesgen.models import LABEL, FactorCoordinates
from bayesgen.posteriors import (
    At,
    Draws,
    ParameterSummaries,
    ProcessPosterior,
    chains_joined,
    convergence_problems,
    entry_names,
)
from bayesgen.program import Block, Reduction, log_joint_draws, reduce_draws
from bayesgen.records import by_content
from bayesgen.runtime import as_key, in_batches
from bayesgen.saving import save
from bayesgen.solvers import MAX_DEPTH
from bayesgen.typing import Data, Float, Int, Seed

from .entries import entries_of_fit
from .trained import TrainedProgram

if TYPE_CHECKING:
    import pandas as pd

LEAST_BFMI = 0.3  # below which energies hardly move from draw to draw (Betancourt 2016)
LOG_JOINT_KINDS = ("mean", "mode", "draws", "predictive")


@by_content
class Diagnosis(Described):
    """Diagnostics of Markov chains.

    Attributes:
        table: a frame with a line for each parameter: R-hat, bulk and tail effective sample sizes, and the Monte Carlo
            standard error of the mean (`mcse_mean`). Of a mixture in no common order, of functions that do not depend
            on it.
        sampler: name -> number or text: chains, draws, divergences, E-BFMI of the worst chain, depth of trees, path.
        problems: sentences on what is not as it should be; empty if nothing was found.
    """

    table: "pd.DataFrame"
    sampler: dict[str, Any]
    problems: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Whether the draws may be trusted, in words."""
        if self.problems:
            return "Do not rely on these draws yet: " + "; ".join(self.problems) + "."
        return "No problem was found: the chains agree, and are long enough."

    def _description(self) -> Description:
        lines = {name: str(value) for name, value in self.sampler.items()}
        worst = self.table.sort_values("ess_bulk").head(10)
        entries = {**lines, "verdict": self.verdict, f"worst of {len(self.table)} parameters": worst}
        return f"Diagnosis of {self.sampler['chains']} chains", entries


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
    relabel = components.relabel
    states, local, impute = unobserved.states, unobserved.local, unobserved.impute
    update, add_class, to_sql = growth.update, growth.add_class, sql.to_sql

    def _description(self) -> Description:
        return f"Fit of {stated(self.model)}", entries_of_fit(self)

    def parameters_of(self, column: str) -> dict[str, np.ndarray]:
        """The parameters of one column of a built-in model, name -> array.

        They are the parameters of its block, without the axis of columns: {"probs": (K, r)} for a categorical column
        with r values, {"mean": (K,), "variance": (K,)} for a real column. Axes of draws come first. A covariance gives
        the row of the column: its covariances with all columns of the block.

        Raises:
            DataError: no such column.
            ModelError: a program of your own, whose parameters have the names of its sites.
        """
        check_text("column", column, DataError)
        conjugate = self.concrete.column_blocks(self.schema)
        if conjugate is None:
            raise ModelError("A program of one's own names its parameters itself, by its sites: see fit.parameters.")
        block = conjugate.block_of(column)
        if block is None:
            raise DataError(f"There is no column {column!r}. The columns are {quote_some(self.schema.columns or ())}.")
        return block.column_parameters(column, self.parameters)

    def summary(
        self, *, prob: float = 0.9, dims: export.AxisNames | None = None, coords: export.AxisNames | None = None
    ) -> "pd.DataFrame":
        """A pandas frame with a line for each number of the parameters.

        Columns are the parameter, the names along its axes (class, column, category, ...), and mean, standard deviation
        and the central interval (`lower`, `upper`); for chains also R-hat, bulk and tail effective sample sizes and the
        Monte Carlo standard error of the mean; of a point fit its value. Those of exact fits are exact, but for
        intervals of covariances of two columns and of structures, which are of 2,000 draws.

        Args:
            prob: probability of the interval.
            dims, coords: names of the axes of a program's sites, and of the places along them: see `to_datatree`.

        Raises:
            DataError: `dims` and `coords` that do not fit the parameters.

        >>> import bayesgen as bg
        >>> fit = bg.fit(bg.NaiveBayes(), {"windy": [True, True, False]}, ["rain", "rain", "dry"], method=bg.Exact())
        >>> print(fit.summary().round(2).to_string())
                parameter class column  mean    sd  lower  upper
        0     class_probs   dry         0.40  0.20   0.10   0.75
        1     class_probs  rain         0.60  0.20   0.25   0.90
        2    binary_probs   dry  windy  0.33  0.24   0.03   0.78
        3    binary_probs  rain  windy  0.75  0.19   0.37   0.98
        """
        if not isinstance(prob, float | np.floating) or not 0 < prob < 1:
            raise PredictionError(f"summary: prob must be between 0 and 1, got {prob!r}.")
        posterior, (axis_coords, axis_dims) = sampling.process_posterior(self), export.axes(self)
        numbers = posterior.numbers(float(prob))
        shapes = {name: np.shape(values) for name, values in next(iter(numbers.values())).items()}
        if posterior.is_weighted:
            axis_dims = {
                name: ["joint value", *axis_dims.get(name, export.numbered_axes(name, len(shape) - 1))]
                for name, shape in shapes.items()
            }
        defaults = axis_coords, axis_dims
        names = export.with_names_of_user(shapes, defaults, coords or {}, dims or {}, {"parameter", *numbers})
        has_own_categories = any(dim.endswith("category") for dim in coords or {})
        return frame_of_numbers(numbers, *names, {} if has_own_categories else self.schema.categories)

    def diagnose(self) -> Diagnosis:
        """Diagnostics of the chains of a fit by `NUTS`, with a verdict in words.

        Raises:
            PredictionError: a fit without chains, or with chains too short for diagnostics.

        >>> import bayesgen as bg
        >>> model = bg.NaiveBayes(bg.BetaBernoulli())
        >>> fit = bg.fit(model, [[1], [1], [0]], ["a", "a", "b"], method=bg.NUTS(num_samples=500))
        >>> fit.diagnose().verdict
        'No problem was found: the chains agree, and are long enough.'
        """
        draws = self.posterior
        if not isinstance(draws, Draws):
            raise PredictionError(
                f"diagnose() is for chains, and a fit by {self.method!r} has none, and nothing to diagnose: it is a "
                "formula or a point, or its draws are independent. Only NUTS() draws chains."
            )
        if draws.entries is None:
            raise PredictionError("The chains are too short for diagnostics: fit with num_samples of hundreds.")
        coords, dims = export.axes(self) if draws.is_identified else ({}, {})
        numbers = {name: draws.entries.by_site(value) for name, value in draws.entries.columns.items()}
        stats, table = draws.sample_stats, frame_of_numbers(numbers, coords, dims, self.schema.categories)
        chains, length = stats["diverging"].shape
        bfmi = np.square(np.diff(stats["energy"], axis=1)).mean(1) / stats["energy"].var(1)  # Betancourt (2016)
        depths = export.sampler_statistics(stats)["tree_depth"]
        problems = convergence_problems(draws.diagnosed, stats, entry_names(coords, dims), entries=draws.entries)
        if bfmi.min() < LEAST_BFMI:
            problems.append(f"E-BFMI is {bfmi.min():.2f} in a chain (below {LEAST_BFMI}): reparametrise")
        if (depths >= MAX_DEPTH).mean() > 0.01:
            problems.append(f"{(depths >= MAX_DEPTH).mean():.0%} of the trees have the greatest depth: reparametrise")
        sampler = {
            "chains": chains,
            "draws": length,
            "divergences": int(stats["diverging"].sum()),
            "least E-BFMI": round(float(bfmi.min()), 3),
            "mean depth of trees": round(float(depths.mean()), 2),
            "greatest depth of trees": int(depths.max()),
            "path": self.attributes.get("path"),
        }
        return Diagnosis(table.dropna(subset="ess_bulk", ignore_index=True), sampler, tuple(problems))

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
        check_integer("num_draws", num_draws, 1, PredictionError)
        if not isinstance(reduction, Reduction):
            raise PredictionError(f"reduction must be a Reduction of bayesgen.program, got {reduction!r}.")
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
            For models of columns a pandas frame like the data, with the label as a further column, `y`, or `y_` where
            a column of the data is called so. For programs of one's own, and where columns are sequences or given and
            not generated, a mapping with attribute sites, covariates and labels by name. The sites of a built-in model
            are its blocks, with categories as codes. Sequences are padded, (n, T) or (n, T, columns); a column of
            symbols is an array of codes, `bayesgen.data.CodedSequences`, and `fit.schema.decode(column, codes)` turns
            them into strings. `bayesgen.predict` takes all of these.

        >>> import bayesgen as bg
        >>> X = {"windy": [True, True, False, False], "sky": ["grey", "grey", "blue", "grey"]}
        >>> fit = bg.fit(bg.NaiveBayes(), X, ["rain", "rain", "dry", "dry"], method=bg.Exact())
        >>> fit.simulate(3, seed=1).columns.tolist()
        ['windy', 'sky', 'y']
        """
        return frame_of_rows(self, self.simulate_sites(n, seed=seed, **covariates))

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
        if self._coordinates is None:
            raise ModelError(
                f"{type(self.model).__name__} has no coordinates of rows: transform is for ProbabilisticPCA(), whose "
                "rows lie near a surface."
            )
        rows = self.rows_of(table, checks_sizes=False)
        coordinates = self._coordinates(rows)
        if not np.isfinite(norm(coordinates.mean)):  # some cell is so large that squares overflow
            self.concrete.check_rows(self.schema, rows.values)
        return dataclasses.replace(coordinates, index=table.index)

    @functools.cached_property
    def _coordinates(self) -> Callable[[Rows], Any] | None:
        return self.concrete.row_coordinates(sampling.process_posterior(self).mean)

    def save(self, path: str | os.PathLike) -> None:
        """Write the fit to a file, which `bayesgen.load(path)` reads: no pickle, and nothing is executed on loading.

        The file is netCDF. Draws and points stand in the groups `posterior`, `sample_stats` and `point_estimate`, which
        ArviZ and `xarray.open_datatree(path)` read; of an exact posterior, which has no draws,
        `fit.to_datatree().to_netcdf(path)` writes some. The model, the schema and the statistics are in the group
        `bayesgen`. A file is replaced when the new one is complete.

        Programs of one's own are saved by their results; `load` is then given the program. Fits can also be pickled.

        Args:
            path: of the file, whatever its ending, but that of another format: `fit.to_datatree().to_zarr("fit.zarr")`
                writes a Zarr store of the draws for other programs.

        Raises:
            DataError: a path with such an ending, of a folder, or in a folder that is not there.
            ModelError: a fit that holds what a file cannot, naming it: families and transformers of one's own.
        """
        save(self, path, export.tree_to_save(self))


# Tables of numbers, and of generated rows.


def frame_of_numbers(
    numbers: ParameterSummaries, coords: export.AxisNames, dims: export.AxisNames, categories: export.AxisNames
) -> "pd.DataFrame":
    """A frame with a line for each number of each parameter, with the names along its axes.

    Args:
        numbers: column -> parameter -> array.
        coords, dims: as `axes` gives them.
        categories: column -> its categories, which lines show where columns of a block have different ones.
    """
    import pandas as pd

    parts, labels = [], ["parameter"]
    for name, values in next(iter(numbers.values())).items():
        shape, size = np.shape(values), np.size(values)
        axis_names = dims.get(name) or export.numbered_axes(name, len(shape))
        labels_by_heading = dict[str, Any](parameter=name)
        for dim, length, index in zip(axis_names, shape, np.indices(shape), strict=True):
            heading = free_name(_heading(name, dim), [*labels_by_heading, *numbers])
            labels_by_heading[heading] = np.asarray(coords.get(dim, range(length)), object)[index.ravel()]
        labels += [label for label in labels_by_heading if label not in labels]
        cells = {column: np.ravel(arrays[name]) for column, arrays in numbers.items()}
        parts.append(pd.DataFrame({**labels_by_heading, **cells}, index=range(size)))
    frame = pd.concat(parts, ignore_index=True)[[*labels, *numbers]]
    if {"column", "category"} <= set(labels):
        frame["category"] = [
            str(categories[column][code]) if isinstance(code, int) and column in categories else code
            for column, code in zip(frame["column"], frame["category"], strict=True)
        ]
    return frame.fillna(dict.fromkeys(labels, ""))


def _heading(parameter: str, dim: str) -> str:
    """The heading of an axis, without the name of its parameter or block; `feature` is called `column`."""
    words = parameter.split("_")
    names = ["_".join(words[:count]) + "_" for count in range(len(words), 0, -1)]
    return dim.removeprefix(next(filter(dim.startswith, names), "")).replace("feature", "column")


def frame_of_rows(fit: TrainedProgram, sites: Mapping[str, np.ndarray]) -> Any:
    """Rows by site as a frame of the columns that the fit was trained on, with their label; else the rows as they are.

    They stay a mapping where columns are sequences, or are not all generated: programs of one's own, given features.
    """
    import pandas as pd

    conjugate, response = fit.concrete.column_blocks(fit.schema), fit.schema.response
    blocks = () if conjugate is None else conjugate.blocks
    columns = [*(fit.schema.columns or ())]
    columns_of_blocks = [(name, block, index) for block in blocks for index, name in enumerate(block.columns)]
    block_of = {name: (block, index) for name, block, index in columns_of_blocks}  # blocks of columns come last
    has_steps = any(block.family.kind.has_steps for block in blocks)
    names = {*columns} if response is None else {*columns, response.name}
    if not blocks or has_steps or not names <= block_of.keys():
        return dict(sites)

    def cells(block: Block, index: int) -> np.ndarray:
        return sites[block.name].reshape(len(sites[block.name]), -1)[:, index]

    frame = pd.DataFrame({name: fit.schema.decode(name, cells(*block_of[name])) for name in columns})
    if response is not None:
        response_block = next((block, index) for name, block, index in columns_of_blocks if name == response.name)
        frame[free_name(response.name, columns)] = cells(*response_block)
    elif fit.program.label is not None:
        frame[free_name(LABEL, columns)] = sites[LABEL]
    return frame
