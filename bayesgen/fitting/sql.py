"""`Fit.to_sql`: the two-step prediction as a query, for engines in which no Python runs."""

from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Literal, NamedTuple

import numpy as np

from bayesgen.data import BINARY, check_distinct, probability_names, quoted_name
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, PredictionError, as_list, check_text
from bayesgen.posteriors import ProcessPosterior
from bayesgen.runtime import public
from bayesgen.typing import Category

from .trained import TrainedProgram


class Dialect(NamedTuple):
    """What differs between dialects of SQL.

    Attributes:
        number: a cell {0} as a double, NULL for NaN; an infinite one for a text.
        infinity: the infinite number.
        larger: the larger one of {0} and {1}.
        barrier: the end of a query in FROM. It lets the engine compute the columns of that query once, where it would
            write their expressions in place of the columns.
    """

    number: str = "nullif(CAST({0} AS DOUBLE PRECISION), CAST('NaN' AS DOUBLE PRECISION))"
    infinity: str = "CAST('Infinity' AS DOUBLE PRECISION)"
    larger: str = "greatest({0}, {1})"
    barrier: str = ""

    def literal(self, value: float) -> str:
        """A number as a double: engines take 0.5 for a decimal, and 5e-1 for a double."""
        return f"{value:.16e}".replace("inf", self.infinity)

    def value(self, value: Category) -> str:
        """A category or class. DataError: a value that is no text, number or truth value."""
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        if not isinstance(value, Real | Decimal | np.bool_):
            raise DataError(f"{value!r} is a {type(value).__name__}; SQL has texts, numbers and truth values.")
        return self.literal(value) if isinstance(value, float | np.floating) else str(value).upper()


# a cast of SQLite makes numbers of texts
SQLITE_NUMBER = "CASE typeof({0}) WHEN 'text' THEN 9e999 ELSE CAST({0} AS DOUBLE PRECISION) END"
DIALECTS = {
    "duckdb": Dialect(),
    "postgres": Dialect(barrier=" OFFSET 0"),
    "sqlite": Dialect(SQLITE_NUMBER, "9e999", "max({0}, {1})", " LIMIT -1 OFFSET 0"),
}
CONDITIONS = {
    "real": "abs({0}) <= 1.7976931348623157e308",
    "count": "{0} >= 0 AND {0} = floor({0}) AND {0} <= 1e100",
}  # kind -> the condition on its numbers
TRUTH_VALUES: dict[Category, int] = {"true": 1, "1": 1, "1.0": 1, "false": 0, "0": 0, "0.0": 0, "-0.0": 0}
SUM = "({0} + {1})"
EXP = "CASE WHEN {0} <= -700e0 THEN 0e0 ELSE exp({0}) END"  # PostgreSQL refuses to round an exponential to zero
NUM_UNKNOWN = "unknown cells"
REMEDY = "Ask predict(fit, source, rule=...), which runs Python where the rows are."


@public
def to_sql(
    self: TrainedProgram,
    table: str | Sequence[str],
    at: Literal["mean", "mode"] = "mean",
    dialect: str = "duckdb",
    keep: str | Sequence[str] = (),
) -> str:
    """The prediction by `PlugIn(at)` as a query in SQL: for naive Bayes of categories, counts and normal columns.

    The query has a row for each row of the table. Its columns are those of `keep`; `label`, and the probability of each
    class, as in `answer.to_frame()`; `log p[class]`, the logs of these; and "unknown cells", the number of cells of the
    row that are no values of their columns.

    A cell that is NULL, or NaN, is missing. The answer of a row with an unknown cell, which `predict` would refuse, is
    NULL; under `Schema(unknown="missing")` unknown categories are missing, as in `predict`. The answer of a row that is
    impossible under every class is NULL, too. Other columns of the table are not read. A fit of an array reads the
    columns x0, x1, and so on.

    Args:
        table: its name, of any characters; a list for a name of several parts, ["schema", "table"].
        at: the process: the posterior "mean" or "mode"; a point fit has one.
        dialect: "duckdb", "postgres" or "sqlite".
        keep: columns of the table, or one, beside the answer.

    Raises:
        PredictionError: other models and families, and other dialects; a mode that the posterior does not have.
        DataError: names of columns that are equal but for case; categories or classes without a literal in SQL.

    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(), {"sky": ["grey", "blue", "grey"]}, ["rain", "dry", "rain"], method=bg.Exact())
    >>> print(fit.to_sql("days", keep="day"))
    SELECT k0 AS "day", CASE WHEN d0 = 0 THEN 'dry' WHEN d1 = 0 THEN 'rain' END AS "label", ...
    """
    parts, beside = (
        [names] if isinstance(names, str) else as_list(argument, names, "names", DataError)
        for argument, names in (("table", table), ("keep", keep))
    )
    for text in (*parts, *beside):
        check_text("A name in to_sql", text, DataError)
    if not isinstance(dialect, str) or dialect not in DIALECTS or not isinstance(at, str) or at not in ("mean", "mode"):
        raise PredictionError(
            f"to_sql takes at='mean' or 'mode', got {at!r}, and a dialect out of {quote_some(DIALECTS)}, got "
            f"{dialect!r}. Others are made of it by sqlglot.transpile(query, read='duckdb', write=...)."
        )
    words, labels = DIALECTS[dialect], self.classes.tolist()
    logs = [f"log p[{label}]" for label in labels]
    names = [*beside, "label", *map(str, probability_names(labels)), *logs, NUM_UNKNOWN]
    check_distinct(names)
    joints, columns = _log_joints(self, at, words), self.schema.columns or ()
    values, codes, are_taken = zip(*(_cell(self, j, words) for j in range(len(columns))), strict=True)
    unknown = [f"CASE WHEN v{j} IS NOT NULL AND c{j} IS NULL THEN 1 ELSE 0 END" for j in range(len(columns))]
    refused = [count for count, is_taken in zip(unknown, are_taken, strict=True) if not is_taken]
    classes = range(len(labels))
    answer = [
        *(f"k{j}" for j in range(len(beside))),
        f"CASE {' '.join(f'WHEN d{k} = 0 THEN {words.value(label)}' for k, label in enumerate(labels))} END",
        *(EXP.format(f"(d{k} - total)") for k in classes),
        *(f"d{k} - total" for k in classes),
        "num_unknown",
    ]
    layers = [
        [*(f"t.{_name(name)} AS k{j}" for j, name in enumerate(beside)), *values],
        ["t.*", *codes],
        ["t.*", f"{_combined(unknown, SUM)} AS num_unknown", f"{_combined(['0', *refused], SUM)} AS num_refused"],
        ["t.*", *(f"CASE WHEN num_refused = 0 THEN {joint} END AS p{k}" for k, joint in enumerate(joints))],
        ["t.*", f"nullif({_combined([f'p{k}' for k in classes], words.larger)}, -{words.infinity}) AS top"],
        ["t.*", *(f"p{k} - top AS d{k}" for k in classes)],
        ["t.*", f"ln({_combined([EXP.format(f'd{k}') for k in classes], SUM)}) AS total"],
        [f"{value} AS {_name(name)}" for name, value in zip(names, answer, strict=True)],
    ]
    query = ""
    for layer in layers:
        source = f"({query}{words.barrier})" if query else _name(*parts)
        query = f"SELECT {', '.join(layer)} FROM {source} AS t"
    return query


def _name(*parts: str) -> str:
    """A name in quotes; of several parts with dots between them."""
    return ".".join(map(quoted_name, parts))


def _combined(parts: Sequence[str], pair: str) -> str:
    """Many parts as pairs of pairs, since engines take expressions of some hundred levels only."""
    middle = len(parts) // 2
    return pair.format(_combined(parts[:middle], pair), _combined(parts[middle:], pair)) if middle else parts[0]


def _cell(fit: TrainedProgram, index: int, dialect: Dialect) -> tuple[str, str, bool]:
    """The cell of a column, v{index}; its number as densities take it, c{index}; whether unknown ones are missing.

    The cell is NULL where it is missing. Its number is NULL where the cell is missing or unknown.
    """
    schema, value = fit.schema, f"v{index}"
    column = (schema.columns or ())[index]
    kind, categories, cell = schema.kind_of(column), schema.categories.get(column, ()), f"t.{_name(column)}"
    if kind.name in CONDITIONS:
        code = f"CASE WHEN {CONDITIONS[kind.name].format(value)} THEN {value} END"
        return f"{dialect.number.format(cell)} AS {value}", f"{code} AS c{index}", False
    codes = TRUTH_VALUES if kind == BINARY else {category: code for code, category in enumerate(categories)}
    if kind.has_steps or not codes:
        raise PredictionError(f"Column {column!r} is of the kind {kind!r}, which has no form in SQL. {REMEDY}")
    are_texts = isinstance(next(iter(codes)), str)
    if kind == BINARY or not are_texts:
        cell = f"CASE WHEN lower(CAST({cell} AS VARCHAR)) <> 'nan' THEN {cell} END"
    cases = " ".join(f"WHEN {dialect.value(category)} THEN {code}" for category, code in codes.items())
    code = f"CASE {f'CAST({value} AS VARCHAR)' if are_texts else value} {cases} END"
    return f"{cell} AS {value}", f"{code} AS c{index}", schema.unknown == "missing"


def _log_joints(fit: TrainedProgram, at: Literal["mean", "mode"], dialect: Dialect) -> list[str]:
    """For each class log p(x, y = k), but for what all classes share, of the numbers c0, c1, ... of cells."""
    conjugate, posterior, columns = (
        fit.concrete.column_blocks(fit.schema),
        fit.posterior,
        list(fit.schema.columns or ()),
    )
    if conjugate is None or not len(fit.classes) or not isinstance(posterior, ProcessPosterior):
        raise PredictionError(f"to_sql is for classifiers of columns, such as NaiveBayes(). {REMEDY}")
    posterior.require(at)
    log_priors, densities = conjugate.densities_at(posterior.mode if at == "mode" else posterior.mean)
    terms = [[dialect.literal(log_prior)] for log_prior in log_priors]
    for block, (name, density) in zip(conjugate.blocks, densities, strict=True):
        terms_of_block = density.sql_terms(dialect.literal)
        if terms_of_block is None:
            family = type(block.family).__name__
            raise PredictionError(f"Block {name!r}: the density of {family} has no form in SQL. {REMEDY}")
        cells = [f"c{columns.index(column)}" for column in block.columns]
        for class_terms, templates in zip(terms, terms_of_block, strict=True):
            class_terms += [f"coalesce({term.format(cell)}, 0e0)" for term, cell in zip(templates, cells, strict=True)]
    return [f"CAST({_combined(class_terms, SUM)} AS DOUBLE PRECISION)" for class_terms in terms]
