"""Figures of fits and their answers, of comparisons and of studies, on matplotlib.

Each function returns the figure, and draws in axes that are given as `ax`. One colour, and one kind of line, stands for
the answer averaged over processes (one step) in all figures, and another for that of one process (two steps).
"""

from .fits import decision_regions, entropy, hypotheses, posterior, regression_bands, responsibilities, states
from .results import agreement, calibration, coverage, learning_curves, paired_differences, prequential, reliability
from .results import coverage_panel as coverage_panel
from .style import drawing as drawing
from .style import looks as looks
from .style import png as png
from .style import save_figure as save_figure

# public names; the other ones are for other rooms, and for figures in the same style
__all__ = [
    "agreement",
    "calibration",
    "coverage",
    "decision_regions",
    "entropy",
    "hypotheses",
    "learning_curves",
    "paired_differences",
    "posterior",
    "prequential",
    "regression_bands",
    "reliability",
    "responsibilities",
    "states",
]
