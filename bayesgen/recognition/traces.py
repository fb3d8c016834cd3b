"""Traces of a program, one at each of a few numbers of rows, and arbitrary values at which they are evaluated.

Which inputs a result depends on is read off the data flow of these traces; what a program computes in each row, off
their values.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Var
from numpyro.distributions import Distribution, ImproperUniform
from numpyro.distributions.constraints import Constraint

from bayesgen.data import Covariate
from bayesgen.program import (
    Arrays,
    Evaluation,
    Message,
    Program,
    Site,
    arbitrary_numbers,
    base_support,
    counts_partly,
    evaluate,
)
from bayesgen.records import stacked
from bayesgen.runtime import Traced
from bayesgen.statistics import Conditional, Likelihood, bare_distribution, read_conditional
from bayesgen.typing import Array, Float, Int, Shaped

# of draws, the spreads in standard deviations of the priors of latents: the last draws are in the tails
SEEDS_AND_SPREADS = ((1, 1.0), (2, 1.0), (3, 4.0), (3, -4.0))
LEAST = 101  # rows of a trace
RANGES = np.array([[0, 0, 1, 0, 2], [2, 1, 2, 0, 2]])  # of the cells of arbitrary covariates, row by row
# inputs, or prefixes of names
LATENTS, CODES, ATTRIBUTE, LOCAL, COVARIATE = "latents", "codes", "attribute ", "local ", "covariate "


class Draw(NamedTuple):
    """Arbitrary latents, and a few rows."""

    latents: dict[str, Shaped[np.ndarray, "..."]]
    rows: dict[str, Shaped[np.ndarray, "n ..."]]


class TraceOutputs(NamedTuple):
    """What a program computes from latents, rows, labels and covariates; rows are first axes.

    Attributes:
        log_prior: log prior density of the latents.
        label: parameters of the distribution of the label.
        label_log_probs: log probabilities of the labels.
        likelihood_parameters: site -> ((parameters, mask), scale), which must be equal in all rows of a class.
        row_parameters: site -> the known quantities of its rows, see `statistics.register`.
        supports: site -> support, with bounds for each row; that of sequences as it is.
        log_probs: site -> log probabilities of the rows.
        distributions: parameters of the distributions of the sites of rows, and their scales.
        deterministics: values of deterministic sites.
        log_priors: log prior density of each latent, and of factors.
        priors: latent -> the arguments of its prior, entry by entry; none in traces of some sites alone.
    """

    log_prior: Any
    label: Any
    label_log_probs: Any
    likelihood_parameters: dict[str, tuple[Any, Any]]
    row_parameters: dict[str, dict[str, Any]]
    supports: dict[str, Constraint]
    log_probs: dict[str, Any]
    distributions: Any
    deterministics: dict[str, Any]
    log_priors: dict[str, Any]
    priors: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class SiteType:
    """What kind of distribution a site has.

    Attributes:
        name: of the type of its distribution.
        likelihood: the likelihood of such distributions; None where none is registered, or a mask is on them.
        is_normalised: whether a prior integrates to one: it is proper, and no scale or mask is on it.
    """

    name: str
    likelihood: Likelihood | None
    is_normalised: bool = True


@dataclasses.dataclass(frozen=True)
class ProgramTrace:
    """A program traced at some number of rows.

    Attributes:
        size: the number of rows.
        function: of latents, rows, codes and covariates; its results are `TraceOutputs`.
        likelihoods: site -> its likelihood.
        unsummarized: site -> why it has none.
        types: of latents and row sites; none in traces of some sites alone.
    """

    size: int
    function: Traced
    likelihoods: dict[str, Likelihood]
    unsummarized: dict[str, str]
    types: dict[str, SiteType]


class Traces:
    """The traces of a program.

    Attributes:
        program: the program, its structure known.
        values: the program run freely: numbers, how far they are spread and covariates -> values of its sites.
        num_rows: of these values.
    """

    def __init__(self, program: Program, values: Traced, num_rows: int) -> None:
        self.program, self.values, self.num_rows = program, values, num_rows

    @functools.cached_property
    def classes(self) -> ProgramTrace:
        """The program traced at a row for each class."""
        return self.at(self.program.num_classes)

    def at(self, size: int, names: Collection[str] | None = None) -> ProgramTrace:
        """The program traced at `size` rows, with the log probabilities of these sites of rows, of all by default."""
        likelihoods: dict[str, Likelihood] = {}
        unsummarized: dict[str, str] = {}
        types: dict[str, SiteType] = {}
        is_whole, names = names is None, self.program.row_sites if names is None else names

        def outputs(latents: Arrays, rows: Arrays, codes: Int[Array, " n"], covariates: Arrays) -> TraceOutputs:
            evaluation = evaluate(self.program, latents, codes, rows, covariates)
            for name, message in evaluation.sites.items():
                conditional = evaluation.conditional(name)
                if why := _why_unsummarized(conditional, message):
                    unsummarized[name] = why
                elif conditional is not None:
                    likelihoods[name] = conditional.likelihood
            distributions = {name: message["fn"] for name, message in evaluation.latent_sites.items()}
            priors = {name: _read_prior(prior) for name, prior in distributions.items()} if is_whole else {}
            for name, prior in priors.items():
                likelihood = None if prior is None or prior.mask is not None else prior.likelihood
                bare = bare_distribution(distributions[name])
                is_proper = not counts_partly(evaluation.latent_sites[name]) and not isinstance(bare, ImproperUniform)
                types[name] = SiteType(type(bare).__name__, likelihood, is_proper)
            labels = {} if evaluation.label is None else {evaluation.label["name"]: evaluation.label}
            for name, message in (evaluation.sites | labels).items() if is_whole else ():
                types[name] = SiteType(type(bare_distribution(message["fn"])).__name__, likelihoods.get(name))
            outputs = self._outputs(evaluation, names)
            read_priors = {name: prior.parameters for name, prior in priors.items() if prior is not None}
            return outputs._replace(priors=jax.tree.map(lambda argument: argument[0], read_priors))

        shapes, covariates = self._shapes(size), arbitrary_covariates(self.program, size)
        function = Traced.of(outputs, *shapes, np.zeros(size, int), covariates)
        return ProgramTrace(size, function, likelihoods, unsummarized, types)

    def _outputs(self, evaluation: Evaluation, names: Collection[str]) -> TraceOutputs:
        structure = self.program.structure
        likelihood_parameters: dict[str, tuple[Any, Any]] = {}
        row_parameters: dict[str, dict[str, Any]] = {}
        row_sites = [*evaluation.sites.values(), *([] if evaluation.label is None else [evaluation.label])]
        for name in evaluation.sites:
            if (conditional := evaluation.conditional(name)) is not None:
                likelihood_parameters[name] = (conditional.parameters, conditional.mask), evaluation.scale(name)
                row_parameters[name] = conditional.row_parameters
        return TraceOutputs(
            log_prior=evaluation.log_prior,
            label=None if evaluation.label is None else jax.tree.leaves(evaluation.label["fn"]),
            label_log_probs=evaluation.label_log_probs,
            likelihood_parameters=likelihood_parameters,
            row_parameters=row_parameters,
            supports={name: _support(evaluation.sites[name], site) for name, site in structure.attributes},
            log_probs=evaluation.row_log_probs(names),
            distributions=[jax.tree.leaves((message["fn"], message["scale"])) for message in row_sites],
            deterministics=evaluation.deterministics,
            log_priors=evaluation.log_priors,
            priors={},
        )

    # --- arbitrary values ---------------------------------------------------------------------------------------

    def _shapes(self, size: int) -> tuple[dict[str, jax.ShapeDtypeStruct], dict[str, jax.ShapeDtypeStruct]]:
        """Shapes of latents and rows."""
        shapes, structure = self.values.shapes, self.program.structure
        rows = {name: shapes[name].update(shape=(size, *site.row_shape)) for name, site in structure.row_sites}
        return {name: shapes[name] for name in self.program.latents}, rows

    def zeros(self, size: int) -> dict[str, Shaped[np.ndarray, "n ..."]]:
        """Rows of zeros."""
        return {name: np.zeros(shape.shape, shape.dtype) for name, shape in self._shapes(size)[1].items()}

    def draw(self, numbers: Float[np.ndarray, " numbers"], spread: float = 1.0) -> Draw:
        """Arbitrary values made of standard normal numbers, see `arbitrary_value`."""
        values = self.values(numbers, spread, arbitrary_covariates(self.program, self.num_rows))
        structure = self.program.structure
        index = int(1e6 * abs(numbers[0])) % structure.num_finite
        finite = {n: joint[index].astype(values[n].dtype) for n, joint in structure.finite_values.items()}
        return Draw(
            {name: values[name] for name in self.program.latents} | finite,
            {name: np.moveaxis(values[name], site.position, 0) for name, site in structure.row_sites},
        )

    @functools.cached_property
    def draws(self) -> tuple[Draw, ...]:
        """Several draws; what is in one tail in the third is in the other tail in the fourth."""
        return tuple(self.draw(arbitrary_numbers(seed), spread) for seed, spread in SEEDS_AND_SPREADS)

    def rows(self, draw: Draw, size: int) -> dict[str, Shaped[np.ndarray, "n ..."]]:
        """The rows of a draw, again and again."""
        return {name: rows[np.arange(size) % self.num_rows] for name, rows in draw.rows.items()}

    # --- evaluation at several draws ----------------------------------------------------------------------------

    def outputs_at_rows(
        self, trace: ProgramTrace, codes: Int[np.ndarray, " n"], choose: Callable[[TraceOutputs], Any]
    ) -> Any:
        """Chosen outputs at rows with these labels, stacked along a first axis of draws."""
        covariates = arbitrary_covariates(self.program, trace.size)
        function = trace.function.only(choose)
        return stacked(function(draw.latents, self.rows(draw, trace.size), codes, covariates) for draw in self.draws)

    def outputs_at_classes(self, choose: Callable[[TraceOutputs], Any]) -> Any:
        """Chosen outputs at a row for each class, with the first row's covariates, draw by draw."""
        codes, function = np.arange(self.program.num_classes), self.classes.function.only(choose)
        rows, covariates = self.zeros(len(codes)), arbitrary_covariates(self.program, len(codes), same=True)
        return stacked(function(draw.latents, rows, codes, covariates) for draw in self.draws)

    def log_probs_of_single_rows(self, size: int, names: Collection[str]) -> dict[str, Float[np.ndarray, "draws n K"]]:
        """Site -> log probabilities of each row alone under each class, draw by draw."""
        codes = np.arange(self.program.num_classes)
        function = self.classes.function.only(lambda outputs: {name: outputs.log_probs[name] for name in names})

        def log_probs(latents: Arrays, row: Arrays, covariates: Arrays) -> dict[str, Float[Array, " K"]]:
            copies = jax.tree.map(lambda value: jnp.broadcast_to(value, (len(codes), *value.shape)), (row, covariates))
            return function.traceably(latents, copies[0], codes, copies[1])

        latents, rows = self._shapes(size)
        covariates = arbitrary_covariates(self.program, size)
        over_rows = Traced.of(jax.vmap(log_probs, (None, 0, 0)), latents, rows, covariates)
        return stacked(over_rows(draw.latents, self.rows(draw, size), covariates) for draw in self.draws)

    # --- sizes and flows ----------------------------------------------------------------------------------------

    def size_within(self, most: int, numbers: int) -> int:
        """The most rows whose distributions have no more than so many parameters; LEAST at least."""
        structure = self.program.structure
        cells = sum(math.prod(part.row_shape) for _, part in structure.attributes + structure.covariates)
        return min(most, max(LEAST, numbers // max(1, self.num_parameters // self.program.num_classes + cells)))

    @property
    def num_parameters(self) -> int:
        """The number of parameters of the distributions of all classes."""
        distributions = self.classes.function.shapes.distributions
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(distributions))

    @functools.cached_property
    def sources(self) -> TraceOutputs:
        """For each output at the classes, the inputs that it depends on.

        These are LATENTS, CODES, and ATTRIBUTE, LOCAL and COVARIATE followed by a name.
        """
        program = self.program
        latents, rows = dict.fromkeys(program.latents, LATENTS), {name: ATTRIBUTE + name for name in program.attributes}
        rows |= {name: LOCAL + name for name in program.local}
        covariates = {name: COVARIATE + name for name, _ in program.structure.covariates}
        return self.classes.function.sources(latents, rows, CODES, covariates)


def arbitrary_covariates(program: Program, size: int, *, same: bool = False) -> dict[str, Shaped[np.ndarray, "n ..."]]:
    """Covariates that differ from row to row and from cell to cell, or from cell to cell alone.

    Rows of many cells differ in their largest, smallest and middle ones, too, so that what a program computes from all
    rows together is not what it computes from one. Columns of cells are linearly independent, where rows are more.
    """
    rows = np.zeros(size, int) if same else np.arange(size)
    least, most = RANGES[:, rows % len(RANGES[0]), None]

    def numbers(first: int, column: Covariate) -> Shaped[np.ndarray, "n ..."]:
        cells = first + np.arange(math.prod(column.row_shape))
        shifts = np.random.default_rng(first).integers(3, size=(size // 3 + 1, len(cells)))[rows // 3]
        values = np.clip((rows[:, None] + cells + np.where(cells < 3, 0, shifts)) % 3, least, most)
        return (values + (column.dtype.kind != "b")).reshape(size, *column.row_shape).astype(column.dtype)

    columns = program.structure.covariates
    sizes = [math.prod(column.row_shape) for _, column in columns]
    return {name: numbers(sum(sizes[:i]), column) for i, (name, column) in enumerate(columns)}


def shaped(variable: Var | Literal) -> jax.core.ShapedArray:
    """The shape and dtype of a variable of a jaxpr; those of programs are arrays."""
    return cast(jax.core.ShapedArray, variable.aval)


def _read_prior(prior: Distribution) -> Conditional | None:
    """The likelihood and parameters of the distribution of a latent, with one row."""
    return read_conditional(prior.expand((1, *prior.batch_shape)), -1 - len(prior.batch_shape))


def _why_unsummarized(conditional: Conditional | None, message: Message) -> str | None:
    """Why a site has no sufficient statistics; None where it has."""
    if conditional is None:
        return f"{type(message['fn']).__name__} has no registered likelihood"
    if not conditional.likelihood.summarizes:
        return "the program computes the edges of its bins: write them as numbers, by NumPy or as a list"
    return "it is scaled by an array" if message["scale"] is not None and jnp.ndim(message["scale"]) else None


def _support(message: Message, site: Site) -> Constraint:
    """The support of a site, with bounds that have the rows first; that of sequences as it is."""
    distribution, support = message["fn"], base_support(message["fn"].support)
    if site.steps is not None:
        return support
    shape = distribution.shape()
    shape = shape[: len(shape) - support.event_dim]
    return jax.tree.map(lambda bound: site.from_site(jnp.broadcast_to(bound, shape)), support)
