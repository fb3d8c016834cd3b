"""The scores against scikit-learn where it has them, and against the plain definition where it has not."""

import numpy as np
import pytest
from sklearn import metrics

from bayesgen.evaluation.answers import paired_difference
from bayesgen.prediction import scorers as scores


@pytest.fixture(params=[2, 3, 7])
def forecast(request):
    """Log-probabilities (n, K), probabilities and truth, with n no multiple of the number of bins."""
    generator = np.random.default_rng(request.param)
    probabilities = generator.dirichlet(np.full(request.param, 0.7), size=233)
    truth = np.array([generator.choice(request.param, p=row) for row in probabilities])
    return np.log(probabilities), probabilities, truth


def log_score(log_probabilities, truth):
    return scores.row_log_scores(log_probabilities, truth).mean()


def with_impossible(log_probabilities, rows):
    changed = log_probabilities.copy()
    changed[rows] = np.nan
    return changed


def test_accuracy_is_sklearns(forecast):
    log_probabilities, probabilities, truth = forecast
    assert scores.accuracy(log_probabilities, truth) == metrics.accuracy_score(truth, probabilities.argmax(1))


def test_log_score_is_minus_sklearns_log_loss(forecast):
    log_probabilities, probabilities, truth = forecast
    expected = -metrics.log_loss(truth, probabilities, labels=range(probabilities.shape[1]))
    assert log_score(log_probabilities, truth) == pytest.approx(expected, rel=1e-12)


def test_brier_score_sums_over_the_classes(forecast):
    log_probabilities, probabilities, truth = forecast
    columns = range(probabilities.shape[1])
    expected = sum(np.mean((probabilities[:, k] - (truth == k)) ** 2) for k in columns)
    assert scores.brier_score(log_probabilities, truth) == pytest.approx(expected, rel=1e-12)
    if len(columns) == 2:
        half = metrics.brier_score_loss(truth, probabilities[:, 1])
        assert scores.brier_score(log_probabilities, truth) == pytest.approx(2 * half, rel=1e-12)


def test_calibration_error_is_the_plain_sum_over_equal_bins(forecast):
    log_probabilities, probabilities, truth = forecast
    order = sorted(range(len(truth)), key=lambda row: probabilities[row].max())
    expected, start = 0.0, 0
    for number in range(15):
        size = len(truth) // 15 + (number < len(truth) % 15)
        rows = order[start : start + size]
        start += size
        confidence = np.mean([probabilities[row].max() for row in rows])
        share_right = np.mean([probabilities[row].argmax() == truth[row] for row in rows])
        expected += size / len(truth) * abs(confidence - share_right)
    assert scores.expected_calibration_error(log_probabilities, truth) == pytest.approx(expected, rel=1e-9)


def test_calibration_error_of_tied_confidences_does_not_depend_on_the_order_of_rows():
    generator = np.random.default_rng(5)
    confidence = generator.choice([0.6, 0.8, 1.0], size=101)
    table = np.log(np.stack([confidence, np.maximum(1 - confidence, 1e-300)], axis=1))
    truth = generator.integers(2, size=101)
    first = scores.expected_calibration_error(table, truth)
    order = np.argsort(truth)
    assert scores.expected_calibration_error(table[order], truth[order]) == pytest.approx(first, rel=1e-12)
    assert first > 0.1


def test_calibration_error_of_few_rows_and_of_a_perfect_forecast():
    table = np.log([[0.9, 0.1], [0.3, 0.7]])
    assert scores.expected_calibration_error(table, [0, 0]) == pytest.approx((0.1 + 0.7) / 2)
    with np.errstate(divide="ignore"):
        perfect = np.log(np.eye(3))
    assert scores.expected_calibration_error(perfect, [0, 1, 2]) == 0.0
    assert scores.brier_score(perfect, [0, 1, 2]) == 0.0
    assert log_score(perfect, [0, 1, 2]) == 0.0


def test_impossible_rows_score_like_certainty_of_a_wrong_class(forecast):
    log_probabilities, _, truth = forecast
    rows = [3, 50, 51]
    refused = with_impossible(log_probabilities, rows)
    wrong = log_probabilities.copy()
    wrong[rows] = -np.inf
    wrong[rows, (truth[rows] + 1) % wrong.shape[1]] = 0.0
    assert scores.impossible_rows(refused).sum() == 3
    assert list(scores.named_classes(refused)[rows]) == [-1, -1, -1]
    for score in (scores.accuracy, scores.brier_score, scores.expected_calibration_error, log_score):
        assert score(refused, truth) == pytest.approx(score(wrong, truth))
    assert log_score(refused, truth) == -np.inf
    assert np.isfinite(scores.brier_score(refused, truth))


def test_a_true_class_of_tiny_probability_keeps_a_finite_log_score():
    assert log_score(np.array([[0.0, -2000.0]]), [1]) == -2000.0


def test_paired_difference_is_the_mean_and_its_standard_error():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 40))
    mean, error = paired_difference(first, second)
    differences = first - second
    assert mean == pytest.approx(differences.mean())
    assert error == pytest.approx(np.sqrt(((differences - mean) ** 2).sum() / 39 / 40))


def test_standard_error_of_the_difference_is_the_spread_over_test_sets():
    generator = np.random.default_rng(1)
    common = generator.normal(size=(2000, 60))
    means, errors = zip(*(paired_difference(row + generator.normal(size=60), row) for row in common), strict=True)
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.05)


@pytest.mark.parametrize(
    ("first", "second", "mean"),
    [
        ([-1.0, -np.inf, -2.0], [-1.5, -np.inf, -1.5], 0.0),  # both impossible: a tie, and no knowing by how much
        ([-1.0, -np.inf], [-1.5, -np.inf], 0.25),
        ([-1.0, -1.0], [-1.0, -np.inf], np.inf),
        ([-np.inf, -1.0], [-1.0, -1.0], -np.inf),
        ([-np.inf, -1.0], [-1.0, -np.inf], np.nan),
    ],
)
def test_paired_difference_with_impossible_rows(first, second, mean):
    difference, error = paired_difference(np.array(first), np.array(second))
    assert difference == pytest.approx(mean, nan_ok=True)
    assert np.isnan(error)
    assert np.isnan(paired_difference(np.array([-1.0]), np.array([-2.0]))[1])
