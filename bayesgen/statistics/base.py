"""What a class-conditional distribution can do with rows, and with a summary of rows."""

import abc
from collections.abc import Mapping

import numpy as np

from bayesgen.data import Rows
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import Cells
from .densities import Reference, RowDensity
from .passes import Classes
from .summaries import Summary

Parameters = Mapping[str, Array]


class Statistic(abc.ABC):
    """A family of distributions with a sufficient statistic of fixed size.

    The log-likelihood of any number of rows is a function of their `Summary` alone. `uses_inert` says whether
    densities of rows need parameters of the base measure (see `register`) besides those that are learned;
    `takes_squares` whether they take squares of the rows' values, which may overflow.
    """

    uses_inert: bool = False
    takes_squares: bool = False

    @property
    def has_symmetries(self) -> bool:
        """Whether several parameters give the same distribution, such as those of hidden states under other names."""
        return False

    @property
    def summarizes(self) -> bool:
        """Whether it knows all that summaries take of the distribution: edges of bins, where there are any."""
        return True

    def why_impossible(self, site: str, rows: Rows, numbers: Int[np.ndarray, " n"]) -> str | None:
        """Why no parameters explain some rows of a site, and what to do; None where there are no such rows.

        Args:
            site: its name.
            rows: the data.
            numbers: by which messages name the rows.
        """
        return None

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
    def log_likelihood(self, parameters: Parameters, summary: Summary) -> Float[Array, "..."]:
        """Log-likelihood of the summarised rows, per class and column as the summary has them. Traceable."""

    @abc.abstractmethod
    def density(self, parameters: Parameters) -> RowDensity:
        """The class-conditional densities of rows at parameters, arrays with the class first. Not where `uses_inert`.

        Traceable from JAX arrays.
        """

    def without_base(self) -> "Statistic":
        """The statistic with the log base measure, which no parameter has a part in, taken as 0.

        Densities and likelihoods are then those of this one but for a factor that depends on the rows alone: it need
        not be computed again where the same rows are evaluated at many parameters.
        """
        return self

    def reference(self, parameters: Mapping[str, Float[Array, "draws K ..."]]) -> Reference | None:
        """The process in the middle of many; None where they are best evaluated one by one. Traceable."""
        return None

    def log_prob_of_many(
        self,
        parameters: Mapping[str, Float[Array, "draws K ..."]],
        values: Cells,
        observed: Bool[Array, "n ..."] | None = None,
    ) -> Float[Array, "K draws n"]:
        """Log densities of rows under many processes."""
        draws, num_classes = next(iter(parameters.values())).shape[:2]
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in parameters.items()}
        table = self.density(flat).log_prob(values, observed)
        return table.reshape(-1, draws, num_classes).transpose(2, 1, 0)
