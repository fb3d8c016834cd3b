"""`FactorCoordinates`: where rows lie on a surface of a few dimensions."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgen.describe import described
from bayesgen.families import nearest_factors
from bayesgen.records import by_content
from bayesgen.typing import Bool, Float, Real

if TYPE_CHECKING:
    import pandas as pd


@by_content
class FactorCoordinates:
    """The posterior of the factors of n rows at a process: normal, with these means and covariances.

    `numpy.asarray` gives the means. A row is expected at mean + loadings @ its factors.

    Attributes:
        mean: of the factors of each row.
        covariance: that of the factors, one for all rows; where cells are missing, one for each.
        loadings: of the columns, one for each factor: orthogonal, the longest first, the largest entry of each
            positive.
        index: the index of X, of a pandas frame, which `to_frame` keeps; None where rows have positions alone.
    """

    mean: Float[np.ndarray, "n k"]
    covariance: Float[np.ndarray, "*#n k k"]
    loadings: Float[np.ndarray, "D k"]
    index: "pd.Index | None" = None

    @classmethod
    def of(
        cls,
        mean: Float[np.ndarray, " D"],
        covariance: Float[np.ndarray, "D D"],
        num_factors: int,
        rows: Real[np.ndarray, "n D"],
        observed: Bool[np.ndarray, "n D"] | None,
    ) -> "FactorCoordinates":
        """Those of rows, of which the cells that are there tell.

        With W the loadings of these cells and v the noise variance, factors given a row x have the covariance v inv(M)
        and the mean inv(M) W' (x - mean), M = W' W + v I.

        Source: Tipping and Bishop (1999), Probabilistic principal component analysis, eq. 6.
        """
        loadings, noise = (np.asarray(array) for array in nearest_factors(covariance, num_factors))
        identity = np.eye(num_factors)
        if observed is None:
            inverse = np.linalg.inv(loadings.T @ loadings + noise * identity)
            return cls((rows - mean) @ loadings @ inverse, noise * inverse, loadings)
        residuals = np.where(observed, rows - mean, 0.0)
        products = np.einsum("dk,dl->dkl", loadings, loadings)
        matrices = np.tensordot(observed.astype(float), products, 1) + noise * identity
        inverses = np.linalg.inv(matrices)
        means = np.einsum("nkl,nl->nk", inverses, residuals @ loadings)
        return cls(means, noise * inverses, loadings)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The means."""
        return np.array(self.mean, dtype=dtype, copy=copy)

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame of the means, a column for each factor. It has the index of X."""
        import pandas as pd

        columns = [f"factor_{place}" for place in range(self.mean.shape[1])]
        return pd.DataFrame(self.mean, columns=columns, index=self.index)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        facts = {"next": ".mean, .covariance, .loadings, .to_frame(), numpy.asarray(...)"}
        return described(f"FactorCoordinates of {len(self.mean)} rows, {self.mean.shape[1]} factors", facts)
