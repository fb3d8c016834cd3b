"""`NaiveBayes`: columns independent given the class; and `StructureAverage`, where they may not depend on the class."""

import dataclasses
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence

import jax
import numpy as np
import scipy.special

from bayesgen import load_wings
from bayesgen.data import KINDS, Binned, ColumnKinds, Kind, Schema, Table, as_kind, uniform_kind
from bayesgen.errors import FitError, ModelError
from bayesgen.families import DirichletCategorical, Family, IncompleteFamily, default_family
from bayesgen.labels import OptionalLabel
from bayesgen.program import Block, ConcreteModel, Conjugate, Densities, Recipe, WrappedModel
from bayesgen.records import fill, record
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Shaped

from .blocks import check_kind_of_sequences, refuse_classes, refuse_components, with_alphabets
from .classifier import ClassPrior, GenerativeClassifier, as_class_prior


@record
class ConjugateStructures(Conjugate):
    """A prior over structures and processes, or a posterior: the columns are independent mixtures of two.

    Generative story::

        dependence[d] ~ Bernoulli(logits=log_odds[d]), for each column d; one for a block that is modelled jointly
        parameters[d] ~ the column's family in `blocks` if dependence[d], else that in `shared`

    It is closed under updating: the posterior odds that a column depends on the class are the prior odds times the
    ratio of its two evidences. `blocks` are those of the structure in which every column depends on the class.

    Attributes:
        shared: the blocks if no column depends on the class (K = 1).
        log_odds: block -> log odds that a column depends on the class, (D,); a number for a block modelled jointly.

    Source: Dash and Cooper (2002), Exact model averaging with naive Bayesian classifiers.
    """

    is_one_structure = False
    shared: Conjugate
    log_odds: dict[str, np.ndarray]

    @property
    def dependence(self) -> dict[str, np.ndarray]:
        """block -> probability that a column depends on the class, (D,); a number for a joint block."""
        return {name: scipy.special.expit(odds) for name, odds in self.log_odds.items()}

    def update(self, evidence: SufficientStatistics) -> "ConjugateStructures":
        """The posterior over structures and parameters."""
        pooled = _pooled(evidence)
        by_class, at_once = _log_evidences(self, evidence), _log_evidences(self.shared, pooled)
        log_odds = {name: odds + by_class[name] - at_once[name] for name, odds in self.log_odds.items()}
        return dataclasses.replace(super().update(evidence), shared=self.shared.update(pooled), log_odds=log_odds)

    def log_evidence(self, evidence: SufficientStatistics) -> float:
        """log p(X, y), structures and parameters marginalised."""
        by_class, at_once = _log_evidences(self, evidence), _log_evidences(self.shared, _pooled(evidence))
        total = dataclasses.replace(self.shared, blocks=()).log_evidence(evidence)
        for name, odds in self.log_odds.items():
            dependent = scipy.special.log_expit(odds) + by_class[name]
            total += np.logaddexp(dependent, scipy.special.log_expit(-odds) + at_once[name]).sum()
        return float(total)

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """{block}_{parameter} -> names of its axes, `{block}_dependence` among them."""
        columns = {
            block.name: () if block.family.traits.joint else (self.prefix(block) + "feature",) for block in self.blocks
        }
        return {**super().axes, **{f"{name}_dependence": names for name, names in columns.items()}}

    def mean(self) -> dict[str, np.ndarray]:
        """Means in the most probable structure, and `{block}_dependence`."""
        return self._in_best(super().mean(), self.shared.mean()) | _named(self.dependence)

    def variance(self) -> dict[str, np.ndarray]:
        """Empty: variances over all structures have no closed form."""
        return {}

    def quantile(self, prob: float) -> dict[str, np.ndarray]:
        return {}

    def mode(self) -> dict[str, np.ndarray]:
        """The joint mode in the most probable structure."""
        return self._in_best(super().mode(), self.shared.mode())

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent draws of structures and parameters; `{block}_dependence` is 1 where a column depends."""
        dependent, shared = super().sample(shape, rng), self.shared.sample(shape, rng)
        structure = {name: rng.random((*shape, *np.shape(p))) < p for name, p in self.dependence.items()}
        numbers = {name: depends.astype(np.int8) for name, depends in structure.items()}
        return self._in_structure(structure, dependent, shared) | _named(numbers)

    def predictive_densities(self) -> Densities:
        """Structures and parameters integrated out."""
        log_class_probs, _ = dataclasses.replace(self.shared, blocks=()).predictive_densities()
        blocks = []
        for block, shared in zip(self.blocks, self.shared.blocks, strict=True):
            odds = self.log_odds[block.name]
            logs = scipy.special.log_expit(odds), scipy.special.log_expit(-odds)
            density = block.family.row_predictive()
            blocks.append((block.name, density.mixed(shared.family.row_predictive(), *logs)))
        return log_class_probs, blocks

    def _in_best(self, dependent: Mapping[str, np.ndarray], shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The parameters of the most probable structure (a column of equal odds depends on the class)."""
        best = {name: odds >= 0 for name, odds in self.log_odds.items()}
        return self._in_structure(best, dependent, shared)

    def _in_structure(
        self, structure: Mapping[str, np.ndarray], dependent: Mapping[str, np.ndarray], shared: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Choose each column's parameters. Structures may have leading axes, as the parameters then have."""
        chosen = {name: value for name, value in dependent.items() if name.startswith("class_")}
        for block in self.blocks:
            for parameter, axes in block.family.parameter_axes().items():
                name = f"{block.name}_{parameter}"
                depends = _like(structure[block.name], axes, block.family.traits.joint)
                chosen[name] = np.where(depends, dependent[name], np.broadcast_to(shared[name], dependent[name].shape))
        return chosen


def _pooled(statistics: SufficientStatistics) -> SufficientStatistics:
    """The data with the summaries pooled over classes; class counts are kept."""
    summaries = {name: summary.pooled() for name, summary in statistics.summaries.items()}
    return dataclasses.replace(statistics, summaries=summaries)


def _log_evidences(conjugate: Conjugate, statistics: SufficientStatistics) -> dict[str, np.ndarray]:
    """block -> log evidence of each column, (D,), classes summed; of the whole block if it is joint."""
    terms: dict[str, np.ndarray] = {}
    for block in conjugate.blocks:
        table = np.asarray(block.family.log_evidence_terms(statistics.summaries[block.name]))
        joint = block.family.traits.joint
        terms[block.name] = table.sum() if joint else table.reshape(-1, len(block.columns)).sum(0)
    return terms


def _named(dependence: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}_dependence": value for name, value in dependence.items()}


def _like(structure: Shaped[np.ndarray, "..."], axes: tuple[str, ...], joint: bool) -> Shaped[np.ndarray, "..."]:
    """Shape choices like a parameter with these axes: (..., D) for columns, (...) for a block modelled jointly.

    A parameter without an axis of columns is that of the only column of its block.
    """
    leading = structure.shape if joint else structure.shape[:-1]
    sizes = [structure.shape[-1] if axis == "feature" and not joint else 1 for axis in axes]
    return structure.reshape(*leading, *sizes)


ALL_CLASSES = "all classes"


@dataclasses.dataclass(frozen=True)
class StructureAverage(WrappedModel):
    """A generative classifier in which each column depends on the class or does not.

    Generative story::

        class_probs   ~ class_prior
        dependence[d] ~ Bernoulli(dependence_prior), for each column d; one for a block that is modelled jointly
        parameters[d] ~ the column's family: for each class if dependence[d], else once for all classes
        y             ~ Categorical(class_probs)
        column d      ~ the family's likelihood with the parameters of class y

    Args:
        classifier: the classifier in which every column depends on the class. Its program is that of this structure.
        dependence_prior: prior probability of dependence, from 0 to 1.

    `NaiveBayes(structure="average")` makes one. `Exact()` averages over all structures; other methods refuse.

    Source: Dash and Cooper (2002), Exact model averaging with naive Bayesian classifiers.
    """

    classifier: GenerativeClassifier
    dependence_prior: float = 0.5

    @property
    def blocks(self) -> Sequence[tuple[str, Family, Sequence[str]]]:
        return self.classifier.blocks

    @property
    def wrapped(self) -> GenerativeClassifier:
        return self.classifier

    def with_components(self, num_components: int) -> Recipe:
        raise ModelError(
            "A Mixture of structure='average' is not supported: with unknown components, the average over all subsets "
            "of columns has no closed form. Use structure='full'."
        )

    def conjugate(self, schema: Schema) -> ConjugateStructures:
        """The prior over structures and the parameters of each."""
        dependent = self.classifier.conjugate(schema)
        odds = scipy.special.logit(self.dependence_prior)
        return ConjugateStructures(
            **{field.name: getattr(dependent, field.name) for field in dataclasses.fields(dependent) if field.init},
            shared=self.shared(dependent),
            log_odds={b.name: np.full(() if b.family.traits.joint else len(b.columns), odds) for b in dependent.blocks},
        )

    @property
    def form_to_search(self) -> str:
        return "structure='full'"

    def check_searchable(self, method: str) -> None:
        """Refuse every method but `Exact`: the processes of all structures are not those of one program."""
        raise FitError(
            f"structure='average' is averaged exactly, over every subset of columns: {method}() cannot. Use "
            f"{self.form_to_search}, or Exact() for rows that all have a label."
        )

    def check_class_can_be_added(self, schema: Schema) -> None:
        raise FitError(
            "structure='average' learns from the rows of all classes which columns depend on the class, so a new class "
            "would change the posterior of the others. Fit all rows anew with all classes, or use structure='full'."
        )

    def shared(self, conjugate: Conjugate) -> Conjugate:
        """The blocks of the structure in which no column depends on the class.

        Raises:
            ModelError: a prior that differs between the classes.
        """
        blocks = tuple(dataclasses.replace(block, family=_family_of_all_classes(block)) for block in conjugate.blocks)
        return dataclasses.replace(conjugate, blocks=blocks, classes=(ALL_CLASSES,))


def _family_of_all_classes(block: Block) -> Family:
    family = block.family
    if family.hierarchical:  # only closed forms use this, and they refuse such a family by name
        return family
    for name, value in family.hyperparameters.items():
        if not np.array_equal(value, np.broadcast_to(value[:1], value.shape)):
            raise ModelError(
                f"Block {block.name!r}: the hyperparameter {name} differs between the classes, so columns that do not "
                "depend on the class have no prior. Give one for all classes."
            )
    one_class = jax.tree.map(lambda value: value[:1], family)
    return one_class.replace(batch_shape=(1, *family.batch_shape[1:]))


STRUCTURES = ("full", "average")


@dataclasses.dataclass(frozen=True)
class NaiveBayes(Recipe[OptionalLabel]):
    """Naive Bayes: given the class, the columns are independent (but for families that model columns jointly).

    Generative story::

        class_probs ~ class_prior
        y           ~ Categorical(class_probs)
        each column ~ its family's likelihood with the parameters of class y

    Args:
        families: one family for all columns; or a mapping from a kind ("real", "binary", "categorical", "count",
            "binned", "sequence") or a column's name to a family, where the column's name wins; or None for the
            defaults: normal-inverse-gamma, Beta-Bernoulli, Dirichlet-categorical, gamma-Poisson (a sparse matrix:
            Dirichlet-multinomial), Dirichlet-histogram, Dirichlet-Markov (of symbols). {"real": DirichletHistogram(5)}
            cuts every real column into five bins, Schema(kinds={"age": Binned(5)}) one of them.
        class_prior: a `DirichletCategorical`, or K fixed probabilities; None for rows without classes: the model is
            fitted without y, and `predict` gives the densities of rows.
        structure: "full", or "average": average over all sets of columns that may depend on the class. See
            `StructureAverage`.
        dependence_prior: prior probability that a column depends on the class, where structures are averaged.

    The blocks, and so the sites of the program, are called real, binary, count, and categorical_2, categorical_3, ...
    and binned_2, binned_3, ... by the number of values or bins. Columns of one kind with equal families are one block;
    a second family makes a second block, real_part2. A family that models columns jointly, or has a distribution as
    hyperparameter, models all columns of its kind in one block; given for a column by name, it models this column
    alone. Every column of sequences is a block of its own, which has the column's name; sequences are declared by
    Schema(kinds={"word": "sequence"}), or implied by the family.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 3.5.

    >>> import bayesgen as bg
    >>> X = {"windy": [True, True, False, False], "sky": ["grey", "grey", "blue", "grey"]}
    >>> fit = bg.fit(bg.NaiveBayes(), X, ["rain", "rain", "dry", "dry"], method=bg.Exact())
    >>> sorted(fit.parameters)
    ['binary_probs', 'categorical_2_probs', 'class_probs']

    >>> names = {"name": ["anna", "hanna", "otto", "toto"]}
    >>> model = bg.NaiveBayes({"name": bg.DirichletMarkov(order=1)})
    >>> fit = bg.fit(model, names, ["she", "she", "he", "he"], method=bg.Exact())
    >>> bg.predict(fit, {"name": ["nan", "tot"]}, rule=bg.BMA()).labels.tolist()
    ['she', 'he']
    >>> made = fit.simulate(2, seed=1, name_length=4)
    >>> [len(name) for name in fit.schema.decode("name", made["name"])]
    [4, 4]
    """

    families: Family | Mapping[str, Family] | None = None
    class_prior: ClassPrior | None = dataclasses.field(default_factory=DirichletCategorical)
    structure: str = "full"
    dependence_prior: float = 0.5

    def __post_init__(self) -> None:
        families = dict(self.families) if isinstance(self.families, Mapping) else self.families
        fill(self, families=families, class_prior=as_class_prior(self.class_prior))
        stated = families.values() if isinstance(families, dict) else (families,)
        for family in stated:
            check_family(family)
        if not isinstance(self.structure, str) or self.structure not in STRUCTURES:
            raise ModelError(f"structure must be one of {list(STRUCTURES)}, got {self.structure!r}.")
        if self.class_prior is None and self.structure != "full":
            raise ModelError(
                f"structure={self.structure!r} asks which columns depend on the class, and class_prior=None is for "
                "rows without classes. Leave structure out."
            )
        if not isinstance(self.dependence_prior, numbers.Real) or not 0 <= self.dependence_prior <= 1:
            raise ModelError(f"dependence_prior must be from 0 to 1, got {self.dependence_prior!r}.")

    @property
    def exact_takes_missing(self) -> bool:
        stated = self.families.values() if isinstance(self.families, Mapping) else (self.families,)
        return not any(isinstance(family, IncompleteFamily) for family in stated)

    def __hash__(self) -> int:
        """By content: mappings, which have no hash, by their pairs."""
        families = frozenset(self.families.items()) if isinstance(self.families, Mapping) else self.families
        return hash((families, self.class_prior, self.structure, self.dependence_prior))

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """Kinds come from the dtypes, or from the family that was chosen for a column or its kind."""
        if self.class_prior is None:
            refuse_classes(self, y, declared)
        family = self._common_family(table, declared)
        if family is not None:
            if family.alphabet is not None:
                declared = with_alphabets(declared, dict.fromkeys(table.names, family))
            return declared.resolve(table, y, implied_kinds=ColumnKinds(table.names, family.kind_of_column(0), {}))
        families = dict(self.families) if isinstance(self.families, Mapping) else {}
        unknown = [name for name in families if name not in KINDS and name not in table.names]
        if unknown:
            raise ModelError(f"families= names {unknown}, which are neither kinds {list(KINDS)} nor columns.")
        chosen = {}
        for name in table.names if families else ():
            family = families.get(name)
            if family is None:
                family = families.get(as_kind(declared.kinds.get(name) or table.inferred_kind(name), name).name)
            if family is not None:
                chosen[name] = family
        implied_kinds = {name: family.kind_of_column(0) for name, family in chosen.items()}
        return with_alphabets(declared, chosen).resolve(table, y, implied_kinds=implied_kinds)

    def _common_family(self, table: Table, declared: Schema) -> Family | None:
        """The family of all columns; None where columns, of which there may be very many, are looked at one by one."""
        if self.families is None or isinstance(self.families, Family):
            return self.families
        kind, keys = table.uniform_kind, self.families.keys()
        if kind is None or declared.kinds or not keys <= set(KINDS) or any(map(table.names.__contains__, keys)):
            return None
        return self.families.get(as_kind(kind, "X").name)

    def concrete(self, schema: Schema) -> ConcreteModel:
        """The `GenerativeClassifier` (or average of them) with the blocks that the schema's kinds call for."""
        groups: dict[tuple[str, int | None, Family, str | None], list[str]] = {}
        own_families = self.families if isinstance(self.families, Mapping) else {}
        families: dict[tuple[Kind, str | None], Family] = {}  # of very many columns, most are alike
        for name in self._named(schema):
            kind = schema.kind_of(name)
            key = kind, name if name in own_families else None
            if key not in families:
                families[key] = self._family(name, kind, schema.sparse)
            family, size = families[key], schema.num_values(name)
            groups.setdefault((kind.name, size, family, self._owner(name, family)), []).append(name)
        num_blocks: Counter[str] = Counter()
        blocks = []
        for (kind_name, size, family, _), columns in groups.items():
            kind_and_size = kind_name if size is None else f"{kind_name}_{size}"
            stem = columns[0] if family.kind.has_steps else kind_and_size
            num_blocks[stem] += 1
            name = stem if num_blocks[stem] == 1 else f"{stem}_part{num_blocks[stem]}"
            has_all = len(groups) == 1  # then `_named` may have given the first column alone
            blocks.append((name, family, (schema.columns or ()) if has_all else columns))
        classifier = GenerativeClassifier(blocks, self.class_prior)
        return classifier if self.structure == "full" else StructureAverage(classifier, self.dependence_prior)

    def with_components(self, num_components: int) -> Recipe:
        if self.class_prior is None:
            refuse_components(self)
        return self

    def _family(self, name: str, kind: Kind, is_sparse: bool) -> Family:
        """The family of a column: its own, else that of its kind."""
        families = self.families
        if isinstance(families, Family):
            family = families
        else:
            chosen = (families or {}).get(name) or (families or {}).get(kind.name)
            family = chosen or self._by_implied_kind(kind) or _default(name, kind, is_sparse)
        if family.kind.name != kind.modelled_as.name:
            raise ModelError(
                f"Column {name!r} is of kind {kind.name!r}, but its family {type(family).__name__} is for "
                f"{family.kind.name!r} columns. Change Schema(kinds=...) or families=."
            )
        if kind.has_steps:
            check_kind_of_sequences(name, kind, family)
        return family

    def _owner(self, name: str, family: Family) -> str | None:
        """The column's name where it has to be a block of its own, as one of sequences has, else None.

        A family that models columns jointly, or draws a hyperparameter, makes the columns of a block depend on each
        other. Given to a column by name, it is for that column alone.
        """
        if family.kind.has_steps:
            return name
        is_named = isinstance(self.families, Mapping) and name in self.families and name not in KINDS
        return name if is_named and (family.traits.joint or family.hierarchical) else None

    def _by_implied_kind(self, kind: Kind) -> Family | None:
        """A family given by a kind of dtype for columns of another kind, such as counts in real columns."""
        families, modelled = {} if isinstance(self.families, Family) else self.families or {}, kind.modelled_as.name
        return next((family for key, family in families.items() if key in KINDS and family.kind.name == modelled), None)

    def _named(self, schema: Schema) -> Sequence[str]:
        """The columns, or the first alone where all are one block."""
        columns, kind = schema.columns or (), uniform_kind(schema.kinds)
        by_kind = not isinstance(self.families, Mapping) or all(name in KINDS for name in self.families)
        is_one_block = kind is not None and by_kind and not (kind.has_categories or kind.has_steps)
        return columns[:1] if is_one_block else columns


def check_family(family: object) -> None:
    """Refuse an argument that is neither a family nor None, such as a class or bins, saying what to write."""
    if family is None or isinstance(family, Family):
        return
    if isinstance(family, Binned):
        stated = f"edges={list(family.edges)}" if family.edges else f"{family.num_bins}"
        raise ModelError(
            f"families= takes families, and {family!r} is a kind of column. Write DirichletHistogram({stated}), or "
            "declare the column, Schema(kinds={column: Binned(...)})."
        )
    raise ModelError(f"families= takes families such as NormalInverseGamma(), got {family!r}.")


def _default(name: str, kind: Kind, is_sparse: bool) -> Family:
    """The default family of a column."""
    load_wings()
    family = default_family(kind, is_sparse)
    if family is None:
        raise ModelError(
            f"Column {name!r} is of kind {kind!r}, which has no default family. Choose one that takes such columns, "
            f"NaiveBayes({{{name!r}: family}})."
        )
    return family
