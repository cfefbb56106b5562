"""Operators as tensor expressions (TOPI)."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.topi import nn, tag, utils
from tilesmith.topi.broadcast import *  # noqa: F403
from tilesmith.topi.dynamic import *  # noqa: F403
from tilesmith.topi.einsum import einsum
from tilesmith.topi.helpers import (
    InvalidShapeError,
    ceil_div,
    const_matrix,
    const_vector,
    get_const_float,
    get_float_tuple,
    get_max_power2_factor,
    get_shape,
    is_dynamic_shape,
    is_empty_shape,
    is_target,
    make_idx,
    nchw_pack_layout,
    nchw_xc_layout,
    ncw_pack_layout,
    ncw_xc_layout,
    swap,
    within_index,
)
from tilesmith.topi.indexing import *  # noqa: F403
from tilesmith.topi.legalization import *  # noqa: F403
from tilesmith.topi.math import *  # noqa: F403
from tilesmith.topi.product import *  # noqa: F403
from tilesmith.topi.reduction import *  # noqa: F403
from tilesmith.topi.scan import *  # noqa: F403
from tilesmith.topi.scatter import *  # noqa: F403
from tilesmith.topi.search import *  # noqa: F403
from tilesmith.topi.sequence import *  # noqa: F403
from tilesmith.topi.signal import *  # noqa: F403
from tilesmith.topi.slicing import *  # noqa: F403
from tilesmith.topi.sort import *  # noqa: F403
from tilesmith.topi.sparse_indices import *  # noqa: F403
from tilesmith.topi.tag import is_broadcast, is_injective
from tilesmith.topi.tensor import *  # noqa: F403
from tilesmith.topi.transform import *  # noqa: F403
from tilesmith.topi.utils import (
    equal_const_int,
    get_const_int,
    get_const_tuple,
    ravel_index,
    simplify,
    traverse_inline,
)

_LATER = (
    "adreno", "arm_cpu", "bifrost", "cuda", "generic", "gpu", "hexagon", "hls", "image",
    "intel_graphics", "mali", "random", "rocm", "sparse", "testing", "vision", "x86",
)  # fmt: skip
"""Modules of schedules, of references for tests, and of rare operators; each loads when it is first
used."""

__getattr__, __dir__ = lazy_attributes(
    __name__, {name: f"tilesmith.topi.{name}" for name in _LATER}
)
