"""`bayesgen diagnose`: whether the chains of a fit may be trusted."""

from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from .options import AsJson, FitFile
from .running import Outcome, Screen, run


def command(fit: FitFile, json: AsJson = False) -> NoReturn:
    """Say whether the draws of a fit by nuts may be trusted; the exit status is 1 where they may not."""
    run(lambda screen: _diagnosed(fit, screen), as_json=json)


def _diagnosed(path: Path, screen: Screen) -> Outcome:
    with screen.waiting_for(f"Reading {path}"):
        from .tables import loaded

        diagnosis = loaded(path).diagnose()

    content = {**asdict(diagnosis), "table": diagnosis.table.to_dict("records"), "verdict": diagnosis.verdict}
    return Outcome(text=f"{diagnosis!r}\n", content=lambda: content, passed=not diagnosis.problems)
