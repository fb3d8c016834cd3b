"""What the tests of the command line share."""

import pytest
from typer.testing import CliRunner

from bayesgen.cli.app import app


@pytest.fixture
def run(monkeypatch):
    """Runs a command in a terminal of 100 columns without colours; `input` is the content of standard input."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def invoke(*arguments, input=None):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)

    return invoke
