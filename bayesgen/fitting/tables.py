"""Tables of a fit: its parameters in numbers, diagnostics of its chains, and rows that it generates as a frame."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgen.describe import described, free_name
from bayesgen.errors import PredictionError
from bayesgen.models import LABEL, Block
from bayesgen.posteriors import Draws, ParameterSummaries, convergence_problems, entry_names
from bayesgen.records import by_content
from bayesgen.solvers import MAX_DEPTH

from .export import AxisNames, axes, numbered_axes, sampler_statistics, with_names_of_user
from .sampling import process_posterior
from .trained import TrainedProgram

if TYPE_CHECKING:
    import pandas as pd

LEAST_BFMI = 0.3  # below which energies hardly move from draw to draw (Betancourt 2016)


def summary(
    self: TrainedProgram, *, prob: float = 0.9, dims: AxisNames | None = None, coords: AxisNames | None = None
) -> "pd.DataFrame":
    """A pandas frame with a line for each number of the parameters.

    Columns are the parameter, the names along its axes (class, column, category, ...), and mean, standard deviation
    and the central interval (`lower`, `upper`); for chains also R-hat, bulk and tail effective sample sizes and the
    Monte Carlo standard error of the mean; of a point fit its value. Those of exact fits are exact, but for
    intervals of covariances of two columns and of structures, which are of 2,000 draws.

    Args:
        prob: probability of the interval.
        dims, coords: names of the axes of a program's sites, and of the places along them: see `to_datatree`.

    Raises:
        DataError: `dims` and `coords` that do not fit the parameters.

    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(), {"windy": [True, True, False]}, ["rain", "rain", "dry"], method=bg.Exact())
    >>> print(fit.summary().round(2).to_string())
            parameter class column  mean    sd  lower  upper
    0     class_probs   dry         0.40  0.20   0.10   0.75
    1     class_probs  rain         0.60  0.20   0.25   0.90
    2    binary_probs   dry  windy  0.33  0.24   0.03   0.78
    3    binary_probs  rain  windy  0.75  0.19   0.37   0.98
    """
    if not isinstance(prob, float | np.floating) or not 0 < prob < 1:
        raise PredictionError(f"summary: prob must be between 0 and 1, got {prob!r}.")
    numbers = process_posterior(self).numbers(float(prob))
    shapes = {name: np.shape(values) for name, values in next(iter(numbers.values())).items()}
    names = with_names_of_user(shapes, axes(self), coords or {}, dims or {}, {"parameter", *numbers})
    has_own_categories = any(dim.endswith("category") for dim in coords or {})
    return frame_of_numbers(numbers, *names, {} if has_own_categories else self.schema.categories)


def frame_of_numbers(
    numbers: ParameterSummaries, coords: AxisNames, dims: AxisNames, categories: AxisNames
) -> "pd.DataFrame":
    """A frame with a line for each number of each parameter, with the names along its axes.

    Args:
        numbers: column -> parameter -> array.
        coords, dims: as `axes` gives them.
        categories: column -> its categories, which lines show where columns of a block have different ones.
    """
    import pandas as pd

    parts, labels = [], ["parameter"]
    for name, values in next(iter(numbers.values())).items():
        shape, size = np.shape(values), np.size(values)
        axis_names = dims.get(name) or numbered_axes(name, len(shape))
        labels_by_heading = dict[str, Any](parameter=name)
        for dim, length, index in zip(axis_names, shape, np.indices(shape), strict=True):
            heading = free_name(_heading(name, dim), [*labels_by_heading, *numbers])
            labels_by_heading[heading] = np.asarray(coords.get(dim, range(length)), object)[index.ravel()]
        labels += [label for label in labels_by_heading if label not in labels]
        cells = {column: np.ravel(arrays[name]) for column, arrays in numbers.items()}
        parts.append(pd.DataFrame({**labels_by_heading, **cells}, index=range(size)))
    frame = pd.concat(parts, ignore_index=True)[[*labels, *numbers]]
    if {"column", "category"} <= set(labels):
        frame["category"] = [
            str(categories[column][code]) if isinstance(code, int) and column in categories else code
            for column, code in zip(frame["column"], frame["category"], strict=True)
        ]
    return frame.fillna(dict.fromkeys(labels, ""))


def _heading(parameter: str, dim: str) -> str:
    """The heading of an axis, without the name of its parameter or block; `feature` is called `column`."""
    words = parameter.split("_")
    names = ["_".join(words[:count]) + "_" for count in range(len(words), 0, -1)]
    return dim.removeprefix(next(filter(dim.startswith, names), "")).replace("feature", "column")


@by_content
class Diagnosis:
    """Diagnostics of Markov chains.

    Attributes:
        table: a frame with a line for each parameter: R-hat, bulk and tail effective sample sizes, and the Monte Carlo
            standard error of the mean (`mcse_mean`). Of a mixture in no common order, of functions that do not depend
            on it.
        sampler: name -> number or text: chains, draws, divergences, E-BFMI of the worst chain, depth of trees, path.
        problems: sentences on what is not as it should be; empty if nothing was found.
    """

    table: "pd.DataFrame"
    sampler: dict[str, Any]
    problems: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Whether the draws may be trusted, in words."""
        if self.problems:
            return "Do not rely on these draws yet: " + "; ".join(self.problems) + "."
        return "No problem was found: the chains agree, and are long enough."

    def __repr__(self) -> str:
        lines = {name: str(value) for name, value in self.sampler.items()}
        worst = self.table.sort_values("ess_bulk").head(10).to_string(index=False, float_format="{:,.4g}".format)
        title = described(f"Diagnosis of {self.sampler['chains']} chains", {**lines, "worst of": f"{len(self.table)}"})
        return f"{title}\n{worst}\n{self.verdict}"


def diagnose(self: TrainedProgram) -> Diagnosis:
    """Diagnostics of the chains of a fit by `NUTS`, with a verdict in words.

    Raises:
        PredictionError: a fit without chains, or with chains too short for diagnostics.

    >>> import bayesgen as bg
    >>> model = bg.NaiveBayes(bg.BetaBernoulli())
    >>> fit = bg.fit(model, [[1], [1], [0]], ["a", "a", "b"], method=bg.NUTS(num_samples=500))
    >>> fit.diagnose().verdict
    'No problem was found: the chains agree, and are long enough.'
    """
    draws = self.posterior
    if not isinstance(draws, Draws):
        raise PredictionError(
            f"diagnose() is for chains, and a fit by {self.method!r} has none: it is a point, or its draws are "
            "independent. Fit with NUTS()."
        )
    if draws.entries is None:
        raise PredictionError("The chains are too short for diagnostics: fit with num_samples of hundreds.")
    coords, dims = axes(self) if draws.is_identified else ({}, {})
    numbers = {name: draws.entries.by_site(value) for name, value in draws.entries.columns.items()}
    stats, table = draws.sample_stats, frame_of_numbers(numbers, coords, dims, self.schema.categories)
    chains, length = stats["diverging"].shape
    bfmi = np.square(np.diff(stats["energy"], axis=1)).mean(1) / stats["energy"].var(1)  # Betancourt (2016)
    depths = sampler_statistics(stats)["tree_depth"]
    problems = convergence_problems(draws.diagnosed, stats, entry_names(coords, dims), entries=draws.entries)
    if bfmi.min() < LEAST_BFMI:
        problems.append(f"E-BFMI is {bfmi.min():.2f} in a chain (below {LEAST_BFMI}): reparametrise")
    if (depths >= MAX_DEPTH).mean() > 0.01:
        problems.append(f"{(depths >= MAX_DEPTH).mean():.0%} of the trees have the greatest depth: reparametrise")
    sampler = {
        "chains": chains,
        "draws": length,
        "divergences": int(stats["diverging"].sum()),
        "least E-BFMI": round(float(bfmi.min()), 3),
        "mean depth of trees": round(float(depths.mean()), 2),
        "greatest depth of trees": int(depths.max()),
        "path": self.attributes.get("path"),
    }
    return Diagnosis(table.dropna(subset="ess_bulk", ignore_index=True), sampler, tuple(problems))


def frame_of_rows(fit: TrainedProgram, sites: Mapping[str, np.ndarray]) -> Any:
    """Rows by site as a frame of the columns that the fit was trained on, with their label; else the rows as they are.

    They stay a mapping where columns are sequences, or are not all generated: programs of one's own, given features.
    """
    import pandas as pd

    conjugate, response = fit.concrete.conjugate(fit.schema), fit.schema.response
    blocks = () if conjugate is None else conjugate.blocks
    columns = [*(fit.schema.columns or ())]
    columns_of_blocks = [(name, block, index) for block in blocks for index, name in enumerate(block.columns)]
    block_of = {name: (block, index) for name, block, index in columns_of_blocks}  # blocks of columns come last
    has_steps = any(block.family.kind.has_steps for block in blocks)
    names = {*columns} if response is None else {*columns, response.name}
    if not blocks or has_steps or not names <= block_of.keys():
        return dict(sites)

    def cells(block: Block, index: int) -> np.ndarray:
        return sites[block.name].reshape(len(sites[block.name]), -1)[:, index]

    frame = pd.DataFrame({name: fit.schema.decode(name, cells(*block_of[name])) for name in columns})
    if response is not None:
        response_block = next((block, index) for name, block, index in columns_of_blocks if name == response.name)
        frame[free_name(response.name, columns)] = cells(*response_block)
    elif fit.program.label is not None:
        frame[free_name(LABEL, columns)] = sites[LABEL]
    return frame
