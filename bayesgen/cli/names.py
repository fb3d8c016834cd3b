"""Names that options of the command line take. Typer shows them in `--help`, so this module imports nothing heavy."""

from itertools import chain
from typing import Literal, get_args

TaskName = Literal["classification", "regression"]
CovarianceName = Literal["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
MethodName = Literal["mle", "map", "exact", "nuts"]
RuleName = Literal["plug-in", "bma", "conditional-average"]
UnknownName = Literal["declared", "missing"]

MODELS_OF: dict[TaskName, tuple[str, ...]] = {
    "classification": ("naive-bayes", "naive-bayes-average", "gda", "gda-average"),
    "regression": ("linear", "joint-gaussian", "naive-bayes-regression"),
}
MODELS = tuple(chain(*MODELS_OF.values()))
METHODS: tuple[MethodName, ...] = get_args(MethodName)  # in the order in which they are shown
KINDS = ("real", "binary", "categorical", "count", "sequence")
