"""What NumPyro says of a site: messages, and what is read off them."""

import numpyro.distributions as dist
from numpyro.distributions import constraints


def samples(trace):
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def in_plate(site, plate):
    return any(frame.name == plate for frame in site.get("cond_indep_stack", ()))


def innermost(fn):
    """A distribution without what was wrapped around it: events, expansion, masks."""
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        fn = fn.base_dist
    return fn


def base_support(support):
    """A support for each entry, where it was one of whole events."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support
