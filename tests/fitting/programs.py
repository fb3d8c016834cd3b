"""Programs that several tests fit."""

import numpyro
import numpyro.distributions as dist


def chained(n):
    """`z` leans on `x`, so its rows are kept; `x` is compressed."""
    p = numpyro.sample("p", dist.Beta(2.0, 2.0))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(p))
        x = numpyro.sample("x", dist.Normal(mean[y], 1.3))
        numpyro.sample("z", dist.Normal(slope * x, 0.7))
