"""Work that is killed, runs out of memory, or is interrupted leaves whole files, the right status, and one line."""

import signal
import subprocess
import sys
import time
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


@pytest.mark.parametrize(("name", "least"), [("save", 3), pytest.param("compare", 8, marks=pytest.mark.slow)])
def test_work_that_is_killed_at_any_event_leaves_whole_files(name, least, tmp_path):
    """Before each file or folder is opened, made, moved or removed: files are as they were, or as they are to be."""
    assert run(tmp_path, 0, name)[name] >= least


@pytest.mark.slow
def test_ctrl_c_ends_a_command_within_a_second_in_one_line(tmp_path):
    """At ten moments of a fit by NUTS; the median, as other processes may hold up one of them."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from bayesgen.cli import main; print(flush=True); main()"
    )
    waits = []
    for moment in range(10):
        command = [sys.executable, "-c", code, "fit", "iris", "--method", "nuts", "--out", tmp_path / "fit.nc"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(0.5 + 0.4 * moment)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()
            waits.append(time.monotonic() - start)
        assert process.returncode == 130 and said.endswith("bayesgen: interrupted\n")
        assert list(tmp_path.iterdir()) == []
    assert sorted(waits)[5] < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 100])
@pytest.mark.parametrize("name", ["save", "compare", "study", "fit"])
def test_work_that_is_killed_at_any_moment_leaves_whole_files(tmp_path, name, number):
    assert run(tmp_path, number, name)[name] > 0.3 * number
