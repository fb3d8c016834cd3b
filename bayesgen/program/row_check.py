"""Whether a program does the same with other numbers of rows."""

import dataclasses
import functools

from .alike import alike, knows_places
from .probe import FURTHER, LEAST, MOST, NUMBERS, Probe


class RowCheck:
    """Looks whether a program, whose plan was made with some numbers of rows, does the same with others."""

    def __init__(self, function, structure, plan, num_classes, covariates):
        smallest = Probe(function, structure, num_classes, tuple(covariates(1)), LEAST)
        self._probe, self._plan = smallest.with_rows(MOST, NUMBERS), plan
        self._checked, self._looked_further = {self._probe.size}, False

    @functools.cached_property
    def _jaxpr(self):
        return self._probe.jaxpr(self._plan)

    def __call__(self, size):
        """Refuse a program that treats rows by their position, or otherwise, where there are `size` of them.

        Tracing shows what is another program at this size; that alone is run with as many rows. A program that knows
        the places of rows is run once with very many. For all others nothing is compiled, whatever the size.
        """
        if size in self._checked:
            return
        probe = dataclasses.replace(self._probe, size=size)
        if not alike(probe.jaxpr(self._plan), self._jaxpr, (size, self._probe.size)):
            probe.within(*FURTHER).check(self._plan)
        if size > self._probe.size and not self._looked_further:
            if knows_places(self._jaxpr.jaxpr, self._probe.size):
                probe.with_rows(*FURTHER).check(self._plan)
            self._looked_further = True
        self._checked.add(size)
