"""Reading the data of a program of one's own: arrays by attribute site, checked against the sites."""

import jax
import numpy as np
from numpyro.distributions import constraints

from ..errors import DataError
from ..tables import read_table
from .structure import run_abstractly


def read_rows(program, X):
    """Read a mapping, a data frame or a `Table` into rows by site.

    Returns:
        (attributes, covariates): dicts of arrays (n, ...), the instance axis first.

    Raises:
        DataError: names missing or extra, a shape that is not the site's, values that are not finite or outside
            the site's support.
    """
    table = read_table(X)
    structure = program.structure
    columns = _columns(program, table)
    attributes = {name: _attribute(name, site, columns[name]) for name, site in structure.attributes}
    covariates = {name: _finite(name, columns[name]) for name in structure.covariates}
    _check_supports(program, attributes)
    return attributes, covariates


def _columns(program, table):
    wanted = [*program.attributes, *program.covariates]
    if not table.named:
        if len(wanted) == 1:
            return {wanted[0]: np.asarray(table.matrix(table.names))}
        raise DataError(
            f"The program has the attribute sites {wanted}: give a mapping or a data frame with these names, "
            "not an array."
        )
    missing = [name for name in wanted if name not in table.names]
    extra = [name for name in table.names if name not in wanted]
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
    except (TypeError, ValueError) as error:
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


STATIC_SUPPORTS = (
    type(constraints.boolean),
    type(constraints.nonnegative_integer),
    type(constraints.positive),
    type(constraints.nonnegative),
    type(constraints.unit_interval),
    type(constraints.simplex),
    type(constraints.integer_interval(0, 1)),
)


def static_supports(program):
    """Attribute -> its support, for those whose support is known without the latents."""
    with jax.enable_x64(True):
        trace = run_abstractly(program.function, 2, program.example_covariates(2))
    supports = {name: _base(trace[name]["fn"].support) for name, _ in program.structure.attributes}
    return {name: support for name, support in supports.items() if _is_static(support)}


def _is_static(support):
    bounds = jax.tree.leaves(support)
    return isinstance(support, STATIC_SUPPORTS) and not any(
        np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds
    )


def _check_supports(program, attributes):
    """Refuse values outside a site's support, where the support is known without the latents."""
    for name, support in program.supports.items():
        values = attributes[name]
        with jax.enable_x64(True):
            bad = ~np.asarray(support(values))
        if bad.any():
            where = tuple(np.argwhere(bad)[0])
            raise DataError(
                f"Attribute {name!r}: {int(bad.sum())} values are outside its support ({support}); the first is "
                f"{values[where]} in row {where[0]}."
            )


def _base(support):
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support
