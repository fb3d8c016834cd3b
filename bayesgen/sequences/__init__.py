"""Markov chains, hidden Markov models and grammars: their distributions, likelihoods, and families with their E-steps.

A wing: it uses only what other rooms export, and no room imports it. It registers its distributions, and the family of
columns of symbols for which none is chosen.
"""

from .contexts import Contexts as Contexts
from .dirichlet_grammar import DirichletGrammar
from .dirichlet_hidden_markov import DirichletHiddenMarkov
from .dirichlet_markov import DirichletMarkov
from .grammar import GrammarLikelihood as GrammarLikelihood
from .grammar import ProbabilisticGrammar
from .grammar_rules import GrammarRules as GrammarRules
from .hidden_markov import HiddenMarkov
from .hidden_markov import HiddenMarkovLikelihood as HiddenMarkovLikelihood
from .markov_chain import MarkovChain
from .markov_chain import UrnChain as UrnChain
from .markov_likelihood import CountsAndRows as CountsAndRows
from .markov_likelihood import MarkovLikelihood as MarkovLikelihood

__all__ = [
    "DirichletGrammar",
    "DirichletHiddenMarkov",
    "DirichletMarkov",
    "HiddenMarkov",
    "MarkovChain",
    "ProbabilisticGrammar",
]
