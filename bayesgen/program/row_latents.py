"""`WithRowLatents`: the log density of a program's latents and of the continuous latents of its training rows."""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.records import record
from bayesgen.runtime import CACHED_CELLS, OwnedJit, SizedJit, even_chunks
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float, Int, Seed

from .arbitrary import dispersed_starts
from .density import LogPriorKind, ProgramDensity, StatisticsTerm
from .evaluation import evaluate
from .joint import program_latents
from .marginal import errors_of_normal, row_draws
from .random_numbers import drawn_by_chunks
from .structure import Arrays, Program

NUM_PROVEN = 3  # values of the other latents, given which those of rows prove normal before sampling
MOST_ERROR = 0.02  # standard deviation, over draws, of the error of a log density that is sampled


@record
class WithRowLatents(LogDensity):
    """The log density of latents, row latents and data: all that NUTS samples of a program with such latents.

    The vector holds the unconstrained latents of `ProgramDensity`, and then those of each row.

    Attributes:
        program: the bound program.
        statistics: the data; its rows are of weight one.
    """

    program: Program
    statistics: SufficientStatistics

    @classmethod
    def of(cls, program: Program, statistics: SufficientStatistics) -> "WithRowLatents":
        """The density of data, each row repeated as often as its weight says.

        Raises:
            FitError: weights that are no whole numbers; labels of some rows alone.
        """
        if statistics.rows is not None and statistics.unlabelled is not None:
            raise FitError(
                "Some rows have a label and some have none, in a program with continuous latents of each row: give "
                "labels for all of them, or for none."
            )
        rows, unlabelled = (None if r is None else repeated_rows(r) for r in (statistics.rows, statistics.unlabelled))
        return cls(program, dataclasses.replace(statistics, rows=rows, unlabelled=unlabelled))

    @property
    def rows(self) -> Rows:
        """The rows with latents."""
        rows = self.statistics.unlabelled if self.statistics.rows is None else self.statistics.rows
        assert rows is not None, "there is a row, and sites of rows with latents are kept"
        return rows

    @property
    def _latent_density(self) -> ProgramDensity:
        return ProgramDensity(self.program, (), LogPriorKind.SITES)

    @property
    def dimension(self) -> int:
        return self._latent_density.dimension + self.rows.num_rows * self.program.structure.num_free_local

    def _parts(self, vector: Float[Array, " D"]) -> tuple[Float[Array, " G"], dict[str, Float[Array, "n ..."]]]:
        """The vector of the program's latents, and the unconstrained latents of rows."""
        size, structure = self._latent_density.dimension, self.program.structure
        return vector[:size], structure.free_local(vector[size:].reshape(-1, structure.num_free_local))

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """The log density: log p(latents) + the sum over rows of log p(row latents, row | latents)."""
        latents, free = self._parts(vector)
        rows = dataclasses.replace(self.rows, values={**self.rows.values, **free})
        has_labels = self.statistics.rows is not None
        labelled, unlabelled = (rows, None) if has_labels else (None, rows)
        terms = (StatisticsTerm(dataclasses.replace(self.statistics, rows=labelled, unlabelled=unlabelled)),)
        return ProgramDensity(self.program, terms, LogPriorKind.SITES)(latents)

    @property
    def marginal(self) -> ProgramDensity | None:
        """The density of the program's latents, those of rows integrated out; None where these have several axes."""
        if self.program.structure.num_free_local != 1 or not self.program.latents:
            return None
        return ProgramDensity(self.program, (StatisticsTerm(self.statistics.padded()),), LogPriorKind.SITES)

    def with_normal_rows(self, starts: Float[np.ndarray, "starts D"]) -> "WithRowLatents | None":
        """The density that knows the latents of rows to be normal given all else; None where some are not.

        Their integrals have a closed form then. It is proven for all rows, at a few values of the other latents and one
        of the starts of chains here, and at each draw by `draws_of_rows`. Inside float64.
        """
        if self.marginal is None:
            return None
        program, rows = self.program, self.rows
        structure = dataclasses.replace(program.structure, has_normal_rows=True)
        normal_program = program.replace(structure=structure, plan=program.plan)
        cells = normal_program.num_cases * sum(np.size(leaf) for leaf in jax.tree.leaves(rows)) / rows.num_rows
        parts = even_chunks(rows.num_rows, CACHED_CELLS / cells)
        length = parts[0].stop  # of all parts, the last of which shares some rows: one size is traced
        parts = [slice(part.stop - length, part.stop) for part in parts]

        def is_normal(vector: Float[np.ndarray, " D"]) -> bool:
            latents = program_latents(program, self._latent_density.constrain(vector))
            errors = (_errors_of_normal.by_numpy(program, latents, rows.take(part)) for part in parts)
            return all(map(np.isfinite, errors))

        probes = dispersed_starts(program, 0, NUM_PROVEN)[-NUM_PROVEN:]
        are_normal = all(map(is_normal, probes)) and any(map(is_normal, starts))
        return dataclasses.replace(self, program=normal_program) if are_normal else None

    def draws_of_rows(
        self, latents: Mapping[str, Float[np.ndarray, "chain draw ..."]], seed: Seed
    ) -> dict[str, Float[np.ndarray, "chain draw n ..."]] | None:
        """Draws of the latents of rows given draws of the marginal density. Inside float64.

        None where errors of the integrals vary so much among draws that these are not of the posterior.
        """
        shared = {name: latents[name] for name in self.program.latents}
        shape = next(iter(latents.values())).shape[:2]
        numbers = self.rows.num_rows * self.program.num_cases
        draws, errors = drawn_by_chunks(_draws, self, shared, shape, seed, numbers)
        return draws if np.std(errors) < MOST_ERROR else None

    def constrain(self, vector: Float[Array, " D"]) -> dict[str, Array]:
        """Latents, deterministic sites and row latents, rows first, by name."""
        return _constrain(self, vector)

    def name_of(self, index: int) -> str:
        """The site of a coordinate."""
        size, axes = self._latent_density.dimension, self.program.structure.num_free_local
        if index < size:
            return self._latent_density.name_of(index)
        row_entries = self.program.structure.free_local(np.arange(axes)[None])
        return next(name for name, entries in row_entries.items() if (index - size) % axes in entries)

    @property
    def blocks(self) -> tuple[Int[np.ndarray, "_ _"], ...]:
        """The latents of the program in one block, and those of each row."""
        size = self._latent_density.dimension
        row_blocks = np.arange(size, self.dimension).reshape(-1, self.program.structure.num_free_local)
        return (np.arange(size)[None], row_blocks) if size else (row_blocks,)

    @property
    def cost(self) -> float:
        structure = self.program.structure
        cells = sum(np.size(leaf) for leaf in jax.tree.leaves(self.rows))
        return float(self.program.num_classes * structure.num_joint_values * cells)

    @property
    def loops_over_rows(self) -> bool:
        return True

    @property
    def has_symmetries(self) -> bool:
        return StatisticsTerm(self.statistics).has_symmetries(self.program)

    @property
    def owner(self) -> Any:
        return self.program.owner


@OwnedJit
def _constrain(density: WithRowLatents, vector: Float[Array, " D"]) -> dict[str, Array]:
    latents, free = density._parts(vector)
    values = density._latent_density.constrain(latents)
    return {**values, **_constrained(density, {name: values[name] for name in density.program.latents}, free)}


def _constrained(density: WithRowLatents, latents: Arrays, free: Arrays) -> dict[str, Float[Array, "n ..."]]:
    """The latents of rows at their unconstrained values."""
    program, rows = density.program, density.rows
    codes = jnp.maximum(rows.codes, 0)
    sites = evaluate(program, latents, codes, rows.values, rows.covariates, free_local=free).sites
    return {n: site.from_site(sites[n]["value"]) for n, site in program.structure.continuous_local}


_errors_of_normal = OwnedJit(errors_of_normal)


@functools.partial(SizedJit, few=5e5, some=math.inf)
def _draws(
    density: WithRowLatents, latents: Arrays, keys: Array
) -> tuple[dict[str, Float[Array, "draws n ..."]], Float[Array, " draws"]]:
    """A draw of the latents of rows at each draw of the others, and the error of the marginal density there."""

    def draw_rows(draw: tuple[Arrays, Array]) -> tuple[dict[str, Array], Array]:
        latents, key = draw[0], jax.random.wrap_key_data(jnp.asarray(draw[1]))
        free, errors = row_draws(density.program, latents, density.rows, density.program.row_sites, key)
        return _constrained(density, latents, free), errors.sum()

    return jax.vmap(draw_rows)((latents, keys))


def row_digests(rows: Rows) -> dict[str, str]:
    """Site or covariate -> a digest of its values in rows, by which these are known again."""
    masked = {name: np.where(mask, rows.values[name], np.nan) for name, mask in rows.observed.items()}
    arrays = {**rows.values, **masked, **rows.covariates}
    return {
        name: hashlib.blake2b(
            f"{np.shape(array)}".encode() + np.asarray(array, float).tobytes(), digest_size=16
        ).hexdigest()
        for name, array in arrays.items()
    }


def repeated_rows(rows: Rows) -> Rows:
    """Dense rows of weight one, each as often as its weight says.

    Raises:
        FitError: weights that are no whole numbers.
    """
    times = np.rint(rows.frequencies).astype(int)
    if (times != rows.frequencies).any():
        raise FitError(
            f"A row has the weight {rows.frequencies[np.argmax(times != rows.frequencies)]:g}, and the program has "
            "continuous latents of each row, of which a row of weight 2 has two: give whole numbers as sample_weight."
        )
    dense = jax.tree.map(lambda array: array.toarray() if hasattr(array, "tocsr") else np.asarray(array), rows)
    positions = np.repeat(np.arange(rows.num_rows), times)
    return dataclasses.replace(dense.take(positions), weights=np.ones(len(positions)))
