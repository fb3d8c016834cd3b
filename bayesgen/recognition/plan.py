"""Recognising which attribute sites can be compressed into sufficient statistics.

A site is compressed if (1) no other attribute and no covariate enters its parameters (its row parameters they
may enter), by data-flow analysis of the program; (2) its distribution has a registered likelihood; and (3) at draws
from the prior, with random labels and rows, the distributions of the rows equal those of the K classes. Other sites are
evaluated row by row, provided that rows are exchangeable: each row's probability must depend on nothing but the
latents, its own label, attributes and covariates. That is probed too, and a program that fails is refused.
"""

import dataclasses
import operator
from collections.abc import Collection
from typing import Any

import jax
import numpy as np

from bayesgen.errors import ModelError
from bayesgen.program import Plan, Program
from bayesgen.typing import Int, Shaped

from .traces import ATTRIBUTE, CODES, COVARIATE, LATENTS, LOCAL, Findings, ProgramTrace, Traces

FEW = 58  # rows of a second trace, all of one class: of other parity, and with classes that do not occur
MOST, NUMBERS = 4_099, 2**18  # rows of a trace, and about how many numbers its parameters are
IN_TAILS = 1e-4  # of the largest number: in the tails, sums of large numbers cancel
TOLERANCE = 1e-8


class Recognition:
    """The plan of a program, and checks that it holds at other numbers of rows. Inside float64.

    Attributes:
        plan: the plan.
    """

    def __init__(self, traces: Traces) -> None:
        self._traces, attributes = traces, traces.program.attributes
        entangled = {name: others for name in traces.program.row_sites if (others := _entering(traces, name))}
        reasons, trace = _informed(traces, entangled), traces.classes
        reasons |= {name: why for name, why in trace.unsummarized.items() if name not in reasons}
        reasons |= {name: why for name in attributes if name not in reasons and (why := _measured(traces, name))}
        reasons |= {name: "it is a latent of each row" for name in traces.program.local}
        _check_supports(traces)
        self._probe = Probe.of(traces, traces.size_within(MOST, NUMBERS), reasons, traces.program.label not in reasons)
        differing = self._probe.differing([name for name in attributes if name not in reasons])
        reasons |= differing
        rowwise = tuple(name for name in traces.program.row_sites if name in reasons)
        if differing:  # whose log probabilities have not been traced
            self._probe = Probe.of(traces, self._probe.rows.size, rowwise, self._probe.shares_label)
        self._probe.check_exchangeable(rowwise)
        compressed = [name for name in attributes if name not in reasons]
        self.plan = Plan(
            compressed=tuple((name, trace.likelihoods[name]) for name in compressed),
            rowwise=rowwise,
            reasons=tuple((name, reasons[name]) for name in rowwise),
            row_parameters=tuple(name for name in compressed if traces.sources.row_parameters[name]),
            dependences=tuple(entangled.items()),
            row_statistics=tuple(self._probe.row_statistics().items())
            if traces.program.structure.deterministics
            else (),
        )
        self._checked = {self._probe.rows.size}

    def check_row_count(self, size: int) -> None:
        """Refuse a program whose distributions change with the number of rows, looked at up to that of the probe."""
        size = min(size, self._probe.rows.size)
        if size in self._checked:
            return
        probe = dataclasses.replace(self._probe, rows=self._traces.at(size, self.plan.rowwise))
        differing = probe.differing([name for name, _ in self.plan.compressed])
        if differing:
            raise ModelError(_not_exchangeable(min(differing), self._traces.program))
        probe.check_exchangeable(self.plan.rowwise)
        self._checked.add(size)


# --- what flows into a site ---------------------------------------------------------------------------------------


def _entering(traces: Traces, name: str) -> tuple[str, ...]:
    """The other attributes that enter the distribution of an attribute or of the label."""
    return tuple(sorted(_named(ATTRIBUTE, traces.sources.log_probs[name]) - {name}))


def _named(prefix: str, sources: Collection[str]) -> set[str]:
    return {source.removeprefix(prefix) for source in sources if source.startswith(prefix)}


def _sources(results: Any) -> frozenset[str]:
    """The sources of all of these results."""
    return frozenset().union(*jax.tree.leaves(results))


def _informed(traces: Traces, entangled: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Sites into whose parameters (not row parameters) other columns enter: name -> reason."""
    sources, label = traces.sources, traces.program.label
    if covariates := _named(COVARIATE, sources.log_prior):
        raise ModelError(
            f"The covariate {min(covariates)!r} enters the distribution of the latents: only the label and attributes "
            "may depend on covariates."
        )
    reasons = {
        name: f"it depends on attribute {needed[0]}"
        for name, needed in entangled.items()
        if name not in sources.learned or _named(ATTRIBUTE, _sources(sources.learned[name]))
    }
    learned = sources.learned if label is None else {**sources.learned, label: sources.label_log_probs}
    informing = {name: _named(COVARIATE, _sources(of_site)) for name, of_site in learned.items()}
    reasons |= {
        name: f"its parameters depend on covariate {min(covariates)}"
        for name, covariates in informing.items()
        if covariates
    }
    hidden = {name: _named(LOCAL, of_site) for name, of_site in sources.log_probs.items()}
    return reasons | {name: f"it depends on the row's latent {min(local)}" for name, local in hidden.items() if local}


def _measured(traces: Traces, name: str) -> str | None:
    """Why a site with these row parameters is not compressed, if it is not."""
    row_parameters = traces.sources.row_parameters[name]
    return f"{', '.join(row_parameters)} depends on a latent" if LATENTS in _sources(row_parameters) else None


def _check_supports(traces: Traces) -> None:
    for name, support in traces.of_classes(lambda findings: findings.supports).items():
        if any((bound != bound[:1]).any() for bound in jax.tree.leaves(support)):
            raise ModelError(
                f"The support of attribute {name!r} depends on a latent: its density jumps to zero where a bound "
                "passes a value of the data, and no mode or chain finds its way along such an edge. Let the bounds be "
                "numbers or covariates, and latents only the location, scale or shape of what is positive everywhere "
                "between them."
            )


# --- whether rows are like their class, and alike -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Probe:
    """Many rows with random labels, and few rows of one class.

    Attributes:
        traces: of the program.
        rows: at many rows.
        few: at few rows.
        shares_label: whether the label is to have the same distribution in all rows.
    """

    traces: Traces
    rows: ProgramTrace
    few: ProgramTrace
    shares_label: bool

    @classmethod
    def of(cls, traces: Traces, size: int, names: Collection[str], shares_label: bool) -> "Probe":
        """A probe of `size` rows, which knows log probabilities of these sites."""
        return cls(traces, traces.at(size, names), traces.at(FEW, names), shares_label)

    @property
    def _traces_and_codes(self) -> tuple[tuple[ProgramTrace, Int[np.ndarray, " n"]], ...]:
        random = np.random.default_rng(0).integers(0, self.traces.program.num_classes, self.rows.size)
        return (self.rows, random), (self.few, np.zeros(FEW, int))

    def differing(self, names: Collection[str]) -> dict[str, str]:
        """Attributes whose parameters in rows are not those of their classes, with the reason.

        Raises:
            ModelError: a prior or a label whose distribution depends on rows or their number.
        """
        differing = {}

        def parts(findings: Findings) -> Any:
            learned = {name: findings.learned[name] for name in names}
            return findings.log_prior, findings.label_log_probs, learned

        prior, label_log_probs, of_classes = self.traces.of_classes(parts)
        for trace, codes in self._traces_and_codes:
            prior_of_rows, label_of_rows, of_rows = self.traces.of_rows(trace, codes, parts)
            if not _close(prior_of_rows, prior):
                raise ModelError(
                    "The prior of the latents (or a factor outside the plate) depends on the number of rows n: it must "
                    "be stated before any data are. Take n out of it, or pass a constant."
                )
            if self.shares_label and not _close(label_of_rows, label_log_probs[:, codes]):
                raise ModelError(
                    f"The label {self.traces.program.label!r} is not exchangeable: its probabilities differ between "
                    "rows. Give every row the same class probabilities, or let them depend on covariates, which are "
                    "keyword-only arguments of the program."
                )
            for name, (arrays, scale) in of_classes.items():
                expected = jax.tree.map(operator.itemgetter((slice(None), codes)), arrays), scale
                if not _close(of_rows[name], expected):
                    differing[name] = "its parameters differ between rows of one class"
        return differing

    def row_statistics(self) -> dict[str, tuple[str, ...]]:
        """Deterministic sites that depend on rows, or on their number -> the sites of rows that enter them."""

        def choose(findings: Findings) -> dict[str, Any]:
            return findings.deterministics

        of_classes, program = self.traces.of_classes(choose), self.traces.program
        inputs = {name: sources - {LATENTS} for name, sources in self.traces.sources.deterministics.items()}
        dependent = {name for name, sources in inputs.items() if sources}
        for trace, codes in self._traces_and_codes:
            of_rows = self.traces.of_rows(trace, codes, choose)
            dependent |= {name for name, value in of_rows.items() if not _close(value, of_classes[name])}
        names = {ATTRIBUTE + name: name for name in program.attributes} | {LOCAL + name: name for name in program.local}
        names |= {} if program.label is None else {CODES: program.label}
        return {
            name: tuple(site for source, site in names.items() if source in inputs[name])
            for name in program.structure.deterministics
            if name in dependent
        }

    def check_exchangeable(self, names: Collection[str]) -> None:
        """Refuse row-wise sites whose rows depend on their position or on other rows."""
        if not names:
            return
        alone = self.traces.of_single_rows(max(self.rows.size, FEW), names)
        for trace, codes in self._traces_and_codes:
            together = self.traces.of_rows(trace, codes, lambda findings: findings.log_probs)
            for name in names:
                if not _close(together[name], alone[name][:, np.arange(trace.size), codes]):
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
    known = np.isfinite(first) & np.isfinite(second)
    largest = np.abs(first[known]).max(initial=0.0)
    return np.allclose(first[known], second[known], rtol=IN_TAILS, atol=IN_TAILS * largest)
