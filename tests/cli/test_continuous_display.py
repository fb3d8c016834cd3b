"""What a person reads and sees of a comparison of numbers."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from bayesgen.cli.display import comparison_shown
from bayesgen.evaluation import Answer, Comparison
from bayesgen.prediction import ContinuousScorer
from bayesgen.predictives import NormalPredictive

RNG = np.random.default_rng(5)
MEAN = RNG.normal(100, 30, 400)
Y = RNG.normal(MEAN, 10.0)


def forecast(mean, std):
    """A normal forecast, as predictions say them."""
    said = stats.norm(mean, std)
    return SimpleNamespace(
        mean=mean,
        std=np.broadcast_to(std, mean.shape),
        log_density=said.logpdf,
        cdf=said.cdf,
        pit=said.cdf,
        interval=lambda prob: np.stack(said.interval(prob), axis=1),
        crps=lambda y: NormalPredictive(mean, np.broadcast_to(std, mean.shape)).crps(y),
    )


SURE = Answer(
    "line", "MAP", "PlugIn", forecast(MEAN, 5.0), two_step=True, is_map=True, fit_seconds=1, predict_seconds=1
)
RIGHT = Answer("line", "Exact", "BMA", forecast(MEAN, 10.0), fit_seconds=1, predict_seconds=1)
SAME = Answer("curve", "Exact", "BMA", forecast(MEAN, 10.0), fit_seconds=1, predict_seconds=1)
ALSO = Answer("curve", "NUTS", "BMA", forecast(MEAN, 10.0), fit_seconds=1, predict_seconds=1)
GONE = Answer("line", "NUTS", "BMA", refused="the chains ran away")


def text(*answers, width=120):
    console = Console(record=True, width=width, file=io.StringIO())
    result = Comparison(answers, ContinuousScorer(Y), np.arange(400))
    console.print(comparison_shown(result, console))
    return console.export_text()


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_the_terminal(width):
    assert max(map(len, text(SURE, RIGHT, GONE, SAME, ALSO, width=width).splitlines())) <= width


def test_scores_and_coverage_stand_in_one_column_per_answer():
    lines = {line[:17].strip(): line.split() for line in text(SURE, RIGHT, GONE).splitlines()}
    covered = [np.mean(np.abs(Y - MEAN) <= stats.norm.ppf(0.75) * std) for std in (5.0, 10.0)]
    assert lines["in 50% interval"][3:] == [f"{share:.1%}" for share in covered] + ["–"]
    assert lines["CRPS"][1:] == [
        f"{NormalPredictive(MEAN, np.full(400, std)).crps(Y).mean():#.4g}" for std in (5.0, 10.0)
    ] + ["–"]
    assert "NUTS refused: the chains ran away" in text(SURE, GONE)


def test_the_places_of_truths_are_drawn_high_at_both_ends_where_an_answer_is_too_sure():
    line = next(line for line in text(SURE, RIGHT).splitlines() if "truths by tenth" in line)
    sure, right = line.split()[-2:]
    assert len(sure) == len(right) == 10
    assert sure[0] == sure[9] == "█" and max(sure[4:6]) < "▄"
    assert {"▃", "▄", "▅"} >= set(right)


def test_rows_in_which_log_scores_differ_most_come_first_and_equal_answers_are_told_in_a_sentence():
    shown = text(SURE, RIGHT, SAME, ALSO)
    assert "line: the 10 of 400 rows in which log scores differ most" in shown
    apart = np.abs(stats.norm.logpdf(Y, MEAN, 5) - stats.norm.logpdf(Y, MEAN, 10))
    row = int(np.argmax(apart))
    line = next(line for line in shown.splitlines() if line.strip().startswith(f"{row} "))
    assert line.split()[1:4] == [f"{Y[row]:.6g}", f"{MEAN[row]:#.4g}", "±5.00"]
    assert "curve: the log scores of all answers are within 0.01 in each of the 400 test rows." in shown
