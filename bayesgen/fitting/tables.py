"""Tables of a fit: its parameters in numbers, diagnostics of its chains, and rows that it generates as a frame."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgen.describe import described, free_name
from bayesgen.errors import PredictionError
from bayesgen.models import LABEL, Block
from bayesgen.posteriors import Draws, Numbers, convergence_problems, entry_names
from bayesgen.records import by_content
from bayesgen.solvers import MAX_DEPTH

from .export import Names, axes, named_axes, process_posterior, sampler_statistics
from .trained import TrainedProgram

if TYPE_CHECKING:
    import pandas as pd

LEAST_BFMI = 0.3  # below which energies hardly move from draw to draw (Betancourt 2016)


def summary(fit: TrainedProgram, prob: float, dims: Names, coords: Names) -> "pd.DataFrame":
    """One line a number: see `Fit.summary`."""
    if not isinstance(prob, float | np.floating) or not 0 < prob < 1:
        raise PredictionError(f"summary: prob must be between 0 and 1, got {prob!r}.")
    numbers = process_posterior(fit).numbers(float(prob))
    shapes = {name: np.shape(values) for name, values in next(iter(numbers.values())).items()}
    named = named_axes(shapes, axes(fit), coords, dims, {"parameter", *numbers})
    is_known = not any(dim.endswith("category") for dim in coords)
    return frame_of_numbers(numbers, *named, fit.schema.categories if is_known else {})


def frame_of_numbers(numbers: Numbers, coords: Names, dims: Names, categories: Names) -> "pd.DataFrame":
    """A frame with a line for each number of each parameter, with the names along its axes.

    Args:
        numbers: column -> parameter -> array.
        coords, dims: as `export.axes` gives them.
        categories: column -> its categories, which lines show where columns of a block have different ones.
    """
    import pandas as pd

    parts, labels = [], ["parameter"]
    for name, values in next(iter(numbers.values())).items():
        shape, size = np.shape(values), np.size(values)
        dims_of = dims.get(name) or [f"{name}_dim_{axis}" for axis in range(len(shape))]
        named = dict[str, Any](parameter=name)
        for dim, length, place in zip(dims_of, shape, np.indices(shape), strict=True):
            heading = free_name(_heading(name, dim), [*named, *numbers])
            named[heading] = np.asarray(coords.get(dim, range(length)), object)[place.ravel()]
        labels += [label for label in named if label not in labels]
        cells = {column: np.ravel(of_parameter[name]) for column, of_parameter in numbers.items()}
        parts.append(pd.DataFrame({**named, **cells}, index=range(size)))
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


def diagnosis(fit: TrainedProgram) -> Diagnosis:
    """See `Fit.diagnose`."""
    draws = fit.posterior
    if not isinstance(draws, Draws):
        raise PredictionError(
            f"diagnose() is for chains, and a fit by {fit.method!r} has none: it is a point, or its draws are "
            "independent. Fit with NUTS()."
        )
    if draws.entries is None:
        raise PredictionError("The chains are too short for diagnostics: fit with num_samples of hundreds.")
    coords, dims = axes(fit) if draws.is_identified else ({}, {})
    numbers = {name: draws.entries.by_site(value) for name, value in draws.entries.columns.items()}
    stats, table = draws.sample_stats, frame_of_numbers(numbers, coords, dims, fit.schema.categories)
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
        "path": fit.attributes.get("path"),
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
    places = [(name, block, index) for block in blocks for index, name in enumerate(block.columns)]
    blocks_of = {name: (block, index) for name, block, index in places}  # the blocks of columns follow the response's
    has_steps = any(block.family.kind.has_steps for block in blocks)
    names = {*columns} if response is None else {*columns, response.name}
    if not blocks or has_steps or not names <= blocks_of.keys():
        return dict(sites)

    def cells(block: Block, index: int) -> np.ndarray:
        return sites[block.name].reshape(len(sites[block.name]), -1)[:, index]

    frame = pd.DataFrame({name: fit.schema.decode(name, cells(*blocks_of[name])) for name in columns})
    if response is not None:
        of_response = next((block, index) for name, block, index in places if name == response.name)
        frame[free_name(response.name, columns)] = cells(*of_response)
    elif fit.program.label is not None:
        frame[free_name(LABEL, columns)] = sites[LABEL]
    return frame
