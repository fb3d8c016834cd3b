"""What the commands do: their options made into objects, the work, and what is written where."""

import hashlib
import json
import os
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from bayesgen.averaging import average
from bayesgen.data import DATASET_NAMES, Dataset, Schema, Split, load_dataset
from bayesgen.errors import BayesgenError, BayesgenWarning, warn
from bayesgen.evaluation import Comparison, compare
from bayesgen.fitting import MAP, MLE, NUTS, Exact
from bayesgen.models import GaussianDiscriminant, NaiveBayes
from bayesgen.prediction import BMA, PlugIn
from bayesgen.report import can_encode, show
from bayesgen.runtime import interruptibly

_METHODS: dict[str, list[tuple[Any, Any]]] = {
    "mle": [(MLE(), PlugIn())],
    "map": [(MAP(), PlugIn())],
    "exact": [(Exact(), PlugIn(at="mean")), (Exact(), BMA())],
    "nuts": [(NUTS(), BMA())],
}
_AVERAGED = ("full", "tied", "diag", "spherical")  # covariances of gda-average
_MODELS = {
    "naive-bayes": lambda covariance: NaiveBayes(),
    "naive-bayes-average": lambda covariance: NaiveBayes(structure="average"),
    "gda": lambda covariance: GaussianDiscriminant(covariance=covariance or "full"),
    "gda-average": lambda covariance: average([GaussianDiscriminant(form) for form in _AVERAGED]),
}
_TEST_SIZE = 0.25


@dataclass(frozen=True)
class CompareOptions:
    """The options of `bayesgen compare`, as given; None stands for the default of each."""

    data: str
    target: str | None = None
    models: tuple[str, ...] | None = None
    covariance: str | None = None
    test_size: float | None = None
    per_class: int | None = None
    methods: tuple[str, ...] = tuple(_METHODS)
    seed: int = 0
    missing: tuple[str, ...] = ()
    unknown: str | None = None

    def settled(self, dataset: Dataset) -> "CompareOptions":
        """The same options with the defaults that these data settle filled in."""
        joint = dataset.all_real or self.covariance is not None  # one model by default: NUTS compiles for each
        return replace(
            self,
            target=str(dataset.y.name),
            models=self.models or ("gda" if joint else "naive-bayes",),
            test_size=self.test_size or (_TEST_SIZE if self.per_class is None else None),
        )

    def command_line(self) -> str:
        """The command that does the same again."""
        named = {
            "--target": [self.target],
            "--missing": self.missing,
            "--unknown": [self.unknown],
            "--model": self.models or (),
            "--covariance": [self.covariance],
            "--test-size": [self.test_size],
            "--per-class": [self.per_class],
            "--methods": [",".join(self.methods)],
            "--seed": [self.seed],
        }
        pairs = ((option, str(value)) for option, values in named.items() for value in values if value is not None)
        return shlex.join(["bayesgen", "compare", self.data, *(word for pair in pairs for word in pair)])


def run_compare(options: CompareOptions, *, as_json: bool, out: Path | None) -> int:
    """Run `bayesgen compare` and return its exit status: 0, or 1 where data or models were refused."""
    messages = Console(stderr=True, soft_wrap=not sys.stderr.isatty())
    try:
        with ExitStack() as contexts:
            contexts.enter_context(_warnings_on(messages))
            if out is not None:
                contexts.enter_context(_folder(out))
            comparison, title = interruptibly(lambda: _compare(options))
            if out is not None:
                _write(comparison, out)
    except (BayesgenError, OSError) as refusal:
        messages.print(Text.assemble(("bayesgen: ", "bold red"), str(refusal)))
        return 1
    if as_json:
        print(_json(comparison.to_dict(), sys.stdout.encoding))
    else:
        show(comparison, title, Console())
        if out is not None:
            messages.print(f"The whole result is in {out}.", style="dim", markup=False)
    return 0


def _compare(options: CompareOptions) -> tuple[Comparison, str]:
    """The comparison, and its title."""
    dataset = load_dataset(options.data, target=options.target, missing=options.missing)
    options = options.settled(dataset)
    _note_models_without_numbers(options, dataset)
    if options.per_class is None:
        split = dataset.split(test_size=options.test_size or _TEST_SIZE, seed=options.seed)
    else:
        split = dataset.split_per_class(options.per_class)
    comparison = compare(
        {name: _MODELS[name](options.covariance) for name in options.models or ()},
        split.X_train,
        split.y_train,
        split.X_test,
        split.y_test,
        methods=[pair for name in options.methods for pair in _METHODS[name]],
        seed=options.seed,
        schema=_schema(options, dataset),
    )
    file = Path(options.data)
    config = {
        "command": options.command_line(),
        "options": asdict(options),
        "data_sha256": None if options.data in DATASET_NAMES else hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    return replace(comparison, config=config | dict(comparison.config)), _title(options, split)


def _schema(options: CompareOptions, dataset: Dataset) -> Schema:
    """What is declared of the whole file: its values and classes, or its classes alone."""
    declared = dataset.declared
    return Schema(classes=declared.classes, unknown="missing") if options.unknown == "missing" else declared


def _note_models_without_numbers(options: CompareOptions, dataset: Dataset) -> None:
    """Warn where a Gaussian model would be naive Bayes by another name."""
    gaussian = [name for name in options.models or () if name.startswith("gda")]
    if gaussian and not dataset.any_real:
        warn(f"No column of {dataset.name} holds real numbers, so {' and '.join(gaussian)} is naive Bayes here.")


def _title(options: CompareOptions, split: Split) -> str:
    classes = sorted(split.y_train.dropna().unique().tolist())
    num_unlabelled = int(split.y_train.isna().sum())
    unlabelled = f" ({num_unlabelled} without labels)" if num_unlabelled else ""
    names = ", ".join(map(str, classes[:5])) + (", ..." if len(classes) > 5 else "")
    return (
        f"{Path(options.data).name}: {len(split.y_train)} rows to learn from{unlabelled}, {len(split.y_test)} to test "
        f"on, {len(classes)} classes of {options.target} ({names}), seed {options.seed}"
    )


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder, made where it is not there; what was made is taken away if an error or Ctrl-C ends the block."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # somebody else has put something there
            for folder in missing:
                folder.rmdir()
        raise


def _write(comparison: Comparison, folder: Path) -> None:
    """Write all files aside, then give them their names, so that none is ever there in part."""
    result = comparison.to_dict()
    try:
        with tempfile.TemporaryDirectory(prefix=".bayesgen-", dir=folder) as name:
            aside = Path(name)
            for stem, content in (("result", result), ("config", result["config"])):
                (aside / f"{stem}.json").write_text(_json(content, "utf-8") + "\n", encoding="utf-8")
            comparison.table.to_csv(aside / "table.csv", index=False)
            comparison.predictions.to_csv(aside / "predictions.csv", index=False)
            for file in aside.iterdir():
                os.replace(file, folder / file.name)
    except OSError as error:
        raise OSError(f"The result cannot be written to {folder}: {error.strerror or error}") from error


def _json(content: Any, encoding: str) -> str:
    """Strict JSON, with escapes in place of letters where the encoding lacks some of them."""
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    return text if can_encode(text, encoding) else json.dumps(content, indent=2, allow_nan=False)


@contextmanager
def _warnings_on(console: Console) -> Iterator[None]:
    """Show bayesgen's own warnings as notes, each once, and other people's as Python does."""
    seen = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show_note(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> Any:
            if not issubclass(category, BayesgenWarning):
                return usual(message, category, filename, lineno, file, line)
            if str(message) not in seen:
                seen.add(str(message))
                console.print(Text.assemble(("note: ", "yellow"), str(message)))

        warnings.simplefilter("always", BayesgenWarning)
        warnings.showwarning = show_note
        yield
