"""Integer analysis: simplification, bounds, residues, sets, and maps of iterators."""

from tilesmith.arith.analyzer import Analyzer, ConstraintScope, Extension, ProofStrength
from tilesmith.arith.const_int_bound import ConstIntBound
from tilesmith.arith.int_set import *  # noqa: F403
from tilesmith.arith.iter_affine_map import *  # noqa: F403
from tilesmith.arith.modular_set import ModularSet
