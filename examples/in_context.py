"""The exact learner in context: the loss of each next symbol or label, over many simulated tasks.

    python examples/in_context.py [--tasks 200] [--out in_context.png]

A model that learns in context (a transformer that was trained on sequences, say) is compared with the Bayesian answer
for the process from which its tasks are drawn: no predictor has a lower mean loss. Here that reference is computed
exactly for four kinds of tasks. Sequences of a coin and of a die with four faces, whose probabilities are drawn from
Dirichlet(1/2): the one-step answer is the estimator of Krichevsky and Trofimov. And rows of two normal classes, with a
covariance that is known (its prior is as good as certain) or learned, too.

The two-step answer is the process of maximum likelihood. Where it has no estimate yet, or gives the next symbol
probability zero, its loss is infinite: the panels below show in how many tasks. Dotted lines are means over the other
tasks, which are too low; the mean over all is infinite there.
"""

import argparse
import pathlib
from collections.abc import Sequence

import numpy as np

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

LENGTH = 50
PAIRS = [(bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
COVARIANCE = np.array([[1.0, 0.6], [0.6, 2.0]])
FREEDOM = 6.0


def symbols(num_tasks, num_symbols, rng):
    """A model of sequences of symbols, the tasks, and the log probability of each next symbol under its process."""
    probs = rng.dirichlet(np.full(num_symbols, 0.5), num_tasks)
    codes = (rng.random((num_tasks, LENGTH, 1)) > probs.cumsum(1)[:, None, :-1]).sum(-1)
    truth = np.log(np.take_along_axis(probs, codes, axis=1))
    if num_symbols == 2:
        family, schema, cells = bg.BetaBernoulli(0.5, 0.5), None, codes > 0
    else:
        family, cells = bg.DirichletCategorical(0.5), codes
        schema = bg.Schema(categories={"symbol": range(num_symbols)})
    model = bg.NaiveBayes(family, class_prior=None)
    return model, [({"symbol": cells_of_task},) for cells_of_task in cells], truth, schema


def normal_classes(num_tasks, is_known, rng):
    """A discriminant, tasks of two normal classes, and the log probability of each label under its process."""
    covariances = np.tile(COVARIANCE, (num_tasks, 1, 1))
    if not is_known:  # inverse Wishart, with the mean COVARIANCE
        roots = np.linalg.cholesky(np.linalg.inv((FREEDOM - 3) * COVARIANCE))
        rows = rng.normal(size=(num_tasks, int(FREEDOM), 2)) @ roots.T
        covariances = np.linalg.inv(rows.swapaxes(1, 2) @ rows)
    roots = np.linalg.cholesky(covariances)
    means = np.einsum("tij,tkj->tki", roots, rng.normal(size=(num_tasks, 2, 2)))  # kappa = 1
    labels = rng.integers(0, 2, (num_tasks, LENGTH))
    noise = np.einsum("tij,tnj->tni", roots, rng.normal(size=(num_tasks, LENGTH, 2)))
    X = np.take_along_axis(means, labels[..., None], axis=1) + noise
    residuals = np.linalg.solve(roots[:, None, None], (X[:, :, None] - means[:, None])[..., None])[..., 0]
    table = -0.5 * (residuals**2).sum(-1)
    truth = np.take_along_axis(table, labels[..., None], axis=2)[..., 0] - np.logaddexp.reduce(table, axis=2)
    freedom = 1e7 if is_known else FREEDOM
    prior = bg.NormalInverseWishart(np.zeros(2), 1.0, freedom, (freedom - 3) * COVARIANCE, tied=True)
    model = bg.GaussianDiscriminant("tied", prior=prior, class_prior=[0.5, 0.5])
    return model, list(zip(X, labels, strict=True)), truth, bg.Schema(classes=[0, 1])


def draw(panels, losses):
    """A column of panels for each kind of tasks: mean losses with bands of two standard errors; infinite losses."""
    positions, styles = np.arange(LENGTH), looks([False, True, None])
    for (title, curves), (mean_panel, share_panel) in zip(losses.items(), panels.T, strict=True):
        highest = 1.4 * np.mean(curves[0][1], axis=0).max()
        for (name, loss), look in zip(curves, styles, strict=True):
            line = look | {"marker": None}
            is_finite = np.isfinite(loss)
            counts = np.maximum(is_finite.sum(0), 1)
            mean = np.where(is_finite, loss, 0.0).sum(0) / counts
            error = np.sqrt(np.where(is_finite, (loss - mean) ** 2, 0.0).sum(0)) / counts
            mean = np.where((is_finite.mean(0) > 0.5) & (mean < 2 * highest), mean, np.nan)
            mean_panel.plot(positions, mean, **line | {"linestyle": ":", "linewidth": 0.8})
            mean_panel.plot(positions, np.where(is_finite.all(0), mean, np.nan), label=name, **line)
            band = {"color": look["color"], "alpha": 0.2, "linewidth": 0}
            mean_panel.fill_between(positions, mean - 2 * error, mean + 2 * error, **band)
            share_panel.plot(positions, 1 - is_finite.mean(0), **line)
        mean_panel.set(title=title, ylim=(0, highest))
        share_panel.set(xlabel="rows seen before", ylim=(-0.05, 1.05))
    panels[0, 0].set_ylabel("mean loss, -log p (nats)")
    panels[1, 0].set_ylabel("infinite loss,\nshare of tasks")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print mean losses, and draw them by position."""
    parser = argparse.ArgumentParser(description="Losses of exact learners in context.")
    parser.add_argument("--tasks", type=int, default=200, help="simulated tasks of each kind")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("in_context.png"), help="file of the figure")
    given = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    kinds = {
        "coin, KT": symbols(given.tasks, 2, rng),
        "four symbols, Dirichlet(1/2)": symbols(given.tasks, 4, rng),
        "normal classes, known covariance": normal_classes(given.tasks, True, rng),
        "normal classes, unknown covariance": normal_classes(given.tasks, False, rng),
    }
    losses = {}
    print("mean loss in nats of the last ten rows: exact average, true process; plug-in infinite in % of tasks")
    for title, (model, tasks, truth, schema) in kinds.items():
        plug_in, average = -bg.prequential(model, tasks, pairs=PAIRS, schema=schema).log_scores
        plug_in = np.where(np.isnan(plug_in), np.inf, plug_in)  # without an estimate
        losses[title] = [
            ("averaged over processes (one step)", average),
            ("process of maximum likelihood (two steps)", plug_in),
            ("true process of each task", -truth),
        ]
        last = average[:, -10:].mean(), -truth[:, -10:].mean(), 100 * np.isinf(plug_in[:, -10:]).mean()
        print(f"{title:36s} {last[0]:.4f}  {last[1]:.4f}  {last[2]:.1f} %")
    sizes = {"width": 13.0, "height": 2.6, "sharex": True, "height_ratios": (3, 1)}
    with drawing(None, 2, len(losses), **sizes) as (figure, panels):
        draw(panels, losses)
    save_figure(figure, given.out)


if __name__ == "__main__":
    main()
