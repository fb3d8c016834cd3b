"""What the package is compared with, written a second time without it: by SciPy, NumPy and plain loops."""
