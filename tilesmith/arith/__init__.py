"""Integer analysis (provisional)."""

from tilesmith.arith.minimal import (
    Analyzer,
    IntervalSet,
    IntSet,
    detect_iter_map,
    eval_set,
)


def inverse_affine_iter_map(*args):
    raise RuntimeError("provisional arith")
