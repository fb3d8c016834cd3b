"""Recognising which attribute sites can be compressed into sufficient statistics.

A site is compressed if (1) its parameters depend on no other attribute and no covariate (row parameters may), by
data-flow analysis of the program; (2) its distribution has a registered likelihood; and (3) at draws from the prior,
with random labels and rows, the distributions of the rows equal those of the K classes. Other sites are evaluated row
by row, provided that rows are exchangeable: the probability of a row depends on nothing but the latents, its own label,
attributes and covariates. That is compared by numbers, too, at up to 4,099 rows, and a program that fails is refused.
"""

import dataclasses
import functools
import operator
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from bayesgen.errors import ModelError
from bayesgen.program import Plan, Program
from bayesgen.runtime import all_sources
from bayesgen.typing import Float, Int, Shaped

from .traces import ATTRIBUTE, CODES, COVARIATE, LATENTS, LOCAL, ProgramTrace, TraceOutputs, Traces

FEW_ROWS = 58  # rows of a second trace, all of one class: of other parity, and with classes that do not occur
MOST_TRACED_ROWS, MOST_NUMBERS = 4_099, 2**18  # rows of a trace, and about how many numbers its parameters are
IN_TAILS = 1e-4  # of the largest number: in the tails, sums of large numbers cancel
TOLERANCE = 1e-8


class Recognition:
    """The plan of a program, and checks that it holds at other numbers of rows. Inside float64.

    Attributes:
        plan: the plan.
    """

    def __init__(self, traces: Traces) -> None:
        attributes, label, trace = traces.program.attributes, traces.program.label, traces.classes
        parents = {name: sites for name in traces.program.row_sites if (sites := _parent_attributes(traces, name))}
        reasons = {**trace.unsummarized, **_reasons_by_inputs(traces, parents)}
        for name in attributes:
            if name not in reasons and (reason := _reason_by_row_parameters(traces, name)):
                reasons[name] = reason
        reasons |= {name: "it is a latent of each row" for name in traces.program.local}
        _check_supports(traces)
        size = traces.size_within(MOST_TRACED_ROWS, MOST_NUMBERS)
        self._probe = Probe(traces, size, tuple(reasons), label not in reasons)
        differing = self._probe.differing([name for name in attributes if name not in reasons], self._probe.runs)
        reasons |= differing
        rowwise = tuple(name for name in traces.program.row_sites if name in reasons)
        if differing:  # whose log probabilities have not been traced
            self._probe = Probe(traces, size, rowwise, self._probe.shares_label)
        self._probe.check_exchangeable(rowwise, self._probe.runs)
        compressed = [name for name in attributes if name not in reasons]
        row_statistics = self._probe.row_statistics() if traces.program.structure.deterministics else {}
        self.plan = Plan(
            compressed=tuple((name, trace.likelihoods[name]) for name in compressed),
            rowwise=rowwise,
            reasons=tuple((name, reasons[name]) for name in rowwise),
            row_parameters=tuple(name for name in compressed if traces.sources.row_parameters[name]),
            dependences=tuple(parents.items()),
            row_statistics=tuple(row_statistics.items()),
        )
        self._checked = {size}

    def check_row_count(self, size: int) -> None:
        """Refuse a program whose distributions change with the number of rows, looked at up to that of the probe."""
        size = min(size, self._probe.size)
        if size in self._checked:
            return
        runs = [self._probe.with_random_labels(self._probe.traces.at(size, self.plan.rowwise))]
        differing = self._probe.differing([name for name, _ in self.plan.compressed], runs)
        if differing:
            raise ModelError(_not_exchangeable(min(differing), self._probe.traces.program))
        self._probe.check_exchangeable(self.plan.rowwise, runs)
        self._checked.add(size)


# --- what flows into a site ---------------------------------------------------------------------------------------


def _parent_attributes(traces: Traces, name: str) -> tuple[str, ...]:
    """The other attributes that the distribution of an attribute or of the label depends on."""
    return tuple(sorted(_named(ATTRIBUTE, traces.sources.log_probs[name]) - {name}))


def _named(prefix: str, sources: Collection[str]) -> set[str]:
    return {source.removeprefix(prefix) for source in sources if source.startswith(prefix)}


def _reasons_by_inputs(traces: Traces, parents: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Site -> reason, for the sites whose parameters (not row parameters) depend on other columns."""
    sources, label = traces.sources, traces.program.label
    if covariates := _named(COVARIATE, sources.log_prior):
        raise ModelError(
            f"The covariate {min(covariates)!r} enters the distribution of the latents: only the label and attributes "
            "may depend on covariates."
        )
    parameters = sources.likelihood_parameters
    reasons = {
        name: f"it depends on attribute {attributes[0]}"
        for name, attributes in parents.items()
        if name not in parameters or _named(ATTRIBUTE, all_sources(parameters[name]))
    }
    for name, results in (parameters if label is None else {**parameters, label: sources.label_log_probs}).items():
        if covariates := _named(COVARIATE, all_sources(results)):
            reasons[name] = f"its parameters depend on covariate {min(covariates)}"
    for name, inputs in sources.log_probs.items():
        if local := _named(LOCAL, inputs):
            reasons[name] = f"it depends on the row's latent {min(local)}"
    return reasons


def _reason_by_row_parameters(traces: Traces, name: str) -> str | None:
    """Why a site with these row parameters is not compressed, if it is not."""
    row_parameters = traces.sources.row_parameters[name]
    return f"{', '.join(row_parameters)} depends on a latent" if LATENTS in all_sources(row_parameters) else None


def _check_supports(traces: Traces) -> None:
    for name, support in traces.outputs_at_classes(lambda outputs: outputs.supports).items():
        if any((bound != bound[:1]).any() for bound in jax.tree.leaves(support)):
            raise ModelError(
                f"The support of attribute {name!r} depends on a latent: its density jumps to zero where a bound "
                "passes a value of the data, and no mode or chain finds its way along such an edge. Let the bounds be "
                "numbers or covariates, and latents only the location, scale or shape of what is positive everywhere "
                "between them."
            )


# --- whether rows are like their class, and alike -----------------------------------------------------------------


LabelledTrace: TypeAlias = tuple[ProgramTrace, Int[np.ndarray, " _"]]
"""A program traced at some rows, and the codes of their labels."""


@dataclasses.dataclass(frozen=True)
class Probe:
    """Comparisons of the numbers that a program computes for rows with those of its classes, and of each row alone.

    Attributes:
        traces: of the program.
        size: the largest number of rows.
        names: of the sites whose log probabilities are known.
        shares_label: whether the label is to have the same distribution in all rows.
    """

    traces: Traces
    size: int
    names: tuple[str, ...]
    shares_label: bool

    def with_random_labels(self, trace: ProgramTrace) -> LabelledTrace:
        """A trace with random labels of its rows."""
        return trace, np.random.default_rng(0).integers(0, self.traces.program.num_classes, trace.size)

    @functools.cached_property
    def runs(self) -> list[LabelledTrace]:
        """Many rows with random labels, and few rows of one class."""
        many, few = (self.traces.at(size, self.names) for size in (self.size, FEW_ROWS))
        return [self.with_random_labels(many), (few, np.zeros(FEW_ROWS, int))]

    @functools.cached_property
    def single_rows(self) -> dict[str, Float[np.ndarray, "draws n K"]]:
        """Site -> log probabilities of each row alone under each class."""
        return self.traces.log_probs_of_single_rows(self.size, self.names)

    def differing(self, names: Collection[str], runs: Sequence[LabelledTrace]) -> dict[str, str]:
        """Attributes whose parameters in rows are not those of their classes, with the reason.

        Raises:
            ModelError: a prior or a label whose distribution depends on rows or their number.
        """
        differing = {}

        def compared(outputs: TraceOutputs) -> Any:
            parameters = {name: outputs.likelihood_parameters[name] for name in names}
            return outputs.log_prior, outputs.label_log_probs, parameters

        prior, label_log_probs, parameters = self.traces.outputs_at_classes(compared)
        for trace, codes in runs:
            prior_at_rows, label_at_rows, parameters_at_rows = self.traces.outputs_at_rows(trace, codes, compared)
            if not _close(prior_at_rows, prior):
                raise ModelError(
                    "The prior of the latents (or a factor outside the plate) depends on the number of rows n: it must "
                    "be stated before any data are. Take n out of it, or pass a constant."
                )
            if self.shares_label and not _close(label_at_rows, label_log_probs[:, codes]):
                raise ModelError(
                    f"The label {self.traces.program.label!r} is not exchangeable: its probabilities differ between "
                    "rows. Give every row the same class probabilities, or let them depend on covariates, which are "
                    "keyword-only arguments of the program."
                )
            for name, (arrays, scale) in parameters.items():
                expected = jax.tree.map(operator.itemgetter((slice(None), codes)), arrays), scale
                if not _close(parameters_at_rows[name], expected):
                    differing[name] = "its parameters differ between rows of one class"
        return differing

    def row_statistics(self) -> dict[str, tuple[str, ...]]:
        """Deterministic sites that depend on rows, or on their number -> the sites of rows that enter them."""
        deterministics, program = operator.attrgetter("deterministics"), self.traces.program
        at_classes = self.traces.outputs_at_classes(deterministics)
        inputs = {name: sources - {LATENTS} for name, sources in self.traces.sources.deterministics.items()}
        dependent = {name for name, sources in inputs.items() if sources}
        for trace, codes in self.runs:
            at_rows = self.traces.outputs_at_rows(trace, codes, deterministics)
            dependent |= {name for name, value in at_rows.items() if not _close(value, at_classes[name])}
        names = {ATTRIBUTE + name: name for name in program.attributes} | {LOCAL + name: name for name in program.local}
        names |= {} if program.label is None else {CODES: program.label}
        return {
            name: tuple(site for source, site in names.items() if source in inputs[name])
            for name in program.structure.deterministics
            if name in dependent
        }

    def check_exchangeable(self, names: Collection[str], runs: Sequence[LabelledTrace]) -> None:
        """Refuse row-wise sites whose rows depend on their position or on other rows."""
        for trace, codes in runs if names else ():
            together = self.traces.outputs_at_rows(trace, codes, operator.attrgetter("log_probs"))
            for name in names:
                if not _close(together[name], self.single_rows[name][:, np.arange(trace.size), codes]):
                    raise ModelError(_not_exchangeable(name, self.traces.program))


def _not_exchangeable(name: str, program: Program) -> str:
    kind = "label" if name == program.label else "attribute"
    return (
        f"The rows of {kind} {name!r} are not exchangeable: its distribution in a row depends on the row's "
        "position, on the number of rows or on other rows. Let it depend only on latents and on the row's own label "
        "and attributes; pass what else a row knows as a keyword-only argument (a covariate)."
    )


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
    finite = np.isfinite(first) & np.isfinite(second)
    largest = np.abs(first[finite]).max(initial=0.0)
    return np.allclose(first[finite], second[finite], rtol=IN_TAILS, atol=IN_TAILS * largest)
