"""What training and prediction give of a model, for type checkers and editors.

A model says by its type which labels it has, `Recipe[ClassLabel]`, and its fits say the same, `Fit[ClassLabel]`; what
predictions of such labels are is told by `predict` alone. Other models say what their fits are, `Model[ConceptFit]`.
"""

from typing import TypeVar


class ClassLabel:
    """Labels are classes."""


class NumberLabel:
    """Labels are numbers."""


class OptionalLabel:
    """Labels are classes, or there are none."""


class AnyLabel:
    """What labels are is seen by the data, or by the program."""


Labelled = TypeVar("Labelled")
Learned = TypeVar("Learned", covariant=True)
Answered = TypeVar("Answered", covariant=True)
