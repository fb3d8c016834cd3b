"""`Fit`: the questions that a trained model answers."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal

import jax
import numpy as np

from bayesgen.data import (
    RowsLike,
    read_table,
)
from bayesgen.describe import amount, counted, described, quote_some, shapes, shortened
from bayesgen.errors import DataError, ModelError, PredictionError, warn
from bayesgen.labels import Labelled
from bayesgen.models import FactorCoordinates
from bayesgen.posteriors import At, ProcessPosterior, chains_joined
from bayesgen.program import Reduction, log_joint_draws, reduce_draws
from bayesgen.records import by_content
from bayesgen.runtime import as_key, check_seed, in_batches, interrupts_kept, requested
from bayesgen.saving import save
from bayesgen.typing import Data, Float, Int, Seed, Values

from .components import with_one_order
from .export import draws, log_likelihood, predictive, samples, to_datatree, tree_of_kept
from .growth import with_class, with_classes_kept, with_rows
from .summaries import Summaries
from .tables import Diagnosis, diagnosis, frame_of_rows, summary
from .trained import TrainedProgram
from .unobserved import HiddenStates, HiddenStatesRule, imputed, site_of_states, states_by

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

LOG_JOINT_KINDS = ("mean", "mode", "draws", "predictive")


@by_content
class Fit(TrainedProgram, Generic[Labelled]):
    """A trained model.

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

    def __repr__(self) -> str:
        return described(f"Fit of {self.model!r}", _description_of(self))

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
        wanted = self.read(X)
        if response is not None and response.is_only_attribute(wanted):
            raise PredictionError(
                "X is given and not modelled, so there is no log p(x). Ask for "
                "predict(fit, X, rule=...).log_density(y)."
            )
        wanted = wanted if rows is None else wanted.take(rows)
        if at != "draws":
            return self.posterior.log_joint(wanted, at)
        latents = chains_joined(self.posterior.draws(1000, as_key(seed)))
        return log_joint_draws(self.program.for_prediction, latents, wanted)

    def reduce_draws(
        self, X: RowsLike, reduction: Reduction, *, num_batches: int = 100, num_draws: int = 4000, seed: Seed = 0
    ) -> tuple[dict[str, np.ndarray], int]:
        """Reduce the log-joint tables of batches of draws, never holding them all. See `rowwise`.

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
        return frame_of_rows(self, self.simulate_sites(n, seed=seed, **covariates))

    def simulate_sites(self, n: int, *, seed: Seed = 0, **covariates: Any) -> dict[str, np.ndarray]:
        """The rows of `simulate` by site: attributes, covariates, and labels under the label site's name."""
        first, second = jax.random.split(as_key(seed))
        if self.posterior.can("draws"):
            draws = chains_joined(self.posterior.draws(1, first))
            index = int(jax.random.randint(first, (), 0, len(next(iter(draws.values())))))
            chosen = {name: value[index] for name, value in draws.items()}
        else:
            chosen = self.program.latents_of(self.parameters)
        known = {name: chosen[name] for name in self.program.latents}
        rows = self.program.simulate(n, seed=second, latents=known, **covariates)
        self.schema.check_ranges(rows)
        return rows

    def predictive(
        self, num_samples: int, X: RowsLike | None = None, *, new_rows: bool = False, seed: Seed = 0
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
        return predictive(self, num_samples, X, new_rows, seed)

    def samples(self, group_by_chain: bool = False, *, num_draws: int = 1000, seed: Seed = 0) -> dict[str, np.ndarray]:
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
        return samples(self, group_by_chain, num_draws, seed)

    def draws(self, n: int, *, seed: Seed = 0) -> dict[str, np.ndarray]:
        """n draws of the parameters from the posterior, name -> (n, ...).

        They are independent in exact fits. Of chains they are chosen at random, without replacement while there are
        as many.

        Raises:
            PredictionError: a point estimate; an average over structures.

        >>> import bayesgen as bg
        >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"], method=bg.Exact())
        >>> fit.draws(3, seed=1)["real_mean"].shape
        (3, 2, 1)
        """
        return draws(self, n, seed)

    def log_likelihood(
        self, X: RowsLike, y: Values | None = None, *, num_draws: int = 1000, seed: Seed = 0
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
        return log_likelihood(self, X, y, num_draws, seed)

    def summary(
        self,
        *,
        prob: float = 0.9,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
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
        return summary(self, prob, dims or {}, coords or {})

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
        return diagnosis(self)

    def impute(self, X: Data, num_draws: int = 0, *, seed: Seed = 0) -> Any:
        """X with its missing cells imputed, given the observed cells of their row.

        The default is the mean, sum_k p(k | x_observed) E[x_missing | k, x_observed] over classes k, and the most
        probable value in categorical and binary columns. Draws also show the uncertainty of the cells. Parameters are
        integrated out in exact fits, and averaged over 200 of the draws of `NUTS`, each weighted by the probability of
        the row. `fit` and `predict` do not need imputation: they marginalise.

        Args:
            X: rows, in any form that `fit` takes. The result has the same form, but lists and series become arrays.
            Draws are the first axis of an array, or a list of frames.
            num_draws: number of imputed copies of X to draw; 0 for one of means and most probable values.
            seed: integer or JAX key, of the draws.

        Raises:
            ModelError: a program of one's own, whose cells have no known conditional distributions.
            PredictionError: an average over structures; a row that is impossible under every class.

        >>> import bayesgen as bg
        >>> X = [[1.0, 2.1], [2.0, 3.9], [3.0, 6.2], [7.0, 1.0], [8.0, 2.0], [9.0, 2.9]]
        >>> fit = bg.fit(bg.GaussianDiscriminant("tied"), X, list("aaabbb"), method=bg.Exact())
        >>> fit.impute([[2.5, None], [8.5, 2.4]]).round(1).tolist()
        [[2.5, 4.2], [8.5, 2.4]]
        >>> fit.impute([[2.5, None], [8.5, 2.4]], num_draws=100).shape
        (100, 2, 2)
        """
        return imputed(self, X, num_draws, seed)

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

    def states(self, X: Data, *, rule: HiddenStatesRule, site: str | None = None) -> HiddenStates:
        """The hidden states of sequences at each time step: of `DirichletHiddenMarkov`, and of `HiddenMarkov` sites.

        `PlugIn()` smooths at its process, p(state | all time steps, Q), and gives the most probable path. `BMA()`
        averages over draws from the posterior, each weighted by p(x | Q), the class included where there are classes;
        `ConditionalAverage()` weights all draws equally. Where the prior is exchangeable in the states, draws may have
        them in different orders; all are put in the order of the draw of highest density. At a missing time step,
        states are inferred from the other time steps.

        Args:
            X: sequences, in any form that `fit` takes.
            rule: an object such as `PlugIn()` or `BMA()`.
            site: the column, block or attribute site, where several have states.

        Raises:
            ModelError: a model without hidden states; several sites with states, and none named.
            PredictionError: a rule that the fit cannot answer; an average over structures.

        Source: Rabiner (1989), A tutorial on hidden Markov models, section III, problem 2.

        >>> import bayesgen as bg
        >>> X = {"level": [[0.1, -0.2, 0.0, 5.1, 4.9, 5.0, 5.2, 0.1], [5.0, 5.1, 0.2, -0.1]]}
        >>> model = bg.GenerativeClassifier([("level", bg.DirichletHiddenMarkov(2), ["level"])], class_prior=None)
        >>> fit = bg.fit(model, X, method=bg.MAP(num_starts=1))
        >>> states = fit.states({"level": [[5.2, None, 0.3]]}, rule=bg.PlugIn())
        >>> states.paths.tolist(), states.probabilities.round(2).tolist()
        ([[1, 0, 0]], [[[0.0, 1.0], [0.53, 0.47], [1.0, 0.0]]])
        """
        if isinstance(rule, type) or not isinstance(rule, HiddenStatesRule):
            raise PredictionError(f"rule must be an object such as PlugIn() or BMA(), got {rule!r}.")
        with requested(None), interrupts_kept():
            return states_by(rule, self, X, site_of_states(self, site))

    def local(self, X: Data, *, rule: HiddenStatesRule, site: str | None = None) -> HiddenStates:
        """The posterior of a discrete latent of each row, of a program with `local=(...)`, given all else in the row.

        The answer is that of `states`, its time steps the cells of the latent in a row: one, unless it is sampled in a
        further plate. State s is the s-th of its values. Where there are classes, it is given each class. `PlugIn()`
        also gives the most probable joint value of all local latents, `paths`.

        Args:
            X: rows, in any form that `fit` takes.
            rule: an object such as `PlugIn()` or `BMA()`.
            site: the latent, where there are several.

        Raises:
            ModelError: a model without local latents; several of them, and none named.
            PredictionError: a rule that the fit cannot answer; an average over structures.
        """
        if isinstance(rule, type) or not isinstance(rule, HiddenStatesRule):
            raise PredictionError(f"rule must be an object such as PlugIn() or BMA(), got {rule!r}.")
        with requested(None), interrupts_kept():
            return states_by(rule, self, X, site_of_states(self, site, local=True))

    def update(
        self,
        X: Data | Iterable[tuple] | Summaries,
        y: Values | None = None,
        *,
        sample_weight: Values | None = None,
        seed: Seed = 0,
        progress: bool | None = None,
    ) -> "Fit[Labelled]":
        """The fit of the training rows and more rows; may be repeated.

        The result equals the fit of all rows at once under the prior of this fit (`fit.prior`), with its log evidence,
        up to rounding. Fits by `Exact`, `MLE` and `MAP` keep the sufficient statistics of their rows for it, but no
        rows.

        Args:
            X, y: more rows, as `fit` takes them, of the same columns, categories and classes; or `Summaries` of them.
            sample_weight: their weights.
            seed, progress: as `fit` takes them, where the method is a search.

        Raises:
            DataError: a class or category that the schema does not have: declare all of them, in
                Schema(classes=..., categories=...), before the first fit; `add_class` adds a class.
            FitError: draws (`NUTS`); a program with sites that have no sufficient statistic.

        >>> import bayesgen as bg
        >>> model, X, y = bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"]
        >>> fit = bg.fit(model, X, y, method=bg.Exact()).update([[3.0], [8.0]], ["a", "b"]).update([[2.0]], ["a"])
        >>> fit.attributes["total_weight"]
        7.0
        """
        return self._of(with_rows(self, X, y, sample_weight), seed, progress)

    def add_class(
        self,
        label: Any,
        X: Data | Iterable[tuple],
        *,
        sample_weight: Values | None = None,
        seed: Seed = 0,
        progress: bool | None = None,
    ) -> "Fit[Labelled]":
        """The fit with one more class, learned from its rows alone; the parameters of the other classes do not change.

        The new class has the prior of the others, as the first fit resolved it, and their concentration. The result
        equals the fit of all rows with all classes, under the prior of this fit.

        Args:
            label: the new class: in its place if the classes are sorted, else the last.
            X: its rows, as `fit` takes them; chunks are tuples (X,) or (X, None, sample_weight).
            sample_weight: their weights.
            seed, progress: as `fit` takes them, where the method is a search.

        Raises:
            DataError: a class that the fit has (`update` takes more rows of it); rows that do not fit the schema.
            FitError: a model in which classes are not learned separately: tied families, hyperparameters given class by
                class or as distributions, fixed class probabilities, averages over structures, programs of one's own;
                draws (`NUTS`).

        >>> import bayesgen as bg
        >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"], method=bg.Exact())
        >>> more = fit.add_class("b", [[4.0], [5.0]])
        >>> more.classes.tolist(), more.parameters["class_probs"].round(3).tolist()
        (['a', 'b', 'c'], [0.333, 0.333, 0.333])
        >>> more.parameters["real_mean"][[0, 2]].tolist() == fit.parameters["real_mean"].tolist()
        True
        """
        return with_classes_kept(self._of(with_class(self, label, X, sample_weight), seed, progress), self)

    def _of(self, data: Summaries, seed: Seed, progress: bool | None) -> "Fit[Labelled]":
        """The fit of other data by the same method."""
        check_seed(seed)
        with requested(None), interrupts_kept():
            trained = self.method.trained(self.model, data, seed, progress)
        warn_of_left_out(trained.attributes.get("sites_left_out", {}))
        return trained

    def relabel(self) -> "Fit[Labelled]":
        """The fit of a mixture by `NUTS()` with the components of all its draws in one order.

        Components are exchangeable, so their order may differ between draws. They are matched by their responsibilities
        for training rows, first to those of the draw of highest density. Then means, R-hat and plots of parameters, and
        responsibilities averaged over draws, are meaningful. Warns if chains still disagree.

        Raises:
            FitError: anything but draws of a mixture with exchangeable components.

        Source: Stephens (2000), Dealing with label switching in mixture models, section 4.
        """
        return with_one_order(self)

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
        save(self, path, tree_of_kept(self))

    def to_datatree(
        self,
        X: RowsLike | None = None,
        y: Values | None = None,
        *,
        prior: bool = False,
        predictive: bool = False,
        num_draws: int = 1000,
        seed: Seed = 0,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
    ) -> "DataTree":
        """Export to an `xarray.DataTree` for ArviZ.

        Groups: `posterior` (and `sample_stats`) of chains for NUTS; `posterior` of 4 x `num_draws` independent draws
        for an exact fit, marked by the attribute `sampling = "independent"`; `point_estimate` for MLE and MAP;
        `log_prior` of draws, by site. With rows, `observed_data`, `constant_data` (covariates) and `log_likelihood`,
        whose variable is the sum of all sites; the tables by site, and log p(y | x) as "{label}_given_x", are
        coordinates beside it: `arviz_stats.loo(tree)` takes the sum, `loo(tree, var_name="y_given_x")` scores classes.

        Dimensions are `class` (of a mixture, `component`), the columns (`feature`, or `{block}_feature` where there are
        several blocks), `category` and `row`, with the labels' and columns' own names as coordinates. In a program of
        one's own an axis is `class` where each entry belongs to one class, and `row` where it belongs to a training
        row; the others are called `{site}_dim_{axis}`, unless `dims` names them. Labels and categories in data are
        codes, and so are the categories of parameters where columns of a block have different ones, which `summary`
        names. Attributes say how the fit came about.

        `arviz_plots.plot_ppc_pit` takes variables with the axis `row` alone, from any tree: choose one column of a
        block by `var_names=` and `coords={"feature": "height"}`.

        Args:
            X, y: rows and labels, as `fit` takes them.
            prior: whether to add `prior`, `num_draws` draws of the parameters.
            predictive: whether to add `posterior_predictive`, a data set like X for each draw; `prior_predictive` too
                where `prior` is asked for.
            num_draws: of an exact fit for each of four chains, and of the prior.
            seed: integer or JAX key.
            dims: site -> names of its axes; coords: name of an axis -> names along it, both as ArviZ takes them.

        Raises:
            DataError: `dims` of no variable, and `dims` and `coords` of other numbers of names than it has axes or
                entries.
            FitError: draws from a point estimate's posterior predictive, or from an improper prior.
            PredictionError: more numbers than half of the memory.

        >>> import bayesgen as bg
        >>> X, y = [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"]
        >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
        >>> list(fit.to_datatree(X, y, prior=True).children)
        ['posterior', 'log_prior', 'observed_data', 'log_likelihood', 'prior']
        """
        return to_datatree(self, X, y, prior, predictive, num_draws, seed, dims or {}, coords or {})


def warn_of_left_out(left_out: Mapping[str, str]) -> None:
    """Warn of deterministic sites that depend on rows and are not among the parameters, each with its reason."""
    for reason in dict.fromkeys(left_out.values()):
        names = quote_some([name for name, of_name in left_out.items() if of_name == reason])
        warn(
            f"The fit leaves the deterministic sites {names} out, which depend on the training rows: {reason}. "
            "fit.predictive(num_samples, X) evaluates them at rows X."
        )


def _description_of(fit: Fit) -> dict[str, str | None]:
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
