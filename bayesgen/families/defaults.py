"""The default family of each kind of column."""

import functools

from bayesgen.data import Binary, Binned, Categorical, Count, Kind, Real, SequenceOf

from .base import Family
from .beta_bernoulli import BetaBernoulli
from .dirichlet_categorical import DirichletCategorical
from .dirichlet_histogram import DirichletHistogram
from .dirichlet_markov import DirichletMarkov
from .dirichlet_multinomial import DirichletMultinomial
from .gamma_poisson import GammaPoisson
from .normal_inverse_gamma import NormalInverseGamma


@functools.singledispatch
def default_family(kind: Kind, is_sparse: bool) -> Family | None:
    """The family of a column where none is chosen: that of the kind which it is modelled as; None where it has none.

    A kind with another default registers it here. The counts of a sparse matrix share the total of a row.
    """
    return None if kind.modelled_as == kind else default_family(kind.modelled_as, is_sparse)


default_family.register(Real, lambda kind, is_sparse: NormalInverseGamma())
default_family.register(Binary, lambda kind, is_sparse: BetaBernoulli())
default_family.register(Categorical, lambda kind, is_sparse: DirichletCategorical())
default_family.register(Count, lambda kind, is_sparse: DirichletMultinomial() if is_sparse else GammaPoisson())
default_family.register(Binned, lambda kind, is_sparse: DirichletHistogram())
default_family.register(SequenceOf, lambda kind, is_sparse: DirichletMarkov(end=kind.end) if kind.of_symbols else None)
