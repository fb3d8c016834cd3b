"""Type parameters of models and fits, for type checkers and editors.

`Recipe[ClassLabel]` is a model whose labels are classes, and `Fit[ClassLabel]` its fit; `predict` declares the types of
answers. The parameter of other models is the type of their fits: `Model[ConceptFit]`.
"""

from typing import TypeVar


class ClassLabel:
    """Labels are classes."""


class NumberLabel:
    """Labels are numbers."""


class OptionalLabel:
    """Labels are classes, or the model has none."""


class AnyLabel:
    """Labels are of the kind that the data, or the program, show."""


Labelled = TypeVar("Labelled")
Learned = TypeVar("Learned", covariant=True)
Answered = TypeVar("Answered", covariant=True)
