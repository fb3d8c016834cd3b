"""The one-step answer against plug-ins over 47 data sets, six sizes of training sets and 30 random splits.

    python -m benchmarks.atlas --workers 16

runs every data set in a process of its own on one core, keeps the scores of each in benchmarks/results/atlas (a run
that was stopped goes on there), and joins them in benchmarks/results/atlas.csv. `python -m benchmarks --only atlas`
does the same with as many workers as cores, and shows the medians. `python -m benchmarks.atlas_page` draws the figure
and writes the page.
"""

import argparse
import dataclasses
import functools
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pandas as pd

import bayesgen as bg
from bayesgen.data import read_table
from bayesgen.errors import BayesgenWarning, without_warnings
from bayesgen.evaluation.answers import mean_and_error
from bayesgen.prediction import answer_of_sets, normalize
from bayesgen.prediction.scorers import accuracy, brier_score, expected_calibration_error, row_log_scores
from bayesgen.runtime import num_cores

from . import keel, report
from .measure import Higher, Missing, Row

RESULTS = Path(__file__).parent / "results"
SIZES = (5, 10, 20, 50, 100)  # rows of each class
WHOLE = "whole"  # all rows that are not held back
NUM_SPLITS = 30
SPLITS_AT_ONCE = 15
FEW_CELLS = 30_000  # rows x classes up to which all rows are predicted for many splits in one call
NAIVE = {"naive Bayes": bg.NaiveBayes(), "structure average": bg.NaiveBayes(structure="average")}
DISCRIMINANTS = {  # the sixth, "diag", is naive Bayes of real columns
    name: bg.GaussianDiscriminant(name) for name in ("full", "tied", "spherical", "tied-diag", "tied-spherical")
}
AVERAGE, SHARES = "average", "class shares"
MEAN, ONE_STEP = "mean", "BMA"
PAIRS = {
    "MLE": (bg.MLE(), bg.PlugIn()),
    "MAP": (bg.MAP(), bg.PlugIn()),
    MEAN: (bg.Exact(), bg.PlugIn(at="mean")),
    ONE_STEP: (bg.Exact(), bg.BMA()),
}
SCORES = {
    "log_score": lambda table, truth: row_log_scores(table, truth).mean(),
    "accuracy": accuracy,
    "brier": brier_score,
    "ece": expected_calibration_error,
}
ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
LONGEST_MESSAGE = 120  # characters of a refusal that the table keeps


@dataclasses.dataclass(frozen=True)
class Splits:
    """Training and test rows of random splits.

    Attributes:
        rank: (splits, n) place of a row among the training rows of its class; -1 where it is held back.
        sizes: the sizes that every class can give; `WHOLE` is the last.
    """

    rank: np.ndarray
    sizes: tuple[int | str, ...]

    @classmethod
    def of(cls, codes: np.ndarray, num_splits: int) -> "Splits":
        """Splits that hold back a third of each class."""
        rng, num_rows = np.random.default_rng(0), np.bincount(codes)
        rank = np.empty((num_splits, len(codes)), int)
        for code, count in enumerate(num_rows):
            places = rng.permuted(np.tile(np.arange(count), (num_splits, 1)), axis=1) - count // 3
            rank[:, codes == code] = np.maximum(places, -1)
        least = (num_rows - num_rows // 3).min()
        return cls(rank, (*(size for size in SIZES if size <= least), WHOLE))

    def weights(self, splits: Sequence[int]) -> np.ndarray:
        """(splits x sizes, n) which rows are learned from."""
        limits = [len(self.rank[0]) if size == WHOLE else size for size in self.sizes]
        rank = self.rank[list(splits)]
        is_learned = (rank[:, None] >= 0) & (rank[:, None] < np.array(limits)[None, :, None])
        return is_learned.reshape(-1, rank.shape[1]).astype(float)


@dataclasses.dataclass(frozen=True)
class Forecasts:
    """Log-probabilities of test rows by the fits of several training sets.

    Attributes:
        tables: (sets, m, K).
        refused: index of a set -> the message of its refusal.
        seconds: for a training set, and the prediction.
        log_marginal: (sets, m) log p(x); None where it is not wanted.
        log_evidence: (sets,) of exact fits.
    """

    tables: np.ndarray
    refused: dict[int, str]
    seconds: float
    log_marginal: np.ndarray | None = None
    log_evidence: np.ndarray | None = None

    @classmethod
    def without(cls, message: str, shape: tuple[int, int, int]) -> "Forecasts":
        """No forecast, with one message."""
        return cls(np.full(shape, np.nan), dict.fromkeys(range(shape[0]), message), float("nan"))


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One data set with its splits.

    Attributes:
        data: the data set.
        codes: the class of each row.
        splits: the splits.
    """

    data: keel.DataSet
    codes: np.ndarray
    splits: Splits

    @classmethod
    def of(cls, data: keel.DataSet, num_splits: int) -> "Experiment":
        """Of a data set."""
        _, codes = np.unique(data.y, return_inverse=True)
        return cls(data, codes, Splits.of(codes, num_splits))

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return int(self.codes.max()) + 1

    def scores(self) -> pd.DataFrame:
        """A row for each model, pair, size and split; of the first splits the seconds are those of compilation."""
        num_splits, num_rows = self.splits.rank.shape
        are_few = num_rows * self.num_classes <= FEW_CELLS
        at_once = min(SPLITS_AT_ONCE, max(1, num_splits // 2)) if are_few else 1
        lines = []
        for start in range(0, num_splits, at_once):
            chunk = range(start, min(start + at_once, num_splits))
            tested = np.arange(num_rows) if at_once > 1 else np.flatnonzero(self.splits.rank[start] < 0)
            for model, forecasts in self._forecasts(chunk, tested):
                for pair, forecast in forecasts.items():
                    lines += self._scored(forecast, chunk, tested, {"model": model, "pair": pair})
        return pd.DataFrame(lines)

    def _forecasts(self, chunk: range, tested: np.ndarray) -> Iterator[tuple[str, dict[str, Forecasts]]]:
        """The forecasts of each model by pair, for all sizes of some splits."""
        weights = self.splits.weights(chunk)
        training = read_table(self.data.X, self.data.y)
        table = training.rows(tested)
        members = []
        for name, model in (NAIVE | (DISCRIMINANTS if self.data.is_numeric else {})).items():
            forecasts = self._by_pair(model, training, weights, table)
            members.append(forecasts)
            yield name, forecasts
        yield AVERAGE, averaged(members)
        yield SHARES, {MEAN: self._shares(weights, len(tested))}

    def _by_pair(self, model, training, weights, table) -> dict[str, Forecasts]:
        shape = (len(weights), table.num_rows, self.num_classes)
        forecasts, fits, seconds = {}, {}, {}
        with without_warnings(BayesgenWarning):
            for pair, (method, rule) in PAIRS.items():
                start = time.perf_counter()
                try:
                    if method not in fits:
                        fits[method] = bg.fit_many(
                            model, training, weights=weights, method=method, schema=self.data.schema, progress=False
                        )
                        seconds[method] = time.perf_counter() - start
                        start = time.perf_counter()
                    answer, refused = answer_of_sets(fits[method], rule, table)
                except bg.BayesgenError as refusal:
                    forecasts[pair] = Forecasts.without(str(refusal), shape)
                    continue
                took = (seconds[method] + time.perf_counter() - start) / len(weights)
                messages = {index: str(error) for index, error in {**fits[method].refused, **refused}.items()}
                joint = (answer.log_marginal, fits[method].log_evidence) if pair == ONE_STEP else ()
                forecasts[pair] = Forecasts(answer.log_probabilities, messages, took, *joint)
        return forecasts

    def _shares(self, weights: np.ndarray, num_rows: int) -> Forecasts:
        """The shares of the classes in the training rows, smoothed by a row each: a forecast that reads no column."""
        counts = 1 + weights @ np.eye(self.num_classes)[self.codes]
        log_shares = np.log(counts / counts.sum(1, keepdims=True))
        return Forecasts(np.repeat(log_shares[:, None], num_rows, axis=1), {}, 0.0)

    def _scored(self, forecast: Forecasts, chunk: range, tested: np.ndarray, about: dict) -> Iterator[dict]:
        """The scores of each split and size on the rows that it holds back."""
        sizes = self.splits.sizes
        for index, table in enumerate(forecast.tables):
            split = chunk[index // len(sizes)]
            line = {**about, "size": sizes[index % len(sizes)], "split": split, "refused": forecast.refused.get(index)}
            if index in forecast.refused:
                yield line
                continue
            is_tested = self.splits.rank[split, tested] < 0
            truth = self.codes[tested[is_tested]]
            scores = {name: score(table[is_tested], truth) for name, score in SCORES.items()}
            yield line | scores | {"seconds": forecast.seconds}


def averaged(members: Sequence[dict[str, Forecasts]]) -> dict[str, Forecasts]:
    """The forecasts of `average` over models, from those of its members.

    One-step: the mixture of the members' p(x, y | T), weighted by their evidence. The plug-in is that of the member of
    the highest evidence. An average has no fit by MLE or MAP.
    """
    exact = [forecasts[ONE_STEP] for forecasts in members]
    refused = functools.reduce(dict.__or__, (forecast.refused for forecast in exact))
    seconds = sum(forecast.seconds for forecast in exact)
    if len(refused) == len(exact[0].tables):
        none = Forecasts.without(refused[0], exact[0].tables.shape)
        return {MEAN: none, ONE_STEP: none}
    evidence = np.stack([forecast.log_evidence for forecast in exact])
    weights = np.exp(evidence - np.logaddexp.reduce(evidence, axis=0))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)[..., None, None]
    joints = np.stack([forecast.tables + forecast.log_marginal[..., None] for forecast in exact])
    mixed = np.logaddexp.reduce(joints + log_weights, axis=0)
    tables, _ = normalize(mixed.reshape(-1, mixed.shape[-1]))
    best, plug_ins = evidence.argmax(axis=0), [forecasts[MEAN] for forecasts in members]
    chosen = np.stack([plug_ins[member].tables[index] for index, member in enumerate(best)])
    refused_best = {
        index: plug_ins[member].refused[index] for index, member in enumerate(best) if index in plug_ins[member].refused
    }
    price = sum(forecast.seconds for forecast in plug_ins)
    return {
        MEAN: Forecasts(chosen, refused | refused_best, price),
        ONE_STEP: Forecasts(tables.reshape(mixed.shape), refused, seconds),
    }


def summarised(table: str, scores: pd.DataFrame) -> pd.DataFrame:
    """A line for each model, size and pair: means over splits, their errors, and the gain of the one-step answer.

    `gain` is the log score of the one-step answer less that of the line, in nats a row, over splits that both score.
    """
    keys, lines = ["model", "size", "split"], []
    one_step = scores[scores["pair"] == ONE_STEP].set_index(keys)["log_score"].to_dict()
    compiling = scores["split"].min()
    for (model, size, pair), group in scores.groupby(["model", "size", "pair"], sort=False):
        scored = group[group["refused"].isna()]
        line = {"table": table, "model": model, "size": size, "pair": pair, "splits": len(scored)}
        line["refused"] = len(group) - len(scored)
        line["infinite"] = int(np.isneginf(scored["log_score"].to_numpy(float)).sum())
        for name in SCORES:
            line[name], line[f"{name}_error"] = mean_and_error(scored[name].to_numpy(float))
        if model != SHARES:
            averages = [one_step.get((model, size, split), np.nan) for split in scored["split"]]
            with np.errstate(invalid="ignore"):
                gain = np.array(averages, float) - scored["log_score"].to_numpy(float)
            line["gain"], line["gain_error"] = mean_and_error(gain[~np.isnan(gain)])
        warm = scored["seconds"][scored["split"] >= compiling + SPLITS_AT_ONCE]
        line["seconds"] = (warm if len(warm) else scored["seconds"]).median()
        messages = group["refused"].dropna()
        line["refusal"] = messages.iloc[0][:LONGEST_MESSAGE] if len(messages) else None
        lines.append(line)
    return pd.DataFrame(lines)


def measure_table(name: str, num_splits: int, path: Path) -> None:
    """Write the summary of a data set, and what the data set is, in one file."""
    start = time.process_time()
    experiment = Experiment.of(keel.load(name), num_splits)
    table = summarised(name, experiment.scores())
    data, aside = experiment.data, path.with_suffix(".part")
    held_back = int((experiment.splits.rank[0] < 0).sum())
    about = {
        "rows": len(data.y),
        "columns": data.X.shape[1],
        "classes": experiment.num_classes,
        "numeric": data.is_numeric,
        "held_back": held_back,
        "cpu_seconds": round(time.process_time() - start, 1),
    }
    aside.write_text(json.dumps({"about": about, "lines": table.to_csv(index=False)}))
    aside.replace(path)


def file_name(name: str) -> str:
    """The file of a data set."""
    return f"{name.replace(' ', '_')}.json"


def run(tables: Sequence[str], num_splits: int, workers: int, folder: Path) -> list[str]:
    """Measure data sets in processes of one core, and name those that failed. What a folder holds is not redone."""
    folder.mkdir(parents=True, exist_ok=True)
    keel.folder()  # says how to install the tables, before anything starts
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(num_cores()))
    cores: SimpleQueue = SimpleQueue()
    for worker in range(workers):
        cores.put(available[worker % len(available)])

    def measured(name: str) -> str | None:
        path = folder / file_name(name)
        if path.exists():
            return None
        core, start = cores.get(), time.monotonic()
        about = ["--table", name, "--splits", str(num_splits), "--out", str(folder), "--core", str(core)]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.atlas", *about],
                env={**os.environ, **ONE_THREAD},
                cwd=Path(__file__).parents[1],
                capture_output=True,
                text=True,
            )
        finally:
            cores.put(core)
        end = "" if done.returncode == 0 else f", failed: {(done.stderr.strip().splitlines() or ['killed'])[-1]}"
        print(f"{name}: {time.monotonic() - start:.0f} s{end}", file=sys.stderr, flush=True)
        return f"{name}{end}" if end else None

    with ThreadPoolExecutor(workers) as pool:
        return [failure for failure in pool.map(measured, tables) if failure is not None]


def by_cost(tables: Sequence[str]) -> list[str]:
    """Data sets, those of the longest work first, so that no worker is left with one of them at the end."""
    data_sets = {name: keel.load(name) for name in tables}
    return sorted(tables, key=lambda name: -data_sets[name].y.size * np.unique(data_sets[name].y).size)


def joined(folder: Path, tables: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The lines of all data sets that a folder holds, and a line about each data set."""
    contents = {
        name: json.loads((folder / file_name(name)).read_text())
        for name in tables
        if (folder / file_name(name)).exists()
    }
    lines = pd.concat([pd.read_csv(io.StringIO(content["lines"])) for content in contents.values()])
    about = pd.DataFrame([{"table": name, **content["about"]} for name, content in contents.items()])
    return lines, about


def write(lines: pd.DataFrame, about: pd.DataFrame, run_options: dict) -> None:
    """Write atlas.csv, atlas_tables.csv, and atlas.json with the machine."""
    RESULTS.mkdir(exist_ok=True)
    lines.to_csv(RESULTS / "atlas.csv", index=False, float_format="%.4g")
    about.to_csv(RESULTS / "atlas_tables.csv", index=False)
    machine = {**report.machine(), **report.software()}
    (RESULTS / "atlas.json").write_text(json.dumps({"machine": machine, **run_options}, indent=2) + "\n")


def best_plug_ins(lines: pd.DataFrame) -> pd.DataFrame:
    """For each table, model and size the line of the plug-in from which the one-step answer gains least.

    A plug-in counts where it answers every training set, and its log score is finite.
    """
    is_plug_in = (lines["pair"] != ONE_STEP) & (lines["model"] != SHARES)
    eligible = lines[is_plug_in & (lines["refused"] == 0) & np.isfinite(lines["gain"])]
    return eligible.loc[eligible.groupby(["table", "model", "size"], sort=False)["gain"].idxmin()]


def measures(quick):
    """The medians over data sets of the gain at 5 rows a class, by model, in nats a row."""
    tables, num_splits = (["iris (scikit-learn)"], 2) if quick else (keel.names(), NUM_SPLITS)
    try:
        keel.folder()
    except FileNotFoundError as error:
        yield functools.partial(Missing, "the atlas of both answers", str(error))
        return
    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside) if quick else RESULTS / "atlas"
        lines = measured_lines(tables, num_splits, num_cores(), folder, are_kept=not quick)
    best = best_plug_ins(lines)
    for model, group in best[best["size"].astype(str) == str(SIZES[0])].groupby("model", sort=False):
        gains = group[~group["table"].isin(keel.SAME_DATA)] if not quick else group
        work = f"log score of the one-step answer less that of the best plug-in, {SIZES[0]} rows a class: {model}"
        note = f"median of {len(gains)} data sets"
        yield functools.partial(Row, work, Higher(), list(gains["gain"]), unit="nats", note=note)


def measured_lines(tables, num_splits, workers, folder, *, are_kept=True) -> pd.DataFrame:
    """Run what a folder lacks, join it, and write the tables of results.

    Raises:
        RuntimeError: data sets that failed, after what there is was written.
    """
    start = time.monotonic()
    failures = run(by_cost(tables), num_splits, workers, folder)
    lines, about = joined(folder, tables)
    minutes = {"minutes": round((time.monotonic() - start) / 60, 1), "workers": workers, "splits": num_splits}
    if are_kept:
        write(lines, about, {**minutes, "core_minutes": round(about["cpu_seconds"].sum() / 60, 1)})
    if failures:
        raise RuntimeError("; ".join(failures))
    return lines


def main() -> None:
    """Run the atlas, or one data set of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.atlas", description=__doc__)
    parser.add_argument("--data", type=Path, help=f"folder of KEEL's balanced .dat files (or {keel.FOLDER}=...)")
    parser.add_argument("--workers", type=int, default=num_cores(), help="processes side by side; default: cores")
    parser.add_argument("--splits", type=int, default=NUM_SPLITS)
    parser.add_argument("--out", type=Path, default=RESULTS / "atlas", help="folder of the parts")
    parser.add_argument("--tables", nargs="*", default=None, help="some of the data sets")
    parser.add_argument("--table", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data is not None:
        os.environ[keel.FOLDER] = str(options.data.resolve())
    if options.table is not None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {options.core})
        measure_table(options.table, options.splits, options.out / file_name(options.table))
        return
    tables = keel.names() if options.tables is None else options.tables
    measured_lines(tables, options.splits, options.workers, options.out.resolve())


if __name__ == "__main__":
    main()
