"""The options of the commands, as given and as the command line that gives them again."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CompareOptions:
    """The options of `bayesgen compare`, as given; None stands for the default of each."""

    data: str
    target: str | None = None
    drop: tuple[str, ...] = ()
    sequences: tuple[str, ...] = ()
    task: str = "classification"
    models: tuple[str, ...] | None = None
    covariance: str | None = None
    bins: int | None = None
    test_size: float | None = None
    per_class: int | None = None
    methods: tuple[str, ...] = ("mle", "map", "exact", "nuts")
    seed: int = 0
    missing: tuple[str, ...] = ()
    unknown: str | None = None

    def command_line(self) -> str:
        """The command that does the same again."""
        named: dict[str, Sequence[object]] = {
            "--target": [self.target],
            "--drop": self.drop,
            "--sequence": self.sequences,
            "--task": [self.task],
            "--missing": self.missing,
            "--unknown": [self.unknown],
            "--model": self.models or (),
            "--covariance": [self.covariance],
            "--bins": [self.bins],
            "--test-size": [self.test_size],
            "--per-class": [self.per_class],
            "--methods": [",".join(self.methods)],
            "--seed": [self.seed],
        }
        pairs = ((option, str(value)) for option, values in named.items() for value in values if value is not None)
        return shlex.join(["bayesgen", "compare", self.data, *(word for pair in pairs for word in pair)])
