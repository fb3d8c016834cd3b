"""Laws of all kinds of posteriors: what each says that it can do, it does; the rest it refuses by its own words."""

import dataclasses

import jax
import numpy as np
import pytest

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.fitting import Method
from bayesgen.posteriors import Draws, Point, Posterior
from bayesgen.prediction import Rule

close = np.testing.assert_allclose
MODELS = [bg.GaussianDiscriminant(), bg.GaussianDiscriminant("diag")]

# kind -> (mode, predictive, draws), and whether it is a point and whether it is sampled
TABLE = {
    "MLE": ((True, False, False), True, False),
    "MAP": ((True, False, False), True, False),
    "Exact": ((True, True, True), False, False),
    "structures": ((True, True, True), False, False),
    "draws": ((False, False, True), False, True),
    "average": ((True, True, False), False, False),
    "stacking": ((True, True, False), False, False),
    "average of averages": ((True, True, False), False, False),
    "average of densities": ((True, False, False), False, False),
    "concept": ((True, True, False), False, False),
    "best concept": ((True, False, False), True, False),
}
OF_ROWS = [kind for kind in TABLE if "concept" not in kind]
OF_CLASSES = [kind for kind in OF_ROWS if "densities" not in kind]


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(8)
    y = np.arange(31) % 2
    X, y = rng.normal(size=(31, 3)) + y[:, None] * [1.0, 0.0, -0.5], np.asarray(["no", "yes"])[y]
    exact = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    chains = exact.posterior.draws(600, jax.random.key(0))
    chains = {name: value.reshape(3, 200, *value.shape[2:]) for name, value in chains.items()}
    draws = Draws(exact.program, chains, exact.program.parameters_of(chains), {})
    average = bg.average(MODELS, X=X, y=y)
    learner = bg.ConceptLearner(bg.number_game("murphy"))
    return {
        "MLE": bg.fit(MODELS[0], X, y, method=bg.MLE()),
        "MAP": bg.fit(MODELS[0], X, y, method=bg.MAP()),
        "Exact": exact,
        "structures": bg.fit(bg.NaiveBayes(structure="average"), X, y, method=bg.Exact()),
        "draws": dataclasses.replace(exact, posterior=draws),
        "average": average,
        "stacking": bg.average(MODELS, X=X, y=y, weights="stacking", folds=3),
        "average of averages": bg.average([average, exact]),
        "average of densities": bg.average([bg.fit(bg.ProbabilisticPCA(k), X, method=bg.MLE()) for k in (1, 2)]),
        "concept": bg.fit(learner, [16, 60], method=bg.Exact()),
        "best concept": bg.fit(learner, [16, 60], method=bg.MAP()),
    }


@pytest.fixture(scope="module")
def new():
    return np.random.default_rng(9).normal(size=(5, 3))


def table_of(fit, new, at):
    """The table of log-joints of new rows, or of the first members of the domain."""
    if isinstance(fit, bg.ConceptFit):
        return fit.posterior.log_joint(Rows({"query": np.arange(5)}), at)
    return fit.log_joint(new, at=at)


@pytest.mark.parametrize("kind", TABLE)
def test_what_a_posterior_can_do_is_known_before(fits, kind):
    posterior = fits[kind].posterior
    abilities, is_point, is_sampled = TABLE[kind]
    assert tuple(map(posterior.can, ("mode", "predictive", "draws"))) == abilities
    assert (posterior.is_point, posterior.is_sampled) == (is_point, is_sampled)


@pytest.mark.parametrize("kind", TABLE)
def test_what_it_can_do_it_does_and_the_rest_it_refuses_in_its_own_words(fits, kind, new):
    fit, posterior = fits[kind], fits[kind].posterior
    for ability, can in zip(("mode", "predictive"), TABLE[kind][0], strict=False):
        if can:
            table = table_of(fit, new, ability)
            assert len(table) == 5 and not np.isnan(table).any()
        else:
            with pytest.raises(bg.PredictionError) as refused:
                table_of(fit, new, ability)
            assert str(refused.value) == posterior.refusals[ability]
    if posterior.can("draws"):
        draws = posterior.draws(7, jax.random.key(1))
        assert all(np.ndim(value) >= 2 and len(value) > 0 for value in draws.values())
    else:
        with pytest.raises(bg.PredictionError) as refused:
            posterior.draws(7, jax.random.key(1))
        assert str(refused.value) == posterior.refusals["draws"]


@pytest.mark.parametrize("kind", OF_ROWS)
def test_a_table_does_not_depend_on_the_other_rows(fits, kind, new):
    fit = fits[kind]
    for at in ("mean", "mode", "predictive"):
        if fit.posterior.can(at):
            table = fit.log_joint(new, at=at)
            close(fit.log_joint(new[[3, 1]], at=at), table[[3, 1]], rtol=1e-12)
            close(fit.log_joint(new, at=at, rows=np.array([3, 1])), table[[3, 1]], rtol=1e-12)


@pytest.mark.parametrize("kind", OF_CLASSES)
def test_rules_answer_where_the_posterior_can(fits, kind, new):
    fit, posterior = fits[kind], fits[kind].posterior
    can = {
        bg.PlugIn(): True,
        bg.PlugIn("mode"): posterior.can("mode"),
        bg.BMA(entropy_draws=0): posterior.can("predictive") or posterior.can("draws"),
        bg.ConditionalAverage(num_draws=100): posterior.can("draws"),
    }
    for rule, answers in can.items():
        if answers:
            close(bg.predict(fit, new, rule=rule).probabilities.sum(1), 1.0, rtol=1e-6)
        else:
            with pytest.raises(bg.PredictionError):
                bg.predict(fit, new, rule=rule)


# --- what is added: a posterior, a method, a rule, each one class ------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tempered(Posterior):
    """Another posterior, of whose tables only a share counts."""

    whole: Posterior
    share: float
    refusals = {"mode": "A tempered posterior has no mode.", "draws": "A tempered posterior has no draws."}  # noqa: RUF012

    @property
    def parameters(self):
        return self.whole.parameters

    def _log_joint(self, rows, at):
        return self.share * self.whole.log_joint(rows, at)


@dataclasses.dataclass(frozen=True)
class TemperedExact(Method):
    """`Exact`, with tempered tables."""

    share: float

    def solve(self, problem):
        return problem.result(self, Tempered(bg.Exact().solve(problem).posterior, self.share))


class Uniform(Rule):
    """All classes alike, in rows that are possible."""

    def apply(self, fit, X):
        answer = bg.PlugIn().apply(fit, X)
        return dataclasses.replace(answer, log_probabilities=np.full_like(answer.log_probabilities, -np.log(2)))

    def averages_draws(self, fit):
        return False


def test_a_new_posterior_method_and_rule_are_a_class_each(new):
    X, y = np.random.default_rng(3).normal(size=(20, 3)), np.arange(20) % 2
    exact, tempered = (bg.fit(MODELS[0], X, y, method=method) for method in (bg.Exact(), TemperedExact(0.5)))
    for rule in (bg.PlugIn(), bg.BMA()):
        whole, half = (bg.predict(fit, new, rule=rule).log_probabilities for fit in (exact, tempered))
        close(half[:, 0] - half[:, 1], 0.5 * (whole[:, 0] - whole[:, 1]), rtol=1e-10)
    for rule, words in ((bg.PlugIn("mode"), "no mode"), (bg.ConditionalAverage(), "no draws")):
        with pytest.raises(bg.PredictionError, match=words):
            bg.predict(tempered, new, rule=rule)
    assert tempered.simulate(4)["y"].shape == (4,)
    assert "BMA()" in repr(tempered)
    close(bg.predict(exact, new, rule=Uniform()).probabilities, 0.5)
    with pytest.raises(bg.FitError, match=r"averaged exactly.*TemperedExact\(\) cannot"):
        bg.fit(bg.NaiveBayes(structure="average"), X, y, method=TemperedExact(0.5))
    with pytest.raises(bg.FitError, match=r"TemperedExact\(\) has no log evidence"):
        bg.fit(bg.average(MODELS), X, y, method=TemperedExact(0.5))
    with pytest.raises(bg.FitError, match=r"not trained by TemperedExact\(\)"):
        bg.fit(bg.ConceptLearner(bg.number_game("murphy")), [16], method=TemperedExact(0.5))


def test_averages_of_densities_refuse_rules_that_they_do_not_know(fits, new):
    for rule, name in ((Uniform(), "Uniform"), (bg.ConditionalAverage(), "ConditionalAverage")):
        with pytest.raises(bg.PredictionError, match=rf"by PlugIn\(\) or BMA\(\), and {name}\(\) is neither"):
            bg.predict(fits["average of densities"], new, rule=rule)


def test_averages_ask_rules_of_other_kinds_themselves(fits, new):
    """A rule that is neither PlugIn nor BMA is not taken for one of them."""
    close(bg.predict(fits["average"], new, rule=Uniform()).probabilities, 0.5)


def test_a_point_is_its_own_mean_and_mode(fits, new):
    point = fits["MAP"].posterior
    assert isinstance(point, Point)
    rows = fits["MAP"].read(new)
    np.testing.assert_array_equal(point.log_joint(rows, "mean"), point.log_joint(rows, "mode"))
    close(point.log_joint(rows, "mode"), fits["Exact"].posterior.log_joint(rows, "mode"), rtol=1e-12)
