"""When does averaging pay? Learning curves of two-step and one-step answers on some data sets.

    python examples/learning_curves.py [--data iris wine] [--repeats 20] [--nuts] [--out learning_curves.png]

A Gaussian discriminant is trained on a few rows of each class of iris, wine, breast cancer and digits (whose pixels are
counts: there it is naive Bayes), again and again with other rows, and predicts the rest. The two-step answers are the
maximum-likelihood process, the most probable one and the posterior mean; the one-step answer averages over all
processes that may have made the rows. The fewer rows there are for each parameter, the more the average gains. The
maximum-likelihood process does not even exist for few, and where a pixel is dark in all training rows of a class, both
it and the most probable process rule out that class for digits with that pixel.

With --nuts the same average by draws, at three sizes of iris and wine. With --folder a study that was stopped goes on.
"""

import argparse
import pathlib
import warnings
from collections.abc import Sequence

import bayesgen as bg
from bayesgen.plots import learning_curves, save_figure

# as many rows of each class as leave ten to test on, at most
SIZES = {
    "iris": (3, 5, 10, 20, 40),
    "wine": (3, 5, 10, 20, 38),
    "breast_cancer": (5, 10, 20, 50, 100, 200),
    "digits": (5, 10, 20, 50, 100, 160),
}
PAIRS = [
    (bg.MLE(), bg.PlugIn()),
    (bg.MAP(), bg.PlugIn()),
    (bg.Exact(), bg.PlugIn(at="mean")),
    (bg.Exact(), bg.BMA()),
]
NUTS = (bg.NUTS(num_samples=250), bg.BMA())


def studies(
    names: Sequence[str], repeats: int, folder: pathlib.Path | None = None, with_nuts: bool = False
) -> dict[str, bg.Study]:
    """A study of each data set, by name.

    Args:
        names: data sets.
        repeats: training sets of each size.
        folder: where finished parts are kept.
        with_nuts: whether draws are compared with closed forms instead, at three sizes.
    """
    found = {}
    for name in names:
        print(f"{name}: {repeats} training sets of each of {len(SIZES[name])} sizes ...", flush=True)
        data = bg.load_dataset(name)
        found[name] = bg.study(
            bg.GaussianDiscriminant(),
            data.X,
            data.y,
            sizes=SIZES[name][:3] if with_nuts else SIZES[name],
            repeats=repeats,
            pairs=[*PAIRS[1:], NUTS] if with_nuts else PAIRS,
            out=None if folder is None else folder / (f"{name}-nuts" if with_nuts else name),
        )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print mean log scores and differences, and draw the learning curves."""
    parser = argparse.ArgumentParser(description="Learning curves of two-step and one-step answers.")
    parser.add_argument("--repeats", type=int, default=20, help="training sets of each size")
    parser.add_argument("--data", nargs="+", choices=[*SIZES], default=["iris", "wine"], help="data sets")
    parser.add_argument("--nuts", action="store_true", help="draws beside closed forms, on iris and wine")
    parser.add_argument("--folder", type=pathlib.Path, help="folder of finished parts")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("learning_curves.png"), help="file of the figure"
    )
    given = parser.parse_args(arguments)
    names = [name for name in given.data if not given.nuts or name in ("iris", "wine")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)  # the exact answer beside that by draws shows its error
        found = studies(names, given.repeats, given.folder, given.nuts)
    columns = ["method", "rule", "size", "repeats", "refused", "log_score", "log_score_error", "difference"]
    for name, study in found.items():
        print(f"\n{name}\n{study.summary[[*columns, 'standard_error']].round(3).to_string(index=False)}")
    save_figure(learning_curves(found, width=3.5 * len(found)), given.out)


if __name__ == "__main__":
    main()
