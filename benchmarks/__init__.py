"""Benchmarks: `python -m benchmarks` prints figures against peers, measured in the same run.

A room is a module with `measures(quick)`, which yields functions that take nothing and give a `measure.Row` or a
`measure.Missing`; its name stands in `__main__.ROOMS`.
"""
