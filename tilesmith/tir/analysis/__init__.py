"""Analyses of TensorIR programs."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.tir.analysis.access_region import *  # noqa: F403
from tilesmith.tir.analysis.block_scope import *  # noqa: F403
from tilesmith.tir.analysis.buffer_lca import *  # noqa: F403
from tilesmith.tir.analysis.cost import *  # noqa: F403
from tilesmith.tir.analysis.memory_access import verify_memory
from tilesmith.tir.analysis.memory_constraints import *  # noqa: F403
from tilesmith.tir.analysis.out_of_bounds import OOBChecker
from tilesmith.tir.analysis.purity import *  # noqa: F403
from tilesmith.tir.analysis.unscheduled import *  # noqa: F403
from tilesmith.tir.analysis.variables import *  # noqa: F403
from tilesmith.tir.analysis.verify_gpu_code import *  # noqa: F403
from tilesmith.tir.analysis.well_formed import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__)
