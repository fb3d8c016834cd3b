"""Experiments with a program: arbitrary latents, random labels, rows that come again and again."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from bayesgen.data import Covariate
from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Shaped

from .arbitrary import run
from .base import Arrays, Program
from .evaluation import Evaluation, evaluate, evaluate_classes

FEW = 58  # rows of a second probe, all of one class: of other parity, and with classes that do not occur
LEAST, MOST, NUMBERS = 101, 4_099, 2**18  # rows of a probe, and about how many numbers its parameters are
SPREADS = (1.0, 1.0, 4.0, -4.0)  # of the latents, in standard deviations of their priors: the last are in the tails
# A probe runs once: optimising what it compiles to would take longer than running it.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

Measured = TypeVar("Measured")
Measure = Callable[[Arrays, Arrays], Measured]  # of latents and rows


@dataclasses.dataclass(frozen=True)
class Probe:
    """A program at so many arbitrary rows.

    Attributes:
        program: what is experimented with.
        size: number of rows.
    """

    program: Program
    size: int = LEAST

    def with_rows(self, most: int = MOST, numbers: int = NUMBERS) -> "Probe":
        """The probe with as many rows as may be and as make no more than so many parameters, `LEAST` at least."""
        return Probe(self.program, most).within(most, numbers)

    def within(self, most: int, numbers: int) -> "Probe":
        """The probe, with fewer rows where these make too many parameters."""
        return Probe(self.program, min(self.size, most, max(LEAST, numbers // self._numbers_per_row)))

    @functools.cached_property
    def _numbers_per_row(self) -> int:
        """How many numbers the distributions of one row are made of, roughly."""

        def count(latents: Arrays, rows: Arrays) -> int:
            sites = self.evaluate_classes(latents).sites.values()
            return sum(jnp.size(leaf) for message in sites for leaf in jax.tree.leaves(message["fn"]))

        structure = self.program.structure
        shapes = [part.row_shape for _, part in structure.attributes + structure.covariates]
        cells = sum(map(math.prod, shapes))
        return max(1, Probe(self.program).abstractly(count) // self.program.num_classes + cells)

    # --- arbitrary values ---------------------------------------------------------------------------------------

    @property
    def codes(self) -> Int[np.ndarray, " n"]:
        """Random labels."""
        return np.random.default_rng(0).integers(0, self.program.num_classes, self.size)

    @property
    def few_codes(self) -> Int[np.ndarray, " few"]:
        """The labels of `evaluate_few`."""
        return np.zeros(min(FEW, self.size), int)

    @property
    def covariates(self) -> dict[str, Shaped[Array, "n ..."]]:
        """Covariates that differ from row to row, and from cell to cell."""

        def numbers(column: Covariate) -> Shaped[Array, "n ..."]:
            places = np.add.outer(np.arange(self.size), np.arange(math.prod(column.row_shape)))
            values = places % 3 + (column.dtype.kind != "b")
            return jnp.asarray(values.reshape(self.size, *column.row_shape), column.dtype)

        return {name: numbers(column) for name, column in self.program.structure.covariates}

    def values(
        self, key: PRNGKeyArray, spread: float | Float[Array, ""] = 1.0
    ) -> tuple[dict[str, Shaped[Array, "..."]], dict[str, Shaped[Array, "n ..."]]]:
        """Arbitrary latents and rows; the rows come again and again, as drawing them would take the most time."""
        trace = run(self.program, LEAST, Probe(self.program).covariates, key, spread)
        latents = {name: trace[name]["value"] for name in self.program.latents}
        rows = {name: site.from_site(trace[name]["value"]) for name, site in self.program.structure.attributes}
        return latents, jax.tree.map(lambda values: values[np.arange(self.size) % LEAST], rows)

    def zeros(self) -> tuple[dict[str, Shaped[Array, "..."]], dict[str, Shaped[Array, "n ..."]]]:
        """Latents and rows of the right shapes, for what can be known without numbers."""
        shapes = jax.eval_shape(self.values, jax.random.key(0))
        return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

    # --- runs ---------------------------------------------------------------------------------------------------

    def evaluate(self, latents: Arrays, rows: Arrays) -> Evaluation:
        """The program run at the rows."""
        return evaluate(self.program, latents, self.codes, rows, self.covariates)

    def evaluate_few(self, latents: Arrays, rows: Arrays) -> Evaluation:
        """The program run at fewer rows, all of class 0."""
        rows, covariates = jax.tree.map(lambda values: values[:FEW], (rows, self.covariates))
        return evaluate(self.program, latents, self.few_codes, rows, covariates)

    def evaluate_classes(self, latents: Arrays) -> Evaluation:
        """The program run at the classes, with the first row's covariates."""
        return evaluate_classes(self.program, latents, self.covariates)

    def abstractly(self, measure: Measure[Measured]) -> Measured:
        """What a measure gives for tracers, for what can be known without numbers."""
        results: list[Measured] = []
        jax.eval_shape(lambda key: results.append(measure(*self.values(key))), jax.random.key(0))
        return results[0]

    def numerically(self, measure: Measure[Measured]) -> Measured:
        """The arrays of a measure at several draws, stacked."""
        first, second, tails = jax.random.split(jax.random.key(1), 3)
        keys = jnp.stack([first, second, tails, tails])  # what is in one tail there is in the other tail here
        measures = jax.jit(jax.vmap(lambda *draw: measure(*self.values(*draw))), compiler_options=QUICKLY)
        return jax.tree.map(np.asarray, measures(keys, jnp.asarray(SPREADS)))

    def jaxpr(self) -> ClosedJaxpr:
        """What the program does to make the prior and the distributions of the rows, as its plan reads them."""
        plan = self.program.plan

        def everything(latents: Arrays, rows: Arrays, codes: Int[Array, " n"], covariates: Arrays) -> Any:
            evaluation = evaluate(self.program, latents, codes, rows, covariates)
            parameters = {name: learned(evaluation, name) for name, _ in plan.compressed}
            label = None if evaluation.label is None else jax.tree.leaves(evaluation.label["fn"])
            return evaluation.log_prior, label, parameters, evaluation.row_log_probs(plan.rowwise)

        few = Probe(self.program)
        latents, *of_rows = jax.eval_shape(lambda key: (*few.values(key), few.codes, few.covariates), jax.random.key(0))
        of_rows = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.size, *leaf.shape[1:]), leaf.dtype), of_rows)
        return jax.make_jaxpr(everything)(latents, *of_rows)


def learned(evaluation: Evaluation, name: str) -> tuple[Any, Any]:
    """What of a site must be the same in all rows of a class: (its parameters and mask, its scale)."""
    conditional = evaluation.compressed(name)
    return (conditional.parameters, {} if conditional.mask is None else conditional.mask), evaluation.scale(name)
