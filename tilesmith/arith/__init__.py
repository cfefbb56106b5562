"""Integer analysis: simplification, bounds, residues, sets, and maps of iterators."""

from tilesmith.arith.analyzer import (
    Analyzer,
    ConstraintScope,
    Extension,
    ProofStrength,
    RewriteStatistics,
)
from tilesmith.arith.bound import deduce_bound
from tilesmith.arith.const_int_bound import ConstIntBound
from tilesmith.arith.int_set import *  # noqa: F403
from tilesmith.arith.int_solver import *  # noqa: F403
from tilesmith.arith.iter_affine_map import *  # noqa: F403
from tilesmith.arith.modular_set import ModularSet
from tilesmith.arith.pattern import *  # noqa: F403
from tilesmith.arith.presburger import PresburgerSet
from tilesmith.arith.region import *  # noqa: F403
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
