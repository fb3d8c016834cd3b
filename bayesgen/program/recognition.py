"""Recognising which attribute sites can be compressed into sufficient statistics.

A site is compressed if (1) no other attribute and no covariate enters its parameters (those of its base measure they
may enter), by data-flow analysis of the program; (2) its distribution has a registered likelihood; and (3) at draws
from the prior, with random labels and rows, the distributions of the rows equal those of the K classes. Other sites are
evaluated row by row, provided that rows are exchangeable: each row's probability must depend on nothing but the
latents, its own label, attributes and covariates. That is probed too, and a program that fails is refused.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from numpyro.ops.provenance import eval_provenance

from bayesgen.data import Covariate
from bayesgen.errors import ModelError
from bayesgen.statistics import Likelihood
from bayesgen.typing import Array, Float, Int, Shaped

from .arbitrary import arbitrary_numbers, run
from .conventions import base_support
from .evaluation import Evaluation, class_table, evaluate, evaluate_classes
from .structure import Arrays, Plan, Program

# Experiments with a program: arbitrary latents, random labels, rows that come again and again.

FEW = 58  # rows of a second probe, all of one class: of other parity, and with classes that do not occur
LEAST, MOST, NUMBERS = 101, 4_099, 2**18  # rows of a probe, and about how many numbers its parameters are
SPREADS = (1.0, 1.0, 4.0, -4.0)  # of the latents, in standard deviations of their priors: the last are in the tails
# A probe runs once: optimising what it compiles to would take longer than running it.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

Found = TypeVar("Found")
Experiment = Callable[[Arrays, Arrays], Found]  # of latents and rows


class LatentsAndRows(NamedTuple):
    """Arbitrary latents and rows, or their shapes."""

    latents: dict[str, Shaped[Array, "..."]]
    rows: dict[str, Shaped[Array, "n ..."]]


@dataclasses.dataclass(frozen=True)
class ArbitraryValues:
    """Arbitrary values of a program with `LEAST` rows.

    Attributes:
        program: the program.
    """

    program: Program

    @property
    def covariates(self) -> dict[str, Shaped[Array, "n ..."]]:
        """Covariates of the rows."""
        return arbitrary_covariates(self.program, LEAST)

    @functools.cached_property
    def shapes(self) -> LatentsAndRows:
        """Shapes and dtypes."""
        return jax.eval_shape(self._at, arbitrary_numbers(0))

    @functools.cached_property
    def draws(self) -> tuple[LatentsAndRows, ...]:
        """Several draws; what is in one tail in the third is in the other tail in the fourth."""
        first, second, tails = map(arbitrary_numbers, (1, 2, 3))
        return tuple(map(self._compiled, (first, second, tails, tails), SPREADS))

    @property
    def others(self) -> LatentsAndRows:
        """One more draw."""
        return self._compiled(arbitrary_numbers(4), 1.0)

    @functools.cached_property
    def _compiled(self) -> Callable[[Float[np.ndarray, " numbers"], float], LatentsAndRows]:
        return jax.jit(self._at, compiler_options=QUICKLY)

    def _at(self, numbers: Float[Array, " numbers"], spread: float | Float[Array, ""] = 1.0) -> LatentsAndRows:
        trace = run(self.program, LEAST, self.covariates, numbers, spread)
        latents = {name: trace[name]["value"] for name in self.program.latents}
        return LatentsAndRows(
            latents,
            {name: site.from_site(trace[name]["value"]) for name, site in self.program.structure.attributes},
        )


def arbitrary_covariates(program: Program, size: int) -> dict[str, Shaped[Array, "n ..."]]:
    """Covariates that differ from row to row, and from cell to cell."""

    def numbers(column: Covariate) -> Shaped[Array, "n ..."]:
        places = np.add.outer(np.arange(size), np.arange(math.prod(column.row_shape)))
        values = places % 3 + (column.dtype.kind != "b")
        return jnp.asarray(values.reshape(size, *column.row_shape), column.dtype)

    return {name: numbers(column) for name, column in program.structure.covariates}


@dataclasses.dataclass(frozen=True)
class Probe:
    """A program run at `size` arbitrary rows.

    Attributes:
        source: arbitrary values of the program; its rows come again and again, as drawing them would take the most
            time.
        size: number of rows.
    """

    source: ArbitraryValues
    size: int = LEAST

    @classmethod
    def of(cls, program: Program) -> "Probe":
        """The smallest probe of a program."""
        return cls(ArbitraryValues(program))

    @property
    def program(self) -> Program:
        """The program."""
        return self.source.program

    def with_rows(self, most: int = MOST, numbers: int = NUMBERS) -> "Probe":
        """The probe with as many rows as may be and as make no more than so many parameters, `LEAST` at least."""
        return Probe(self.source, most).within(most, numbers)

    def within(self, most: int, numbers: int) -> "Probe":
        """The probe, with fewer rows where these make too many parameters."""
        return Probe(self.source, min(self.size, most, max(LEAST, numbers // self._numbers_per_row)))

    @functools.cached_property
    def _numbers_per_row(self) -> int:
        """How many numbers the distributions of one row are made of, roughly."""

        def count(latents: Arrays, rows: Arrays) -> int:
            sites = self.evaluate_classes(latents).sites.values()
            return sum(jnp.size(leaf) for message in sites for leaf in jax.tree.leaves(message["fn"]))

        structure = self.program.structure
        shapes = [part.row_shape for _, part in structure.attributes + structure.covariates]
        cells = sum(map(math.prod, shapes))
        return max(1, Probe(self.source).abstractly(count) // self.program.num_classes + cells)

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
        """Covariates of the rows."""
        return arbitrary_covariates(self.program, self.size)

    @property
    def zeros(self) -> LatentsAndRows:
        """Latents and rows of the right shapes, for what can be known without numbers."""
        return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), self._shapes)

    @property
    def _shapes(self) -> LatentsAndRows:
        latents, rows = self.source.shapes
        return LatentsAndRows(latents, jax.tree.map(lambda shape: _with_rows(shape, self.size), rows))

    def _repeated(self, values: LatentsAndRows) -> LatentsAndRows:
        """Values with the rows again and again, up to the size of the probe."""
        places = np.arange(self.size) % LEAST
        return LatentsAndRows(values.latents, {name: np.asarray(rows)[places] for name, rows in values.rows.items()})

    @property
    def other_rows(self) -> dict[str, Shaped[Array, "n ..."]]:
        """Rows of one more draw."""
        return self._repeated(self.source.others).rows

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

    def abstractly(self, experiment: Experiment[Found]) -> Found:
        """The result of an experiment on tracers, for properties that do not depend on values."""
        results: list[Found] = []
        jax.eval_shape(lambda values: results.append(experiment(*values)), self._shapes)
        return results[0]

    def numerically(self, experiment: Experiment[Found]) -> Found:
        """The arrays of an experiment at several draws, stacked."""
        # Draw by draw: mapped over draws, a program takes longer to trace and to compile than to run again.
        of_draw = jax.jit(experiment, compiler_options=QUICKLY)
        results = [of_draw(*self._repeated(values)) for values in self.source.draws]
        return jax.tree.map(lambda *draws: np.stack(draws), *results)

    def jaxpr(self) -> ClosedJaxpr:
        """What the program does to make the prior and the distributions of the rows, as its plan reads them."""
        plan = self.program.plan

        def everything(latents: Arrays, rows: Arrays, codes: Int[Array, " n"], covariates: Arrays) -> Any:
            evaluation = evaluate(self.program, latents, codes, rows, covariates)
            parameters = {name: learned(evaluation, name) for name, _ in plan.compressed}
            label = None if evaluation.label is None else jax.tree.leaves(evaluation.label["fn"])
            return evaluation.log_prior, label, parameters, evaluation.row_log_probs(plan.rowwise)

        few = jax.eval_shape(lambda: (Probe(self.source).codes, Probe(self.source).covariates))
        of_rows = jax.tree.map(lambda shape: _with_rows(shape, self.size), few)
        return jax.make_jaxpr(everything)(*self._shapes, *of_rows)


def _with_rows(shape: jax.ShapeDtypeStruct, size: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size, *shape.shape[1:]), shape.dtype)


def learned(evaluation: Evaluation, name: str) -> tuple[Any, Any]:
    """The properties of a site that must be equal in all rows of a class: ((parameters, mask), scale)."""
    conditional = evaluation.compressed(name)
    return (conditional.parameters, {} if conditional.mask is None else conditional.mask), evaluation.scale(name)


IN_TAILS = 1e-4  # of the largest number: in the tails, sums of large numbers cancel
TOLERANCE = 1e-8
COVARIATE = "covariate "  # prefix of the names of covariates among all inputs


def make_plan(program: Program) -> Plan:
    """The plan of a program, by probing it. Inside float64."""
    probe = Probe.of(program)
    entangled = _entangled(probe)
    reasons = _informed(probe, entangled)
    statistics, without = _statistics(probe)
    reasons |= {name: reason for name, reason in without.items() if name not in reasons}
    candidates = [name for name in program.attributes if name not in reasons]
    probe = probe.with_rows()
    differing, with_measure = compare_rows(probe, candidates, bool(entangled))
    reasons |= differing
    rowwise = tuple(name for name in program.attributes if name in reasons)
    if rowwise:
        check_exchangeable(probe, rowwise)
    return Plan(
        compressed=tuple((name, statistics[name]) for name in candidates if name not in reasons),
        rowwise=rowwise,
        reasons=tuple((name, reasons[name]) for name in rowwise),
        measure=tuple(name for name in with_measure if name not in reasons),
        dependences=tuple(entangled.items()),
    )


def check_plan(probe: Probe) -> None:
    """Refuse a program whose distributions change with this number of rows, against its plan."""
    plan = probe.program.plan
    differing, _ = compare_rows(probe, [name for name, _ in plan.compressed], bool(plan.dependences))
    if differing:
        raise ModelError(_not_exchangeable(min(differing)))
    if plan.rowwise:
        check_exchangeable(probe, plan.rowwise)


# --- what flows into a site ---------------------------------------------------------------------------------------


def _informed(probe: Probe, entangled: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Attributes into whose parameters (not those of the base measure) other columns flow: name -> reason."""
    if not probe.covariates and not entangled:
        return {}
    latents, rows = probe.zeros

    def parts(latents: Arrays, rows: Arrays, **others: Array) -> tuple[Any, Any]:
        covariates = {name.removeprefix(COVARIATE): values for name, values in others.items()}
        evaluation = evaluate(probe.program, latents, probe.codes, rows, covariates)
        read = {name: (evaluation.conditional(name), evaluation.scale(name)) for name in rows}
        parameters = {name: (site.parameters, site.mask, scale) for name, (site, scale) in read.items() if site}
        return {"latents": evaluation.log_prior, "label": evaluation.label_log_probs}, parameters

    others = {COVARIATE + name: values for name, values in probe.covariates.items()}
    outside, inside = eval_provenance(parts, latents=latents, rows=rows, **others)
    for part, sources in outside.items():
        if sources & others.keys():
            name = min(sources & others.keys()).removeprefix(COVARIATE)
            raise ModelError(
                f"The covariate {name!r} enters the distribution of the {part}: only attributes may depend on "
                "covariates."
            )
    flows = {name: frozenset().union(*jax.tree.leaves(sources)) for name, sources in inside.items()}
    reasons = {
        name: f"it depends on attribute {needed[0]}"
        for name, needed in entangled.items()
        if name not in flows or "rows" in flows[name]
    }
    informing = {name: sources & others.keys() for name, sources in flows.items() if sources & others.keys()}
    return reasons | {
        name: f"its parameters depend on covariate {min(sources).removeprefix(COVARIATE)}"
        for name, sources in informing.items()
    }


def _entangled(probe: Probe) -> dict[str, tuple[str, ...]]:
    """Attributes into whose distribution other attributes flow: name -> the names of those."""
    latents, rows = probe.zeros

    def log_probs(latents: Arrays, **rows: Array) -> dict[str, Float[Array, " n"]]:
        return probe.evaluate(latents, rows).row_log_probs(rows)

    flows = eval_provenance(log_probs, latents=latents, **rows)
    others = {name: flows[name] & (rows.keys() - {name}) for name in rows}
    return {name: tuple(sorted(names)) for name, names in others.items() if names}


def _statistics(probe: Probe) -> tuple[dict[str, Likelihood], dict[str, str]]:
    """Likelihoods of the attribute sites that have one, and reasons for the others."""

    def statistics(latents: Arrays, rows: Arrays) -> dict[str, Likelihood | str]:
        evaluation = probe.evaluate_classes(latents)
        return {name: _likelihood(evaluation, name) for name in rows}

    known = probe.abstractly(statistics)
    return (
        {name: likelihood for name, likelihood in known.items() if not isinstance(likelihood, str)},
        {name: reason for name, reason in known.items() if isinstance(reason, str)},
    )


def _likelihood(evaluation: Evaluation, name: str) -> Likelihood | str:
    """The likelihood of a site, or why it has none."""
    conditional, scale = evaluation.conditional(name), evaluation.scale(name)
    if conditional is None:
        return f"{type(evaluation.sites[name]['fn']).__name__} has no registered likelihood"
    if not conditional.likelihood.summarizes:
        return "the program computes the edges of its bins: write them as numbers, by NumPy or as a list"
    return "it is scaled by an array" if scale is not None and jnp.ndim(scale) else conditional.likelihood


# --- whether rows are like their class, and alike -----------------------------------------------------------------


def compare_rows(probe: Probe, names: Collection[str], entangled: bool) -> tuple[dict[str, str], list[str]]:
    """Sites whose distributions in the rows are not those of the classes, with the reason; sites with base measures.

    Where the parameters of base measures depend on other attributes (`entangled`), they are looked at in the same rows.
    """
    other_rows = probe.other_rows if entangled else None

    def experiment(latents: Arrays, rows: Arrays) -> tuple[Any, Any, Any, Any]:
        by_row, by_few = probe.evaluate(latents, rows), probe.evaluate_few(latents, rows)
        by_class = probe.evaluate_classes(latents)
        at_rows = by_row if other_rows is None else probe.evaluate(latents, other_rows)
        priors = (by_row.log_prior, by_few.log_prior), (by_class.log_prior, by_class.log_prior)
        labels = (
            (by_row.label_log_probs, by_few.label_log_probs),
            (by_class.label_log_probs[probe.codes], by_class.label_log_probs[probe.few_codes]),
        )
        pairs = {}
        for name in names:
            classes = learned(by_class, name)
            pairs[name] = (
                (learned(by_row, name), learned(by_few, name)),
                (_of_codes(classes, probe.codes), _of_codes(classes, probe.few_codes)),
                at_rows.compressed(name).measure,
            )
        bounds = {
            name: jax.tree.leaves(base_support(message["fn"].support)) for name, message in by_class.sites.items()
        }
        return priors, labels, pairs, bounds

    priors, labels, pairs, bounds = probe.numerically(experiment)
    for name, leaves in bounds.items():
        if any((leaf != leaf[:1]).any() for leaf in leaves):
            raise ModelError(_of_moving_support(name))
    if not _close(*priors):
        raise ModelError(
            "The prior of the latents (or a factor outside the plate) depends on the number of rows n: it must be "
            "stated before any data are. Take n out of it, or pass a constant."
        )
    if not _close(*labels):
        raise ModelError(
            f"The label {probe.program.label!r} is not exchangeable: its probabilities differ between rows. "
            "Give every row the same class probabilities."
        )
    reasons = {}
    for name, (of_rows, of_classes, measure) in pairs.items():
        if not _close(of_rows, of_classes):
            reasons[name] = "its parameters differ between rows of one class"
        elif any(not np.array_equal(leaf[0], leaf[1]) for leaf in jax.tree.leaves(measure)):
            reasons[name] = f"{', '.join(measure)} depends on a latent"
    return reasons, [name for name, (_, _, measure) in pairs.items() if measure]


def check_exchangeable(probe: Probe, names: Collection[str]) -> None:
    """Refuse row-wise sites whose rows depend on their position or on other rows."""

    def experiment(latents: Arrays, rows: Arrays) -> dict[str, Any]:
        together = probe.evaluate(latents, rows).row_log_probs(names)
        few = probe.evaluate_few(latents, rows).row_log_probs(names)
        alone = class_table(probe.program, latents, rows, probe.covariates, names)
        places = jnp.arange(probe.size), probe.codes
        return {name: ((together[name], few[name]), (alone[name][places], alone[name][:FEW, 0])) for name in names}

    for name, (together, alone) in probe.numerically(experiment).items():
        if not _close(together, alone):
            raise ModelError(_not_exchangeable(name))


def _not_exchangeable(name: str) -> str:
    return (
        f"The rows of attribute {name!r} are not exchangeable: its distribution in a row depends on the row's "
        "position, on the number of rows or on other rows. Let it depend only on latents and on the row's own label "
        "and attributes; pass what else a row knows as a keyword-only argument (a covariate)."
    )


def _of_moving_support(name: str) -> str:
    return (
        f"The support of attribute {name!r} depends on a latent: its density jumps to zero where a bound passes a "
        "value of the data, and no mode or chain finds its way along such an edge. Let the bounds be numbers or "
        "covariates, and latents only the location, scale or shape of what is positive everywhere between them."
    )


def _of_codes(classes: tuple[Any, Any], codes: Int[Array, " n"]) -> tuple[Any, Any]:
    """What was learned of the classes, row by row; a scale is one number for all."""
    arrays, scale = classes
    return jax.tree.map(lambda leaf: leaf[codes], arrays), scale


def _close(first: Any, second: Any) -> bool:
    """Whether results at several draws, the last one in the tails, are the same."""
    first, second = jax.tree.leaves(first), jax.tree.leaves(second)
    return len(first) == len(second) and all(
        a.shape == b.shape
        and np.allclose(a[:-1], b[:-1], rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        and _close_in_tails(a[-1:], b[-1:])
        for a, b in zip(first, second, strict=True)
    )


def _close_in_tails(first: Shaped[np.ndarray, "..."], second: Shaped[np.ndarray, "..."]) -> bool:
    known = np.isfinite(first) & np.isfinite(second)
    largest = np.abs(first[known]).max(initial=0.0)
    return np.allclose(first[known], second[known], rtol=IN_TAILS, atol=IN_TAILS * largest)
