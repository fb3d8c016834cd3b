"""The verb `fit`, and what a training method is."""

import abc
import dataclasses
import functools
import numbers
from typing import Any

import numpy as np

from bayesgen.errors import ConstantColumnWarning, DataError, ModelError, warn
from bayesgen.models import Conjugate
from bayesgen.program import GenerativeProgram, padded
from bayesgen.runtime import check_seed, interrupts_kept, requested, used

from .agreement import check_made_for
from .data import Summaries, summarize
from .fit import Fit, prior_families


@dataclasses.dataclass(frozen=True)
class Problem:
    """One training problem, as methods see it.

    Attributes:
        model: the model as the user gave it.
        data: summaries of the training data.
        seed: integer or JAX key.
        progress: whether to show progress; None means in a terminal.
    """

    model: Any
    data: Summaries
    seed: Any
    progress: bool | None

    @functools.cached_property
    def program(self) -> GenerativeProgram:
        """The bound program."""
        return self.data.model.bind(self.data.scaled_schema)

    @functools.cached_property
    def conjugate(self) -> Conjugate | None:
        """The model's conjugate blocks with resolved priors, or None."""
        return self.data.model.conjugate(self.data.scaled_schema)

    @property
    def evidence(self):
        """The data as densities take them."""
        return padded(self.data.evidence)

    def result(self, method, state, attributes=None, **extra) -> Fit:
        """Wrap what was learned."""
        return Fit(
            model=self.model,
            schema=self.data.scaled_schema,
            program=self.program,
            method=method,
            state=state,
            concrete=self.data.model,
            prior=prior_families(self.conjugate),
            attributes={**(attributes or {}), "total_weight": self.data.total_weight, "device": used()},
            **extra,
        )

    def warn_of_constant_columns(self):
        """Say once which columns have no variance, so that their default prior takes variance 1."""
        schema = self.data.scaled_schema
        if schema.variance is None or schema.columns is None:
            return
        constant = [schema.columns[int(index)] for index in np.flatnonzero(schema.variance == 0)]
        if constant:
            warn(
                f"Constant columns {constant}: their default prior takes variance 1. Drop them if they carry nothing.",
                ConstantColumnWarning,
            )


class Method(abc.ABC):
    """A way of training: an object with the arguments of the method."""

    def check_counts(self, **counts):
        """Refuse arguments, by name, that are not whole numbers of at least 1.

        Raises:
            ModelError: naming the method and the argument.
        """
        for name, value in counts.items():
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{type(self).__name__}: {name} must be a whole number and at least 1, got {value!r}.")

    @abc.abstractmethod
    def solve(self, problem: Problem) -> Fit:
        """Train."""


def fit(
    model, X, y=None, *, method: Method, schema=None, sample_weight=None, seed=0, progress=None, device=None
) -> Fit:
    """Train a model: learn from data which processes may have made them.

    Args:
        model: `NaiveBayes`, `GaussianDiscriminant`, `GenerativeClassifier` or a `GenerativeProgram` of one's own.
        X: 2-D array, data frame (pandas, polars), scipy.sparse matrix or mapping name -> array, (n, D); for a program
            of one's own the names are its attribute sites. Or `Summaries` of this model, or an iterable of chunks
            (X, y) or (X, y, sample_weight), and then no y: see `summarize`.
        y: (n,) labels of any one type. Where X and y (or sample_weight) are both of pandas, they have one index.
        method: `MLE()`, `MAP()`, `Exact()` or `NUTS()`.
        schema: what is known of the columns; the rest is inferred.
        sample_weight: (n,) nonnegative frequency weights (weight 2 = the row twice). A row of weight 0 is absent:
            whatever is in it, nothing of it is looked at, its label and its categories included.
        seed: integer or JAX key; the same seed gives the same numbers.
        progress: whether to show progress on standard error; None means in a terminal.
        device: "cpu" or "gpu", where searches for modes and samplers run; None for a GPU, if JAX has one, where the
            work is large enough for it (see `bayesgen.runtime`). Statistics and closed forms always take the
            processor. What was used is in `fit.attributes["device"]`.

    JAX does not survive a fork: in a process that was forked after a fit had used it, fits raise a `BayesgenError`.
    Start workers by `multiprocessing.get_context("spawn")` or "forkserver", or use threads.

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
        raise DataError(f"method must be an object such as MLE(), MAP(), Exact() or NUTS(), got {method!r}.")
    check_seed(seed)
    with requested(device), interrupts_kept():
        data = prepare(model, X, y, schema=schema, sample_weight=sample_weight)
        return train(data.model, method, Problem(model, data, seed, progress))


@functools.singledispatch
def prepare(model, X, y=None, *, schema=None, sample_weight=None) -> Any:
    """The training data as methods take them, with an attribute `model`. Models of other data register their own."""
    if not isinstance(X, Summaries):
        return summarize(model, X, y, schema=schema, sample_weight=sample_weight)
    if y is not None or sample_weight is not None or schema is not None:
        raise DataError("Summaries hold their labels, weights and schema already: pass them alone.")
    check_made_for(model, X)
    return X


@functools.singledispatch
def train(model, method, problem) -> Fit:
    """Solve a problem, the model's choices made. Models that methods solve otherwise register here."""
    return method.solve(problem)
