"""Every example runs by itself, quickly, says what it did, and draws one figure."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MOST_SECONDS = 60.0  # of processor time, so that what else runs here does not matter


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_the_script_prints_and_draws_within_a_minute(script, tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) >= 4
    assert [file.name for file in tmp_path.iterdir()] == [f"{script.stem}.png"]
    assert (tmp_path / f"{script.stem}.png").read_bytes().startswith(b"\x89PNG")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS
