"""Benchmarks: `python -m benchmarks` prints ratios against peers, measured in the same run."""
