"""Which latents of a program can be integrated out of its log density: stages of an `Elimination`, found by numbers.

No type of prior or likelihood is looked at, but values of the log density f at arbitrary latents:

- real latents are jointly normal where third differences of f along lines through their space vanish;
- latents are independent of each other where f is a sum of functions of each, as differences of differences tell;
- a table of probabilities, rates, variances or matrices has a form (`TableForm`) where the form that slopes of f at two
  extreme points tell gives the difference of f between two other points.

All of it holds given the other latents, which are moved as well. What is not of such a form is left to be sampled.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import AffineTransform, IdentityTransform

from bayesgen.program import (
    Arrays,
    BetaForm,
    DirichletForm,
    Elimination,
    Normals,
    PowerForm,
    Stage,
    TableForm,
    Tables,
    WishartForm,
    arbitrary_numbers,
)
from bayesgen.records import stacked
from bayesgen.runtime import Traced
from bayesgen.typing import Array, Float, Int

from .traces import Traces

TOLERANCE = 1e-10  # of differences that vanish, relative to their terms
POINTS = 16  # at which a density is evaluated together
LINE = np.array([[-1.0, 3.0], [0.0, -9.0], [1.0, 9.0], [2.0, -3.0]])  # points, and three times the third difference
RAY = np.array([0.4, 0.7, 1.0, 1.6, 2.7])
MOST_NORMALS = 1000  # entries of jointly normal latents, whose matrices are dense

FORMS_OF_SUPPORTS: Sequence[tuple[Constraint, Sequence[TableForm]]] = (
    (constraints.positive, tuple(map(PowerForm, (1, -1, -2, 2)))),
    (constraints.unit_interval, (BetaForm(),)),
    (constraints.simplex, (DirichletForm(),)),
    (constraints.positive_definite, (WishartForm(True, False), WishartForm(False, False))),
    (constraints.lower_cholesky, (WishartForm(True, True), WishartForm(False, True))),
)
"""The forms that latents of a support may have."""

Latents = dict[str, np.ndarray]
NEAR = (11, 12, 14, 15)  # seeds of arbitrary latents
TAILS = ((13, 11.3), (13, -11.3))  # seed and spread of those far in the tails, where a form may not hold


def arbitrary_latents(traces: Traces, supports: Mapping[str, Constraint]) -> list[Latents]:
    """Latents about the middle of their priors, and far in both tails, but for matrices, which have no digits there."""
    near = [traces.draw(arbitrary_numbers(seed)).latents for seed in NEAR]
    far = [traces.draw(arbitrary_numbers(seed), spread).latents for seed, spread in TAILS]
    matrices = [n for n in near[0] if supports[n] in (constraints.lower_cholesky, constraints.positive_definite)]
    tails = ({**tail, **{name: values[name] for name in matrices}} for tail, values in zip(far, near[2:], strict=True))
    return [*near[:2], *tails]


def find_elimination(
    log_density: Callable[[Arrays], Float[Array, ""]], draws: Sequence[Latents], supports: Mapping[str, Constraint]
) -> Elimination:
    """The stages that integrate as many latents out of a log density as are found; none where there are none.

    Args:
        log_density: of latents, of data that do not matter but for their form. Traceable.
        draws: arbitrary latents, all different.
        supports: latent -> support of one entry of an event.
    """
    density, stages = _Density(log_density, draws), list[Stage]()
    reals = tuple(name for name in draws[0] if _is_real(supports[name]))
    normals = _largest(_by_size(reals, draws[0]), density.is_quadratic)
    forms = density.forms(
        {name: options for name in draws[0] for support, options in FORMS_OF_SUPPORTS if supports[name] == support}
    )
    if normals:
        stages.append(Normals(tuple((name, draws[0][name].shape) for name in normals)))
        if forms and not density.are_additive([normals, tuple(forms)]):
            other_latents = [{name: value for name, value in draw.items() if name not in normals} for draw in draws]
            marginal = _Density(functools.partial(Elimination((stages[0],)).log_integral, log_density), other_latents)
            forms = {
                name: form
                for name, form in forms.items()
                if density.are_additive([normals, (name,)]) or marginal.keeps_form(name, form)
            }
            density = marginal
    tables = _largest(_by_size(forms, draws[0]), lambda names: density.are_additive([(name,) for name in names]))
    if tables:
        stages.append(Tables(tuple((name, draws[0][name].shape, forms[name]) for name in tables)))
    return Elimination(tuple(stages))


def _is_real(support: Constraint) -> bool:
    """Whether a support is all real numbers, wherever its unconstrained coordinates have their origin and unit."""
    if support.is_discrete:
        return False
    transform = biject_to(support)
    is_affine = isinstance(transform, AffineTransform) and transform.domain is constraints.real
    return is_affine or isinstance(transform, IdentityTransform)


def _by_size(names: Iterable[str], values: Latents) -> tuple[str, ...]:
    """Latents, those of many entries first."""
    return tuple(sorted(names, key=lambda name: -values[name].size))


def _largest(names: tuple[str, ...], accepts: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """All names if they are accepted together; else as many, one after another, as are."""
    if not names or accepts(names):
        return names
    chosen: tuple[str, ...] = ()
    for name in names:
        chosen = (*chosen, name) if accepts((*chosen, name)) else chosen
    return chosen


class _Density:
    """A log density at arbitrary latents, many at once, by NumPy.

    Attributes:
        log_density: the log density.
        pairs: pairs of arbitrary latents, between which some are moved.
    """

    def __init__(self, log_density: Callable[[Arrays], Float[Array, ""]], draws: Sequence[Latents]) -> None:
        self.log_density = log_density
        self.pairs = list(zip(draws, (*draws[1:], draws[0]), strict=True))
        self._rays: dict[str, Float[np.ndarray, "pairs points"]] = {}
        self._at_points = Traced.of(jax.vmap(log_density), stacked([draws[0]] * POINTS))

    def at(self, points: Sequence[Latents]) -> Float[np.ndarray, " points"]:
        """The log density at points, POINTS of them at a time."""
        padded = [*points, *(-len(points) % POINTS * [points[-1]])]
        batches = [self._at_points(stacked(padded[i : i + POINTS])) for i in range(0, len(padded), POINTS)]
        return np.concatenate(batches)[: len(points)]

    def is_quadratic(self, names: tuple[str, ...]) -> bool:
        """Whether it is quadratic in these latents together, whatever the others are."""
        if sum(self.pairs[0][0][name].size for name in names) > MOST_NORMALS:
            return False
        points = [
            {**first, **{name: first[name] + step * (second[name] - first[name]) for name in names}}
            for first, second in self.pairs
            for step in LINE[:, 0]
        ]
        return _vanish(self.at(points).reshape(-1, len(LINE)) * LINE[:, 1])

    def are_additive(self, groups: Sequence[tuple[str, ...]]) -> bool:
        """Whether it is a sum of functions of these groups of latents each, whatever the others are."""
        logs = self._moved([sum(groups, ()), *groups, ()])
        return _vanish(logs * [1.0, *(-1.0 for _ in groups), len(groups) - 1.0])

    def forms(self, options: Mapping[str, Sequence[TableForm]]) -> dict[str, TableForm]:
        """Latent -> its form, where it has one of the options."""
        possible = {name: [f for f in forms if self._holds_on_rays(name, f)] for name, forms in options.items()}
        moved, form_of = self._moved([(name,) for name in options] + [()]), dict[str, TableForm]()
        for index in range(max(map(len, possible.values()), default=0)):
            tried = {n: forms[index] for n, forms in possible.items() if n not in form_of and len(forms) > index}
            if not tried:
                continue
            slopes = self._slopes(tried)
            for name, form in tried.items():
                steps = moved[:, [list(options).index(name), -1]] * [1.0, -1.0]
                form_of |= {name: form} if self._has_form(name, form, slopes(name), steps) else {}
        return form_of

    def keeps_form(self, name: str, form: TableForm) -> bool:
        """Whether a latent that had a form given others, which were integrated out, still has it."""
        return bool(form.power) and self._holds_on_rays(name, form) and self._has_independent_entries(name, form)

    def _has_independent_entries(self, name: str, form: TableForm) -> bool:
        """Whether it is a sum of functions of the entries of a latent, numbers or matrices.

        It is one of functions of two halves, for halvings that set any two entries apart.
        """
        shape, axes = self.pairs[0][0][name].shape, 0 if isinstance(form, PowerForm) else 2
        entries = np.arange(math.prod(shape[: len(shape) - axes])).reshape(shape[: len(shape) - axes] + (1,) * axes)
        halves = [entries >> bit & 1 == side for bit in range((entries.size - 1).bit_length()) for side in (0, 1)]
        moved = [entries >= 0, entries < 0, *halves]
        points = [
            {**first, name: np.where(mask, second[name], first[name])} for first, second in self.pairs for mask in moved
        ]
        total, none, *logs = self.at(points).reshape(len(self.pairs), -1).T
        terms = [np.stack([total, none, -logs[i], -logs[i + 1]], 1) for i in range(0, len(logs), 2)]
        return all(map(_vanish, terms))

    def _moved(self, groups: Sequence[tuple[str, ...]]) -> Float[np.ndarray, "pairs groups"]:
        """The log density where a group of latents is moved."""
        points = [{**first, **{n: second[n] for n in names}} for first, second in self.pairs for names in groups]
        return self.at(points).reshape(len(self.pairs), -1)

    def _holds_on_rays(self, name: str, form: TableForm) -> bool:
        """Whether along rays it is a sum of a logarithm and a power, as by forms that have one."""
        if not form.power:
            return True
        features = np.stack([np.ones(len(RAY)), np.log(RAY), RAY**form.power])
        return all(_vanish(self._along_rays(name) * vector) for vector in scipy.linalg.null_space(features).T)

    def _along_rays(self, name: str) -> Float[np.ndarray, "pairs points"]:
        if name not in self._rays:
            points = [{**first, name: first[name] * factor} for first, _ in self.pairs for factor in RAY]
            self._rays[name] = self.at(points).reshape(-1, len(RAY))
        return self._rays[name]

    def _slopes(self, forms: Mapping[str, TableForm]) -> Callable[[str], Float[np.ndarray, "pairs 2 ..."]]:
        """Latent -> the slopes along its coordinates, at the two points of its form, the others left where they are."""
        shapes = {name: self.pairs[0][0][name].shape for name in forms}

        def moved(coordinates: Arrays, values: Arrays, position: Int[Array, ""]) -> Float[Array, ""]:
            point, log_jacobian = dict(values), jnp.zeros(())
            for index, (name, form) in enumerate(forms.items()):
                point[name] = jnp.where(position == index, form.value(coordinates[name]), values[name])
                log_jacobian += jnp.where(position == index, form.log_jacobian(point[name]), 0.0)
            return self.log_density(point) + log_jacobian

        anywhere = {name: _points(form, shapes[name])[0] for name, form in forms.items()}
        arguments = anywhere, self.pairs[0][0], np.array(0)
        traced = Traced.of(jax.vmap(jax.grad(moved)), *stacked([arguments] * (2 * len(self.pairs))))

        def slopes(name: str) -> Float[np.ndarray, "pairs 2 ..."]:
            points, position = _points(forms[name], shapes[name]), np.array(list(forms).index(name))
            arguments = [({**anywhere, name: point}, first, position) for first, _ in self.pairs for point in points]
            values = traced.only(operator.itemgetter(name))(*stacked(arguments))
            return values.reshape(-1, 2, *values.shape[1:])

        return slopes

    def _has_form(
        self,
        name: str,
        form: TableForm,
        slopes: Float[np.ndarray, "pairs 2 ..."],
        steps: Float[np.ndarray, "pairs 2"],
    ) -> bool:
        """Whether the table that slopes at two extreme points tell explains the steps between others."""
        shape = self.pairs[0][0][name].shape
        log_probs = [
            _log_probs(form, shape)(*_points(form, shape), *pair_slopes, second[name], first[name])
            for pair_slopes, (first, second) in zip(slopes, self.pairs, strict=True)
        ]
        return _vanish(np.column_stack([steps, np.stack(log_probs)]) * [1.0, 1.0, -1.0, 1.0])


@functools.cache
def _points(form: TableForm, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The two points of a form."""
    return Traced.of(lambda: form.points(shape))()


@functools.cache
def _log_probs(form: TableForm, shape: tuple[int, ...]) -> Traced:
    """The log densities at two values of the table that slopes at the two points of its form tell."""

    def log_probs(first: Array, second: Array, first_slope: Array, second_slope: Array, *values: Array) -> Array:
        table = form.table((first, first_slope), (second, second_slope))
        return jnp.stack([table.log_prob(value) for value in values])

    points = _points(form, shape)
    return Traced.of(log_probs, *points, *points, *[np.zeros(shape)] * 2)


@np.errstate(invalid="ignore")  # where the density is nowhere finite
def _vanish(terms: Float[np.ndarray, "n terms"]) -> bool:
    """Whether the terms of each row sum to zero, but for rounding."""
    return bool((np.abs(terms.sum(1)) <= TOLERANCE * (1 + np.abs(terms).sum(1))).all())
