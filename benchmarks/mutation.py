"""Mutation testing: the code is changed in one place, and a test has to fail: `python -m benchmarks.mutation`.

Places are drawn at random among the operators, comparisons, conditions, numbers, truth values and loops of six rooms.
Annotations, decorators, `raise` and `assert` statements, `strict=` of `zip`, warnings, f-strings and reprs are left as
they are. Each mutant is run, in a copy of the checkout, against the tests of its room, and then against tests of other
rooms that enter the changed statement; the quickest tests that enter it come first, and the first failure ends the run.

A clean run with coverage comes before, and says which test enters which lines. Results are appended to a file, one line
of JSON a mutant, and a second call goes on where the first ended; survivors whose tests were cut short are judged again
where the budget is larger. `--report` prints the table and the survivors.
Needs the extras `test` and `bench` (`cosmic-ray`, `coverage`).
"""

import argparse
import ast
import collections
import dataclasses
import itertools
import json
import os
import queue
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("statistics", "families", "predictives", "prediction", "averaging", "evaluation")
NEIGHBOURS = (
    "tests/fitting/test_many.py",
    "tests/fitting/test_update.py",
    "tests/models/test_laws.py",
    "tests/models/test_marginals.py",
    "tests/models/test_missing_laws.py",
    "tests/models/test_open_laws.py",
    "tests/models/test_response_laws.py",
    "tests/models/test_row_laws.py",
    "tests/program/test_row_statistics.py",
    "tests/sequences/test_hidden_states.py",
)
MOST_MEMORY = 48 << 30  # of addresses; a mutant may ask for any amount
# Operators of cosmic-ray; a binary operator is replaced by one that the same values have, not by each other one.
OPERATORS = (
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul")),
    *(
        f"ReplaceBinaryOperator_{pair}"
        for pair in ("Mod_Mul", "Pow_Mul", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitAnd")
    ),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceUnaryOperator_Delete_{name}" for name in ("USub", "Not", "Invert")),
    *("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("NumberReplacer", "ZeroIterationForLoop", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    "ExceptionReplacer",
)
WORDS = {"warn", "cast", "TypeVar", "NewType", "getLogger", "debug", "info"}  # calls that are text or types
SHOWN = {"__repr__", "__str__", "_repr_html_", "_description"}  # functions whose result is read by people


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: the `variant`-th way in which an operator changes the `node`-th node of a file.

    `statement` has the first and the last line of the statement (of its header, where it has a body).
    """

    index: int
    room: str
    path: str
    line: int
    statement: tuple[int, int]
    operator: str
    node: int
    variant: int
    before: str
    after: str


# --- drawing ------------------------------------------------------------------------------------------------------


def texts(tree: ast.Module) -> Iterator[ast.AST]:
    """The parts of a module that are annotations, decorators, errors, warnings or what people read."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)):
            yield node
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield from [*node.decorator_list, *([node] if node.name in SHOWN else [])]
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                yield node.returns
        elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            yield from [node] if name in WORDS else [item for item in node.keywords if item.arg in ("repr", "strict")]


def statement_lines(tree: ast.Module, line: int) -> tuple[int, int]:
    """The first and the last line of the innermost statement about a line; of one with a body, its header's."""
    around = [
        (node.lineno, node.body[0].lineno - 1 if getattr(node, "body", None) else node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
    ]
    return max(((first, max(first, last)) for first, last in around if first <= line <= last), default=(line, line))


def mutated(source: str, operator: str, node: int, variant: int) -> str:
    """The source with one node changed by an operator of cosmic-ray."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    tree = get_ast(source)
    old = list(ast_nodes(tree))[node]
    parent, place = old.parent, old.parent.children.index(old)
    new = OperatorProvider()[operator]().mutate(old, variant)
    if new is not old:  # a number
        new.value, new.prefix = new.value.strip(), old.prefix
        parent.children[place] = new
    return tree.get_code()


def places(path: Path) -> Iterator[tuple[tuple[int, int], list[tuple[str, int, int]]]]:
    """Where a file can be changed, and by which operators, nodes and variants."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    source, provider = path.read_text(), OperatorProvider()
    spans = [
        ((node.lineno, len(source.splitlines()[node.lineno - 1].encode()[: node.col_offset].decode())), node)
        for node in texts(ast.parse(source))
    ]
    ends = [(start, (node.end_lineno, node.end_col_offset)) for start, node in spans]
    operators = [(name, provider[name]()) for name in OPERATORS]
    changes = collections.defaultdict(list)
    for number, node in enumerate(ast_nodes(get_ast(source))):
        if node.type == "name" or getattr(node, "value", "") in tuple("()[]{},.:="):
            continue
        for name, operator in operators:
            for variant, (start, _) in enumerate(operator.mutation_positions(node)):
                is_text = any(first <= start < last for first, last in ends)
                if not is_text and getattr(node.parent, "type", "") != "parameters":  # `*` and `/` among arguments
                    changes[(start, name.split("_")[0])].append((name, number, variant))
    yield from ((start, ways) for (start, _), ways in sorted(changes.items()))


def draw(seed: int, number: int) -> list[Mutant]:
    """Mutants at places drawn without replacement, each with one of its changes; those that change nothing left out."""
    files = [path for room in ROOMS for path in sorted((ROOT / "bayesgen" / room).glob("*.py"))]
    drawn = [(path, start, ways) for path in files for start, ways in places(path)]
    print(f"{len(drawn)} places in {len(files)} files", flush=True)
    rng = random.Random(seed)
    rng.shuffle(drawn)
    mutants: list[Mutant] = []
    for path, (line, _), ways in drawn:
        operator, node, variant = rng.choice(ways)
        if len(mutants) == number:
            break
        source = path.read_text()
        changed = mutated(source, operator, node, variant)
        try:
            same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
        except SyntaxError:
            continue
        if not same:
            lines = zip(source.splitlines(), changed.splitlines(), strict=False)
            before, after = next((old, new) for old, new in lines if old != new)
            span = statement_lines(ast.parse(source), line)
            mutants.append(
                Mutant(len(mutants), path.parent.name, str(path.relative_to(ROOT)), line, span, operator, node, variant,
                       before.strip(), after.strip())
            )  # fmt: skip
    return mutants


# --- inside pytest (-p benchmarks.mutation) -----------------------------------------------------------------------


class Recorder:
    """In the clean run: which tests enter which lines (`coverage`, a context a test), their seconds, what fails."""

    def __init__(self, folder: str, config: pytest.Config):
        import coverage

        self.folder, self.is_worker = Path(folder), hasattr(config, "workerinput")
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self.failed: set[str] = set()
        rooms = [str(Path.cwd() / "bayesgen" / room) for room in ROOMS]
        self.coverage = coverage.Coverage(str(self.folder / "coverage"), True, source=rooms, config_file=False)
        self.runs_tests = self.is_worker or not config.getoption("numprocesses", None)
        if self.runs_tests:
            self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if self.runs_tests:
            self.coverage.stop()
            self.coverage.save()
        if not self.is_worker:
            (self.folder / "tests.json").write_text(json.dumps([self.seconds, sorted(self.failed)]))


class Judge:
    """In the run of a mutant: tests in the order that was asked for, until one fails or the seconds are over."""

    def __init__(self, task: str):
        self.task = json.loads(Path(task).read_text())
        self.result: dict[str, Any] = {"killer": None, "tests": 0, "is_complete": True}
        self.path, self.start = Path(task).with_suffix(".result"), time.monotonic()
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: position for position, name in enumerate(self.task["tests"])}
        files = {name.split("::")[0]: position for name, position in reversed(order.items())}
        without = set(self.task["without"])
        # A mutant may change the name of a test, which has the values of its parameters.
        positions = {item: order.get(item.nodeid, files.get(item.nodeid.split("::")[0])) for item in items}
        items[:] = [item for item in items if positions[item] is not None and item.nodeid not in without]
        items.sort(key=positions.__getitem__)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.result["killer"] is None:
            self.result["killer"] = report.nodeid
        self.result["tests"] += report.when == "call"

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if time.monotonic() - self.start > self.task["seconds"]:
            self.result["is_complete"] = False
            item.session.shouldstop = "the seconds are over"

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.path.write_text(json.dumps({**self.result, "status": int(exitstatus)}))


def pytest_configure(config: pytest.Config) -> None:
    if "MUTATION_RECORD" in os.environ:
        config.pluginmanager.register(Recorder(os.environ["MUTATION_RECORD"], config))
    elif "MUTATION_TASK" in os.environ:
        config.pluginmanager.register(Judge(os.environ["MUTATION_TASK"]))


# --- running ------------------------------------------------------------------------------------------------------


def tested(tree: Path, *arguments: str, limit: float | None = None, **environment: str) -> int | None:
    """The exit status of pytest in a copy of the checkout, or None where it ran past the limit and was killed."""
    paths = [str(tree), os.environ.get("PYTHONPATH", "")]
    settings = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "JAX_PLATFORMS": "cpu", **environment}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "benchmarks.mutation", *arguments]
    with (tree / "pytest.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=tree, env={**os.environ, **settings}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


@dataclasses.dataclass
class Clean:
    """What the clean run says: seconds of each test that passes, those that fail, and the tests that enter a line."""

    seconds: dict[str, float]
    failed: list[str]
    by_line: dict[str, dict[int, list[str]]]

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests in the order in which they are run, those of a file in one go as far as possible."""
        first, last = mutant.statement
        lines = self.by_line.get(mutant.path, {})
        entering = {name for line in range(first, last + 1) for name in lines.get(line, []) if name}
        if not entering:  # the statement is run when the module is imported
            entering = {name for names in lines.values() for name in names if name}
        at_home = (f"tests/{mutant.room}/", f"bayesgen/{mutant.room}/")
        ranked = {
            name: (0 if name in entering else 2) if name.startswith(at_home) else 1
            for name in self.seconds
            if name.startswith(at_home) or name in entering
        }
        by_file: dict[tuple[int, str], float] = collections.defaultdict(float)
        for name, rank in ranked.items():
            by_file[rank, name.split("::")[0]] += self.seconds[name]

        def key(name: str) -> tuple[int, float, str, float]:
            file = name.split("::")[0]
            return ranked[name], by_file[ranked[name], file], file, self.seconds[name]

        return sorted(ranked, key=key)


def clean_run(work: Path, workers: int) -> Clean:
    """Runs all tests without a mutant, or reads what an earlier call has found."""
    import coverage

    folder, tree = work / "record", work / "clean"
    if not (folder / "tests.json").exists():
        shutil.rmtree(work, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "_build", "results"))
        homes = [f"{top}/{room}" for room in ROOMS for top in ("tests", "bayesgen")]
        parallel = (f"--numprocesses={workers}", f"--maxprocesses={workers}", "--dist=loadfile")
        tested(tree, *parallel, *homes, *NEIGHBOURS, MUTATION_RECORD=str(folder), COVERAGE_CORE="ctrace")
        print((tree / "pytest.log").read_text()[-1500:], flush=True)
    seconds, failed = json.loads(_text(folder / "tests.json") or "[{}, []]")
    if not seconds:
        raise SystemExit("no test has passed in the clean run")
    combined = coverage.Coverage(str(folder / "coverage"), config_file=False)
    combined.combine([str(folder)], keep=True)
    data = combined.get_data()
    by_line = {
        str(Path(name).relative_to(tree.resolve())): data.contexts_by_lineno(name) for name in data.measured_files()
    }
    return Clean({name: spent for name, spent in seconds.items() if name not in failed}, failed, by_line)


def judged(mutant: Mutant | None, tests: list[str], clean: Clean, tree: Path, budget: float) -> dict[str, Any]:
    """What became of a mutant, or of the unchanged code (None), in a copy of the checkout."""
    task, start = tree / "task.json", time.monotonic()
    task.with_suffix(".result").unlink(missing_ok=True)
    task.write_text(json.dumps({"tests": tests, "without": clean.failed, "seconds": budget}))
    files = list(dict.fromkeys(name.split("::")[0] for name in tests))
    file = tree / (mutant.path if mutant else "pyproject.toml")
    source, times = file.read_text(), file.stat()
    if mutant:
        file.write_text(mutated(source, mutant.operator, mutant.node, mutant.variant))
    try:
        settings = {"MUTATION_TASK": str(task), "PYTHONDONTWRITEBYTECODE": "1"}
        status = tested(tree, "-x", "-n0", *files, limit=2 * budget + 60, **settings)
    finally:
        file.write_text(source)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    result = json.loads(text) if (text := _text(task.with_suffix(".result"))) else {"killer": f"exit status {status}"}
    if status is None:
        outcome = "timeout"
    elif result["killer"] is not None:
        outcome = "killed"
    elif not result.get("is_complete", True) or status == pytest.ExitCode.OK:
        outcome = "survived"
    elif status in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):  # a module cannot be imported
        outcome, result["killer"] = "killed", "collection"
    else:
        raise SystemExit((tree / "pytest.log").read_text()[-3000:])
    return {"outcome": outcome, **result, "seconds": round(time.monotonic() - start, 1)}


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def run(arguments: argparse.Namespace) -> None:
    """Judges the mutants that the file of results does not have, on all cores, until no time is left to start one."""
    start = time.monotonic()
    mutants = draw(arguments.seed, arguments.mutants)
    clean = clean_run(arguments.work, arguments.workers)
    print(f"clean run: {len(clean.seconds)} tests pass, {len(clean.failed)} are left out; "
          f"{time.monotonic() - start:.0f} s", *clean.failed, sep="\n  ", flush=True)  # fmt: skip
    finished = {
        line["index"]
        for line in read(arguments.out)
        if line["seed"] == arguments.seed and (line.get("is_complete", True) or line["budget"] >= arguments.budget)
    }
    trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for number in range(arguments.workers):
        tree = arguments.work / f"tree{number}"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(arguments.work / "clean", tree)
        trees.put(tree)

    def work(mutant: Mutant, is_control: bool) -> None:
        if (mutant.index in finished and not is_control) or time.monotonic() - start > arguments.seconds:
            return
        tree = trees.get()
        try:
            result = judged(None if is_control else mutant, clean.tests(mutant), clean, tree, arguments.budget)
        finally:
            trees.put(tree)
        index = -1 - mutant.index if is_control else mutant.index
        line = json.dumps(
            {**dataclasses.asdict(mutant), **result, "index": index, "seed": arguments.seed, "budget": arguments.budget}
        )
        with arguments.out.open("a") as file:
            file.write(line + "\n")
        print(f"{time.monotonic() - start:5.0f} s", index, result["outcome"], f"{result['seconds']} s", flush=True)

    with ThreadPoolExecutor(arguments.workers) as pool:
        controls = [pool.submit(work, mutant, True) for mutant in mutants[: arguments.controls]]
        for task in [*controls, *(pool.submit(work, mutant, False) for mutant in mutants)]:
            try:
                task.result()
            except SystemExit:
                pool.shutdown(cancel_futures=True)
                raise
    print(report(read(arguments.out)))


# --- the report ---------------------------------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    return [{"budget": 0.0, **json.loads(line)} for line in _text(path).splitlines()]


def report(lines: list[dict[str, Any]]) -> str:
    """The table by rooms, and the survivors. Counted are mutants up to the first that is not finished.

    Those that are killed end sooner, so that counting whatever has ended by some time would be partial to them.
    """
    from scipy.stats import binomtest

    by_place = {(line["seed"], line["index"]): line for line in lines}  # the last, where one was judged again
    controls = [line for line in by_place.values() if line["index"] < 0]
    counted = [
        by_place[seed, index]
        for seed in sorted({seed for seed, _ in by_place})
        for index in itertools.takewhile(lambda index, seed=seed: (seed, index) in by_place, itertools.count())
    ]

    def row(room: str, chosen: Callable[[dict[str, Any]], bool]) -> str:
        outcomes = collections.Counter(line["outcome"] for line in counted if chosen(line))
        total = outcomes.total()
        noticed = total - outcomes["survived"]
        low, high = binomtest(noticed, total).proportion_ci(method="wilson") if total else (0.0, 1.0)
        share = f"{noticed / max(total, 1):.1%} | {low:.1%} to {high:.1%}"
        return f"| {room} | {total} | {outcomes['killed']} | {outcomes['timeout']} | {outcomes['survived']} | {share} |"

    survivors = [line for line in counted if line["outcome"] == "survived"]
    return "\n".join(
        [
            "| room | mutants | killed | ended by the time limit | survived | share noticed | 95 % interval (Wilson) |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *(row(room, lambda line, room=room: line["room"] == room) for room in ROOMS),
            row("all", lambda line: True),
            "",
            f"seeds {sorted({line['seed'] for line in counted})}; controls without a change: {len(controls)}, of which "
            f"{sum(line['outcome'] == 'survived' for line in controls)} pass; "
            f"{sum(line['seconds'] for line in counted) / max(len(counted), 1):.1f} s a mutant",
            *(
                f"\n{line['seed']}/{line['index']} {line['path']}:{line['line']} {line['operator']} "
                f"({line['tests']} tests"
                f"{'' if line['is_complete'] else ', not all'})\n  - {line['before']}\n  + {line['after']}"
                for line in survivors
            ),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"), help="the file of results")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--controls", type=int, default=16, help="runs without a change, which have to pass")
    parser.add_argument("--budget", type=float, default=45.0, help="seconds of tests for a mutant")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no mutant is started")
    parser.add_argument("--work", type=Path, default=Path("/tmp/bayesgen-mutation"), help="where the copies are")
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    arguments.work, arguments.out = arguments.work.resolve(), arguments.out.resolve()
    if arguments.report:
        print(report(read(arguments.out)))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
