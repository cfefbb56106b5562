"""Codes in the arguments of ``vm.builtin.match_shape`` and ``vm.builtin.make_shape``."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["MakeShapeCode", "MatchShapeCode"]


class MatchShapeCode(IntEnum):
    """What is done with a size: compared with a number, stored in the heap, nothing, compared with
    a place of the heap.
    """

    ASSERT_EQUAL_TO_IMM = 0
    STORE_TO_HEAP = 1
    NO_OP = 2
    ASSERT_EQUAL_TO_LOAD = 3


class MakeShapeCode(IntEnum):
    """Where a size comes from: a number, a place of the heap."""

    USE_IMM = 0
    LOAD_SHAPE = 1
