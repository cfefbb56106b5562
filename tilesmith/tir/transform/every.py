"""All passes over tensor programs at once: for who asks for one by its registered name."""

from importlib import import_module

from tilesmith.tir import transform

for module in transform.MODULES:
    import_module(f"{transform.__name__}.{module}")
