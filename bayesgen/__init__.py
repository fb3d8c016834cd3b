"""bayesgen: Bayesian learning of generative processes, predicted in two steps and in one.

A user states a generative process as a NumPyro program, learns it from data (`fit`), asks for classes (`predict`),
and sets the two-step (plug-in) answer beside the one-step (averaged) one (`compare`).

The names below live in the rooms of the package and are fetched on first use (PEP 562), so that `import bayesgen`
costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_ROOMS = {
    "errors": (
        "BayesgenError DataError ModelError FitError PredictionError "
        "BayesgenWarning ConstantColumnWarning ImpossibleRowsWarning ConvergenceWarning"
    ),
    "schema": "Schema",
    "program": "GenerativeProgram",
    "families": (
        "BetaBernoulli DirichletCategorical DirichletMultinomial GammaPoisson "
        "NormalInverseGamma NormalInverseWishart"
    ),
    "models": "GenerativeClassifier NaiveBayes GaussianDiscriminant",
    "fitting": "fit Fit summarize Summaries MLE MAP Exact NUTS",
    "prediction": "predict PlugIn BMA ConditionalAverage ClassPrediction",
    "comparison": "compare Comparison",
    "datasets": "load_dataset Dataset",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = ["__version__", *_ROOM_OF]

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from bayesgen.comparison import Comparison as Comparison
    from bayesgen.comparison import compare as compare
    from bayesgen.datasets import Dataset as Dataset
    from bayesgen.datasets import load_dataset as load_dataset
    from bayesgen.errors import *  # noqa: F403
    from bayesgen.families import *  # noqa: F403
    from bayesgen.fitting import *  # noqa: F403
    from bayesgen.models import *  # noqa: F403
    from bayesgen.prediction import *  # noqa: F403
    from bayesgen.program import GenerativeProgram as GenerativeProgram
    from bayesgen.schema import Schema as Schema


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = value  # the next look-up finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
