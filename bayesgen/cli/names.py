"""Names of the options of the command line. Typer shows them in `--help`, so this module imports nothing heavy."""

from enum import StrEnum


class ModelName(StrEnum):
    """The models that `--model` can name."""

    NAIVE_BAYES = "naive-bayes"
    NAIVE_BAYES_AVERAGE = "naive-bayes-average"
    GDA = "gda"
    GDA_AVERAGE = "gda-average"
    LINEAR = "linear"
    JOINT_GAUSSIAN = "joint-gaussian"
    NAIVE_BAYES_REGRESSION = "naive-bayes-regression"


class TaskName(StrEnum):
    """The tasks that `--task` can name."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


_REGRESSIONS = (ModelName.LINEAR, ModelName.JOINT_GAUSSIAN, ModelName.NAIVE_BAYES_REGRESSION)
MODELS_OF = {
    TaskName.CLASSIFICATION: [name for name in ModelName if name not in _REGRESSIONS],
    TaskName.REGRESSION: [*_REGRESSIONS],
}


class CovarianceName(StrEnum):
    """The covariances that `--covariance` can name."""

    FULL = "full"
    TIED = "tied"
    DIAG = "diag"
    SPHERICAL = "spherical"
    TIED_DIAG = "tied-diag"
    TIED_SPHERICAL = "tied-spherical"


class MethodName(StrEnum):
    """The methods that `--methods` can name, in the order in which they are shown."""

    MLE = "mle"
    MAP = "map"
    EXACT = "exact"
    NUTS = "nuts"


class RuleName(StrEnum):
    """The rules that `--rule` can name."""

    PLUG_IN = "plug-in"
    BMA = "bma"
    CONDITIONAL_AVERAGE = "conditional-average"


class KindName(StrEnum):
    """The kinds of columns that `--kind` can name."""

    REAL = "real"
    BINARY = "binary"
    CATEGORICAL = "categorical"
    COUNT = "count"
    SEQUENCE = "sequence"


class UnknownName(StrEnum):
    """The treatments of unknown values that `--unknown` can name."""

    DECLARED = "declared"
    MISSING = "missing"
