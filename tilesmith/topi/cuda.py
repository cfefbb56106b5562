"""Schedules and operators for CUDA, and GPUs in general, under their known names."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.topi.schedules.published import Published

__getattr__, __dir__ = lazy_attributes(__name__, finder=Published("cuda"))
