"""Instances that a program generates, in many worlds at once: compiled once for a number of rows."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from bayesgen.errors import DataError
from bayesgen.program import (
    FAST_TO_COMPILE,
    AnyProgram,
    Arrays,
    Plan,
    Program,
    Site,
    simulated,
    sites_of,
    with_covariates,
)
from bayesgen.records import content_hash, record
from bayesgen.runtime import OwnedJit, in_float64
from bayesgen.typing import Array, PRNGKeyArray, Shaped

from .model_arguments import own_array


def with_covariates_of_rows(
    program: AnyProgram, n: int, covariates: Mapping[str, Any]
) -> tuple[AnyProgram, dict[str, Shaped[Array, "n ..."]]]:
    """The program of covariates of n rows, and their values.

    Raises:
        DataError: missing covariates, or covariates without one value a row.
    """
    missing = [name for name in program.covariates if name not in covariates]
    if missing:
        arguments = ", ".join(f"{name}=..." for name in missing)
        raise DataError(f"The program computes with covariates that each row has: write simulate(n, {arguments}).")
    cells = {name: np.asarray(v) if np.ndim(v) else np.full(n, v) for name, v in covariates.items()}
    for name, value in cells.items():
        if value.shape[:1] != (n,):
            raise DataError(f"Covariate {name!r} has the shape {value.shape}, and {n} rows need one value each.")
    program, values = with_covariates(program, cells)
    program.check_indexes(values)
    return program, values


@in_float64
def draw_sites(
    program: Program, n: int, keys: PRNGKeyArray, latents: Mapping[str, Any], covariates: Mapping[str, Any]
) -> dict[str, Shaped[np.ndarray, "worlds ..."]]:
    """Site -> its values in some worlds, each with its key and, where given, its latents: in one compiled call.

    Covariates are compiled in. So one world that has any is run by itself: each new table would compile it again. So is
    one world of stated latents, as NumPyro checks values only where they are no tracers, and one that cannot be
    compiled, as NumPyro bounds multinomial samples by the values of totals that are drawn.

    Raises:
        ModelError: a function that reads other numbers now than when the program was made.
    """
    latents, is_single = {name: np.asarray(value) for name, value in latents.items()}, len(keys) == 1
    _ = program.function_as_made  # compiled code would not notice that it has changed
    if not is_single or not (covariates or latents):
        bare = program.replace(structure=program.structure, plan=Plan(()))  # no density is needed, and so no plan
        try:
            drawn = _worlds(bare, keys, latents, n=n, covariates=_Covariates.of(covariates))
            return {name: np.asarray(value) for name, value in drawn.items()}
        except ValueError:
            if not is_single:
                raise
    first = {name: jnp.asarray(value[0]) for name, value in latents.items()}
    return {name: np.asarray(value)[None] for name, value in _world(program, n, keys[0], first, covariates).items()}


def _world(
    program: Program, n: int, key: PRNGKeyArray, latents: Arrays, covariates: Mapping[str, Any]
) -> dict[str, Array]:
    """Site -> its value in one run of the program."""
    trace = sites_of(handlers.substitute(program.function_as_made, data=latents), n, covariates, key)
    row_names = (*dict(program.structure.row_deterministics), *program.row_sites)
    names = (*program.latents, *program.structure.deterministics, *row_names)
    return {name: trace[name]["value"] for name in names}


@record
class _Covariates:
    """Covariates that are compiled in, as NumPyro bounds samples of counts and sequences by their values."""

    values: dict[str, Any]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "_Covariates":
        """Covariates as arrays of their own: see `bayesgen.generative.model_arguments.own_array`."""
        return cls({name: own_array(value) for name, value in values.items()})

    __hash__ = content_hash


@functools.partial(OwnedJit, static_argnames=("n", "covariates"), compiler_options=FAST_TO_COMPILE)
def _worlds(program: Program, keys: Any, latents: Arrays, *, n: int, covariates: _Covariates) -> dict[str, Array]:
    """The values of all sites of programs run with different keys and latents, (worlds, ...)."""
    return jax.vmap(lambda key, values: _world(program, n, key, values, covariates.values))(keys, latents)


def rows_of_worlds(
    program: Program, drawn: Mapping[str, np.ndarray], sites: Iterable[tuple[str, Site]], covariates: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Site or covariate -> the rows of all worlds, one world after another; labels as codes."""
    rows = {name: simulated(site, _joined(drawn[name], site), program.rows_first) for name, site in sites}
    num_worlds = len(next(iter(drawn.values())))
    rows |= {name: np.concatenate([value] * num_worlds) for name, value in covariates.items()}
    if program.label is not None:
        rows[program.label] = drawn[program.label].reshape(-1)
    return rows


def _joined(values: Shaped[np.ndarray, "worlds ..."], site: Site) -> Shaped[np.ndarray, "..."]:
    """The rows of all worlds along the instance axis of a site."""
    by_world = np.moveaxis(values, 0, site.position)
    return by_world.reshape(*by_world.shape[: site.position], -1, *by_world.shape[site.position + 2 :])
