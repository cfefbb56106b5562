"""Schedules and operators for x86 CPUs, under their known names."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.topi.schedules.published import Published
from tilesmith.topi.x86 import tensor_intrin, utils

__all__ = ["tensor_intrin", "utils"]

__getattr__, __dir__ = lazy_attributes(__name__, finder=Published("x86"))
