"""Strings of a grammar whose rules have probabilities, with a Dirichlet prior on the rules of each nonterminal."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import xlogy

from bayesgen.data import Schema, SequenceOf
from bayesgen.errors import ModelError, check_integer
from bayesgen.families import DirichletFamily, LatentVariableFamily, Scale, Stated, Traits, broadcast
from bayesgen.records import fill, record, static
from bayesgen.statistics import RetainedRows, Summary, Sums, namespace
from bayesgen.typing import Array, Category, Float, Int

from .grammar import GrammarLikelihood, ProbabilisticGrammar
from .grammar_rules import GrammarRules


@record
class DirichletGrammar(LatentVariableFamily, DirichletFamily):
    """Strings of a probabilistic context-free grammar, with a Dirichlet prior on the rules of each nonterminal.

    Generative story::

        probs[A] ~ Dirichlet(concentration[A])        for every nonterminal A
        x        ~ ProbabilisticGrammar(rules, probs)

    The parameters are `{block}_{nonterminal}`, for each nonterminal that has two rules or more: probabilities of its
    rules, in the order in which they are written. Where a nonterminal's name is not a word, all parameters are called
    `{block}_rules{i}`, i being the index of the nonterminal. The parse trees are hidden, so the posterior has no closed
    form, and `Exact` refuses by name. `MLE` and `MAP` are found by EM from several starts, whose E-step computes
    expected uses of rules by the inside-outside algorithm: the first start takes the prior means of the probabilities,
    the others take random ones. `NUTS` samples the probabilities, the trees being marginalised.

    Strings of the training data have to be in the language of the grammar. Classes with different rules share one
    grammar, which has the rules of all classes and one rule of the start symbol for each class. `examples/grammars.py`
    shows such a program.

    Args:
        rules: nonterminal -> list of right-hand sides, see `ProbabilisticGrammar`.
        concentration: pseudo-counts of the rules, > 0: a number for all, or a mapping from each nonterminal to a number
            or an array with one entry a rule.
        start: the nonterminal that derivations begin with; by default the first one.
        max_length: how many symbols simulated strings have at most; 50 by default.

    Raises:
        ModelError: invalid rules; an invalid concentration, or one for other nonterminals or numbers of rules.

    Source: Lari and Young (1990), The estimation of stochastic context-free grammars using the inside-outside
    algorithm; Johnson, Griffiths and Goldwater (2007), Bayesian inference for PCFGs via Markov chain Monte Carlo,
    section 2.

    >>> import bayesgen as bg
    >>> model = bg.NaiveBayes(bg.DirichletGrammar({"S": ["( S )", "S S", "( )"]}), class_prior=None)
    >>> fit = bg.fit(model, {"brackets": ["()", "(())", "()()", "(())()"]}, method=bg.MLE())
    >>> fit.parameters["brackets_S"].round(2).tolist()
    [0.2, 0.2, 0.6]
    """

    rules: GrammarRules = static()
    max_length: int | None = static()
    kind = SequenceOf()
    traits = Traits(joint=True)
    without_maximum = "NUTS() needs no maximum."
    why_no_closed_form = (
        "its parse trees are hidden, so that the posterior is a mixture over all of them. Use NUTS(), which sums them "
        "out, or MAP()."
    )

    def __init__(
        self,
        rules: Mapping[Hashable, Any] | GrammarRules,
        concentration: Stated | Mapping[Hashable, Any] = 1.0,
        *,
        start: Hashable | None = None,
        max_length: int | None = None,
    ) -> None:
        if max_length is not None:
            check_integer("DirichletGrammar: max_length", max_length, 1)
        checked = rules if isinstance(rules, GrammarRules) else GrammarRules.of(rules, start)
        if isinstance(concentration, Mapping):
            concentration = _rule_concentrations(checked, concentration)
        super().__init__(concentration)
        if not any(len(sides) > 1 for sides in checked.right_sides):
            raise ModelError(
                "DirichletGrammar: every nonterminal has one rule, so there are no probabilities to learn, and one "
                "string alone. Add rules."
            )
        fill(self, rules=checked, max_length=max_length)
        if np.ndim(self.concentration) and np.shape(self.concentration)[-1] != len(checked.rules):
            raise ModelError(
                f"DirichletGrammar: concentration has the shape {np.shape(self.concentration)}, and there are "
                f"{len(checked.rules)} rules. Give a number, or a mapping from nonterminals."
            )

    # --- hyperparameters ----------------------------------------------------------------------------------------

    @property
    def num_values(self) -> None:
        """None: concentrations are of rules."""

    @property
    def alphabet(self) -> tuple[Hashable, ...]:
        return self.rules.symbols

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, R)."""
        if scale.num_columns not in (None, 1):
            raise ModelError(
                f"DirichletGrammar: {scale.num_columns} columns in one block, and a grammar makes one string. Put each "
                "column into a block of its own."
            )
        classes = () if scale.num_classes is None else (scale.num_classes,)
        table = (*classes, len(self.rules.rules))
        return self.replace(**broadcast("DirichletGrammar", table, concentration=self.concentration), batch_shape=table)

    def _implied_scale(self) -> Scale:
        return Scale()

    @property
    def likelihood(self) -> GrammarLikelihood:
        """Strings of the grammar, the parse trees being marginalised."""
        return GrammarLikelihood(self.rules)

    @property
    def rule_slices(self) -> dict[str, slice]:
        """The slice of all rules that each parameter holds; nonterminals with one rule have no parameter."""
        names = [str(nonterminal) for nonterminal in self.rules.nonterminals]
        are_words = len(set(names)) == len(names) and all(name.replace("'", "").isidentifier() for name in names)
        return {
            name if are_words else f"rules{place}": self.rules.slices[place]
            for place, name in enumerate(names)
            if len(self.rules.right_sides[place]) > 1
        }

    def _joined(self, parameters: Mapping[str, Array]) -> Float[Array, "... R"]:
        """The probabilities of all rules in one array, with 1 for the rule of a nonterminal that has one rule."""
        first, names = next(iter(parameters.values())), {rules.start: name for name, rules in self.rule_slices.items()}
        xp = namespace(first)
        certain = xp.ones((*first.shape[:-1], 1))
        tables = [parameters[names[rules.start]] if rules.start in names else certain for rules in self.rules.slices]
        return xp.concatenate(tables, -1)

    def _split(self, table: Float[Array, "... R"]) -> dict[str, Float[Array, "..."]]:
        """The slices of a table of rules, by parameter."""
        return {name: table[..., rules] for name, rules in self.rule_slices.items()}

    # --- hidden parse trees: EM ---------------------------------------------------------------------------------

    def e_step(self, summary: RetainedRows, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """Expected uses of each rule."""
        log_likelihood, uses = self.likelihood.expected_counts(self.likelihood_parameters(parameters), summary)
        counts = np.asarray(uses["log_probs"])
        return float(np.sum(log_likelihood)), Sums(np.asarray(summary.count), (counts,), np.zeros(counts.shape[:-1]))

    def initial_summary(self, summary: RetainedRows, rng: np.random.Generator | None = None) -> Summary:
        """Expected uses of each rule at the prior means, or at random probabilities."""
        family = self.closed("a start")
        random = family.replace(concentration=np.ones_like(family.concentration))
        return self.e_step(summary, family.mean() if rng is None else random.sample(rng))[1]

    def log_likelihood(self, parameters: Mapping[str, Array], summary: Summary) -> float:
        if not isinstance(summary, Sums):
            return super().log_likelihood(parameters, summary)
        return float(xlogy(summary.totals[0], self._joined(parameters)).sum())

    def _table(self, verb: str) -> Float[Array, "... R"]:
        return self.closed(verb).concentration

    # --- the program --------------------------------------------------------------------------------------------

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        probs = jnp.asarray(self._joined(parameters))[labels]
        probs_by_nonterminal = {
            left: probs[..., rules] for left, rules in zip(self.rules.nonterminals, self.rules.slices, strict=True)
        }
        return ProbabilisticGrammar(self.rules, probs_by_nonterminal, max_length=self.max_length)

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {name: ("class", f"{name}_rule") for name in self.rule_slices}

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Category]]:
        """The rules, as they are written."""
        names = self.rules.rule_names
        return {f"{name}_rule": list(names[rules]) for name, rules in self.rule_slices.items()}


def _rule_concentrations(rules: GrammarRules, stated: Mapping[Hashable, Any]) -> Float[np.ndarray, " R"]:
    """Concentrations of all rules, from a mapping of nonterminals.

    Raises:
        ModelError: naming the nonterminal.
    """
    if set(stated) != set(rules.nonterminals):
        raise ModelError(
            f"DirichletGrammar: concentration is for {sorted(map(str, stated))}, and the nonterminals are "
            f"{sorted(map(str, rules.nonterminals))}. Give each of them a number, or one for each of its rules."
        )
    parts = []
    for left, sides in zip(rules.nonterminals, rules.right_sides, strict=True):
        value = np.asarray(stated[left], np.float64)
        if value.shape not in ((), (len(sides),)):
            raise ModelError(
                f"DirichletGrammar: concentration of {left!r} has the shape {value.shape}, and it has {len(sides)} "
                "rules. Give a number, or one for each rule."
            )
        parts.append(np.broadcast_to(value, len(sides)))
    return np.concatenate(parts)
