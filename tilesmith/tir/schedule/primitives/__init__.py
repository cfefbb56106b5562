"""The primitives, one function each: ``(state, identities and plain values) -> new identities``."""

from tilesmith.tir.schedule.primitives.annotate import (
    annotate,
    bind,
    parallel,
    unannotate,
    unroll,
    vectorize,
)
from tilesmith.tir.schedule.primitives.auto_copy import read_at, write_at
from tilesmith.tir.schedule.primitives.blocks import (
    get_block,
    get_consumers,
    get_output_blocks,
    get_producers,
)
from tilesmith.tir.schedule.primitives.cache import (
    cache_read,
    cache_write,
    set_scope,
    storage_align,
)
from tilesmith.tir.schedule.primitives.cache_index import cache_index
from tilesmith.tir.schedule.primitives.cache_inplace import cache_inplace
from tilesmith.tir.schedule.primitives.compute_at import compute_at, reverse_compute_at
from tilesmith.tir.schedule.primitives.compute_inline import compute_inline, reverse_compute_inline
from tilesmith.tir.schedule.primitives.layout import (
    as_block_index_map,
    as_index_map,
    as_pad_value,
    transform_block_layout,
    transform_layout,
)
from tilesmith.tir.schedule.primitives.loops import (
    add_unit_loop,
    fuse,
    loop_partition,
    reorder,
    reorder_block_iter_var,
    split,
)
from tilesmith.tir.schedule.primitives.merge import merge
from tilesmith.tir.schedule.primitives.reduction import decompose_reduction, rfactor
from tilesmith.tir.schedule.primitives.reindex import reindex, reindex_cache
from tilesmith.tir.schedule.primitives.rolling_buffer import rolling_buffer
from tilesmith.tir.schedule.primitives.sampling import (
    sample_categorical,
    sample_compute_location,
    sample_partitioned_tile,
    sample_perfect_tile,
)
from tilesmith.tir.schedule.primitives.verify import verify_state

__all__ = [
    "add_unit_loop",
    "annotate",
    "as_block_index_map",
    "as_index_map",
    "as_pad_value",
    "bind",
    "cache_index",
    "cache_inplace",
    "cache_read",
    "cache_write",
    "compute_at",
    "compute_inline",
    "decompose_reduction",
    "fuse",
    "get_block",
    "get_consumers",
    "get_output_blocks",
    "get_producers",
    "loop_partition",
    "merge",
    "parallel",
    "read_at",
    "reindex",
    "reindex_cache",
    "reorder",
    "reorder_block_iter_var",
    "reverse_compute_at",
    "reverse_compute_inline",
    "rfactor",
    "rolling_buffer",
    "sample_categorical",
    "sample_compute_location",
    "sample_partitioned_tile",
    "sample_perfect_tile",
    "set_scope",
    "split",
    "storage_align",
    "transform_block_layout",
    "transform_layout",
    "unannotate",
    "unroll",
    "vectorize",
    "verify_state",
    "write_at",
]
