"""From rows to summaries: everything that fitting knows of the data, mergeable."""

import dataclasses
import functools
from typing import Any

import numpy as np

from ..errors import DataError
from ..program import ConcreteModel, Model
from ..program.compiled import first_rows, summarize_rows
from ..program.density import Evidence, Rows
from ..schema import Schema, check_weights
from ..statistics.passes import class_counts
from ..tables import read_table


@dataclasses.dataclass(frozen=True)
class Summaries:
    """Training data, reduced to sufficient statistics (rows are kept for sites that have none).

    Made by `bayesgen.summarize`; two of them for disjoint rows of the same columns add up. `bayesgen.fit` takes
    them in place of X and y.

    Attributes:
        model: the model whose sites are summarised.
        schema: the resolved schema, without means and variances.
        evidence: class counts and summaries by site.
    """

    model: ConcreteModel
    schema: Schema
    evidence: Evidence

    def merge(self, other):
        """The summaries of both sets of rows together.

        Raises:
            DataError: where the two do not have the same columns, kinds, categories and classes.
        """
        if self.schema != other.schema:
            raise DataError(
                "These summaries have different schemas (columns, kinds, categories or classes). Summarise both with "
                "one schema=Schema(...) that declares all classes and categories."
            )
        one, two = self.evidence, other.evidence
        summaries = {name: summary.merge(two.summaries[name]) for name, summary in one.summaries.items()}
        rows = None if one.rows is None else _concatenate(one.rows, two.rows)
        evidence = Evidence(one.class_counts + two.class_counts, summaries, one.covariates, rows)
        return dataclasses.replace(self, evidence=evidence)

    def __add__(self, other):
        return self.merge(other)

    @functools.cached_property
    def scaled_schema(self) -> Schema:
        """The schema with the columns' means and variances, to which default priors are resolved."""
        return self.model.with_scale(self.schema, self.evidence.summaries)


def summarize(model: Model, X, y=None, *, schema: Schema | None = None, sample_weight=None) -> Summaries:
    """Reduce training data to sufficient statistics in one pass.

    Args:
        model: a model or a `GenerativeProgram`.
        X: 2-D array, data frame, sparse matrix or mapping name -> array.
        y: (n,) labels; None for a program without classes.
        schema: what is known of the columns; declare classes and categories that a part of the data may lack.
        sample_weight: (n,) nonnegative frequency weights (weight 2 = the row twice).

    >>> import bayesgen as bg
    >>> schema = bg.Schema(classes=["a", "b"])
    >>> one = bg.summarize(bg.NaiveBayes(), [[1.0], [2.0]], ["a", "a"], schema=schema)
    >>> two = bg.summarize(bg.NaiveBayes(), [[5.0], [7.0]], ["b", "b"], schema=schema)
    >>> fit = bg.fit(bg.NaiveBayes(), one + two, method=bg.MLE())
    >>> fit.parameters["real_mean"].tolist()
    [[1.5], [6.0]]
    """
    table = read_table(X)
    schema = model.infer_schema(table, y, schema or Schema())
    concrete = model.concrete(schema)
    codes = schema.encode_labels(y) if schema.classes is not None else np.zeros(table.num_rows, np.int64)
    if len(codes) != table.num_rows:
        raise DataError(f"X has {table.num_rows} rows, y has {len(codes)} labels. Give one label for each row.")
    weights = None if sample_weight is None else check_weights(sample_weight, table.num_rows)
    attributes, covariates = concrete.read(schema, table)
    statistics = concrete.statistics(schema)
    if statistics is None:
        evidence = summarize_rows(concrete.bind(schema), attributes, covariates, codes, weights)
    else:
        evidence = _known(statistics, schema, attributes, covariates, codes, weights)
    return Summaries(concrete, schema, evidence)


def _known(statistics, schema, attributes, covariates, codes, weights):
    size = len(schema.classes)
    summaries = {
        name: statistic.summarize(attributes[name], codes, size, weights) for name, statistic in statistics.items()
    }
    return Evidence(class_counts(codes, size, weights), summaries, first_rows(covariates, size))


def _concatenate(one: Rows, two: Rows) -> Rows:
    def join(a: Any, b: Any):
        return (
            {name: np.concatenate([a[name], b[name]]) for name in a} if isinstance(a, dict) else np.concatenate([a, b])
        )

    fields = ("attributes", "covariates", "codes", "weights")
    return Rows(**{name: join(getattr(one, name), getattr(two, name)) for name in fields})
