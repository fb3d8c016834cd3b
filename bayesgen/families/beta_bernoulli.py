"""Beta-Bernoulli: binary columns."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.special import betaincinv, betaln, xlog1py, xlogy

from bayesgen.data import BINARY, Binary
from bayesgen.records import fill, record
from bayesgen.runtime import generator
from bayesgen.statistics import BERNOULLI, RowDensity, Sums, log_rising, namespace
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .base import Family, Key, ParameterTables, Traits, default_family
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Scale,
    Stated,
    as_number,
    broadcast,
    check_counted,
    check_mode,
    check_positive,
)
from .special import sample_beta


@record
class BetaBernoulli(Family):
    """Binary columns with a beta prior on the probability of a one.

    Generative story::

        probs ~ Beta(a, b)
        x     ~ Bernoulli(probs)

    Args:
        a: pseudo-count of ones, > 0.
        b: pseudo-count of zeros, > 0.

    Source: Gelman et al., Bayesian Data Analysis (3rd ed.), section 2.4.

    >>> posterior = BetaBernoulli(1, 1).update([1] * 9 + [0])
    >>> float(posterior.mean()["probs"])
    0.8333333333333334
    """

    a: Hyperparameter
    b: Hyperparameter
    kind = BINARY
    traits = Traits(sparse=True)
    likelihood = BERNOULLI

    def __init__(self, a: Stated = 1.0, b: Stated = 1.0) -> None:
        check_positive("BetaBernoulli", a=a, b=b)
        fill(self, a=as_number(a), b=as_number(b))

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D)."""
        shape = scale.batch_shape
        return self.replace(**broadcast("BetaBernoulli", shape, a=self.a, b=self.b), batch_shape=shape)

    def _updated(self, summary: Sums) -> Self:
        ones, zeros = summary.totals
        return self.replace(a=self.a + ones, b=self.b + zeros, batch_shape=np.shape(self.a + ones))

    # Tables of two probabilities take seven times as long of many columns: NumPy is slow along an axis of length 2.

    def _log_evidence(self, summary: Sums) -> Float[ArrayOrNumber, "..."]:
        ones, zeros = summary.totals
        return log_rising(self.a, ones) + log_rising(self.b, zeros) - log_rising(self.a + self.b, ones + zeros)

    def mean(self) -> ParameterTables:
        """a / (a + b)."""
        self.require_numbers("mean")
        return {"probs": self.a / (self.a + self.b)}

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """(a - 1) / (a + b - 2), where a, b >= 1 and not both are 1."""
        self.require_numbers("mode")
        check_mode(
            names,
            (self.a < 1) | (self.b < 1) | ((self.a == 1) & (self.b == 1)),
            "a Beta(a, b) with a < 1 or b < 1 is unbounded, Beta(1, 1) is flat.",
            f"Give a and b of at least 1, one of them above 1, or use {names.averaging}.",
        )
        ones, zeros = self.a - 1, self.b - 1
        return {"probs": ones / (ones + zeros)}  # of a + b - 2 rounding may leave less than of a - 1

    def variance(self) -> ParameterTables:
        """a b / ((a + b)^2 (a + b + 1))."""
        self.require_numbers("variance")
        total = self.a + self.b
        return {"probs": self.a * self.b / (total**2 * (total + 1))}

    def quantile(self, prob: float) -> ParameterTables:
        self.require_numbers("quantile")
        return {"probs": betaincinv(self.a, self.b, prob)}

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        ones, zeros = summary.totals
        check_counted(names, ones + zeros == 0)
        return {"probs": ones / (ones + zeros)}

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        self.require_numbers("sample")
        return {"probs": sample_beta(generator(key), self.a, self.b, shape)}

    def predictive(self) -> dist.Distribution:
        """Bernoulli with the mean probability, by its log odds, which resolve probabilities near 0 and near 1."""
        self.require_numbers("predictive")
        xp = namespace(self.a, self.b)
        return dist.Bernoulli(logits=xp.log(self.a) - xp.log(self.b))

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_probs`, (K, D)."""
        prior = dist.Beta(self.a, self.b).expand(self.batch_shape).to_event(len(self.batch_shape))
        return {"probs": numpyro.sample(f"{name}_probs", prior)}

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        return dist.Bernoulli(probs=parameters["probs"][labels]).to_event(1)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """Log probabilities of ones and zeros."""
        probs = parameters["probs"]
        xp = namespace(probs)
        with np.errstate(divide="ignore"):
            return {"log_one": xp.log(probs), "log_zero": xp.log1p(-probs)}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        self.require_numbers("log_prior")
        probs = parameters["probs"]
        logs = xlogy(self.a - 1, probs) + xlog1py(self.b - 1, -probs) - betaln(self.a, self.b)
        return float(np.sum(logs))

    def row_predictive(self) -> RowDensity:
        """Bernoulli with the mean probability, whose logs come from the counts and so are exact near 1."""
        xp = namespace(self.a, self.b)
        log_total = xp.log(self.a + self.b)
        return BERNOULLI.density({"log_one": xp.log(self.a) - log_total, "log_zero": xp.log(self.b) - log_total})

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"probs": ("class", "feature")}


default_family.register(Binary, lambda kind, is_sparse: BetaBernoulli())
