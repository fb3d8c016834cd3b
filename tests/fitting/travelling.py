"""A program that travels to workers by its content, as a function of a notebook does: it reads nothing around it."""

import bayesgen as bg


def program_of_a_column():
    """Classes of equal shares, and a normal column "a" about the place of each."""

    def program(n):
        import jax.numpy as jnp
        import numpyro
        import numpyro.distributions as dist

        with numpyro.plate("K", 3):
            loc = numpyro.sample("loc", dist.Normal(0, 3))
        with numpyro.plate("N", n):
            y = numpyro.sample("y", dist.Categorical(probs=jnp.full(3, 1 / 3)))
            numpyro.sample("a", dist.Normal(loc[y], 1.0))

    return bg.GenerativeProgram(program, classes=["ape", "bear", "cat"])
