"""A session in a notebook, as a newcomer has it: results are shown as tables and pictures, and nothing else is."""

import pages
import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient and ipykernel come with the extra docs")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel", reason="nbclient and ipykernel come with the extra docs")

PROGRAM = next(block.code for block in pages.blocks_of_page(pages.ROOT / "README.md") if block.language == "python")
CELLS = [
    PROGRAM + "fit",
    "one_step",
    "pairs = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]\n"
    "bg.compare(bg.GaussianDiscriminant(), X.loc[train], y[train], X_new, y_new, methods=pairs)",
    "study = bg.study(bg.GaussianDiscriminant(), X, y, sizes=[5, 20], repeats=10, pairs=pairs)\nstudy",
    "study.plot()",
    "bg.fit_many(bg.NaiveBayes(), [(X, y)] * 3, method=bg.Exact())",
    "from bayesgen.runtime import progress\nprogress.SILENCE = 0.3\n"
    "bg.fit(bg.NaiveBayes(), X[['alcohol']], y, method=bg.NUTS(num_samples=300, num_chains=2), progress=True)",
]


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
    nbclient.NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(pages.ROOT)}}).execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.slow
def test_results_are_shown_as_tables(outputs):
    titles = ["Fit of", "ClassPrediction of", "Comparison on", "Study of", None, "FitBatch of", "Fit of"]
    for cell, title in zip(outputs, titles, strict=True):
        (shown,) = (output.data for output in cell if output.output_type == "execute_result")
        if title is not None:
            assert shown["text/plain"].startswith(title) and f"<b>{title}" in shown["text/html"]
            assert shown["text/html"].count("<tr>") >= 3


@pytest.mark.slow
def test_a_figure_is_a_picture(outputs):
    (shown,) = outputs[4]
    assert shown.data["image/png"] and "text/html" not in shown.data


@pytest.mark.slow
def test_nothing_else_is_shown(outputs):
    streams = [output for cell in outputs for output in cell if output.output_type == "stream"]
    assert [stream.name for stream in streams] == ["stdout"]  # what the program of the README prints
    assert streams[0].text.startswith("two steps mean log p(true kind)")
    for output in (output for cell in outputs for output in cell):
        assert output.output_type in ("stream", "execute_result", "display_data")
        assert "<Figure size" not in str(output) or "image/png" in output.data  # a text that stands for the picture


@pytest.mark.slow
def test_long_work_has_one_line(outputs):
    lines = [output.data["text/plain"] for output in outputs[-1] if output.output_type == "display_data"]
    assert len(lines) == 1 and lines[0].startswith("bayesgen: at work for ")
