"""Measures the compiler and the code that it generates: `python -m benchmarks.run --help`."""
