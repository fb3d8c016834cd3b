"""bayesgen: Bayesian learning of generative processes, predicted in two steps and in one.

A model says how data come about: a recipe (`NaiveBayes`, `GaussianDiscriminant`, `GenerativeClassifier`), a NumPyro
program of one's own (`GenerativeProgram`), or a finite space of concepts (`ConceptLearner`). `fit` learns which
processes may have made the data, and `predict` asks for the classes of new rows, by the best process (`PlugIn`: two
steps) or averaged over all of them (`BMA`: one step). `compare` scores both on test rows, `average` averages over
models, and what is learned goes to ArviZ by `to_datatree()`.

>>> import bayesgen as bg
>>> X, y = [[1.0], [2.0], [7.0], [9.0]], ["low", "low", "high", "high"]
>>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())  # or MLE(), MAP(), NUTS()
>>> bg.predict(fit, [[1.5], [8.0]], rule=bg.BMA()).labels.tolist()
['low', 'high']

On the command line: `bayesgen compare iris`.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names live in the rooms of the package and are fetched on first use (PEP 562), so that `import bayesgen` costs
# next to nothing. Growing rooms are asked themselves what they export: a new family, model, method, rule or
# distribution needs no edit here.
_ROOMS = {
    "errors": (
        "BayesgenError DataError ModelError FitError PredictionError "
        "BayesgenWarning ConstantColumnWarning ImpossibleRowsWarning ConvergenceWarning LabelSwitchingWarning "
        "UnknownValuesWarning"
    ),
    "data": "Schema Binned SequenceOf Padded load_dataset Dataset Split",
    "generative": "GenerativeProgram",
    "fitting": "fit fit_many summarize",
    "prediction": "predict",
    "averaging": "average AverageFit AverageModel",
    "saving": "load",
    "statistics": "LinearNormal",
    "concepts": "HypothesisSpace number_game rectangles ConceptLearner ConceptFit ConceptPrediction",
    "evaluation": (
        "calibrate Calibration compare Comparison prequential Prequential leave_one_out LeaveOneOut study Study "
        "SamplingWrapper"
    ),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}
_GROWING_ROOMS = ("families", "models", "fitting", "prediction", "sequences")
_FIRST = (  # shown by `dir` and by completion
    "fit predict compare study average fit_many leave_one_out calibrate load load_dataset plots Schema BayesgenError "
    "NaiveBayes GaussianDiscriminant LinearRegression Mixture GenerativeClassifier GenerativeProgram "
    "MLE MAP Exact NUTS PlugIn BMA ConditionalAverage"
)
# No other room imports these: they are built from what the others show, and register what they add.
WINGS = ("sequences", "concepts")
_ROOMS_OF_USERS = ("plots",)  # whose functions are called by the name of the room, `bayesgen.plots.reliability`

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from bayesgen import plots as plots
    from bayesgen.averaging import *  # noqa: F403
    from bayesgen.concepts import *  # noqa: F403
    from bayesgen.data import *  # noqa: F403
    from bayesgen.errors import *  # noqa: F403
    from bayesgen.evaluation import *  # noqa: F403
    from bayesgen.families import *  # noqa: F403
    from bayesgen.fitting import *  # noqa: F403
    from bayesgen.generative import GenerativeProgram as GenerativeProgram
    from bayesgen.models import *  # noqa: F403
    from bayesgen.prediction import *  # noqa: F403
    from bayesgen.saving import load as load
    from bayesgen.sequences import *  # noqa: F403
    from bayesgen.statistics import LinearNormal as LinearNormal


def _room(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")  # of tqdm in notebooks, whose bars are not used
        return import_module(f"{__name__}.{name}")


def load_wings() -> None:
    """Import the wings, so that the families which they register as defaults of kinds of columns are known."""
    for wing in WINGS:
        _room(wing)


def _room_of(name: str) -> str | None:
    if name in _ROOM_OF:
        return _ROOM_OF[name]
    # Only for a class is a room loaded to see: `from bayesgen import data` asks for "data" here as well.
    rooms = _GROWING_ROOMS if name[:1].isupper() else ()
    return next((room for room in rooms if name in _room(room).__all__), None)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        grown = [public for room in _GROWING_ROOMS for public in _room(room).__all__]
        return list(dict.fromkeys(["__version__", *_ROOM_OF, *_ROOMS_OF_USERS, *grown]))
    if name in _ROOMS_OF_USERS:
        return _room(name)
    room = _room_of(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_room(room), name)  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    """The names that are needed first. `bayesgen.__all__` has all of them."""
    return sorted({*(name for name in globals() if name.startswith("__")), "__all__", *_FIRST.split()})
