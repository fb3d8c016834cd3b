"""Where EM, or the search of a program of one's own, starts: at parameters, as users say."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.posteriors import Parameters
from bayesgen.program import GenerativeProgram, free_vector
from bayesgen.records import fill, record
from bayesgen.typing import Float

AT_THE_EDGE = 12.0  # where a coordinate starts that is infinitely far out: a probability of 1e-5


@record
class GivenParameters:
    """Processes to start from, as users give them.

    Attributes:
        given: for each start a mapping, name of a parameter -> its value.
    """

    given: tuple[dict[str, Any], ...]

    def __init__(self, starts: Any) -> None:
        """One mapping or several; a `DataError` for a value that is no array of finite numbers."""
        several = [starts] if isinstance(starts, Mapping) else starts
        fill(self, given=tuple({name: _as_array(name, value) for name, value in each.items()} for each in several))

    def __hash__(self) -> int:
        """By names and shapes."""
        return hash(tuple(tuple((name, np.shape(value)) for name, value in each.items()) for each in self.given))

    def __repr__(self) -> str:
        return f"<{len(self.given)} of {quote_some(sorted({name for each in self.given for name in each}))}>"

    def processes(self, program: GenerativeProgram, others: Parameters) -> list[Parameters]:
        """The parameters of each start; those that it lacks are these others.

        Raises:
            DataError: a name that is no parameter; a value of another shape, or outside the support.
        """
        return [_checked(each, program, others) for each in self.given]

    def vectors(self, program: GenerativeProgram, others: Parameters) -> Float[np.ndarray, "starts D"]:
        """The unconstrained vector of each start, inside the space where it has probabilities of zero. Inside float64.

        Raises:
            DataError: see `processes`.
        """
        vectors = []
        for start in self.processes(program, others):
            latents = program.latents_of(start)
            with np.errstate(divide="ignore", invalid="ignore"):
                vectors.append(inside(free_vector(program, {name: latents[name] for name in program.latents})))
        return np.stack(vectors)


def inside(vector: Float[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
    """A vector with the coordinates moved inside the space that are at its edge, infinite, or that it leaves open."""
    return np.nan_to_num(vector, nan=0.0, posinf=AT_THE_EDGE, neginf=-AT_THE_EDGE)


def are_parameters(starts: Any) -> bool:
    """Whether starts are mappings of parameters, and not classes of rows."""
    if isinstance(starts, Mapping):
        return True
    is_list = isinstance(starts, list | tuple) and len(starts) > 0
    return is_list and all(isinstance(each, Mapping) for each in starts)


def _as_array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"starts= has for {name!r} what is no array of numbers: {value!r}.") from None
    if not np.isfinite(array).all():
        raise DataError(f"starts= has for {name!r} numbers that are not finite.")
    return array


def _checked(given: Mapping[str, np.ndarray], program: GenerativeProgram, others: Parameters) -> Parameters:
    unknown = [name for name in given if name not in others]
    if unknown:
        raise DataError(f"starts= names {quote_some(unknown)}, and the parameters are {quote_some(sorted(others))}.")
    for name, value in given.items():
        if value.shape != np.shape(others[name]):
            raise DataError(
                f"starts= has an array of shape {value.shape} for {name!r}, whose shape is {np.shape(others[name])}."
            )
    start = {**others, **given}
    latents = program.latents_of(start)
    for name, support in program.latent_supports.items():
        has_bounds = not any(isinstance(bound, jax.core.Tracer) for bound in jax.tree.leaves(support))
        if name in latents and has_bounds and not np.asarray(support(latents[name])).all():
            raise DataError(
                f"starts= is outside the space: site {name!r} has to be in {support}, and {latents[name]} is not. "
                "Probabilities are nonnegative and sum to 1."
            )
    return start
