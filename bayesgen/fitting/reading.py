"""The verb `summarize`, and the way from whatever users give as training data to `Summaries`."""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

from bayesgen.data import Schema, as_source, naming_origin, read_tables
from bayesgen.errors import DataError
from bayesgen.program import Recipe
from bayesgen.runtime import public
from bayesgen.typing import Data, Values

from .sourced import summarize_source
from .summaries import Summaries, check_model, inferred_schema, summarize_tables


@public
def summarize(
    model: Recipe,
    X: Data | Iterable[tuple],
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
) -> Summaries:
    """Reduce training data to sufficient statistics in one pass over blocks of rows.

    Intermediate arrays are chunked in memory. Rows are kept for sites of a program without a sufficient statistic,
    and for sequences with hidden states, parse trees or missing time steps.

    Args:
        model: a model or a `GenerativeProgram`.
        X: 2-D array, data frame, sparse matrix or mapping name -> array; or rows that lie elsewhere, see `fit`. Or data
            in chunks, and then no y and no sample_weight: an iterable (a generator, `zip`, a list) of tuples (X, y) or
            (X, y, sample_weight), or (X,) for a program without classes. A list counts as chunks if its first item is a
            tuple that begins with an array, frame or mapping: [(1.0, 2.0), (3.0, 4.0)] is a table of two rows.
        y: (n,) labels, some of which may be missing: these rows are kept; None for a program without classes. Where X
            and y (or sample_weight) are both of pandas, they have one index. Or the name of a column of X.
        schema: declarations for the columns; declare classes and categories that a part of the data may lack. The rest
            is inferred, for chunked data from the first chunk alone. The schema of a fit brings its default prior.
        sample_weight: (n,) nonnegative frequency weights (weight 2 = the row twice). A row of weight 0 is ignored, its
            label and its categories included.

    Raises:
        DataError: data that do not fit the schema or, naming the chunk, the schema of the first chunk.

    >>> import bayesgen as bg
    >>> schema = bg.Schema(classes=["a", "b"])
    >>> one = bg.summarize(bg.NaiveBayes(), [[1.0], [2.0]], ["a", "a"], schema=schema)
    >>> two = bg.summarize(bg.NaiveBayes(), [[5.0], [7.0]], ["b", "b"], schema=schema)
    >>> fit = bg.fit(bg.NaiveBayes(), one + two, method=bg.MLE())
    >>> fit.parameters["real_mean"].tolist()
    [[1.5], [6.0]]
    >>> chunks = (chunk for chunk in [([[1.0], [2.0]], ["a", "a"]), ([[5.0], [7.0]], ["b", "b"])])
    >>> fit = bg.fit(bg.NaiveBayes(), chunks, method=bg.MLE(), schema=schema)
    >>> fit.parameters["real_mean"].tolist()
    [[1.5], [6.0]]
    """
    return dataclasses.replace(as_summaries(model, X, y, schema=schema, sample_weight=sample_weight), rows=None)


def as_summaries(
    model: Any,
    X: Data | Iterable[tuple] | Summaries,
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
    keeps_rows: bool = False,
) -> Summaries:
    """The summaries of training data, see `summarize`, or the given ones.

    Labelled rows are kept, too, with `keeps_rows`, and where parameters of the model are functions of all of them.

    Raises:
        DataError: summaries of another model, or given with y.
    """
    if isinstance(X, Summaries):
        if y is not None or sample_weight is not None or schema is not None:
            raise DataError("Summaries hold their labels, weights and schema already: pass them alone.")
        return X.made_for(model)
    check_model(model)
    if (source := as_source(X)) is not None:
        return summarize_source(model, source, y, sample_weight, schema, needs_rows=keeps_rows)
    tables = read_tables(X, y, sample_weight)
    first = next(tables)
    with naming_origin(first.chunk_number, first.num_dropped):
        resolved = inferred_schema(model, first, schema)
        concrete = model.concrete(resolved)
    keeps_rows = keeps_rows or (not first.chunk_number and concrete.has_row_statistics)
    return summarize_tables(concrete, resolved, itertools.chain([first], tables), keeps_rows)
