"""Work that is killed, runs out of memory, or is interrupted leaves whole files, the right status, and one line."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals and no forks")
KILLED = Path(__file__).parent / "killed.py"


def run(folder, number, *names):
    """Kills work at each of its events, or at random moments; the number of those at which it was killed."""
    command = [sys.executable, "-W", "ignore", KILLED, folder, str(number), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if line.startswith("killed "))
    return {name.removeprefix("killed "): int(count) for name, count in counts.items()}


def test_work_that_is_killed_at_any_event_leaves_whole_files(tmp_path):
    """Before each file or folder is opened, made, moved or removed: files are as they were, or as they are to be."""
    counts = run(tmp_path, 0, "save", "compare")
    assert counts["save"] >= 3 and counts["compare"] >= 8


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 100])
@pytest.mark.parametrize("name", ["save", "compare", "study", "fit"])
def test_work_that_is_killed_at_any_moment_leaves_whole_files(tmp_path, name, number):
    assert run(tmp_path, number, name)[name] > 0.3 * number
