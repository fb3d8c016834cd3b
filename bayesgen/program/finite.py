"""Discrete latents, and their joint values."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from bayesgen.typing import Int


@dataclasses.dataclass(frozen=True)
class FiniteSite:
    """The name and shape of a discrete latent, and the values that each of its entries may have."""

    name: str
    shape: tuple[int, ...]
    values: range


def joint_values(sites: Sequence[FiniteSite]) -> dict[str, Int[np.ndarray, "J ..."]]:
    """Discrete latent -> its value in each of the joint values of all of them."""
    sizes = [len(site.values) for site in sites for _ in range(math.prod(site.shape))]
    cells = iter(np.unravel_index(np.arange(math.prod(sizes)), sizes) if sizes else ())
    by_entry = {site: [next(cells) for _ in range(math.prod(site.shape))] for site in sites}
    return {s.name: s.values.start + np.stack(by_entry[s], axis=1).reshape(-1, *s.shape) for s in sites}
