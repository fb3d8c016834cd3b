"""Work that is killed at a moment of choice, again and again, in forks of one process: what is left of its files.

A moment is the n-th time that the work opens, makes, moves or removes a file or a folder, or a number of seconds. JAX
does not survive a fork, so the forks only write: what they write has been computed before.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import bayesgen as bg
from bayesgen.cli import app, running
from bayesgen.evaluation.study import _Experiment

EVENTS = {"open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.scandir", "shutil.rmtree"}
Content = dict[str, bytes]


def until_the_end(work: Callable[[], object], at: int | float) -> bool:
    """Whether a fork finishes the work before it is killed: at its `at`-th event, or after so many seconds."""
    process = os.fork()
    if process == 0:
        count = 0

        def kill(event: str, arguments: object) -> None:
            nonlocal count
            if event in EVENTS:
                count += 1
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        if isinstance(at, int):
            sys.addaudithook(kill)
        work()
        os._exit(0)
    if isinstance(at, float):
        time.sleep(at)
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status):
        assert os.waitstatus_to_exitcode(status) == 0, "the work has failed in the fork"
    return not os.WIFSIGNALED(status)


def named(folder: Path) -> Content:
    """The files that have a name of their own, and what they hold."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def is_same(path: str, content: bytes, expected: bytes) -> bool:
    """Whether a file holds the same; h5py 3.11 writes the second into a file at which it is saved."""
    return content == expected or (path.endswith(".nc") and loaded(content) == loaded(expected))


def loaded(content: bytes) -> object:
    """The fit of a file; what is no whole file is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.nc"
        path.write_bytes(content)
        return bg.load(path)


def moments(work: Callable[[], object], number: int) -> Iterator[int | float]:
    """All events of the work, or as many random moments of its duration."""
    if not number:
        yield from range(1, 1000)
    start = time.monotonic()
    assert until_the_end(work, 0)
    longest = 1.1 * (time.monotonic() - start)
    yield from np.random.default_rng(0).uniform(0.0, longest, number).tolist()


def check(name: str, work: Callable[[], object], folder: Path, old: Content, new: Content, number: int) -> None:
    """Kill the work at each moment: each file is the old one or the new one, and work that is done again is whole."""
    killed = 0
    for at in moments(work, number):
        for path, content in old.items():
            (folder / path).write_bytes(content)
        is_finished = until_the_end(work, at)
        left = named(folder)
        assert set(old) <= set(left) <= set(new), (name, at, sorted(left))
        for path, content in left.items():
            assert content == old.get(path) or is_same(path, content, new[path]), (name, at, path)
        if is_finished and not number:
            break
        killed += not is_finished
    assert until_the_end(work, 0)
    left = named(folder)
    assert set(left) == set(new) and all(is_same(path, left[path], new[path]) for path in new)
    print("killed", name, killed)


def save(folder: Path, number: int) -> None:
    X, y = np.vander(np.arange(1.0, 8.0), 4)[:, :3], list("aabbbab")
    fits = [bg.fit(bg.GaussianDiscriminant(), X[:size], y[:size], method=bg.Exact()) for size in (5, 7)]
    path = folder / "fit.nc"
    contents = [(fit.save(path), path.read_bytes())[1] for fit in fits]
    assert bg.load(path) == fits[1]
    check("save", lambda: fits[1].save(path), folder, {"fit.nc": contents[0]}, {"fit.nc": contents[1]}, number)


def command(folder: Path, number: int, *arguments: str) -> None:
    """A command that writes files: its outcome is computed once, and the forks write it."""
    usual, outcomes = running._interruptibly, []

    def run() -> None:
        try:
            app.app(
                [*arguments, "--out", str(folder / ("out.nc" if arguments[0] == "fit" else "out"))],
                prog_name="bayesgen",
            )
        except SystemExit as end:
            assert end.code == 0, end.code

    def first(work: Callable[[running.Screen], running.Outcome], screen: running.Screen) -> running.Outcome:
        outcomes.append(usual(work, screen))
        return outcomes[0]

    running._interruptibly = first
    run()
    running._interruptibly = lambda work, screen: outcomes[0]
    new = named(folder)
    old = dict.fromkeys(new, b"of an earlier run")
    check(arguments[0], run, folder, old, new, number)


def units(folder: Path, number: int) -> None:
    """A study whose units are computed once: those that are written stay, and a later call makes the others."""
    iris, usual, made = bg.load_dataset("iris"), _Experiment._unit, {}

    def unit(experiment: object, model: object, method: object, size: int) -> object:
        if size not in made:
            made[size] = usual(experiment, model, method, size)
        return made[size]

    _Experiment._unit = unit
    pairs = [(bg.Exact(), bg.BMA())]

    def run() -> None:
        bg.study(bg.GaussianDiscriminant(), iris.X, iris.y, sizes=[6, 9], repeats=2, pairs=pairs, out=folder / "out")

    run()
    check("study", run, folder, {}, named(folder), number)


WORK: dict[str, Callable[[Path, int], None]] = {
    "save": save,
    "compare": lambda *at: command(*at, "compare", "iris", "--methods", "exact"),
    "study": units,
    "fit": lambda *at: command(*at, "fit", "iris"),
}

if __name__ == "__main__":
    for name in sys.argv[3:]:
        folder = Path(sys.argv[1]) / name
        folder.mkdir()
        WORK[name](folder, int(sys.argv[2]))
