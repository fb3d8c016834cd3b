"""`calibrate`: simulation-based calibration, which shows that posteriors are right."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import jax
import numpy as np
import pandas as pd
from scipy import special

from bayesgen.averaging import AverageFit, AverageModel
from bayesgen.data import Rows, Schema, joined_rows, read_table
from bayesgen.describe import Described, Description, quote_some
from bayesgen.errors import (
    DataError,
    FitError,
    LabelSwitchingWarning,
    ModelError,
    check_integer,
    check_object,
    without_warnings,
)
from bayesgen.fitting import DataSets, Fit, Method, Summaries, fit_many, with_moments
from bayesgen.generative import GenerativeProgram
from bayesgen.posteriors import Draws, chains_joined
from bayesgen.prediction import BMA
from bayesgen.program import ConcreteModel, Recipe, content_digest, log_joint_draws, read_rows
from bayesgen.records import by_content, stacked, state_of_fields
from bayesgen.runtime import as_key, chunks, generator, pad, public
from bayesgen.typing import Bool, Float, Int, PRNGKeyArray, Seed, Shaped

from .comparison import as_json
from .uniformity import band, counts_below, ecdf_test, grid, normal_scores_test, rejected_by_holm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.01  # probability of rejecting any line of the table where all posteriors are right
MOST_DRAWS = 99  # among which the truth is ranked
SIMULATIONS_AT_ONCE = 256  # whose draws are in memory before they are thinned
TESTS = {"ECDF band": ecdf_test, "chi-square of normal scores": normal_scores_test}
HELD_OUT = "held-out row"


@by_content
class Calibration(Described):
    """Ranks of true parameters among draws from the posterior, over simulated data sets.

    Attributes:
        fractions: quantity -> (simulations,), (rank + u) / (draws + 1) with u uniform: uniform where posteriors are
            right.
        num_draws: number of draws of each simulation, thinned to near independence.
        config: model, method and the arguments of `calibrate`.
    """

    fractions: dict[str, Float[np.ndarray, " simulations"]]
    num_draws: Int[np.ndarray, " simulations"]
    config: Mapping[str, Any]

    __getstate__ = state_of_fields

    @property
    def ranks(self) -> dict[str, Int[np.ndarray, " simulations"]]:
        """Quantity -> number of draws below the truth, 0 to `num_draws`; ties are broken at random."""
        return {
            name: np.floor(values * (self.num_draws + 1)).astype(np.int64) for name, values in self.fractions.items()
        }

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """A line for each quantity and test: quantity, test, statistic, p_value, and whether it passed.

        A line has not passed where it is rejected at 0.01 after Holm's correction for all lines.
        """
        lines = [
            (name, test, *statistic_of(values))
            for name, values in self.fractions.items()
            for test, statistic_of in TESTS.items()
        ]
        table = pd.DataFrame(lines, columns=["quantity", "test", "statistic", "p_value"])
        return table.assign(passed=~rejected_by_holm(table["p_value"].to_numpy(), LEVEL))

    @property
    def passed(self) -> bool:
        """Whether all lines of the table passed."""
        return bool(self.table["passed"].all())

    def _description(self) -> Description:
        worst = self.table.iloc[int(self.table["p_value"].argmin())]
        failed = self.table.loc[~self.table["passed"], "quantity"].unique().tolist()
        lines = {
            "method": str(self.config["method"]),
            "quantities": str(len(self.fractions)),
            "draws a simulation": f"{self.num_draws.min()} to {self.num_draws.max()}",
            "verdict": f"posteriors of {quote_some(failed)} are not calibrated"
            if failed
            else f"no test rejects at {LEVEL}, corrected for their number: no miscalibration is seen",
            "smallest p-value": f"{worst['p_value']:.2g}, of {worst['quantity']} by {worst['test']}",
            "next": "result.table, result.passed, result.plot()",
        }
        return f"Calibration by {len(self.num_draws)} simulations", lines

    def to_json(self) -> str:
        """The table and the configuration as strict JSON."""
        return as_json({"config": self.config, "passed": self.passed, "tests": self.table.to_dict("records")})

    def ecdf_curves(self, prob: float = 0.95) -> "pd.DataFrame":
        """Empirical distribution functions of the ranks minus that of uniform ones, a column for each quantity.

        The index are the points, shares of draws below the truth. Columns "lower" and "upper" are the ends of a band
        that holds the whole curve of a right quantity with this probability.
        """
        num_simulations = len(self.num_draws)
        points = grid(num_simulations)
        curves = {name: counts_below(values) / num_simulations for name, values in self.fractions.items()}
        columns = dict(zip(("lower", "upper"), band(num_simulations, prob), strict=True)) | curves
        return pd.DataFrame(columns, index=points).sub(points, axis=0)

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """Empirical distribution functions of the ranks minus that of uniform ones: see `plots.calibration`."""
        from bayesgen.plots import calibration

        return calibration(self, ax=ax)


SimulatedLatents: TypeAlias = dict[str, Shaped[np.ndarray, "simulations ..."]]
Quantities: TypeAlias = dict[str, Float[np.ndarray, "simulations ..."]]


@dataclasses.dataclass(frozen=True)
class Simulator:
    """A model with a known prior, which simulates data sets of n rows with given covariates and missing cells.

    Attributes:
        model: the model, with its choices made.
        schema: of the data, with the scale of the prior.
        program: that makes the data and is fitted.
        num_rows: of a simulated data set.
        covariates: name -> (n, ...) or one number.
        mask: site -> (n, ...), where cells or labels are observed.
    """

    model: ConcreteModel
    schema: Schema
    program: GenerativeProgram
    num_rows: int
    covariates: Mapping[str, Any]
    mask: Mapping[str, Bool[np.ndarray, "n ..."]]

    @property
    def is_identified(self) -> bool:
        """Whether parameters mean the same in all draws: there are no components or hidden states that may swap."""
        return not self.program.hides_states and (self.model.has_labels or self.program.label is None)

    def simulated(
        self, world: GenerativeProgram, num_worlds: int, key: PRNGKeyArray, latents: SimulatedLatents | None = None
    ) -> tuple[SimulatedLatents, Rows]:
        """Processes of a world, from its prior unless they are given, and n + 1 rows of each, one after another.

        Cells and labels of the first n rows are missing as the mask says. Covariates of the last row are those of the
        first.
        """
        covariates = {
            name: np.concatenate([value, value[:1]]) if np.ndim(value) else value
            for name, value in self.covariates.items()
        }
        drawn, sites = world.simulate_many(self.num_rows + 1, num_worlds, seed=key, latents=latents, **covariates)
        improper = [name for name, values in drawn.items() if not np.isfinite(values).all()]
        if improper:
            raise ModelError(
                f"The prior of {quote_some(improper)} is improper, or too wide to be drawn from. State a proper prior, "
                "or draw processes from the posterior of a fit: around='posterior'."
            )
        codes = None if world.label is None else sites.pop(world.label).astype(np.int64)
        codes = codes if codes is None or self.model.has_labels else np.full_like(codes, -1)
        for name, is_observed in self.mask.items():
            everywhere = np.concatenate([is_observed, np.ones_like(is_observed[:1])] * num_worlds)
            if name == world.label:
                codes = np.where(everywhere, np.asarray(codes), -1)
            else:
                sites[name] = np.where(everywhere, sites[name], np.nan)
        response = sites.pop(self.program.response_site) if self.program.response_site is not None else None
        return drawn, dataclasses.replace(read_rows(self.program, read_table(sites, response)), labels=codes)

    def summaries(self, rows: Rows, num_worlds: int) -> list[Summaries]:
        """Summaries of the first n rows of each world."""
        positions = np.arange(num_worlds)[:, None] * (self.num_rows + 1) + np.arange(self.num_rows)
        sets = DataSets(self.model, self.schema, rows, positions, np.ones(positions.shape))
        return [sets.summaries(index) for index in range(num_worlds)]

    def quantities(self, program: GenerativeProgram, latents: SimulatedLatents, rows: Rows) -> dict[str, np.ndarray]:
        """Quantities of some processes, (draws,), that depend on the rows: n of training and a held-out one."""
        table = log_joint_draws(program, latents, dataclasses.replace(rows, labels=None))
        codes, marginal = np.asarray(rows.codes), special.logsumexp(table, axis=2)
        is_labelled = (codes >= 0) & (rows.labels is not None)
        own_class = np.take_along_axis(table, codes[None, :, None].clip(0), axis=2)[..., 0]
        log_density = np.where(is_labelled, own_class, marginal)
        quantities = {"joint log-likelihood": log_density[:, :-1].sum(1)}
        if is_labelled[-1]:
            is_own = np.arange(table.shape[2]) == codes[-1]
            log_others = special.logsumexp(np.where(is_own, -np.inf, table[:, -1]), axis=1)
            # log odds keep digits where probabilities are near 1
            quantities[f"class probability of a {HELD_OUT}"] = log_density[:, -1] - log_others
        elif self.model.response is None:
            quantities[f"log density of a {HELD_OUT}"] = log_density[:, -1]
        return quantities


@public
def calibrate(
    model: "Recipe | Fit",
    *,
    method: Method,
    n: int,
    simulations: int,
    around: Literal["prior", "posterior"] = "prior",
    simulate: "GenerativeProgram | Fit | None" = None,
    covariates: Mapping[str, Any] | None = None,
    mask: Mapping[str, Any] | None = None,
    schema: Schema | None = None,
    seed: Seed = 0,
    progress: bool | None = None,
) -> Calibration:
    """Simulation-based calibration: where posteriors are right, the rank of the truth among their draws is uniform.

    Each simulation draws a process from the prior and n rows from the process, fits them under that prior, and ranks
    the true value of each parameter, of the joint log-likelihood of the rows, and of the class probability of a
    held-out row, among posterior draws. The held-out row is made by a further draw, so that it tells nothing of the
    true process. Of models without labels its density is ranked; of a number y, made by the true process, its place
    among draws of p(y | x, training rows). Parameters of components or hidden states without names are not ranked.
    Draws of chains are thinned to half their bulk effective sample size.

    Args:
        model: a program; a `Fit`, whose prior and schema are held; or a model with every hyperparameter, and schema.
        method: `Exact()` or `NUTS()`; point estimates have no draws.
        n: rows of each simulation.
        simulations: how many data sets are simulated.
        around: "posterior" draws processes from the posterior of an exact `Fit`, whose rows are then learned together
            with the simulated ones: calibration where the user's data are.
        simulate: another program, or the fit of another model, whose prior makes processes and data: a world that the
            model gets wrong. Sites and latents of equal names are compared.
        covariates: name -> (n, ...), or one number for all rows, the same in all simulations.
        mask: site, or label site -> (n, ...), False where a cell or label is missing.
        schema: of a model that is no fit and no program: columns, kinds and classes.
        seed: integer or JAX key.
        progress: as `fit_many` takes it.

    Raises:
        FitError: point estimates; a simulated data set that cannot be fitted.
        ModelError: a model whose prior is resolved from data; an average of models.

    Sources: Talts et al. (2018), Validating Bayesian inference algorithms with simulation-based calibration; Modrák et
    al. (2023), Simulation-based calibration checking for Bayesian computation, for ranks of functions of the data.

    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(bg.BetaBernoulli()), [[0], [1], [1], [0]], list("abba"), method=bg.Exact())
    >>> result = bg.calibrate(fit, method=bg.Exact(), n=20, simulations=50)
    >>> result.passed, sorted(result.ranks)[0]
    (True, 'binary_probs[0, 0]')
    """
    check_integer("calibrate: n", n, 1, DataError)
    check_integer("calibrate: simulations", simulations, 2, DataError)
    check_object("method", method, Method, DataError)
    if not method.gives_draws:
        raise FitError(
            f"calibrate ranks true values among posterior draws, and {type(method).__name__}() gives none. Use Exact() "
            "or NUTS()."
        )
    for name, argument in (("calibrate", model), ("simulate=", simulate)):
        if isinstance(argument, AverageFit | AverageModel):
            raise ModelError(
                f"{name} takes one model, whose prior makes processes, and {type(argument).__name__} averages over "
                f"{len(argument.members)}: calibrate each of its members."
            )
    simulator = _simulator(model, schema, int(n), covariates or {}, mask or {})
    keys = jax.random.split(as_key(seed), 6)
    world, start, learned = _world(simulator, model, around, simulate, simulations, keys[0])
    truth, rows = simulator.simulated(world, simulations, keys[1], start)
    data = simulator.summaries(rows, simulations)
    data = data if learned is None else [learned + simulated for simulated in data]
    draws_of_fits: list[Any] = []
    for part in chunks(simulations, SIMULATIONS_AT_ONCE):
        seed_of_part = jax.random.fold_in(keys[2], part.start)
        with without_warnings(LabelSwitchingWarning):  # parameters without names are not ranked
            fits = fit_many(simulator.model, data[part], method=method, seed=seed_of_part, progress=progress)
        for index, refusal in fits.refused.items():
            raise FitError(f"Simulated data set {part.start + index}, and {len(fits.refused) - 1} more: {refusal}")
        draws_of_fits += [_drawn(simulator, fit, rows, index, keys[3]) for index, fit in enumerate(fits, part.start)]
    draws, num_draws, numbers = stacked(draws_of_fits)
    held_out = simulator.simulated(
        simulator.program, simulations, keys[4], {name: values[:, 0] for name, values in draws.items()}
    )
    true_values, values = _values(simulator, world, truth, draws, rows, held_out[1])
    if numbers is not None:
        true_values[f"number of a {HELD_OUT}"], values[f"number of a {HELD_OUT}"] = numbers[:, 0], numbers[:, 1:]
    rng = generator(keys[5])
    stated = {"model": model, "method": method, "simulate": simulate}
    return Calibration(
        {name: _fractions(true_values[name], values[name], num_draws, rng) for name in true_values},
        num_draws,
        {name: None if value is None else repr(value) for name, value in stated.items()}
        | {"n": simulator.num_rows, "simulations": int(simulations), "around": around, "mask": sorted(simulator.mask)}
        | {"content": content_digest((simulator, world, method))},  # which tells apart what has one text
    )


def _simulator(
    model: Any, schema: Schema | None, num_rows: int, covariates: Mapping[str, Any], mask: Mapping[str, Any]
) -> Simulator:
    """The model with its prior, and the arguments for n rows, checked."""
    if isinstance(model, Fit):
        concrete, schema = model.concrete, model.schema
    elif isinstance(model, GenerativeProgram):
        columns = {name: value if np.ndim(value) else np.full(num_rows, value) for name, value in covariates.items()}
        table: dict[str, Any] = {"row": np.arange(num_rows), **columns}
        schema = model.infer_schema(read_table(table), None, schema or Schema())
        concrete = model.concrete(schema)
    elif isinstance(model, Recipe):
        concrete, schema = _with_stated_prior(model, schema)
    else:
        raise ModelError(f"calibrate takes a program, a Fit, or a model and its schema, got {model!r}.")
    program = model.program if isinstance(model, Fit) else concrete.bind(schema)
    masks = {name: np.asarray(observed, bool) for name, observed in mask.items()}
    shapes = {name: (num_rows, *site.row_shape) for name, site in program.structure.attributes}
    shapes |= {} if program.label is None else {program.label: (num_rows,)}
    for name, observed in masks.items():
        if name not in shapes or observed.shape != shapes[name]:
            raise DataError(
                f"mask has {name!r} of the shape {observed.shape}; it takes sites, True where observed: {shapes}."
            )
    basis = None if schema.response is None else schema.response.basis  # whose features are the only covariate
    row_shapes = {
        name: column.row_shape if basis is None else (len(basis.names),)
        for name, column in program.structure.covariates
    }
    shapes_of_covariates = {name: (num_rows, *shape) for name, shape in row_shapes.items()}
    for name, shape in shapes_of_covariates.items():
        if name not in covariates:
            raise DataError(
                f"The program computes with covariates that each row has: give covariates={{name: values}} of these "
                f"shapes, or one number for all rows: {shapes_of_covariates}."
            )
        if np.ndim(covariates[name]) and np.shape(covariates[name]) != shape:
            raise DataError(
                f"Covariate {name!r} has the shape {np.shape(covariates[name])}, and n={num_rows} rows need {shape}, "
                "or one number for all rows."
            )
    return Simulator(concrete, schema, program, num_rows, covariates, masks)


def _with_stated_prior(model: Recipe, schema: Schema | None) -> tuple[ConcreteModel, Schema]:
    """A model all of whose hyperparameters are stated, and its schema with a scale that they do not depend on.

    Raises:
        ModelError: a hyperparameter that is resolved from the scale of data.
    """
    if schema is None or schema.columns is None:
        raise ModelError(
            f"calibrate has to know the columns of {type(model).__name__}: give schema=Schema.infer(X, y), or a Fit, "
            "which has its schema and its prior."
        )
    concrete, ones = model.concrete(schema), np.ones(len(schema.columns))
    scaled = [with_moments(schema, (center * ones, scale * ones, center, scale)) for center, scale in ((0, 1), (2, 4))]
    pairs = zip(*(concrete.conjugate(scaled_schema).families() for scaled_schema in scaled), strict=True)
    unknown = [name for (name, family), (_, other) in pairs if family != other]
    if unknown:
        raise ModelError(
            f"The prior of {quote_some(unknown)} is resolved from data, which calibrate does not have: state every "
            "hyperparameter, or give a Fit, which holds its prior."
        )
    return concrete, scaled[0]


def _world(
    simulator: Simulator, model: Any, around: str, simulate: Any, num_worlds: int, key: PRNGKeyArray
) -> tuple[GenerativeProgram, SimulatedLatents | None, Summaries | None]:
    """The program that makes data, the processes if they are known, and the data learned besides."""
    if (
        not isinstance(around, str)
        or around not in ("prior", "posterior")
        or (around == "posterior" and simulate is not None)
    ):
        raise DataError("around is 'prior', or 'posterior' without simulate=.")
    if simulate is not None:
        world = simulate.program if isinstance(simulate, Fit) else simulate
        if not isinstance(world, GenerativeProgram):
            raise ModelError(f"simulate takes a GenerativeProgram or a Fit, got {simulate!r}.")
        sites = [sorted({*program.attributes} | {str(program.label)}) for program in (world, simulator.program)]
        if sites[0] != sites[1]:
            raise ModelError(
                f"simulate makes the sites {sites[0]}, and the model has {sites[1]}: they have to be equal."
            )
        return world, None, None
    if around == "prior":
        return simulator.program, None, None
    if not isinstance(model, Fit) or not model.posterior.can("draws") or model.summaries is None:
        raise ModelError("around='posterior' takes a Fit by Exact(), which has draws and keeps its data.")
    latents = chains_joined(model.posterior.draws(num_worlds, key))
    return simulator.program, latents, dataclasses.replace(model.summaries, schema=model.schema)


def _drawn(
    simulator: Simulator, fit: Fit, rows: Rows, index: int, key: PRNGKeyArray
) -> tuple[SimulatedLatents, int, Float[np.ndarray, " numbers"] | None]:
    """Nearly independent draws of a fit, one more than `MOST_DRAWS`, and how many of these differ.

    The first is to make the held-out row. Of a number, the held-out one and draws from its predictive.
    """
    own_key, num_ranked, response = jax.random.fold_in(key, index), MOST_DRAWS, simulator.model.response
    draws = chains_joined(fit.posterior.draws(MOST_DRAWS + 1, own_key))
    total = len(next(iter(draws.values())))
    if isinstance(fit.posterior, Draws):
        sizes = np.zeros(0) if fit.posterior.entries is None else fit.posterior.entries.sizes
        num_ranked = int(np.clip(np.nanmin(sizes, initial=total) / 2, 1, MOST_DRAWS))
    positions = np.linspace(0, total - 1, num_ranked + 1).round().astype(int)
    latents = {name: pad(draws[name][positions], MOST_DRAWS + 1) for name in simulator.program.latents}
    if response is None:
        return latents, num_ranked, None
    row = rows.take([(index + 1) * (simulator.num_rows + 1) - 1])
    answer = BMA().respond(fit, response.without(row)).draws(MOST_DRAWS, seed=own_key)
    return latents, num_ranked, np.append(response.values(row), answer)


def _values(
    simulator: Simulator,
    world: GenerativeProgram,
    truth: SimulatedLatents,
    draws: SimulatedLatents,
    rows: Rows,
    held_out: Rows,
) -> tuple[Quantities, Quantities]:
    """Quantity -> its true value in each simulation, and those of the draws, (simulations, draws)."""
    true_values, values = _parameter_values(simulator, world, truth, draws)
    is_same, size, tables = world == simulator.program, simulator.num_rows + 1, []
    for index in range(len(rows.codes) // size):
        last = (index + 1) * size - 1
        ranked_rows = joined_rows([rows.take(slice(index * size, last)), held_out.take([last])])
        parts = [{name: value[index, 1:] for name, value in draws.items()}]
        parts.insert(0, {name: value[index : index + 1] for name, value in truth.items()})
        if is_same:  # one call for the true process and the draws
            parts = [{name: np.concatenate([part[name] for part in parts]) for name in truth}]
        pairs = zip((world, simulator.program), parts, strict=False)
        quantities = [simulator.quantities(*pair, ranked_rows) for pair in pairs]
        tables.append({name: np.concatenate([part[name] for part in quantities]) for name in quantities[0]})
    for name in tables[0]:
        by_simulation = np.stack([table[name] for table in tables])
        true_values[name], values[name] = by_simulation[:, 0], by_simulation[:, 1:]
    return true_values, values


def _parameter_values(
    simulator: Simulator, world: GenerativeProgram, truth: SimulatedLatents, draws: SimulatedLatents
) -> tuple[Any, Any]:
    """The entries of the parameters that vary, each once; none where names of components may be swapped."""
    if not simulator.is_identified:
        return {}, {}
    true_values, values = {}, {}
    true_parameters, parameters = world.parameters_of(truth), simulator.program.parameters_of(draws)
    if not all(np.ndim(value) for value in true_parameters.values()):  # several sites together determine a parameter
        true_parameters, parameters = truth, draws
    for name, drawn in parameters.items():
        if name in true_parameters and true_parameters[name].shape[1:] == drawn.shape[2:]:
            flat, shape = true_parameters[name].reshape(len(drawn), -1), drawn.shape[2:]
            entries = np.sort(np.unique(flat, axis=1, return_index=True)[1])
            for place in entries[np.ptp(flat[:, entries], axis=0) > 0]:
                index = [int(at) for at in np.unravel_index(place, shape)]
                true_values[entry := f"{name}{index or ''}"] = flat[:, place]
                values[entry] = drawn.reshape(*drawn.shape[:2], -1)[:, 1:, place]
    return true_values, values


def _fractions(
    truth: Float[np.ndarray, " simulations"],
    draws: Float[np.ndarray, "simulations draws"],
    num_draws: Int[np.ndarray, " simulations"],
    rng: np.random.Generator,
) -> Float[np.ndarray, " simulations"]:
    """(rank + u) / (draws + 1) of true values among the first `num_draws` draws, ties broken at random."""
    counts = np.arange(draws.shape[1]) < num_draws[:, None]
    below = (counts & (draws < truth[:, None])).sum(1)
    equal = (counts & (draws == truth[:, None])).sum(1)
    return (below + rng.integers(0, equal + 1) + rng.uniform(size=len(truth))) / (num_draws + 1)
