"""NumPyro distributions that NumPyro lacks, one a file; what has a sufficient statistic registers it there."""

from . import hidden_chains as hidden_chains
from .contexts import Contexts as Contexts
from .contexts import as_codes as as_codes
from .grammar import ProbabilisticGrammar
from .grammar_likelihood import GrammarLikelihood as GrammarLikelihood
from .grammar_rules import GrammarRules as GrammarRules
from .hidden_markov import HiddenMarkov
from .hidden_markov import innermost as innermost
from .hidden_markov import log_prob_of_cells as log_prob_of_cells
from .hidden_markov import log_prob_of_values as log_prob_of_values
from .hidden_markov import whole_axes as whole_axes
from .hidden_markov_likelihood import HiddenMarkovLikelihood as HiddenMarkovLikelihood
from .hidden_markov_likelihood import num_observed_steps as num_observed_steps
from .hidden_markov_likelihood import steps_of_symbols as steps_of_symbols
from .linear_normal import LINEAR_NORMAL as LINEAR_NORMAL
from .linear_normal import LinearNormal
from .markov_chain import MarkovChain
from .markov_chain import UrnChain as UrnChain
from .markov_likelihood import CountsAndRows as CountsAndRows
from .markov_likelihood import MarkovLikelihood as MarkovLikelihood
from .piecewise_uniform import PiecewiseUniform
from .sequences import SequenceDistribution as SequenceDistribution
from .sequences import check_symbols as check_symbols
from .sequences import is_inside as is_inside
from .sequences import sequences as sequences
from .univariate import Chi as Chi
from .univariate import PreciseGammaPoisson as PreciseGammaPoisson

__all__ = ["HiddenMarkov", "LinearNormal", "MarkovChain", "PiecewiseUniform", "ProbabilisticGrammar"]
