"""Measures what this machine can do at most: bytes and operations per second."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
