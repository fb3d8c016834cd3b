"""examples/field_goals.py and examples/hybrid.py."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

EXAMPLES = Path(__file__).parents[2] / "examples"


def script(name):
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_field_goals_are_logistic_regression_one_way_and_two_normals_the_other(tmp_path):
    example = script("field_goals")
    path = tmp_path / "attempts.dat"
    yards, results = example.simulate(300)
    path.write_text("".join(f"{x:.0f} {int(y == 'good')} 1\n" for x, y in zip(yards[:, 0], results, strict=True)))
    yards, results = example.read(path)
    fits = example.fits(yards, results)
    generative, discriminative, _ = fits.values()
    line = LogisticRegression(C=np.inf, tol=1e-10).fit(yards, results == "good")
    assert example.coefficients(discriminative) == pytest.approx((line.coef_.item(), line.intercept_.item()), rel=1e-4)
    means = [yards[results == kind].mean() for kind in ("good", "missed")]
    variance = np.mean([(x - means[kind == "missed"]) ** 2 for (x,), kind in zip(yards, results, strict=True)])
    assert example.coefficients(generative)[0] == pytest.approx((means[0] - means[1]) / variance, rel=1e-9)
    table = example.curves(fits, example.YARDS)
    assert table.shape == (len(example.YARDS), 3) and ((table > 0) & (table < 1)).all(axis=None)
    example.draw_figure(table, yards, results, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_hybrid_training_is_between_its_limits(tmp_path):
    example = script("hybrid")
    example.COUPLINGS = np.array([1e-3, 0.4, 1e3])
    table = example.accuracies(2, 4, 60, 1)
    wide = table.pivot(index="draw", columns="learned", values="accuracy")
    np.testing.assert_allclose(wide[1e-3], wide["generative"], atol=2e-3)
    np.testing.assert_allclose(wide[1e3], wide["discriminative"], atol=2e-3)
    means = example.summary(table)
    assert example.paired(table).shape == (4, 2)
    example.draw_figure(means, *example.simulate(50, np.random.default_rng(0)), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
