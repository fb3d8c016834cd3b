"""What a class-conditional distribution can do with rows, and with a summary of rows."""

import abc
from collections.abc import Mapping

from bayesgen.typing import Array, Bool, Real

from .passes import Cells, Classes
from .summaries import Summary


class RowDensity(abc.ABC):
    """K class-conditional densities that are evaluated at rows.

    `parameters` is a dict of arrays whose first axis is the class.
    """

    def prepare(self, parameters):
        """Parameters with whatever is worth computing once for many chunks of rows."""
        return parameters

    @abc.abstractmethod
    def row_log_prob(self, parameters, values):
        """Log density of each row under each class, (n, K), summed over the columns of the site."""


class Statistic(RowDensity):
    """A family of distributions with a sufficient statistic of fixed size.

    The log-likelihood of any number of rows is a function of their `Summary` alone. `uses_inert` says whether
    densities of rows need parameters of the base measure (see `register`) besides those that are learned;
    `takes_squares` whether they take squares of the rows' values, which may overflow.
    """

    uses_inert: bool = False
    takes_squares: bool = False

    @abc.abstractmethod
    def summarize(
        self,
        values: Cells,
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n ..."] | None = None,
        inert: Mapping[str, Array] | None = None,
    ) -> Summary:
        """Summarise rows by class.

        Args:
            values: (n, *extra, *event), the rows (sparse where the statistic allows it).
            classes: the code of each row, 0..K-1, or its responsibilities, p(class | row).
            num_classes: K; a class may be empty.
            weights: nonnegative frequency weights; None where all are 1.
            observed: mask of the cells that are there, of the rows' shape; None where all are. What stands in the
                others does not matter.
            inert: parameters that the base measure takes but nothing learns (a total count), by name.

        Returns:
            A `Summary`: float64 NumPy arrays from NumPy arrays; from JAX arrays, traceably, JAX arrays.
        """

    @abc.abstractmethod
    def log_likelihood(self, parameters, summary):
        """Log-likelihood of the summarised rows, per class and column: (K, *extra), a JAX array."""

    def frame(self, parameters):
        """The process in the middle of many, where the log density of a row is linear in some features of it.

        Args:
            parameters: arrays with the axes (draws, K) first. JAX arrays: this and what follows is traced.

        Returns:
            What `weights` and `features` take, any pytree; None where there is no such form.
        """
        return None

    def weights(self, frame, parameters):
        """What multiplies features (draws, K, F), and is added (draws, K), to make of a frame's density the others'."""
        raise NotImplementedError

    def features(self, frame, values):
        """Log densities of rows under the frame (K, n), and their features (K, F, n)."""
        raise NotImplementedError

    def row_log_prob_of_many(self, parameters, values):
        """`row_log_prob` for many processes, (K, draws, n); parameters have the axes (draws, K) first."""
        draws, num_classes = next(iter(parameters.values())).shape[:2]
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in parameters.items()}
        return self.row_log_prob(flat, values).reshape(-1, draws, num_classes).transpose(2, 1, 0)
