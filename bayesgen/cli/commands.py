"""What the commands do: their options made into objects, the work, and what is written where."""

import hashlib
import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from rich.console import Console
from rich.text import Text

from bayesgen.data import DATASET_NAMES, Dataset, Split, load_dataset
from bayesgen.errors import BayesgenError, BayesgenWarning, warn
from bayesgen.evaluation import Comparison, compare
from bayesgen.fitting import MAP, MLE, NUTS, Exact
from bayesgen.prediction import BMA, PlugIn
from bayesgen.report import can_encode, show
from bayesgen.runtime import interruptibly

from .columns import ColumnAsRead, column_table, columns_as_read
from .interruption import undone_unless_finished
from .options import CompareOptions
from .tasks import TASKS, TEST_SIZE, Task

_METHODS: dict[str, list[tuple[Any, Any]]] = {
    "mle": [(MLE(), PlugIn())],
    "map": [(MAP(), PlugIn())],
    "exact": [(Exact(), PlugIn(at="mean")), (Exact(), BMA())],
    "nuts": [(NUTS(), BMA())],
}


def run_compare(options: CompareOptions, *, as_json: bool, out: Path | None) -> int:
    """Run `bayesgen compare` and return its exit status: 0, or 1 where data or models were refused."""
    messages = Console(stderr=True, soft_wrap=not sys.stderr.isatty())
    try:
        with ExitStack() as contexts:
            contexts.enter_context(_warnings_on(messages))
            if out is not None:
                contexts.enter_context(_folder(out))
            comparison, title, columns = interruptibly(lambda: _compare(options))
            if out is not None:
                _write(comparison, TASKS[options.task], out)
    except (BayesgenError, OSError) as refusal:
        messages.print(Text.assemble(("bayesgen: ", "bold red"), str(refusal)))
        return 1
    if as_json:
        print(_json(comparison.to_dict(), sys.stdout.encoding))
    else:
        show(comparison, title, Console(), column_table(columns))
        if out is not None:
            messages.print(f"The whole result is in {out}.", style="dim", markup=False)
    return 0


def _compare(options: CompareOptions) -> tuple[Comparison, str, list[ColumnAsRead]]:
    """The comparison, its title, and how columns were read."""
    dataset = load_dataset(options.data, target=options.target, missing=options.missing, texts=options.sequences)
    dataset = dataset.without(options.drop)
    task = TASKS[options.task]
    options = _settled(options, task, dataset)
    split = task.split(options, dataset)
    for note in task.notes(options, dataset):
        warn(note)
    schema = task.schema(options, dataset)
    columns = columns_as_read(dataset, schema)
    comparison = compare(
        {name: task.models[name](options, dataset) for name in options.models or ()},
        split.X_train,
        split.y_train,
        split.X_test,
        split.y_test,
        methods=[pair for name in options.methods for pair in _METHODS[name]],
        seed=options.seed,
        schema=schema,
    ).with_costs(split.X_test)
    file = Path(options.data)
    config = {
        "command": options.command_line(),
        "options": asdict(options),
        "data_sha256": None if options.data in DATASET_NAMES else hashlib.sha256(file.read_bytes()).hexdigest(),
        "columns": [asdict(column) for column in columns],
    }
    return replace(comparison, config=config | dict(comparison.config)), _title(options, task, split), columns


def _settled(options: CompareOptions, task: Task, dataset: Dataset) -> CompareOptions:
    """The options with the defaults that these data settle filled in."""
    return replace(
        options,
        target=str(dataset.y.name),
        models=options.models or task.default_models(options, dataset),
        test_size=options.test_size or (TEST_SIZE if options.per_class is None else None),
    )


def _title(options: CompareOptions, task: Task, split: Split) -> str:
    num_unlabelled = int(split.y_train.isna().sum())
    unlabelled = f" ({num_unlabelled} without labels)" if num_unlabelled else ""
    return (
        f"{Path(options.data).name}: {len(split.y_train)} rows to learn from{unlabelled}, {len(split.y_test)} to test "
        f"on, {task.told(options, split)}, seed {options.seed}"
    )


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder, made where it is not there; what was made is taken away if an error or Ctrl-C ends the block."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]

    def take_away() -> None:
        for folder in missing:
            with suppress(OSError):  # it was not made yet, or somebody else has put something there
                folder.rmdir()

    with undone_unless_finished(take_away):
        path.mkdir(parents=True, exist_ok=True)
        yield


def _write(comparison: Comparison, task: Task, folder: Path) -> None:
    """Write all files aside, then give them their names, so that none is ever there in part."""
    result = comparison.to_dict()
    aside = folder / f".bayesgen-{uuid4().hex}"
    try:
        with undone_unless_finished(lambda: shutil.rmtree(aside, ignore_errors=True)):
            aside.mkdir()
            for stem, content in (("result", result), ("config", result["config"])):
                (aside / f"{stem}.json").write_text(_json(content, "utf-8") + "\n", encoding="utf-8")
            comparison.table.to_csv(aside / "table.csv", index=False)
            comparison.predictions.to_csv(aside / "predictions.csv", index=False)
            for file_name, draw in task.figures(comparison).items():
                draw(aside / file_name)
            for file in aside.iterdir():
                os.replace(file, folder / file.name)
            aside.rmdir()
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
