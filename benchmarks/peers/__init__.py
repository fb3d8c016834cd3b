"""Other samplers on the problem of `benchmarks.gda`, each in the fastest form that its users could write."""
