"""Counting compilations."""

import contextlib

import jax


@contextlib.contextmanager
def compilations():
    """Collects the name of each function that JAX compiles (or fetches from its cache on disk)."""
    found = []

    def listen(event, duration, **about):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(about.get("fun_name", "?"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
