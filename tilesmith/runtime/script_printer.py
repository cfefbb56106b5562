"""Printing of programs under the names that users know; they live in ``ir.printing``."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
