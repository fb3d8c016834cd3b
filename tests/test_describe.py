"""What objects show of themselves: a few lines that tell what was learned, and never an error."""

import dataclasses
import html
import inspect
import re
import types
import warnings

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from prediction.draws import drawn

import bayesgen as bg
from bayesgen.describe import WIDTH, Described, described, described_as_html

NUMBERS = pd.DataFrame({"height": [1.6, 1.7, 1.9, 1.8, 1.75, 2.0], "width": [4.0, 6.0, 9.0, 8.5, 5.5, 9.2]})
MIXED = NUMBERS.assign(colour=["red", "blue", "red", "red", "blue", "red"], open=[True, False] * 3)
LABELS = ["a", "a", "b", "b", "a", "b"]


def durations(n):
    median = numpyro.sample("median", dist.Normal(6, 1).expand([2]).to_event(1))
    with numpyro.plate("trials", n):
        y = numpyro.sample("y", dist.Bernoulli(0.5))
        numpyro.sample("seconds", dist.LogNormal(median[y], 1.0))


def heights(n):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("people", n):
        numpyro.sample("height", dist.Normal(mean, 1.0))


PROGRAM = bg.GenerativeProgram(durations, classes=["easy", "hard"])
TRIALS, TRIAL_LABELS = {"seconds": np.exp([5.0, 5.5, 6.0, 7.0])}, ["easy", "easy", "hard", "hard"]
LEARNER = bg.ConceptLearner(bg.number_game("murphy"))


def lines(described):
    shown = repr(described).splitlines()
    assert len(shown) <= 20
    assert max(map(len, shown)) <= WIDTH
    if hasattr(described, "_repr_html_"):
        page = described._repr_html_()
        cells = " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())
        for line in shown[1:]:  # notebooks are shown the same entries
            assert all(" ".join(part.split()) in cells for part in line.removesuffix(" ...").split(": ", 1)), line
    return shown


@pytest.fixture(scope="module")
def sampled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)
        return bg.fit(PROGRAM, TRIALS, TRIAL_LABELS, method=bg.NUTS(num_samples=20, num_chains=2))


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP(), bg.Exact()], ids=repr)
@pytest.mark.parametrize("model", [bg.NaiveBayes(), bg.GaussianDiscriminant()], ids=repr)
def test_a_fit_tells_model_data_method_and_what_to_do_next(model, method):
    shown = lines(bg.fit(model, NUMBERS, LABELS, method=method, sample_weight=[1, 1, 1, 1, 1, 2.5]))
    assert shown[0].startswith(f"Fit of {type(model).__name__}(")
    assert any(re.fullmatch(rf"  method: {type(method).__name__}\(\), in [\d.]+ seconds", line) for line in shown)
    assert "  rows (total weight): 7.5" in shown
    assert "  columns: 2 ('height', 'width')" in shown
    assert "  classes: 2 ('a', 'b')" in shown
    kind = "posterior means" if isinstance(method, bg.Exact) else "a point"
    assert any(line.startswith(f"  parameters, {kind}: class_probs (2,), real_mean (2, 2)") for line in shown)
    assert any(line.startswith("  log evidence: ") for line in shown) == isinstance(method, bg.Exact)
    assert ("rule=BMA()" in shown[-1]) == isinstance(method, bg.Exact)


def test_a_fit_of_a_program_of_ones_own_tells_how_its_chains_agree(sampled):
    shown = lines(sampled)
    assert shown[0] == "Fit of GenerativeProgram(durations, label='y', classes=['easy', 'hard'])"
    assert "  columns: 1 ('seconds')" in shown
    assert "  sufficient statistics: y, seconds" in shown and "  prior: as the program states it, of median" in shown
    assert "  parameters of each draw: median (2,)" in shown
    draws = next(line for line in shown if line.startswith("  draws: "))
    assert draws.startswith("  draws: 2 chains of 20, 0 divergent, R-hat at most ") and "bulk ESS at least " in draws
    assert "    coordinates rescaled by the curvature at the mode" in shown
    assert any(line.startswith("  next: fit.diagnose(), predict(fit, X, rule=BMA())") for line in shown)
    assert lines(bg.fit(PROGRAM, TRIALS, TRIAL_LABELS, method=bg.MAP()))[0] == shown[0]
    without_classes = bg.GenerativeProgram(heights, label=None)
    assert "fit.log_joint(X)" in lines(bg.fit(without_classes, {"height": [1.0, 2.0]}, method=bg.MAP()))[-1]


def test_the_other_objects_are_short_too(sampled):
    summaries = bg.summarize(bg.NaiveBayes(), MIXED, LABELS)
    assert "  rows (total weight): 6" in lines(summaries)
    assert "  columns: 4 ('height', 'width', 'colour', 'open')" in lines(summaries)
    lines(bg.fit(bg.NaiveBayes(structure="average"), MIXED, LABELS, method=bg.Exact()))
    forms = bg.average([bg.GaussianDiscriminant(form) for form in ("full", "tied", "diag", "spherical")])
    average = bg.fit(forms, NUMBERS, LABELS, method=bg.Exact())
    shown = lines(average)
    assert shown[0] == "AverageFit of 4 structures"
    best = int(np.argmax(average.weights))
    assert f"  weight {average.weights[best]:.3f}, member {best}: GaussianDiscriminant(" in "\n".join(shown)
    answer = bg.predict(average, NUMBERS, rule=bg.BMA())
    assert lines(answer)[:2] == ["ClassPrediction of 6 rows by 2 classes", "  labels: 'a' 3 times, 'b' 3 times"]
    assert any(
        line.startswith("  standard error: at most") for line in lines(bg.predict(sampled, TRIALS, rule=bg.BMA()))
    )


def test_a_prediction_counts_what_is_impossible():
    schema = bg.Schema(kinds={"x0": "binary"})
    fit = bg.fit(bg.NaiveBayes(), [[1], [1], [1], [1]], ["a", "a", "b", "b"], method=bg.MLE(), schema=schema)
    with pytest.warns(bg.ImpossibleRowsWarning):
        answer = bg.predict(fit, [[0], [1]], rule=bg.PlugIn())
    assert "  impossible rows: 1, which every class rules out: their probabilities are NaN" in lines(answer)


def test_a_comparison_says_what_is_behind_infinite_and_missing_scores():
    pairs = [(bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.BMA()), (bg.MLE(), bg.BMA())]
    data = [[1], [1], [1], [0]], list("aabb"), [[0], [0], [1]], list("aab")
    compared = bg.compare(bg.NaiveBayes(), *data, methods=pairs, schema=bg.Schema(kinds={"x0": "binary"}))
    text = " ".join(repr(compared).split())
    assert "ruled_out: other test rows whose truth has probability zero" in text and "impossible: " not in text
    assert "2 by NaiveBayes, MLE + PlugIn refused: 1 of 3, the first of NaiveBayes, MLE + BMA: This is a point" in text


def test_concepts_tell_their_best_hypotheses():
    assert lines(LEARNER)[0].startswith(f"ConceptLearner(space=HypothesisSpace({len(LEARNER.space.names)} hypotheses")
    fit = bg.fit(LEARNER, [16, 8, 2, 64], method=bg.Exact())
    shown = lines(fit)
    assert any(line.startswith("  hypotheses: 'powers of 2' 0.") for line in shown)
    assert any(line.startswith("  log evidence: ") for line in shown)
    assert lines(bg.predict(fit, [4, 5], rule=bg.BMA()))[0] == "ConceptPrediction of 2 queries"
    several = bg.fit(LEARNER, [[16, 8], [60]], method=bg.Exact())
    assert "  sets of examples: 2" in lines(several)
    assert lines(bg.predict(several, [4, 5], rule=bg.BMA()))[0].endswith("for 2 sets of examples")
    shared = types.SimpleNamespace(parameters={"noise": np.full((4, 10), 0.125)})
    learned = dataclasses.replace(fit, posterior=dataclasses.replace(fit.posterior, shared=shared))
    assert "  hyperparameters: noise 0.125" in lines(learned)


def test_html_of_results_is_escaped_and_has_frames_as_tables():
    frame = pd.DataFrame({"<i>name</i>": ["<u>&"], "value": [0.123456]})
    page = described_as_html("<title>", {"<script>": "a < b", "none": None, "empty": "", "frame": frame})
    assert "<script>" not in page and "<i>" not in page and "<u>" not in page
    assert "&lt;script&gt;" in page and "a &lt; b" in page and "none" not in page and "empty" not in page
    assert "0.1235" in page and "0.1235" in described("title", {"frame": frame})


RESULTS = [bg.Fit, bg.AverageFit, bg.ConceptFit, bg.FitBatch, bg.Summaries, bg.Comparison, bg.Study, bg.Calibration]
RESULTS += [bg.LeaveOneOut, bg.Prequential, bg.ClassPrediction, bg.ContinuousPrediction, bg.ConceptPrediction]


@pytest.mark.parametrize("result", RESULTS)
def test_notebooks_show_results_by_their_own_description(result):
    assert issubclass(result, Described)
    assert result.__repr__ is Described.__repr__ and result._repr_html_ is Described._repr_html_


def test_no_public_class_shows_an_address():
    classes = {name: value for name in bg.__all__ if inspect.isclass(value := getattr(bg, name))}
    made_by_users = {name: cls for name, cls in classes.items() if not cls.__subclasses__() and name != "BlockModel"}
    assert len(made_by_users) > 50
    assert [name for name, cls in made_by_users.items() if cls.__repr__ is object.__repr__] == []
    dataset = bg.load_dataset("iris")
    fit = bg.fit(bg.NaiveBayes(), NUMBERS, LABELS, method=bg.Exact())
    assert repr(dataset) == "Dataset iris: 150 rows, 4 columns, labels 'target'; dataset.X, .y, .split()"
    assert repr(dataset.split()).startswith("Split: 112 rows to learn from, 38 to test on, labels 'target'")
    assert repr(bg.SamplingWrapper(fit, NUMBERS, LABELS)) == "SamplingWrapper of 6 rows, for a fit of NaiveBayes"


def test_errors_that_draws_do_not_tell_are_not_infinite():
    fit = bg.fit(bg.NaiveBayes(), NUMBERS, LABELS, method=bg.Exact())
    with pytest.warns(bg.ConvergenceWarning, match="few draws decide"):
        answer = bg.predict(drawn(fit, 1, 1), NUMBERS, rule=bg.BMA())
    assert np.isinf(answer.standard_error).all()
    assert "standard error: not known of 12 numbers" in " ".join(repr(answer).split()) and "inf" not in repr(answer)
