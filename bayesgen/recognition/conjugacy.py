"""Which latents of a program are conjugate: recognised by their form, and proven by numbers.

The latents that enter an attribute are compared with the forms of families (`bayesgen.families.Form`): the types of
their priors and of the likelihood, and whether each entry of a latent is a parameter of some class and column. The
hyperparameters are the arguments of the priors. Then, at arbitrary latents and statistics,

    log p(latents) + log p(statistics | latents) = log p(latents | statistics) + log p(statistics)

is to hold, with the posterior and the evidence of the family. What fails is not conjugate, whatever its types.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.special

from bayesgen.describe import quote_some
from bayesgen.families import FORMS, Family, FixedCategorical, Form, Pooling
from bayesgen.program import Block, Conjugate, Elimination, Plan, SiteEntries
from bayesgen.runtime import all_sources
from bayesgen.statistics import (
    BETA,
    DIRICHLET,
    GAMMA,
    INVERSE_GAMMA,
    NORMAL,
    CategoricalLikelihood,
    Likelihood,
)
from bayesgen.typing import Array, Float, Int

from .traces import TraceOutputs, Traces, arbitrary_covariates

ROWS = 41  # at which a family is proven
TOLERANCE = 1e-9
ROUNDING = 1e-6  # of probabilities that are written in single precision

LEVELS = (0.0, -6.0, 6.0)  # of arbitrary values: in the middle, and in both tails, where links may have bounds

# Arbitrary values, from numbers without bounds, by the likelihood whose distributions are the prior.
ARBITRARY_VALUES: dict[Likelihood | None, Callable[[np.ndarray], np.ndarray]] = {
    BETA: scipy.special.expit,
    DIRICHLET: lambda free: scipy.special.softmax(free, axis=-1),
    GAMMA: np.exp,
    INVERSE_GAMMA: np.exp,
    NORMAL: lambda free: 2.0 * free,
}


class Finding(NamedTuple):
    """What is found of the latents that enter an attribute.

    Attributes:
        latent: name of a latent; "" for an attribute without latents.
        attribute: name of the attribute or label; "" for a latent that enters none.
        family: name of its family, or of its distribution given the data; "" where it has none.
        reason: why it has none, or the other latents given which it has one; "" where it has one.
    """

    latent: str
    attribute: str
    family: str
    reason: str


@dataclasses.dataclass(frozen=True)
class ClosedForm:
    """The parts of a program with a closed form.

    Attributes:
        findings: of each latent.
        conjugate: the prior, with numbers in place of classes; None unless families are those of all of the program.
        why_no_evidence: why the log density, all of the latents integrated out, is not the log evidence; "" if it is.
        elimination: of all latents, where there are no such families.
    """

    findings: tuple[Finding, ...]
    conjugate: Conjugate | None
    why_no_evidence: str
    elimination: Elimination | None = None

    @property
    def closed(self) -> list[Finding]:
        """The findings of latents with a family."""
        return [finding for finding in self.findings if finding.latent and finding.family]

    def with_elimination(self, elimination: Elimination, latents: Sequence[str]) -> "ClosedForm":
        """The parts with a closed form, those that stages integrate out of the latents of the program included."""
        remaining = [name for name in latents if name not in elimination.families]
        if not elimination.stages:
            return self
        families = elimination.families if remaining or not self.why_no_evidence else {}
        are_sampled = f"given {quote_some(remaining)}, which {'is' if len(remaining) == 1 else 'are'} sampled"
        reason = are_sampled if remaining else self.why_no_evidence
        findings = (
            finding._replace(family=families.get(finding.latent, ""), reason=reason)
            if finding.reason and finding.latent in elimination.families
            else finding
            for finding in self.findings
        )
        return dataclasses.replace(self, findings=tuple(findings), elimination=None if reason else elimination)


@dataclasses.dataclass(frozen=True)
class RowSite:
    """An attribute, or the label as one that has the same distribution in all rows.

    Attributes:
        name: its name.
        likelihood: its likelihood.
        shape: of a row.
        unused_axes: of tables (class, column, ...) that the family does not have.
    """

    name: str
    likelihood: Likelihood
    shape: tuple[int, ...]
    unused_axes: int

    def reduced(self, tables: Any) -> Any:
        """Tables without the first axes, of length 1, that the family does not have."""
        return jax.tree.map(lambda array: array[(*(0,) * min(self.unused_axes, array.ndim), ...)], tables)


class FamilySearch:
    """The search for families, one for each attribute and the label. Inside float64.

    Attributes:
        traces: of the program.
        plan: of the program.
    """

    def __init__(self, traces: Traces, plan: Plan) -> None:
        self.traces, self.plan, self.program = traces, plan, traces.program
        self._types = traces.classes.types
        latents = {name: name for name in self.program.latents}
        rows = {name: "" for name, _ in self.program.structure.row_sites}
        covariates = {name: "" for name, _ in self.program.structure.covariates}
        self._sources: TraceOutputs = traces.classes.function.sources(latents, rows, "", covariates)

    @functools.cached_property
    def _draws(self) -> list[dict[str, np.ndarray]]:
        """Arbitrary latents."""
        draws = []
        for seed, level in enumerate(LEVELS):
            latents, rng = dict(self.traces.draws[0].latents), np.random.default_rng(seed)
            for name in self.program.latents:
                likelihood, value = self._types[name].likelihood, latents[name]
                if likelihood in ARBITRARY_VALUES:
                    levels = np.where(np.arange(value.size) % 2, -level, level).reshape(value.shape)
                    latents[name] = ARBITRARY_VALUES[likelihood](levels + rng.uniform(-1.0, 1.0, value.shape))
            draws.append(latents)
        return draws

    @functools.cached_property
    def _values(self) -> list[TraceOutputs]:
        """What the program computes at them, but for what rows would tell."""
        codes, traces = np.arange(self.program.num_classes), self.traces
        covariates = arbitrary_covariates(self.program, len(codes), same=True)
        function = traces.classes.function.only(
            lambda outputs: outputs._replace(
                log_probs={}, supports={}, row_parameters={}, distributions=(), deterministics={}
            )
        )
        return [function(latents, traces.zeros(len(codes)), codes, covariates) for latents in self._draws]

    @functools.cached_property
    def _inputs(self) -> dict[str, tuple[str, ...]]:
        """Label and attributes -> the latents that enter."""
        sources = {} if self.program.label is None else {self.program.label: self._sources.label_log_probs}
        sources |= {name: self._sources.log_probs[name] for name in self.program.attributes}
        return {
            name: tuple(latent for latent in self.program.latents if latent in all_sources(inputs))
            for name, inputs in sources.items()
        }

    def result(self) -> ClosedForm:
        """The families of the attributes, and the prior if they are those of all latents."""
        obstacle, label = self._obstacle(), self.program.label
        parts = {name: obstacle or self._part(name) for name in self._inputs}
        findings = [
            Finding(latent, name, *(("", part) if isinstance(part, str) else (type(part.family).__name__, "")))
            for name, part in parts.items()
            for latent in self._inputs[name] or ("",)
        ]
        used = {finding.latent for finding in findings}
        unused = [name for name in self.program.latents if name not in used]
        findings += [Finding(name, "", "", obstacle or self._why_unused(name)) for name in unused]
        finite = set() if self._why_no_evidence else {site.name for site in self.program.structure.finite}
        findings = [f._replace(family="finite", reason="") if f.latent in finite else f for f in findings]
        closed = {name: part for name, part in parts.items() if isinstance(part, Block)}
        if unused or len(closed) < len(parts) or not self.program.latents:
            return ClosedForm(tuple(findings), None, self._why_no_evidence)
        class_part = None if label is None else closed.pop(label)
        conjugate = Conjugate(
            None if class_part is None else class_part.family,
            tuple(closed.values()),
            tuple(range(len(self.program.classes))),
            class_sites=None if class_part is None else class_part.sites,
        )
        return ClosedForm(tuple(findings), conjugate, "")

    # --- why not ------------------------------------------------------------------------------------------------

    @property
    def _why_factor(self) -> str:
        """That a factor is no prior; "" where there is none."""
        factor = next((name for name in self._sources.log_priors if name not in self.program.latents), None)
        return "" if factor is None else f"the factor {factor!r} changes the prior"

    @functools.cached_property
    def _why_no_evidence(self) -> str:
        """Why the integral over all latents is not the evidence: what is not normalised; "" if it is."""
        flat = [name for name in self.program.latents if not self._types[name].is_normalised]
        if self._why_factor:
            return self._why_factor
        if flat:
            return f"the prior of {quote_some(flat)} is not normalised, so that there is no evidence"
        partial = [name for name in self._inputs if self._lacks_total(name)]
        return f"the probabilities of {quote_some(partial)} do not sum to 1" if partial else ""

    def _lacks_total(self, name: str) -> bool:
        """Whether the probabilities of a categorical site do not sum to 1: NumPyro takes them as they are."""
        parameters = [self._parameters(name, outputs) for outputs in self._values]
        totals = [scipy.special.logsumexp(p["log_probs"], axis=-1) for p in parameters if "log_probs" in p]
        return bool(self._inputs[name]) and any(not np.allclose(total, 0.0, atol=ROUNDING) for total in totals)

    def _obstacle(self) -> str | None:
        """Why nothing of the program has a closed form, if so."""
        structure = self.program.structure
        if self._why_factor:
            return self._why_factor
        if structure.local:
            return f"rows have latents of their own, {quote_some([name for name, _ in structure.local])}"
        if structure.counts_partly:
            return "a scale, a mask or censoring says how much of a row counts"
        return None

    def _why_unused(self, latent: str) -> str:
        """Why a latent that enters no attribute has no closed form."""
        children = [name for name in self.program.latents if name != latent and latent in self._prior_sources(name)]
        if children:
            return f"hierarchical prior: it enters the prior of {quote_some(children)}"
        return "it enters no attribute"

    def _prior_sources(self, latent: str) -> set[str]:
        """The other latents that enter the prior of a latent."""
        return set(all_sources((self._sources.log_priors[latent], self._sources.priors.get(latent)))) - {latent}

    def _why_not_a_group(self, name: str, latents: Sequence[str]) -> str | None:
        """Why the latents of an attribute are no group of their own, if so."""
        if self.program.structure.finite:
            return f"it is not closed whatever {quote_some([site.name for site in self.program.structure.finite])} is"
        for latent in latents:
            other_sites = [site for site, inputs in self._inputs.items() if latent in inputs and site != name]
            if other_sites:
                return f"shared latent: {latent!r} enters {quote_some(other_sites)}, too"
            if parents := self._prior_sources(latent) - set(latents):
                return (
                    f"hierarchical prior: that of {latent!r} depends on the latent {min(parents)!r}, which is sampled"
                )
            children = [
                other for other in self.program.latents if other not in latents and latent in self._prior_sources(other)
            ]
            if children:
                return f"shared latent: {latent!r} enters the prior of {quote_some(children)}, too"
        return None

    # --- one attribute ------------------------------------------------------------------------------------------

    def _part(self, name: str) -> Block | str:
        """The block of an attribute, or of the label; or why it has none."""
        latents, reasons = self._inputs[name], dict(self.plan.reasons)
        if name in reasons:
            return f"rows have no statistic: {reasons[name]}"
        if self._lacks_total(name):
            return f"the probabilities of {name!r} do not sum to 1"
        if not latents:
            if name != self.program.label:
                return "no latent: its distribution is known, and has no family"
            return Block(name, FixedCategorical(np.exp(self._values[0].label_log_probs)), (), sites={})
        why = self._why_not_a_group(name, latents)
        if why is not None:
            return why
        site = self._site(name)
        forms = [form for form in FORMS if form.has_likelihood(site.likelihood)]
        for form in forms:
            roles = self._roles(form, latents)
            if roles is not None:
                return self._proven(form, site, roles)
        priors = quote_some([f"{latent} ~ {self._types[latent].name}" for latent in latents])
        return f"pair: no family has the priors {priors} of {self._types[name].name}"

    def _site(self, name: str) -> RowSite:
        if name == self.program.label:
            return RowSite(name, CategoricalLikelihood(self.program.num_classes), (), 2)
        shape = self.program.structure.attribute[name].row_shape
        return RowSite(name, dict(self.plan.compressed)[name], shape, 1 if self.program.label is None else 0)

    def _roles(self, form: Form, latents: Sequence[str]) -> dict[str, str] | None:
        """Parameter -> the latent that it is, by the types of priors; None where they are others."""
        roles = {}
        for latent in latents:
            matches = [key for key, likelihood in form.priors.items() if likelihood == self._types[latent].likelihood]
            if len(matches) != 1:
                return None
            roles[matches[0]] = latent
        return roles if len(roles) == len(latents) == len(form.priors) else None

    def _parameters(self, name: str, outputs: TraceOutputs) -> Mapping[str, Array]:
        """The parameters of the likelihood of an attribute or of the label; none where it has no likelihood."""
        if name == self.program.label:
            return {"log_probs": outputs.label_log_probs[None]}
        (parameters, _), _ = outputs.likelihood_parameters.get(name, (({}, None), None))
        return parameters

    def _tables(self, form: Form, site: RowSite, outputs: TraceOutputs) -> dict[str, np.ndarray]:
        """The parameters of the family, (class, column, ...)."""
        tables = form.parameters(self._parameters(site.name, outputs))
        if form.is_vector:
            return {key: np.asarray(table) for key, table in tables.items()}
        num_axes, size = 1 + len(site.shape), math.prod(site.shape)
        return {key: np.reshape(t, (len(t), size, *np.shape(t)[num_axes:])) for key, t in tables.items()}

    def _proven(self, form: Form, site: RowSite, roles: Mapping[str, str]) -> Block | str:
        """The block of an attribute whose latents have the types of a form; or why it is not of the family."""
        if form.is_vector and len(site.shape) != 1:
            return "plate: a row has several vectors"
        tables, indices = [self._tables(form, site, outputs) for outputs in self._values], {}
        for key, latent in roles.items():
            index = _index([table[key] for table in tables], [draw[latent] for draw in self._draws])
            if index is None:
                return f"link: {latent!r} is not itself the parameter {key!r} of {site.name!r}"
            indices[key] = index
        is_pooled = all(_is_shared(index, 0) for index in indices.values())
        if is_pooled:
            indices = {key: index[:1] for key, index in indices.items()}
        pooling = Pooling()
        entries = dict(indices)
        if form.pooled is not None:
            index = indices[form.pooled]
            pooling = Pooling(_is_shared(index, 0), _is_shared(index, 1))
            entries[form.pooled] = index[0 if pooling.tied else slice(None), ...]
            if pooling.spherical:
                entries[form.pooled] = entries[form.pooled][..., 0]
        for key, latent in roles.items():
            why = self._why_no_table(form.priors[key], latent, entries[key])
            if why is not None:
                return why
        family = self._family(form, site, roles, indices, tables[0], pooling)
        sites = {
            key: SiteEntries(latent, self._draws[0][latent].shape, site.reduced(entries[key]))
            for key, latent in roles.items()
        }
        block = Block(site.name, family, (), sites=sites, pooled=is_pooled, in_one_axis=not form.is_vector)
        return block if self._holds(site, block) else "proof: prior times likelihood is not the posterior of the family"

    def _why_no_table(self, prior: Likelihood, latent: str, entries: Int[np.ndarray, "..."]) -> str | None:
        """Why the entries of a latent are not the independent parameters of a table, if so."""
        shape = self._draws[0][latent].shape
        if not np.array_equal(np.sort(entries, axis=None), np.arange(math.prod(shape))):
            return f"plate: an entry of {latent!r} is the parameter of several classes or columns, or of none"
        if prior == DIRICHLET and np.ptp(entries // shape[-1], axis=-1).any():
            return f"plate: the probabilities of a class or column are not those of one vector of {latent!r}"
        return None

    def _family(
        self,
        form: Form,
        site: RowSite,
        roles: Mapping[str, str],
        indices: Mapping[str, np.ndarray],
        tables: Mapping[str, np.ndarray],
        pooling: Pooling,
    ) -> Family:
        """The family whose hyperparameters are the arguments of the priors."""
        arguments = {
            key: {name: value.ravel()[indices[key]] for name, value in self._values[0].priors[latent].items()}
            for key, latent in roles.items()
        }
        parameters = {key: table[: len(indices[key])] for key, table in tables.items()}
        return form.prior(site.reduced(arguments), site.reduced(parameters), pooling)

    def _holds(self, site: RowSite, block: Block) -> bool:
        """Whether prior times likelihood is posterior times evidence, at arbitrary latents and statistics."""
        assert block.sites is not None
        rng, draw = np.random.default_rng(1), self.traces.draws[0]
        num_classes = self.program.num_classes
        if site.name == self.program.label:
            rows, codes, num_classes = rng.integers(0, num_classes, ROWS), np.zeros(ROWS, int), 1
        else:
            rows, codes = self.traces.rows(draw, ROWS)[site.name], rng.integers(0, num_classes, ROWS)
        summary = site.likelihood.summarize(rows, codes, num_classes, rng.uniform(0.5, 1.5, ROWS))
        reduced = site.reduced(block.summary(summary))
        posterior, log_evidence = block.family.posterior(reduced), float(block.family.log_evidence(reduced))
        for latents, outputs in zip(self._draws, self._values, strict=True):
            log_prior = sum(float(outputs.log_priors[entries.site]) for entries in block.sites.values())
            log_likelihood = float(site.likelihood.log_likelihood(self._parameters(site.name, outputs), summary).sum())
            parameters = {key: entries.table(latents[entries.site]) for key, entries in block.sites.items()}
            terms = np.array([log_prior, log_likelihood, -posterior.log_prior(parameters), -log_evidence])
            if not abs(terms.sum()) <= TOLERANCE * (1 + np.abs(terms).sum()):
                return False
        return True


def _index(tables: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Int[np.ndarray, "..."] | None:
    """For each cell of a table the entry of a latent that is equal at all draws; None where a cell has none."""
    entries, cells = values[0].ravel(), tables[0].ravel()
    order = np.argsort(entries)
    above = np.clip(np.searchsorted(entries[order], cells), 0, len(entries) - 1)
    below = np.maximum(above - 1, 0)
    is_below = np.abs(entries[order[below]] - cells) < np.abs(entries[order[above]] - cells)
    index = order[np.where(is_below, below, above)].reshape(tables[0].shape)
    pairs = zip(values, tables, strict=True)
    return index if all(_close(value.ravel()[index], table) for value, table in pairs) else None


def _close(values: Float[np.ndarray, "..."], other: Float[np.ndarray, "..."]) -> bool:
    return bool(np.allclose(values, other, rtol=TOLERANCE, atol=0.0))


def _is_shared(index: Int[np.ndarray, "..."], axis: int) -> bool:
    """Whether several classes, or columns, have the same entries."""
    return index.ndim > axis and index.shape[axis] > 1 and not np.ptp(index, axis=axis).any()
