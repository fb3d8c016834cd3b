"""Programs as JAX pytrees: what compiled functions are keyed by, and what is an argument of theirs."""

import abc

import jax


class PytreeFunction(abc.ABC):
    """A program function whose constants (hyperparameters) are the leaves of a JAX pytree.

    Such constants are arguments of compiled functions: other hyperparameters compile nothing anew.
    """

    covariates: tuple[str, ...] = ()

    @abc.abstractmethod
    def __call__(self, n, **covariates): ...


def register(program_type):
    """Let JAX take programs of this type as arguments.

    The leaves are those of a `PytreeFunction`. All else is static: any other function itself, and what was found out
    about it. The labels are not part of it, so that data with other labels compile nothing.
    """

    def flatten(program):
        dynamic = isinstance(program.function, PytreeFunction)
        coordinates = tuple(program.coordinates.items())
        static = None if dynamic else program.function
        fixed = (static, program.label, program.num_classes, program.structure, program.plan, coordinates)
        return ((program.function,) if dynamic else ()), fixed

    def unflatten(fixed, children):
        static, label, num_classes, structure, plan, coordinates = fixed
        program = object.__new__(program_type)
        program.__dict__.update(
            function=children[0] if children else static,
            label=label,
            num_classes=num_classes,
            structure=structure,
            plan=plan,
            coordinates=dict(coordinates),
        )
        return program

    jax.tree_util.register_pytree_node(program_type, flatten, unflatten)
