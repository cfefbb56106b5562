"""Declares the interface of schedules for primitives, and holds the methods for users."""

from __future__ import annotations

import random

from tilesmith.ir import GlobalVar
from tilesmith.tir.schedule.state import ScheduleState
from tilesmith.tir.schedule.trace import Trace
from tilesmith.tir.schedule.variables import RandomVariables

__all__ = ["PrimitiveMethods"]


class PrimitiveMethods:
    """The primitives as methods: each declaration (``primitive.py``) puts its method here.

    Editors and type checkers read them in ``methods.pyi``.
    """

    state: ScheduleState
    trace: Trace
    variables: RandomVariables
    random: random.Random
    error_render_level: str
    func_working_on: GlobalVar | None
