"""Reading the data of a program of one's own: arrays by attribute site, checked against the sites."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints
from numpyro.ops.provenance import eval_provenance

from bayesgen.data import Rows, read_table
from bayesgen.errors import DataError

from .arbitrary import run_abstractly
from .compiled import check_values
from .evaluation import evaluate
from .messages import base_support


def read_rows(program, X, labelled=False) -> Rows:
    """Read a mapping, a data frame or a `Table` into rows by site.

    Args:
        labelled: whether a column of the label site's name may be there too, as in simulated rows. It is not read.

    Raises:
        DataError: names missing or extra, a shape that is not the site's, values that are not finite or outside
            the site's support.
    """
    table = read_table(X)
    structure = program.structure
    columns = _columns(program, table, {program.label} if labelled else set())
    rows = Rows(
        {name: _attribute(name, site, columns[name]) for name, site in structure.attributes},
        covariates={name: _finite(name, columns[name]) for name in structure.covariates},
    )
    check_values(program, rows)
    return rows


def _columns(program, table, unread):
    wanted = [*program.attributes, *program.covariates]
    if not table.named:
        if len(wanted) == 1:
            return {wanted[0]: np.asarray(table.matrix(table.names))}
        raise DataError(
            f"The program has the attribute sites {wanted}: give a mapping or a data frame with these names, "
            "not an array."
        )
    missing = [name for name in wanted if name not in table.names]
    extra = [name for name in table.names if name not in wanted and name not in unread]
    if missing or extra:
        raise DataError(
            f"The data must have one column for each site of the program: missing {missing}, not in the program "
            f"{extra}. Name the columns like the sites. A site of the plate that is no column (a latent for each row, "
            "or an attribute that was reparametrised and so goes by another name) is not supported: sum it out, or "
            "sample the attribute itself."
        )
    return {name: table.column(name) for name in wanted}


def _attribute(name, site, values):
    values = _finite(name, values)
    shape = (len(values), *site.row_shape)
    expected = list(site.row_shape)
    expected.insert(site.position, len(values))
    if site.position == 0 and values.shape == (len(values), 1) and site.row_shape == ():
        values = values[:, 0]
    if site.position > 0 and values.ndim == len(expected):
        values = np.moveaxis(values, site.position, 0)
        shape = (len(values), *site.row_shape)
    if values.shape != shape:
        raise DataError(
            f"Attribute {name!r}: rows have shape {values.shape[1:]}, the program's site has {site.row_shape}."
        )
    return values


def _finite(name, values):
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"Column {name!r} holds values that are not numbers ({error}). Encode them as the program samples them."
        ) from None
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise DataError(
            f"Column {name!r} has {int(bad.sum())} missing or infinite values. Drop these rows, or impute them; "
            "missing cells are not supported yet."
        )
    return numbers


FIXED_SUPPORTS = (
    type(constraints.boolean),
    type(constraints.nonnegative_integer),
    type(constraints.positive),
    type(constraints.nonnegative),
    type(constraints.unit_interval),
    type(constraints.simplex),
    type(constraints.integer_interval(0, 1)),
)


def find_latent_supports(program) -> dict[str, constraints.Constraint]:
    """Latent site -> its support, that of one event where there are several."""
    with jax.enable_x64(True):
        trace = run_abstractly(program.function, 2, program.example_covariates(2))
    return {name: base_support(trace[name]["support"]) for name in program.latents}


@dataclasses.dataclass(frozen=True)
class Supports:
    """What is known, without the latents, of the values that attribute sites can take.

    Attributes:
        fixed: site -> its support, where that is the same for every row.
        by_row: discrete sites whose support comes of running the program at the row, such as a binomial's.
        by_class: those of them whose support differs between the classes.
    """

    fixed: dict[str, Any]
    by_row: tuple[str, ...]
    by_class: tuple[str, ...]


def find_supports(program) -> Supports:
    """The `Supports` of a program. A support that depends on a latent is in none of them."""
    with jax.enable_x64(True):
        trace = run_abstractly(program.function, 2, program.example_covariates(2))
        supports = {name: base_support(trace[name]["support"]) for name, _ in program.structure.attributes}
        fixed = {name: support for name, support in supports.items() if _is_fixed(support)}
        others = [name for name, site in program.structure.attributes if site.discrete and name not in fixed]
        inputs = _inputs_of_supports(program, trace, others) if others else {}
    by_row = tuple(name for name in others if "latents" not in inputs[name])
    return Supports(fixed, by_row, tuple(name for name in by_row if "labels" in inputs[name]))


def _inputs_of_supports(program, trace, names):
    """site -> which of "latents" and "labels" enter its support."""
    covariates = program.example_covariates(2)

    def bounds(latents, labels):
        evaluation = evaluate(program.function, program.structure, latents, labels, None, covariates)
        leaves = {name: jax.tree.leaves(base_support(evaluation.sites[name]["fn"].support)) for name in names}
        return jax.tree.map(jnp.asarray, leaves)

    latents = {name: jnp.zeros(jnp.shape(trace[name]["value"])) for name in program.latents}
    flows = eval_provenance(bounds, latents=latents, labels=jnp.zeros(2, int))
    return {name: frozenset().union(*of_bounds) for name, of_bounds in flows.items()}


def _is_fixed(support):
    bounds = jax.tree.leaves(support)
    return isinstance(support, FIXED_SUPPORTS) and not any(
        np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds
    )
