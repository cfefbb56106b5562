"""Integer analysis: simplification, bounds, residues, sets, and maps of iterators."""

from tilesmith.arith.analyzer import Analyzer, ConstraintScope, Extension, ProofStrength
from tilesmith.arith.const_int_bound import ConstIntBound
from tilesmith.arith.int_set import *  # noqa: F403
from tilesmith.arith.minimal import detect_iter_map
from tilesmith.arith.modular_set import ModularSet


def inverse_affine_iter_map(*args):
    raise RuntimeError("provisional arith")
