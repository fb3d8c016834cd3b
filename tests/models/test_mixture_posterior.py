"""The posterior of a mixture, against sums over every way to allot its rows; draws that swap components."""

import dataclasses
import itertools
import warnings

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
from arviz_stats.base import array_stats
from oracles.moments import assert_mean

import bayesgen as bg
from bayesgen.fitting import components, prepare
from bayesgen.fitting.export import class_axes
from bayesgen.posteriors import Draws

close = np.testing.assert_allclose
X = np.asarray([[-1.2], [-0.7], [-0.4], [0.1], [1.9], [2.3], [2.6], [3.1]])
PRIOR = bg.NormalInverseGamma([0.8], 0.3, 4.0, [1.2])
MIXTURE = bg.Mixture(bg.NaiveBayes(PRIOR, class_prior=bg.DirichletCategorical(3.0)), 2)
PAIRS = np.triu_indices(len(X), 1)


class Enumeration:
    """Every way to allot rows to components.

    Attributes:
        allotments: the component of each row, in each way.
        log_joints: log p(rows, allotment), parameters integrated out.
        posteriors: the conjugate posterior given each.
    """

    def __init__(self, fit, rows):
        number = len(fit.classes)
        self.allotments = np.asarray(list(itertools.product(range(number), repeat=len(rows))))
        prior, model, read = fit.concrete.conjugate(fit.schema), fit.concrete.model, fit.read(rows)
        statistics = [
            model.summarize(fit.schema, dataclasses.replace(read, labels=labels)) for labels in self.allotments
        ]
        self.log_joints = np.asarray([prior.log_evidence(each) for each in statistics])
        self.posteriors = [prior.update(each) for each in statistics]

    @property
    def log_evidence(self):
        return scipy.special.logsumexp(self.log_joints)

    @property
    def together(self):
        """The posterior probability of each pair of rows to come from one component."""
        same = self.allotments[:, :, None] == self.allotments[:, None, :]
        return np.einsum("z,zij->ij", np.exp(self.log_joints - self.log_evidence), same)

    def log_density(self, parameters):
        """Log posterior density of parameters: a mixture of conjugate posteriors, one for each allotment."""
        densities = [posterior.log_prior(parameters) for posterior in self.posteriors]
        return scipy.special.logsumexp(self.log_joints - self.log_evidence + densities)


@pytest.fixture(scope="module")
def sampled():
    with pytest.warns(bg.LabelSwitchingWarning, match=r"before fit\.relabel\(\)"):
        return bg.fit(MIXTURE, X, method=bg.NUTS(num_samples=1000), seed=1)


@pytest.fixture(scope="module")
def relabelled(sampled):
    return sampled.relabel()


def averaged(fit, rows):
    """Averages over draws, of which few decide how a row belongs to the farther component: so few rows say little."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)
        return bg.predict(fit, rows, rule=bg.BMA())


def largest_rhat(draws):
    return np.nanmax(array_stats.rhat(draws.reshape(*draws.shape[:2], -1), chain_axis=0, draw_axis=1))


def test_the_objective_of_map_is_the_posterior_density_by_enumeration():
    """Bayes' rule: log p(X | Q) + log p(Q) - log p(X), where p(X) is a sum over all allotments."""
    fit = bg.fit(MIXTURE, X, method=bg.MAP())
    known = Enumeration(fit, X)
    close(fit.attributes["objective"] - known.log_evidence, known.log_density(fit.parameters), rtol=1e-9)
    for factor in (0.97, 1.03):  # and it is the highest
        for name, value in fit.parameters.items():
            if name != "class_probs":
                assert known.log_density(fit.parameters | {name: value * factor}) < known.log_density(fit.parameters)


def test_draws_say_which_rows_belong_together_as_enumeration_does(sampled):
    expected = Enumeration(sampled, X).together[PAIRS]
    responsibilities = scipy.special.softmax(sampled.log_joint(X, at="draws"), axis=2)
    together = (responsibilities[:, PAIRS[0]] * responsibilities[:, PAIRS[1]]).sum(axis=2)
    assert_mean(together.reshape(4, -1, len(expected)), expected, "pairs of rows")


def test_the_predictive_density_is_a_ratio_of_two_evidences(sampled):
    """p(x | X) = p(X and x) / p(X), each a sum over all allotments."""
    new = np.asarray([[0.9], [2.2]])
    before, densities = Enumeration(sampled, X).log_evidence, averaged(sampled, new).log_marginal
    for row, density in zip(new, densities, strict=True):
        assert density == pytest.approx(Enumeration(sampled, [*X, row]).log_evidence - before, abs=0.02)


def test_raw_draws_disagree_and_relabelled_ones_agree(sampled, relabelled):
    """The sampler itself swaps the components here: the posterior is one mode but for their names."""
    raw, ordered = sampled.parameters["real_mean"], relabelled.parameters["real_mean"]
    assert largest_rhat(raw) > 1.1 > 1.02 > largest_rhat(ordered)
    assert (
        np.isin(np.sign(np.diff(raw[..., 0], axis=2)), [-1, 1]).all()
        and len(np.unique(np.sign(np.diff(raw[..., 0])))) == 2
    )
    for name, value in relabelled.parameters.items():
        assert largest_rhat(value) < 1.02, name
    assert 0 < relabelled.attributes["relabelled_draws"] < raw[..., 0, 0].size
    moved = np.abs(ordered - raw).max(axis=(2, 3)) > 0
    assert moved.sum() == relabelled.attributes["relabelled_draws"]
    for name, value in relabelled.parameters.items():  # entries change places, together, and nothing else
        np.testing.assert_array_equal(value[moved], sampled.parameters[name][moved][:, ::-1])
        np.testing.assert_array_equal(value[~moved], sampled.parameters[name][~moved])


def test_what_does_not_depend_on_names_stays(sampled, relabelled):
    table, ordered = (fit.log_joint(X, at="draws") for fit in (sampled, relabelled))
    close(scipy.special.logsumexp(ordered, axis=2), scipy.special.logsumexp(table, axis=2), rtol=1e-9)


def test_responsibilities_mean_something_after_relabelling(sampled, relabelled):
    shares = averaged(relabelled, X[[0, 7]]).probabilities
    assert shares.max(axis=1).min() > 0.9 and shares[0].argmax() != shares[1].argmax()
    with pytest.warns(bg.LabelSwitchingWarning):
        bg.predict(sampled, X, rule=bg.PlugIn())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = bg.predict(relabelled, X, rule=bg.PlugIn())
    assert len(set(answer.labels[:4])) == len(set(answer.labels[4:])) == 1 and answer.labels[0] != answer.labels[7]


def test_fits_tell_whether_their_components_have_an_order(sampled, relabelled):
    assert sampled.attributes["path"] == "whitened"
    assert "fit.relabel()" in repr(sampled) and "fit.relabel()" not in repr(relabelled)
    assert "R-hat at most 1.00" in repr(sampled)  # of what does not depend on names
    assert relabelled.to_datatree()["posterior"]["real_mean"].dims == ("chain", "draw", "component", "feature")


def test_there_is_nothing_to_relabel_in_points_and_in_what_has_names(relabelled):
    point = bg.fit(MIXTURE, X, method=bg.MAP(num_starts=1))
    labelled = bg.fit(bg.NaiveBayes(), X, np.arange(8) % 2, method=bg.Exact())
    for fit in (relabelled, point, labelled):
        with pytest.raises(bg.FitError, match="nothing to relabel"):
            fit.relabel()


# --- programs of one's own ---------------------------------------------------------------------------------------


def alike(n):
    """Two components with one prior; the class is the second axis of one latent, and of another the first."""
    share = numpyro.sample("share", dist.Dirichlet(np.ones(2)))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0).expand([2]).to_event(1))
    center = numpyro.sample("center", dist.Normal(0, 3).expand([2, 2]).to_event(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(share))
        numpyro.sample("x", dist.Normal(center[:, y].T, spread[y][:, None]).to_event(1))


def unlike(n):
    """The same with centers that are expected in one order."""
    share = numpyro.sample("share", dist.Dirichlet(np.ones(2)))
    center = numpyro.sample("center", dist.Normal(np.asarray([-1.0, 1.0]), 1.0).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(share))
        numpyro.sample("x", dist.Normal(center[y], 1.0))


def draws_of(function, latents, rows):
    """Draws of a mixture of a program, made by hand, as a fit by NUTS has them."""
    problem = prepare(bg.Mixture(bg.GenerativeProgram(function, classes=2), 2), rows)
    shape = next(iter(latents.values())).shape[:2]
    energies = np.arange(np.prod(shape), dtype=float).reshape(shape)
    stats = {"diverging": np.zeros(shape, bool), "potential_energy": energies}
    fit = problem.result(bg.NUTS(), Draws(problem.program, latents, dict(latents), stats))
    unnamed = components.with_invariant_diagnostics(
        fit.posterior, class_axes(fit), problem.data.statistics.unlabelled, 0
    )
    return dataclasses.replace(fit, posterior=unnamed)


def test_components_of_a_program_are_put_in_order_along_the_axes_that_they_have():
    rng = np.random.default_rng(2)
    shape = (2, 30)
    swaps = rng.random(shape) < 0.5
    share = np.where(swaps[..., None], [0.3, 0.7], [0.7, 0.3])
    center = np.asarray([[-4.0, 4.0], [1.0, -2.0]]) + rng.normal(0, 0.1, (*shape, 2, 2))
    center = np.where(swaps[..., None, None], center[..., ::-1], center)
    spread = np.where(swaps[..., None], [0.5, 1.5], [1.5, 0.5])
    rows = {"x": np.concatenate([rng.normal([-4, 1], 1.0, (7, 2)), rng.normal([4, -2], 0.5, (6, 2))])}
    fit = draws_of(alike, {"share": share, "spread": spread, "center": center}, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)  # of 30 draws a chain
        ordered = fit.relabel()
    first_is_left = ordered.parameters["center"][..., 0, 0] < 0
    assert first_is_left.all() or not first_is_left.any()
    for name in ("share", "spread"):
        assert np.ptp(ordered.parameters[name], axis=(0, 1)).max() == 0 < np.ptp(fit.parameters[name])


def test_components_with_priors_of_their_own_have_names():
    rng = np.random.default_rng(3)
    latents = {"share": np.full((2, 5, 2), 0.5), "center": rng.normal(0, 1, (2, 5, 2))}
    fit = draws_of(unlike, latents, {"x": rng.normal(0, 1, 11)})
    with pytest.raises(bg.FitError, match="nothing to relabel"):
        fit.relabel()


@pytest.mark.slow
def test_a_program_is_sampled_about_one_mode_and_relabelled():
    """From starts that end in mirror images of one mode, which are not taken for several."""
    rng = np.random.default_rng(4)
    groups = [rng.normal([-4, 1], 1.0, (23, 2)), rng.normal([4, -2], 0.5, (31, 2))]
    mixture = bg.Mixture(bg.GenerativeProgram(alike, classes=2), 2)
    with pytest.warns(bg.LabelSwitchingWarning):
        fit = bg.fit(mixture, {"x": np.concatenate(groups)}, method=bg.NUTS(num_samples=500), seed=5)
    assert fit.attributes["path"] == "whitened"
    ordered = fit.relabel()
    for name, value in ordered.parameters.items():
        assert largest_rhat(value) < 1.03, name
    centers = ordered.parameters["center"].mean((0, 1))
    centers = centers[:, np.argsort(centers[0])]
    close(centers, np.transpose([group.mean(0) for group in groups]), atol=0.1)
