"""Experiments with a program: what its sites depend on, and whether rows of one class are alike."""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.ops.provenance import eval_provenance

from bayesgen.errors import ModelError

from .arbitrary import run
from .evaluation import class_table, evaluate, row_log_probs
from .messages import base_support
from .structure import Structure

FEW = 58  # rows of a second probe, all of one class: of other parity, and with classes that do not occur
LEAST, MOST, NUMBERS = 101, 4_099, 2**18  # rows of a probe, and about how many numbers its parameters are
FURTHER = (2**20, 2**22)  # the same where there are more rows, and the program knows their places
SPREADS = (1.0, 1.0, 4.0, -4.0)  # of the latents, in standard deviations of their priors: the last are in the tails
IN_TAILS = 1e-4  # of the largest number: in the tails, sums of large numbers cancel
TOLERANCE = 1e-8
# A probe runs once: optimising what it compiles to would take longer than running it.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@dataclasses.dataclass(frozen=True)
class Probe:
    """Experiments with a program: arbitrary latents, random labels, rows in a random order.

    Attributes:
        covariate_names: names of the covariates.
        size: number of rows.
    """

    function: Callable
    structure: Structure
    num_classes: int
    covariate_names: tuple[str, ...]
    size: int

    def with_rows(self, most, numbers):
        """The probe with as many rows as may be and as make no more than so many parameters, `LEAST` at least."""
        return dataclasses.replace(self, size=most).within(most, numbers)

    def within(self, most, numbers):
        """The probe, with fewer rows where these make too many parameters."""
        return dataclasses.replace(self, size=min(self.size, most, max(LEAST, numbers // self.numbers_per_row)))

    @functools.cached_property
    def numbers_per_row(self):
        """How many numbers the distributions of one row are made of, roughly."""
        sizes: list[int] = []

        def count(latents, rows):
            sites = self.evaluate_classes(latents).sites
            sizes.extend(jnp.size(leaf) for site in sites.values() for leaf in jax.tree.leaves(site["fn"]))
            sizes.extend(math.prod(site.row_shape) * self.num_classes for _, site in self.structure.attributes)

        dataclasses.replace(self, size=LEAST).abstractly(count)
        return max(1, sum(sizes) // self.num_classes)

    @property
    def codes(self):
        """Random labels."""
        return np.random.default_rng(0).integers(0, self.num_classes, self.size)

    @property
    def covariates(self):
        """Covariates that differ from row to row."""
        return {name: 1.0 + jnp.arange(self.size) % 3 for name in self.covariate_names}

    def values(self, key, spread=1.0):
        """Arbitrary latents and rows; the rows come again and again, as drawing them would take the most time."""
        few = dataclasses.replace(self, size=LEAST)
        trace = run(self.function, LEAST, few.covariates, key, spread)
        latents = {name: trace[name]["value"] for name, _ in self.structure.latents}
        rows = {name: site.from_site(trace[name]["value"]) for name, site in self.structure.attributes}
        return latents, jax.tree.map(lambda values: values[np.arange(self.size) % LEAST], rows)

    def evaluate(self, latents, rows, codes=None, covariates=None):
        """Run at the rows."""
        codes = self.codes if codes is None else codes
        covariates = self.covariates if covariates is None else covariates
        return evaluate(self.function, self.structure, latents, codes, rows, covariates)

    def evaluate_few(self, latents, rows):
        """Run at fewer rows, all of class 0."""
        rows, covariates = jax.tree.map(lambda values: values[:FEW], (rows, self.covariates))
        return evaluate(self.function, self.structure, latents, self.few_codes, rows, covariates)

    @property
    def few_codes(self):
        """The labels of `evaluate_few`."""
        return np.zeros(min(FEW, self.size), int)

    def jaxpr(self, plan):
        """What the program does to make the prior and the distributions of the rows."""

        def everything(latents, rows, codes, covariates):
            evaluation = self.evaluate(latents, rows, codes, covariates)
            learned = {name: _learned(evaluation, name, self.structure.axis) for name, _ in plan.compressed}
            log_probs = row_log_probs(evaluation, self.structure, plan.rowwise)
            label = None if evaluation.label is None else jax.tree.leaves(evaluation.label["fn"])
            return evaluation.log_prior, label, learned, log_probs

        few = dataclasses.replace(self, size=LEAST)
        latents, *of_rows = jax.eval_shape(lambda key: (*few.values(key), few.codes, few.covariates), jax.random.key(0))
        of_rows = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.size, *leaf.shape[1:]), leaf.dtype), of_rows)
        return jax.make_jaxpr(everything)(latents, *of_rows)

    def check(self, plan):
        """Refuse what the plan has not seen: distributions that are others with this number of rows."""
        differing, _ = self.differences(tuple(name for name, _ in plan.compressed))
        if differing:
            raise ModelError(_not_exchangeable(min(differing)))
        if plan.rowwise:
            self.check_exchangeable(plan.rowwise)

    def evaluate_classes(self, latents):
        """Run at the classes, with the first row's covariates."""
        labels = jnp.arange(self.num_classes)
        first = {name: jnp.repeat(value[:1], self.num_classes, 0) for name, value in self.covariates.items()}
        return evaluate(self.function, self.structure, latents, labels, None, first)

    def abstractly(self, measure):
        """Call measure(latents, rows) on tracers, for what can be known without numbers."""
        results = []
        jax.eval_shape(lambda key: results.append(measure(*self.values(key))), jax.random.key(0))
        return results[0]

    def numerically(self, measure):
        """The arrays of measure(latents, rows) at several draws, stacked."""
        first, second, tails = jax.random.split(jax.random.key(1), 3)
        keys = jnp.stack([first, second, tails, tails])  # what is in one tail there is in the other tail here
        measures = jax.jit(jax.vmap(lambda *draw: measure(*self.values(*draw))), compiler_options=QUICKLY)
        return jax.tree.map(np.asarray, measures(keys, jnp.asarray(SPREADS)))

    def zeros(self):
        """Latents and rows of the right shapes, for what can be known without numbers."""
        shapes = jax.eval_shape(self.values, jax.random.key(0))
        return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

    def informed(self):
        """Attributes into whose parameters (not those of the base measure) covariates flow: name -> reason."""
        if not self.covariates:
            return {}
        latents, rows = self.zeros()

        def parts(values, **covariates):
            labels = self.codes
            evaluation = evaluate(self.function, self.structure, values, labels, rows, covariates)
            read = {name: evaluation.conditional(name, self.structure.axis) for name in rows}
            learned = {name: (one.parameters, one.mask) for name, one in read.items() if one is not None}
            return {"latents": evaluation.log_prior, "label": evaluation.label_log_probs}, learned

        outside, inside = eval_provenance(parts, values=latents, **self.covariates)
        for what, found in outside.items():
            if found & set(self.covariates):
                raise ModelError(
                    f"The covariate {min(found & set(self.covariates))!r} enters the distribution of the {what}: only "
                    "attributes may depend on covariates."
                )
        flows = {name: frozenset().union(*jax.tree.leaves(leaves)) for name, leaves in inside.items()}
        known = {name: found & set(self.covariates) for name, found in flows.items()}
        return {name: f"its parameters depend on covariate {min(found)}" for name, found in known.items() if found}

    def entangled(self):
        """Attributes into whose distribution other attributes flow: name -> reason."""
        latents, rows = self.zeros()
        names = tuple(rows)

        def log_probs(latents, **rows):
            return row_log_probs(self.evaluate(latents, rows), self.structure, names)

        flows = eval_provenance(log_probs, latents=latents, **rows)
        others = {name: flows[name] & (set(names) - {name}) for name in names}
        return {name: f"it depends on attribute {min(found)}" for name, found in others.items() if found}

    def statistics(self):
        """site -> its `Statistic`, or the reason why there is none."""
        return self.abstractly(lambda latents, rows: self._statistics(latents, rows))

    def _statistics(self, latents, rows):
        evaluation = self.evaluate_classes(latents)
        found = {}
        for name, _ in self.structure.attributes:
            conditional = evaluation.conditional(name, self.structure.axis)
            if conditional is None:
                found[name] = f"{type(evaluation.sites[name]['fn']).__name__} has no registered statistic"
            elif jnp.ndim(1.0 if evaluation.scale(name) is None else evaluation.scale(name)):
                found[name] = "it is scaled by an array"
            else:
                found[name] = conditional.statistic
        return found

    def differences(self, names):
        """Sites whose distributions in the rows are not those of the classes (name -> reason), and inert ones."""
        axis = self.structure.axis

        def measure(latents, rows):
            by_row, by_class = self.evaluate(latents, rows), self.evaluate_classes(latents)
            few = self.evaluate_few(latents, rows)
            label_log_probs = by_class.label_log_probs
            labels = (
                (by_row.label_log_probs, few.label_log_probs),
                (label_log_probs[self.codes], label_log_probs[self.few_codes]),
            )
            priors = ((by_row.log_prior, few.log_prior), (by_class.log_prior, by_class.log_prior))
            pairs = {}
            for name in names:
                row = by_row.conditional(name, axis)
                mine = (_learned(by_row, name, axis), _learned(few, name, axis))
                classes = _learned(by_class, name, axis)
                theirs = tuple(_at(classes, codes) for codes in (self.codes, self.few_codes))
                pairs[name] = (mine, theirs, row.inert)
            bounds = {name: jax.tree.leaves(base_support(site["fn"].support)) for name, site in by_class.sites.items()}
            return priors, labels, pairs, bounds

        priors, labels, pairs, bounds = self.numerically(measure)
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
                f"The label {self.structure.label!r} is not exchangeable: its probabilities differ between rows. "
                "Give every row the same class probabilities."
            )
        reasons = {}
        for name, (rows, classes, inert) in pairs.items():
            if not _close(rows, classes):
                reasons[name] = "its parameters differ between rows of one class"
            elif any(not np.array_equal(leaf[0], leaf[1]) for leaf in jax.tree.leaves(inert)):
                reasons[name] = f"{', '.join(inert)} depends on a latent"
        return reasons, [name for name, (_, _, inert) in pairs.items() if inert]

    def check_exchangeable(self, names):
        """Refuse row-wise sites whose rows depend on their position or on other rows."""

        def measure(latents, rows):
            together = row_log_probs(self.evaluate(latents, rows), self.structure, names)
            alone = class_table(self.function, self.structure, self.num_classes, latents, rows, self.covariates, names)
            few = row_log_probs(self.evaluate_few(latents, rows), self.structure, names)
            own = jnp.arange(self.size), self.codes
            return {name: ((together[name], few[name]), (alone[name][own], alone[name][:FEW, 0])) for name in names}

        for name, (together, alone) in self.numerically(measure).items():
            if not _close(together, alone):
                raise ModelError(_not_exchangeable(name))


def _not_exchangeable(name):
    return (
        f"The rows of attribute {name!r} are not exchangeable: its distribution in a row depends on the row's "
        "position, on the number of rows or on other rows. Let it depend only on latents and on the row's own label "
        "and attributes; pass what else a row knows as a keyword-only argument (a covariate)."
    )


def _of_moving_support(name):
    return (
        f"The support of attribute {name!r} depends on a latent: its density jumps to zero where a bound passes a "
        "value of the data, and no mode or chain finds its way along such an edge. Let the bounds be numbers or "
        "covariates, and latents only the location, scale or shape of what is positive everywhere between them."
    )


def _learned(evaluation, name, axis):
    """What of a site must be the same in all rows of a class: (its parameters and mask, its scale)."""
    conditional = evaluation.conditional(name, axis)
    return (conditional.parameters, {} if conditional.mask is None else conditional.mask), evaluation.scale(name)


def _at(learned, codes):
    """The classes' own, row by row; a scale is one number for all."""
    arrays, scale = learned
    return jax.tree.map(lambda leaf: leaf[codes], arrays), scale


def _close(one, two):
    """Whether measures at several draws, the last one in the tails, are the same."""
    one, two = jax.tree.leaves(one), jax.tree.leaves(two)
    return len(one) == len(two) and all(
        a.shape == b.shape
        and np.allclose(a[:-1], b[:-1], rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        and _close_in_tails(a[-1], b[-1])
        for a, b in zip(one, two, strict=True)
    )


def _close_in_tails(one, two):
    known = np.isfinite(one) & np.isfinite(two)
    largest = np.abs(one[known]).max(initial=0.0)
    return np.allclose(one[known], two[known], rtol=IN_TAILS, atol=IN_TAILS * largest)
