"""Figures in a notebook: the last line of a cell shows the picture, once."""

import base64

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

ENTROPY = """
import numpy as np
import bayesgen as bg
answer = bg.ClassPrediction(
    np.log([[0.5, 0.5], [0.9, 0.1]]), np.array(["a", "b"]), np.zeros(2), expected_entropy=np.array([0.4, 0.2])
)
bg.plots.entropy(answer)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first_line", ["", "%matplotlib inline", "import matplotlib.pyplot as plt"])
def test_a_figure_is_shown_once(first_line):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(first_line + ENTROPY), nbformat.v4.new_code_cell("1 + 1")]
    )
    nbclient.NotebookClient(notebook, timeout=120).execute()
    first, second = ([output for output in cell.outputs if output.output_type != "stream"] for cell in notebook.cells)
    assert [output.output_type for output in first] == ["execute_result"]
    assert base64.b64decode(first[0].data["image/png"]).startswith(b"\x89PNG")
    assert "image/png" not in second[0].data and len(second) == 1
