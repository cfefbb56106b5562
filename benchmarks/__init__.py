"""Measurements of the compiler and of the code that it makes: `python -m benchmarks.run --help`."""
