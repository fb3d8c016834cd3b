"""Other samplers on the problem of `benchmarks.gda`, each in a form that its users could write, made to be fast."""
