"""`Response`: where the continuous label of a model stands among its attributes."""

import dataclasses

import numpy as np

from bayesgen.data import Rows
from bayesgen.typing import Array, Bool, Float


@dataclasses.dataclass(frozen=True)
class Response:
    """A continuous label: an attribute, or a column of one, that new rows lack.

    Attributes:
        site: the attribute site.
        column: its place among the columns of the site; None where the site is the response alone, (n,).
        is_needed: whether other attributes are made from it, so that nothing is known of these without it.
    """

    site: str
    column: int | None = None
    is_needed: bool = False

    def put(self, rows: Rows, values: Float[Array, " n"]) -> Rows:
        """The rows with these values of the response."""
        return self._replaced(rows, np.asarray(values, np.float64), np.ones(rows.num_rows, bool))

    def without(self, rows: Rows) -> Rows:
        """The rows without their response, as new ones are."""
        return self._replaced(rows, np.full(rows.num_rows, np.nan), np.zeros(rows.num_rows, bool))

    def values(self, rows: Rows) -> Float[np.ndarray, " n"]:
        """The response of each row, NaN where it is missing."""
        cells, mask = (np.asarray(arrays[self.site]) for arrays in (rows.values, rows.observed | self._whole(rows)))
        if self.column is not None:
            cells, mask = cells[:, self.column], mask[:, self.column]
        return np.where(mask, cells, np.nan)

    def is_alone(self, rows: Rows) -> bool:
        """Whether nothing else of a row is modelled, which then is given."""
        whole = self.column is None or rows.values[self.site].shape[1] == 1
        return whole and set(rows.values) == {self.site}

    def _whole(self, rows: Rows) -> dict[str, Bool[np.ndarray, "n ..."]]:
        """The mask of the site where none of its cells is missing."""
        return {} if self.site in rows.observed else {self.site: np.ones(rows.values[self.site].shape, bool)}

    def _replaced(self, rows: Rows, values: Float[np.ndarray, " n"], is_there: Bool[np.ndarray, " n"]) -> Rows:
        mask = (rows.observed | self._whole(rows))[self.site]
        if self.column is None:
            cells, mask = values, is_there
        else:
            cells, mask = np.array(rows.values[self.site], np.float64), np.array(mask)
            cells[:, self.column], mask[:, self.column] = values, is_there
        observed = {site: of_site for site, of_site in rows.observed.items() if site != self.site}
        observed |= {} if mask.all() and len(mask) else {self.site: mask}
        return dataclasses.replace(rows, values=rows.values | {self.site: cells}, observed=observed)
