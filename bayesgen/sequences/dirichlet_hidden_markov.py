"""Hidden Markov models with Dirichlet priors on their chains, and emissions of any family."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.transforms import Transform

from bayesgen.data import CATEGORICAL, KINDS_OF_STEPS, Kind, Schema, SequenceOf
from bayesgen.errors import ModelError, check_integer
from bayesgen.families import (
    ANONYMOUS,
    DirichletTables,
    Family,
    Hyperparameter,
    IncompleteFamily,
    Key,
    LatentVariableFamily,
    Names,
    NormalInverseGamma,
    ParameterTables,
    Scale,
    Stated,
    Traits,
    as_number,
    broadcast,
    check_positive,
    relative_frequencies,
)
from bayesgen.records import fill, record, stacked, static
from bayesgen.runtime import generator
from bayesgen.statistics import RetainedRows, Summary
from bayesgen.typing import Array, Category, Int

from .hidden_counts import (
    HiddenCounts,
    check_shape,
    clustered_counts,
    expected_hidden_counts,
    has_partial_steps,
)
from .hidden_markov import HiddenMarkov, HiddenMarkovLikelihood


def check_emissions(emissions: object) -> None:
    """Refuse emissions that hidden states cannot have.

    Raises:
        ModelError: naming the families that can be emissions.
    """
    if not isinstance(emissions, Family):
        raise ModelError(f"DirichletHiddenMarkov: emissions must be a family, got {emissions!r}.")
    shared = emissions.kind.name in KINDS_OF_STEPS and any(
        axes[:1] != ("class",) for axes in emissions.parameter_axes().values()
    )
    if emissions.kind.name not in KINDS_OF_STEPS or emissions.traits.covariate is not None or shared:
        raise ModelError(
            f"DirichletHiddenMarkov: no hidden state emits by {emissions!r}. Emissions are columns that depend on the "
            "state alone, with parameters of their own in each: NormalInverseGamma(), NormalInverseWishart(), "
            "GammaPoisson(), BetaBernoulli() or DirichletCategorical(); not tied=True."
        )


def emission_distributions(
    emissions: Family, parameters: Mapping[str, Array], labels: Int[Array, "*n"]
) -> dist.Distribution:
    """The emission distributions of a time step, with the states as the last batch axis.

    Args:
        emissions: the resolved family.
        parameters: with the axes (K, S) first.
        labels: of the rows.
    """
    num_states = next(iter(parameters.values())).shape[1]
    codes = jnp.asarray(labels)[..., None] * num_states + jnp.arange(num_states)
    state_parameters = {name: jnp.reshape(value, (-1, *value.shape[2:])) for name, value in parameters.items()}
    if emissions.kind == CATEGORICAL:  # steps of one column of symbols have no axis of columns
        return dist.Categorical(probs=state_parameters["probs"][codes][..., 0, :])
    return emissions.site_distribution(state_parameters, codes)


CHAIN = ("initial", "transition")


@record
class DirichletHiddenMarkov(LatentVariableFamily):
    """Sequences from a chain of S hidden states: Dirichlet priors on the chain, any family for the emissions.

    Generative story, given the length T of a sequence::

        initial              ~ Dirichlet(initial concentration)
        transition[s]        ~ Dirichlet(concentration[s])                     for every state s
        emission parameters  ~ the emissions' family                           for every state s
        z_1                  ~ Categorical(initial),   z_t ~ Categorical(transition[z_(t-1)])
        x_t                  ~ the emissions' likelihood with the parameters of state z_t

    The columns of the block run in parallel: each time step has one hidden state and one cell of each column. Missing
    time steps are marginalised, and so are missing cells where the emissions allow them.

    The posterior has no closed form, because the states are hidden, and `Exact` refuses by name. `MLE` and `MAP` are
    found by EM from several starts (Baum and Welch): the first start clusters the time steps by k-means, the others
    cluster moving averages of random widths. States are numbered by the means of the first column in these clusters, or
    as in the starts that are given (`MAP(starts={...})`). `NUTS` samples the parameters, the states being marginalised.

    Args:
        num_states: S, at least 1.
        emissions: a `Family` of the columns given the state: `NormalInverseGamma()` (the default),
            `NormalInverseWishart()`, `GammaPoisson()`, `BetaBernoulli()`, or `DirichletCategorical()` for one column of
            symbols. Its defaults resolve to the means and variances of all time steps of the training rows.
        concentration: pseudo-counts of transitions, > 0: a number, or an array that broadcasts to (S, S), such as
            `1 + 10 * np.eye(S)` for states that last. Kept as the field `transition_concentration`.
        initial: pseudo-counts of first states, > 0: a number, or an array (S,). Kept as `initial_concentration`.

    Raises:
        ModelError: an invalid number of states, concentrations of other shapes, emissions that states cannot have.

    Source: Rabiner (1989), A tutorial on hidden Markov models, Proceedings of the IEEE 77, eq. 40a to 40c and 53.

    >>> import bayesgen as bg
    >>> levels = [[0.1, -0.2, 0.0, 5.1, 4.9, 5.0, 5.2, 0.1], [5.0, 5.1, 0.2, -0.1]]
    >>> model = bg.GenerativeClassifier([("level", bg.DirichletHiddenMarkov(2), ["level"])], class_prior=None)
    >>> fit = bg.fit(model, {"level": levels}, method=bg.MAP())
    >>> fit.parameters["level_mean"].round(1).tolist()
    [[0.0], [5.0]]
    >>> fit.parameters["level_transition"].round(2).tolist()
    [[0.75, 0.25], [0.33, 0.67]]
    """

    num_states: int = static()
    emissions: Family
    transition_concentration: Hyperparameter
    initial_concentration: Hyperparameter
    kind = SequenceOf()
    without_maximum = (
        "MAP() keeps all states by concentrations above 1, DirichletHiddenMarkov(S, concentration=2.0, initial=2.0); "
        "NUTS() needs no maximum."
    )
    why_no_closed_form = (
        "its states are hidden, so that the posterior is a mixture over all their paths. Use NUTS(), which sums them "
        "out, or MAP()."
    )

    def __init__(
        self, num_states: int, emissions: Any = None, concentration: Stated = 1.0, *, initial: Stated = 1.0
    ) -> None:
        check_integer("DirichletHiddenMarkov: num_states", num_states, 1)
        emissions = NormalInverseGamma() if emissions is None else emissions
        check_emissions(emissions)
        check_positive("DirichletHiddenMarkov", concentration=concentration, initial=initial)
        check_shape("concentration", concentration, (num_states, num_states))
        check_shape("initial", initial, (num_states,))
        fill(self, num_states=int(num_states), emissions=emissions)
        fill(self, transition_concentration=as_number(concentration), initial_concentration=as_number(initial))

    # --- hyperparameters ----------------------------------------------------------------------------------------

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        return Traits(joint=True, scaled=self.emissions.traits.scaled, covariate="length")

    def kind_of_column(self, index: int) -> Kind:
        """Sequences of what the emissions are."""
        return SequenceOf(self.emissions.kind.name)

    @property
    def num_values(self) -> int | None:
        return self.emissions.num_values

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, S, S) and (K, S), and the emissions to (K, S, D)."""
        if self.kind_of_column(0) == SequenceOf() and scale.num_columns not in (None, 1):
            raise ModelError(
                f"DirichletHiddenMarkov: {scale.num_columns} columns of symbols in one block. A hidden state emits one "
                "symbol at a step: put each column into a block of its own."
            )
        classes = () if scale.num_classes is None else (scale.num_classes,)
        table = (*classes, self.num_states)
        name, transitions = "DirichletHiddenMarkov", (*table, self.num_states)
        return self.replace(
            **broadcast(name, transitions, transition_concentration=self.transition_concentration),
            **broadcast(name, table, initial_concentration=self.initial_concentration),
            emissions=self.emissions.resolve(dataclasses.replace(scale, num_states=self.num_states)),
            batch_shape=table,
        )

    def _implied_scale(self) -> Scale:
        return self.emissions._implied_scale()

    @property
    def likelihood(self) -> HiddenMarkovLikelihood:
        return HiddenMarkovLikelihood(self.emissions.likelihood)

    def emission_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """The parameters of the emissions."""
        return {name: parameters[name] for name in self.emissions.parameter_axes()}

    # --- closed forms, of complete data -------------------------------------------------------------------------

    def posterior(self, summary: HiddenCounts) -> Self:
        return self._with_chain(summary).replace(emissions=self.emissions.update(summary.emissions))

    def _with_chain(self, summary: HiddenCounts) -> Self:
        """The posterior of the chain, the emissions being those of the prior."""
        return self.replace(
            initial_concentration=self.initial_concentration + summary.initial,
            transition_concentration=self.transition_concentration + summary.transition,
        )

    @property
    def _chain(self) -> DirichletTables:
        return DirichletTables({"initial": self.initial_concentration, "transition": self.transition_concentration})

    def mean(self) -> ParameterTables:
        family = self.closed("mean")
        return family._chain.mean() | family.emissions.mean()

    def variance(self) -> ParameterTables:
        family = self.closed("variance")
        return family._chain.variance() | family.emissions.variance()

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        family, names = self.closed("mode"), _with_states(names)
        return family._chain_mode(names) | family.emissions.mode(names)

    def _chain_mode(self, names: Names) -> ParameterTables:
        example = f"DirichletHiddenMarkov({self.num_states}, concentration=2.0, initial=2.0)"
        return self._chain.mode(names, f"Give concentrations above 1, {example}, or fewer states.")

    def maximum_posterior(self, summary: HiddenCounts, names: Names = ANONYMOUS) -> ParameterTables:
        """The joint mode given the states."""
        names = _with_states(names)
        emissions = self.emissions.maximum_posterior(summary.emissions, names)
        return self._with_chain(summary)._chain_mode(names) | emissions

    def central_parameters(self, summary: HiddenCounts | None = None) -> ParameterTables:
        """Means of the probabilities, and the center of the emissions."""
        if summary is None:
            return self._chain.mean() | self.emissions.central_parameters()
        return self._with_chain(summary)._chain.mean() | self.emissions.central_parameters(summary.emissions)

    def maximum_likelihood(self, summary: HiddenCounts, names: Names = ANONYMOUS) -> ParameterTables:
        """Relative frequencies, and the emissions' parameters of highest likelihood."""
        names = _with_states(names)
        emissions = self.emissions.maximum_likelihood(summary.emissions, names)
        return relative_frequencies({"initial": summary.initial, "transition": summary.transition}, names) | emissions

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        family, rng = self.closed("sample"), generator(key)
        return family._chain.sample(rng, shape) | family.emissions.sample(rng, shape)

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        family = self.closed("log_prior")
        return family._chain.log_density(parameters) + family.emissions.log_prior(self.emission_parameters(parameters))

    # --- hidden states: EM ------------------------------------------------------------------------------------------

    def e_step(self, summary: RetainedRows, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """Log-likelihood and expected counts, class by class; the emissions' E-step takes missing cells of time steps.

        Source: Rabiner (1989), section III.
        """
        has_partial, log_likelihood, parts = has_partial_steps(summary), 0.0, []
        for code in range(summary.num_classes or 1):
            family, tables = self._emissions_of(code), self.emission_parameters(parameters)
            emissions = {name: table[code] for name, table in tables.items()}
            with np.errstate(divide="ignore"):
                log_initial, log_transition = (np.log(np.asarray(parameters[name][code])) for name in CHAIN)
            class_log_likelihood, counts = expected_hidden_counts(
                log_initial, log_transition, family.likelihood,
                family.likelihood_parameters(emissions), summary.select_class(code), has_partial,
            )  # fmt: skip
            if isinstance(family, IncompleteFamily) and not counts.emissions.is_complete:
                counts = dataclasses.replace(counts, emissions=family.e_step(counts.emissions, emissions)[1])
            parts.append(counts)
            log_likelihood += class_log_likelihood
        return log_likelihood, stacked(parts)

    def initial_summary(self, summary: RetainedRows, rng: np.random.Generator | None = None) -> Summary:
        """Counts at which EM starts: clusters of the time steps are the states. See `clustered_counts`."""
        has_partial, parts = has_partial_steps(summary), []
        for code in range(summary.num_classes or 1):
            rows, family = summary.select_class(code), self._emissions_of(code)
            counts = clustered_counts(family.likelihood, rows, self.num_states, has_partial, rng)
            if isinstance(family, IncompleteFamily) and not counts.emissions.is_complete:
                counts = dataclasses.replace(counts, emissions=family.initial_summary(counts.emissions))
            parts.append(counts)
        return stacked(parts)

    def _emissions_of(self, code: int) -> Family:
        """The emissions' family of one class, in whose tables states take the place of classes."""
        assert self.emissions.batch_shape is not None
        hyperparameters = jax.tree.map(lambda value: value[code], self.emissions.hyperparameters)
        return self.emissions.replace(**hyperparameters, batch_shape=self.emissions.batch_shape[1:])

    # --- the program --------------------------------------------------------------------------------------------

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_initial` and `{name}_transition`, and the parameters of the emissions as their family does."""
        assert self.batch_shape is not None
        first = jnp.broadcast_to(jnp.asarray(self.initial_concentration), self.batch_shape)
        following = jnp.broadcast_to(jnp.asarray(self.transition_concentration), (*self.batch_shape, self.num_states))
        chain = DirichletTables({"initial": first, "transition": following})
        return chain.sites(name) | self.emissions.sample_sites(name)

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        return self.emissions.coordinates

    def site_distribution(
        self, parameters: Mapping[str, Array], labels: Int[Array, "*n"], length: Array | int | None = None
    ) -> dist.Distribution:
        """Sequences of `length` steps, a covariate of the program, made by the hidden chain of each class."""
        emission_parameters = {name: value for name, value in parameters.items() if name not in CHAIN}
        emissions = emission_distributions(self.emissions, emission_parameters, labels)
        return HiddenMarkov(parameters["initial"][labels], parameters["transition"][labels], emissions, length)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """Log probabilities of the chain, and the parameters of the emissions as their likelihood takes them."""
        with np.errstate(divide="ignore"):
            chain = {f"log_{name}": np.log(parameters[name]) for name in CHAIN}
        emissions = self.emissions.likelihood_parameters(self.emission_parameters(parameters))
        return chain | {f"emission_{name}": value for name, value in emissions.items()}

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """initial: (class, state); transition: (class, state, next_state); of emissions the state after the class."""
        emissions = {name: ("class", "state", *axes[1:]) for name, axes in self.emissions.parameter_axes().items()}
        return {"initial": ("class", "state"), "transition": ("class", "state", "next_state"), **emissions}

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Category]]:
        """Numbers of the states, and the names of the emissions' axes."""
        states = range(self.num_states)
        return {**self.emissions.axis_names(schema, columns), "state": states, "next_state": states}


def _with_states(names: Names) -> Names:
    """Names of tables in which an axis of states follows that of the classes."""
    remedy = f"take fewer states, or {names.without_class}"
    return dataclasses.replace(names, has_states=True, averaging="NUTS()", without_class=remedy)
