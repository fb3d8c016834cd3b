"""What models with a response have in common: their schema, and what makes no sense for them."""

import dataclasses
from typing import NoReturn

from bayesgen.data import ResponseColumn, Schema, Table, name_of_kind, refuse_classes_of_response
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, ModelError
from bayesgen.program import Recipe

TAKEN = ("real", "count")


def regression_schema(model: Recipe, table: Table, declared: Schema) -> Schema:
    """The schema of a regression on columns of numbers.

    Raises:
        DataError: declared classes; columns that are no numbers, by name.
    """
    name = type(model).__name__
    refuse_classes_of_response(name, declared.classes)
    schema = declared.resolve(table)
    columns = schema.columns or ()
    others = [column for column in columns if schema.kinds[column] not in TAKEN]
    if others:
        kinds = ", ".join(sorted({name_of_kind(schema.kinds[column]) for column in others}))
        raise DataError(
            f"{name} takes real columns, and {quote_some(others)} are {kinds}. Turn them into numbers: "
            "LinearRegression(basis=...) with an encoder does so (OneHotEncoder, in a ColumnTransformer), or convert "
            "them, declare Schema(kinds={...: 'real'}), or leave them out."
        )
    has_counts = any(schema.kinds[column] == "count" for column in columns)
    as_reals = dict.fromkeys(columns, "real") if has_counts else schema.kinds
    return dataclasses.replace(schema, kinds=as_reals, response=schema.response or ResponseColumn())


def refuse_sparse(name: str, table: Table) -> None:
    """Refuse a sparse table, where a model takes every cell."""
    if table.sparse:
        raise DataError(f"X is sparse, and {name}() takes every cell of its columns. Give X.toarray().")


def refuse_missing_everywhere(response: str) -> NoReturn:
    """Refuse training rows without any response."""
    raise DataError(
        f"{response} is missing in every row, so that nothing is learned of it. Give it for some rows; what X alone "
        "says is learned by a model without a label."
    )


def check_has_no_components(model: Recipe) -> NoReturn:
    """Refuse to be the model of a mixture's components."""
    raise ModelError(
        f"A Mixture needs classes to be its components, and {type(model).__name__} has none: its label is continuous. "
        "Give it a classifier, such as GaussianDiscriminant()."
    )
