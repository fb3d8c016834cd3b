"""The verb `fit`: a model and data make a problem, which a method solves."""

import dataclasses
import functools
import time
from collections.abc import Iterable
from typing import Any, overload

import numpy as np

from bayesgen.data import Schema
from bayesgen.errors import DataError, check_object
from bayesgen.labels import Labelled, Learned
from bayesgen.program import Model, Recipe
from bayesgen.runtime import check_seed, public, requested
from bayesgen.typing import Data, Seed, Values

from .fit import Fit
from .growth import warn_of_left_out
from .problem import Method, Problem, ProgramProblem
from .reading import training_summaries
from .summaries import Summaries, as_summaries


@overload
def fit(
    model: Recipe[Labelled],
    X: Data | Iterable[tuple] | Summaries | Problem,
    y: Values | None = ...,
    *,
    method: Method,
    schema: Schema | None = ...,
    sample_weight: Values | None = ...,
    seed: Seed = ...,
    progress: bool | None = ...,
    device: str | None = ...,
) -> Fit[Labelled]: ...
@overload
def fit(
    model: Model[Learned],
    X: Any,
    y: Values | None = ...,
    *,
    method: Method,
    schema: Schema | None = ...,
    sample_weight: Values | None = ...,
    seed: Seed = ...,
    progress: bool | None = ...,
    device: str | None = ...,
) -> Learned: ...
@public
def fit(
    model: Model[Any],
    X: Any,
    y: Values | None = None,
    *,
    method: Method,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
    seed: Seed = 0,
    progress: bool | None = None,
    device: str | None = None,
) -> Any:
    """Train a model: infer from data the process that generated them.

    Args:
        model: `NaiveBayes`, `GaussianDiscriminant`, `GenerativeClassifier` or a `GenerativeProgram` of one's own.
        X: 2-D array, data frame (pandas, polars), scipy.sparse matrix or mapping name -> array, (n, D); for a program
            of one's own the names are its attribute sites. Or rows that stay where they lie, of which statistics alone
            are computed: a polars LazyFrame, DuckDB relation, Ibis table, pyarrow Dataset, Arrow stream, Dask or Spark
            DataFrame, or a path, folder or pattern of Parquet files. Or, without y: `Summaries` of this model, or an
            iterable of chunks (X, y) or (X, y, sample_weight), see `summarize`.
        y: (n,) labels of any one type, some of which may be missing (None, NaN, pandas.NA, null): `MLE` and `MAP` use
            EM for these rows, `NUTS` marginalises their classes, and `Exact` refuses them. Numbers, where the model's
            label is continuous; a classifier warns of numbers that look like a quantity: see `Schema`. Where X and y
            (or sample_weight) are both of pandas, they have one index. Or the name of a column of X, which then is
            no attribute, and is ignored in new rows; of rows that lie elsewhere always a name.
        method: `MLE()`, `MAP()`, `Exact()` or `NUTS()`.
        schema: declarations for the columns; the rest is inferred.
        sample_weight: (n,) nonnegative frequency weights (weight 2 = the row twice). A row of weight 0 is ignored, its
            label and its categories included. Or the name of a column of X.
        seed: integer or JAX key; the same seed gives the same numbers.
        progress: whether to show bars on standard error; None means in a terminal. Unless it is False, a call that
            shows none for four seconds says in one line what it is doing.
        device: "cpu" or "gpu", where searches for modes and samplers run; None for a GPU, if JAX has one, where the
            work is large enough for it (see `bayesgen.runtime`). Statistics and closed forms always take the
            processor. The device used is in `fit.attributes["device"]`.

    Cells of X may be missing: NaN, None, pandas.NA, null, masked. They are marginalised, neither imputed nor dropped:
    the likelihood is that of the observed cells. It is correct where cells are missing at random: given the observed
    cells and the label of a row, whether a cell is missing does not depend on its value. Where it does, as for incomes
    that are withheld because they are high, estimates are biased, and no method here corrects that.

    JAX does not survive a fork: in a process that was forked after a fit, further fits raise a `BayesgenError`. Start
    workers by `multiprocessing.get_context("spawn")` or "forkserver", or use threads.

    Raises:
        DataError: data that do not fit the schema; summaries made for another model; device="gpu" where JAX has none.
        ModelError: a program that breaks a convention, a hyperparameter outside its range.
        FitError: an estimate that does not exist for these data.

    >>> import bayesgen as bg
    >>> result = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"], method=bg.Exact())
    >>> result.parameters["class_probs"].tolist()
    [0.5, 0.5]
    """
    if not isinstance(method, Method):
        check_object("method", method, Method, DataError)
    check_seed(seed)
    start = time.perf_counter()
    with requested(device):
        problem = X
        if not isinstance(X, Problem):
            keeps_rows = method.needs_rows
            problem = prepare(model, X, y, schema=schema, sample_weight=sample_weight, keeps_rows=keeps_rows)
        solved = dataclasses.replace(problem, seed=seed, progress=progress).fit_by(method)
        if isinstance(solved, Fit) and (left_out := solved.attributes.get("sites_left_out")):
            warn_of_left_out(left_out)
        return dataclasses.replace(solved, seconds=time.perf_counter() - start)


@functools.singledispatch
def prepare(
    model: Any,
    X: Any,
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
    keeps_rows: bool = False,
) -> Problem[Any]:
    """The problem of training a model on data. Models of data other than rows by column register their own function.

    `keeps_rows` keeps the labelled rows, for methods that need them besides their statistics.
    """
    read = as_summaries if isinstance(X, np.ndarray) else training_summaries
    data = read(model, X, y, schema=schema, sample_weight=sample_weight, keeps_rows=keeps_rows)
    return ProgramProblem(model, data)
