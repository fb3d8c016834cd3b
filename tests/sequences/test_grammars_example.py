"""examples/grammars.py: which grammar made a string."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "grammars.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("grammars_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_strings_are_of_their_grammars_and_the_program_knows_them(script):
    x, y = script.strings(9, 4)
    assert len(x) == 27 and max(map(len, x)) <= script.MAX_LENGTH
    mirrors = [string for string, name in zip(x, y, strict=True) if name == "mirror"]
    assert all(string == string[::-1] for string in mirrors)
    nests = [string for string, name in zip(x, y, strict=True) if name == "nest"]
    assert all(string.count("a") == string.count("b") and string[0] == "a" for string in nests)
    flat = {left: np.full(len(sides), 1 / len(sides)) for left, sides in script.RULES.items() if left != "String"}
    table = script.PROGRAM.log_joint(flat, {"x": ["aab", "aba", "ab"]}) + np.log(3)
    nest, mirror, letters = np.log(1 / 3), np.log([1 / 6, 1 / 6]).sum(), np.log(1 / 4)
    wanted = [[-np.inf, -np.inf, 3 * letters], [mirror, -np.inf, 3 * letters], [-np.inf, nest, 2 * letters]]
    np.testing.assert_allclose(table, wanted, rtol=1e-10)
