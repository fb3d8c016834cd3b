"""What was learned of the hyperparameters that all sets of examples share."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgen.errors import BayesgenWarning, warn
from bayesgen.fitting import MAP, NUTS, Method, about, datatree
from bayesgen.posteriors import Exported, entry_names, problems, warn_of
from bayesgen.program import saturated_sites
from bayesgen.records import by_content
from bayesgen.runtime import as_key
from bayesgen.typing import Float

from .marginal import ConceptMarginal, prior_starts
from .mode import find_mode

if TYPE_CHECKING:
    from xarray import DataTree

NUM_STARTS = 4  # of a search for hyperparameters, where none is given


@by_content
class SharedHyperparameters:
    """Draws of hyperparameters, or their mode.

    Attributes:
        parameters: name -> draws (chain, draw), or one number.
        method: the training method.
        attributes: how they came about, by name.
        sample_stats: name -> (chain, draw), what the sampler recorded; None where there was no sampler.
    """

    parameters: dict[str, Float[np.ndarray, "..."]]
    method: Method
    attributes: dict[str, Any]
    sample_stats: dict[str, np.ndarray] | None = None

    @property
    def boundary(self) -> dict[str, float]:
        """Name -> the end of its range, for those whose mode lies there."""
        return self.attributes.get("boundary", {})

    def to_datatree(self) -> "DataTree":
        """An `xarray.DataTree`, for ArviZ."""
        if self.sample_stats is None:
            exported = Exported.of_point(self.parameters)
        else:
            exported = Exported.of_chains(self.parameters, self.sample_stats)
        return datatree(exported, {}, {}, self.attributes | {"method": repr(self.method)})


def sample_hyperparameters(
    marginal: ConceptMarginal, method: NUTS, seed: Any, progress: bool | None
) -> SharedHyperparameters:
    """Draws of the unknown hyperparameters, the hypotheses summed out."""
    chains = method.chains(marginal, lambda: prior_starts(marginal, as_key(seed)), seed, progress)
    supports = {name: prior.support for name, prior in marginal.priors.items()}
    saturated = saturated_sites(supports, chains.values)
    warn_of(chains.attempt.remarks + saturated + problems(chains.values, chains.stats, entry_names({}, {})))
    return SharedHyperparameters(chains.values, method, about(chains), chains.stats)


def most_probable_hyperparameters(marginal: ConceptMarginal, method: MAP, seed: Any) -> SharedHyperparameters:
    """The mode of the unknown hyperparameters; one on the boundary is reported."""
    values, boundary = find_mode(marginal, as_key(seed), method.num_starts or NUM_STARTS)
    if boundary:
        ends = ", ".join(f"{name} = {bound:g}" for name, bound in boundary.items())
        warn(
            f"The mode of the hyperparameters is on the boundary: {ends}. NUTS() averages over them instead.",
            BayesgenWarning,
        )
    point = {name: np.asarray(value) for name, value in values.items()}
    return SharedHyperparameters(point, method, {"boundary": boundary})
