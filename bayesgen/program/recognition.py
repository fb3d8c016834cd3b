"""Recognising which attribute sites can be compressed into sufficient statistics.

A site is compressed if (1) no other attribute enters its distribution, and no covariate its parameters, by
data-flow analysis of the program;
(2) its distribution has a registered statistic; and (3) at draws from the prior, with random labels and rows,
the distributions of the rows equal those of the K classes. What fails (1)-(3) is evaluated row by row, provided
that rows are exchangeable: each row's probability must depend on nothing but the latents, its own label,
attributes and covariates. That too is probed, and a program that fails is refused.
"""

import dataclasses

from bayesgen.statistics import Statistic

from .probe import LEAST, MOST, NUMBERS, Probe


@dataclasses.dataclass(frozen=True)
class Plan:
    """How each attribute site meets the data. Hashable: it is part of what compiled functions are keyed by.

    Attributes:
        compressed: (site, statistic) for the sites that go through summaries.
        rowwise: names of the sites that are evaluated row by row.
        reasons: (site, why it is not compressed).
        inert: names of the compressed sites whose base measure has parameters of its own.
    """

    compressed: tuple[tuple[str, Statistic], ...]
    rowwise: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    inert: tuple[str, ...] = ()


def make_plan(function, structure, num_classes, covariates):
    """Probe a program and decide for each site.

    Args:
        covariates: function size -> name -> (size, ...) example covariates.
    """
    probe = Probe(function, structure, num_classes, tuple(covariates(1)), LEAST)
    reasons = probe.entangled() | probe.informed()
    statistics = probe.statistics()
    for name, _ in structure.attributes:
        if name not in reasons and isinstance(statistics[name], str):
            reasons[name] = statistics[name]
    candidates = tuple(name for name, _ in structure.attributes if name not in reasons)
    probe = probe.with_rows(MOST, NUMBERS)
    differing, inert = probe.differences(candidates)
    reasons |= differing
    rowwise = tuple(name for name, _ in structure.attributes if name in reasons)
    if rowwise:
        probe.check_exchangeable(rowwise)
    compressed = tuple((name, statistics[name]) for name in candidates if name not in reasons)
    inert = tuple(name for name in inert if name not in reasons)
    return Plan(compressed, rowwise, tuple((name, reasons[name]) for name in rowwise), inert)
