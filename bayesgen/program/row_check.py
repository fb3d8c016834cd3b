"""Whether a program does the same with other numbers of rows."""

import functools

from jax.extend.core import ClosedJaxpr

from .alike import alike, knows_places
from .base import Program
from .probe import Probe
from .recognition import check_plan

FURTHER = (2**20, 2**22)  # rows of a probe, and numbers, where there are more rows and the program knows their places


class RowCheck:
    """Looks whether a program, whose plan was made with some numbers of rows, does the same with others."""

    def __init__(self, program: Program) -> None:
        self._probe = Probe(program).with_rows()
        self._checked, self._looked_further = {self._probe.size}, False

    @functools.cached_property
    def _jaxpr(self) -> ClosedJaxpr:
        return self._probe.jaxpr()

    def __call__(self, size: int) -> None:
        """Refuse a program that treats rows by their position, or otherwise, where there are `size` of them.

        Tracing shows what is another program at this size; that alone is run with as many rows. A program that knows
        the places of rows is run once with very many. For all others nothing is compiled, whatever the size.
        """
        if size in self._checked:
            return
        probe = Probe(self._probe.program, size)
        if not alike(probe.jaxpr(), self._jaxpr, (size, self._probe.size)):
            check_plan(probe.within(*FURTHER))
        if size > self._probe.size and not self._looked_further:
            if knows_places(self._jaxpr.jaxpr, self._probe.size):
                check_plan(probe.with_rows(*FURTHER))
            self._looked_further = True
        self._checked.add(size)
