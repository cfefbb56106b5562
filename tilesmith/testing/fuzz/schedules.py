"""Draws the arguments of each schedule primitive: one small function each, registered by the name
of the primitive's instructions. A primitive without one says why in its declaration
(``no_sampler``); a test checks that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.ir.queries import is_call
from tilesmith.testing.fuzz import intrinsics
from tilesmith.testing.fuzz.steps import IndexMapText, Nothing, Pick
from tilesmith.tir import IterVar
from tilesmith.tir.stmt import Block

__all__ = ["SAMPLERS", "sampler"]

SAMPLERS: dict[str, tuple[float, Callable[[Pick], Any]]] = {}
"""Kind → how often it is drawn, and the function that draws its arguments and calls it."""


def sampler(kind: str, weight: float = 1.0) -> Callable[[Callable[[Pick], Any]], Any]:
    """Register the function that draws the arguments of a kind of instruction."""

    def add(function: Callable[[Pick], Any]) -> Callable[[Pick], Any]:
        SAMPLERS[kind] = (weight, function)
        return function

    return add


def _regions(block: Block, kind: str) -> Any:
    return block.reads if kind == "read" else block.writes


def _buffer(pick: Pick, block: Any, kind: str) -> int:
    """Return the position of a buffer that a block reads or writes."""
    return pick.among(range(len(_regions(pick.statement(block), kind))))


def _scope(pick: Pick) -> str:
    """Return a storage scope; threads share only global memory."""
    if pick.has_threads:
        return "global"
    return pick.among(["global", "global", "local", "shared"])


# Looking and sampling.


@sampler("GetChildBlocks", 0.2)
def child_blocks(pick: Pick) -> None:
    pick.call("get_child_blocks", pick.call("get_block", "root", func_name="main"))


@sampler("GetProducers", 0.2)
def producers(pick: Pick) -> None:
    pick.call("get_producers", pick.block())


@sampler("GetConsumers", 0.2)
def consumers(pick: Pick) -> None:
    pick.call("get_consumers", pick.block())


@sampler("GetOutputBlocks", 0.2)
def output_blocks(pick: Pick) -> None:
    pick.call("get_output_blocks", pick.call("get_block", "root", func_name="main"))


@sampler("SampleCategorical", 0.7)
def categorical(pick: Pick) -> None:
    factor = pick.call("sample_categorical", [2, 3, 4], [0.25, 0.25, 0.5])
    pick.call("split", pick.loop(), [None, factor])


@sampler("SamplePerfectTile", 1)
def perfect_tile(pick: Pick) -> None:
    loop = pick.loop()
    parts = pick.number(2, 3)
    factors = pick.call("sample_perfect_tile", loop, parts, pick.among([4, 16]))
    pick.call("split", loop, list(factors))


@sampler("SamplePartitionedTile", 0.5)
def partitioned_tile(pick: Pick) -> None:
    loop = pick.loop()
    factors = pick.call("sample_partitioned_tile", loop, 3, pick.number(1, 2), pick.among([1, 2]))
    pick.call("split", loop, list(factors))


@sampler("SampleComputeLocation", 0.7)
def compute_location(pick: Pick) -> None:
    block = pick.block()
    loop = pick.call("sample_compute_location", block)
    pick.call("compute_at", block, loop)


# Loops.


@sampler("Split", 3)
def split(pick: Pick) -> None:
    loop = pick.loop()
    extent = pick.extent(loop)
    factors: list[Any] = [None, pick.number(1, 5)]
    if pick.chance(0.2):
        factors = [pick.number(1, 4), None]
    if pick.chance(0.2):
        factors = [None, pick.number(1, 3), pick.number(1, 3)]
    if extent and pick.chance(0.2):
        inner = pick.number(1, 4)
        factors = [-(-extent // inner), inner]  # exact or too many
    exact = extent is not None and factors[0] is None and extent % factors[-1] == 0
    more: dict[str, Any] = {}
    if exact and len(factors) == 2 and pick.chance(0.3):
        more["disable_predication"] = True
    if pick.chance(0.3):
        more["preserve_unit_iters"] = False
    pick.call("split", loop, factors, **more)


@sampler("Fuse", 2)
def fuse(pick: Pick) -> None:
    loops = pick.loops(pick.block())
    start = pick.among(range(len(loops)))
    count = pick.number(2, 3) if pick.chance(0.9) else 1
    more = {"preserve_unit_iters": False} if pick.chance(0.3) else {}
    pick.call("fuse", *loops[start : start + count], **more)


@sampler("Reorder", 2)
def reorder(pick: Pick) -> None:
    loops = pick.shuffled(pick.loops(pick.block()))
    if not loops:
        raise Nothing
    pick.call("reorder", *loops[: pick.number(1, len(loops))])


@sampler("Merge", 0.7)
def merge(pick: Pick) -> None:
    """Merge loops, mostly of neighbouring blocks at the same depth."""
    root = pick.call("get_block", "root", func_name="main")
    blocks = pick.call("get_child_blocks", root)
    if len(blocks) < 2 or pick.chance(0.1):
        pick.call("merge", pick.loop(), pick.loop())
        return
    number = pick.number(0, len(blocks) - 2)
    nests = [pick.loops(block) for block in blocks[number : number + 2]]
    depth = pick.among(range(min(len(nest) for nest in nests)))
    pick.call("merge", *[nest[depth] for nest in nests])


@sampler("LoopPartition", 0.7)
def loop_partition(pick: Pick) -> None:
    factors: list[Any] = [pick.number(1, 4), None]
    if pick.chance(0.3):
        factors = [pick.number(1, 3), pick.number(1, 3), None]
    pick.call("loop_partition", pick.loop(), factors)


@sampler("ReorderBlockIterVar", 0.5)
def reorder_block_iter_var(pick: Pick) -> None:
    block = pick.block()
    order = pick.shuffled(range(len(pick.statement(block).iter_vars)))
    pick.call("reorder_block_iter_var", block, order)


@sampler("AddUnitLoop", 0.4)
def add_unit_loop(pick: Pick) -> None:
    block = pick.block()
    pick.call("add_unit_loop", block if pick.chance() else pick.loop(block))


def _free_loops(pick: Pick, block: Any) -> list[Any]:
    """Return the loops around a block that are not bound to threads. Without its threads, a nest
    that contains other loops over threads would be run by all of them at once.
    """
    return [loop for loop in pick.loops(block) if pick.statement(loop).thread_binding is None]


@sampler("Parallel", 1)
def parallel(pick: Pick) -> None:
    pick.call("parallel", pick.among(_free_loops(pick, pick.block())))


@sampler("Vectorize", 1.5)
def vectorize(pick: Pick) -> None:
    block = pick.block()
    loops = _free_loops(pick, block)
    pick.call("vectorize", loops[-1] if loops and pick.chance(0.8) else pick.among(loops))


@sampler("Unroll", 0.8)
def unroll(pick: Pick) -> None:
    pick.call("unroll", pick.among(_free_loops(pick, pick.block())))


@sampler("Bind", 0.15)
def bind(pick: Pick) -> None:
    """Bind a loop to threads, only while all memory is global: other memory would be private to
    threads.
    """
    if any(buffer.scope() != "global" for buffer in pick.buffers_now()):
        raise Nothing
    pick.call("bind", pick.loop(), pick.among(["threadIdx.x", "blockIdx.x", "vthread.x"]))


# Placement.


def _placement(pick: Pick, around: str) -> None:
    """Return a block and a loop, mostly around one of its consumers (producers)."""
    more: dict[str, Any] = {"preserve_unit_loops": True} if pick.chance(0.4) else {}
    if pick.chance(0.2):
        more["index"] = pick.among([-1, -2, 0])
    block = pick.block(_connected(pick, around))
    near = pick.call("get_" + around, block)
    loop = pick.loop(pick.among(near)) if near and pick.chance(0.9) else pick.loop()
    pick.call("compute_at" if around == "consumers" else "reverse_compute_at", block, loop, **more)


def _connected(pick: Pick, around: str) -> Callable[[Block], bool]:
    """True if a block has a consumer (producer) among the others."""
    kind = "reads" if around == "consumers" else "writes"
    touched = {region.buffer for block in pick.blocks_now() for region in getattr(block, kind)}
    own = "writes" if around == "consumers" else "reads"
    if pick.chance(0.05):
        return lambda block: True
    return lambda block: any(region.buffer in touched for region in getattr(block, own))


@sampler("ComputeAt", 2.5)
def compute_at(pick: Pick) -> None:
    _placement(pick, "consumers")


@sampler("ReverseComputeAt", 2.5)
def reverse_compute_at(pick: Pick) -> None:
    _placement(pick, "producers")


def _is_spatial(block: Block) -> bool:
    return block.init is None


@sampler("ComputeInline", 1.5)
def compute_inline(pick: Pick) -> None:
    near = _connected(pick, "consumers")
    pick.call("compute_inline", pick.block(lambda block: near(block) and _is_spatial(block)))


@sampler("ReverseComputeInline", 1.5)
def reverse_compute_inline(pick: Pick) -> None:
    near = _connected(pick, "producers")
    pick.call(
        "reverse_compute_inline", pick.block(lambda block: near(block) and _is_spatial(block))
    )


# Reductions.


def _is_reduction(block: Block) -> bool:
    return block.init is not None


@sampler("DecomposeReduction", 1.5)
def decompose_reduction(pick: Pick) -> None:
    block = pick.block(_is_reduction if pick.chance(0.9) else lambda block: True)
    pick.call("decompose_reduction", block, pick.loop(block))


@sampler("RFactor", 1.5)
def rfactor(pick: Pick) -> None:
    block = pick.block(_is_reduction if pick.chance(0.9) else lambda block: True)
    reduced = pick.driven(block, IterVar.CommReduce) if pick.chance(0.6) else []
    loop = pick.among(reduced) if reduced else pick.loop(block)
    pick.call("rfactor", loop, pick.number(0, 2))


@sampler("FuseReductionEpilogue", 1)
def fuse_reduction_epilogue(pick: Pick) -> None:
    near = _connected(pick, "consumers")
    block = pick.block(lambda one: near(one) and _is_reduction(one))
    pick.call("fuse_reduction_epilogue", block, pick.among(pick.call("get_consumers", block)))


@sampler("DecomposePadding", 0.5)
def decompose_padding(pick: Pick) -> None:
    def chooses(block: Block) -> bool:
        value = getattr(block.body, "value", None)
        return is_call(value, "tir.if_then_else")

    block = pick.block(chooses if pick.chance(0.8) else lambda one: True)
    pick.call("decompose_padding", block, pick.loop(block))


@sampler("PadEinsum", 0.5)
def pad_einsum(pick: Pick) -> None:
    block = pick.block(_is_reduction if pick.chance(0.9) else lambda block: True)
    count = len(pick.statement(block).iter_vars)
    pick.call("pad_einsum", block, [pick.among([1, 2, 3, 4]) for _ in range(count)])


@sampler("RollingBuffer", 0.7)
def rolling_buffer(pick: Pick) -> None:
    """Roll a buffer, mostly of a block that was put under a loop of its consumer."""
    block = pick.block(_connected(pick, "consumers"))
    near = pick.call("get_consumers", block)
    if near and pick.chance(0.8):
        pick.call("compute_at", block, pick.loop(pick.among(near)))
    pick.call("rolling_buffer", block, _buffer(pick, block, "write"))


# Buffers.


@sampler("CacheRead", 1.5)
def cache_read(pick: Pick) -> None:
    block = pick.block()
    more = {"consumer_blocks": [pick.block()]} if pick.chance(0.15) else {}
    pick.call("cache_read", block, _buffer(pick, block, "read"), _scope(pick), **more)


@sampler("CacheWrite", 1.5)
def cache_write(pick: Pick) -> None:
    block = pick.block()
    more = {"consumer_blocks": [pick.block()]} if pick.chance(0.15) else {}
    pick.call("cache_write", block, _buffer(pick, block, "write"), _scope(pick), **more)


def _cache_map(pick: Pick, block: Any) -> IndexMapText:
    """Return a map from a block's iterators to the indices of its cache."""
    axes = pick.statement(block).iter_vars
    names = pick.shuffled([f"i{k}" for k in range(len(axes))])
    if not names:
        raise Nothing
    return IndexMapText(len(axes), names[: pick.number(1, len(names))])


@sampler("ReindexCacheRead", 0.7)
def reindex_cache_read(pick: Pick) -> None:
    block = pick.block()
    number = _buffer(pick, block, "read")
    pick.call("reindex_cache_read", block, number, _scope(pick), _cache_map(pick, block))


@sampler("ReindexCacheWrite", 0.7)
def reindex_cache_write(pick: Pick) -> None:
    block = pick.block()
    number = _buffer(pick, block, "write")
    pick.call("reindex_cache_write", block, number, _scope(pick), _cache_map(pick, block))


@sampler("CacheInplace", 0.5)
def cache_inplace(pick: Pick) -> None:
    def changes(block: Block) -> bool:
        return any(one.buffer is two.buffer for one in block.reads for two in block.writes)

    block = pick.block(changes if pick.chance(0.8) else lambda one: True)
    pick.call("cache_inplace", block, _buffer(pick, block, "read"), "global")


@sampler("CacheIndex", 0.5)
def cache_index(pick: Pick) -> None:
    pick.call("cache_index", pick.block(), "global", pick.number(0, 2))


@sampler("ReIndex", 1)
def reindex(pick: Pick) -> None:
    block = pick.block()
    kind = pick.among(["read", "write"])
    pick.call("reindex", block, (kind, _buffer(pick, block, kind)))


@sampler("ReadAt", 0.5)
def read_at(pick: Pick) -> None:
    block = pick.block()
    number = _buffer(pick, block, "read")
    pick.call("read_at", pick.loop(block), block, number, _scope(pick))


@sampler("WriteAt", 0.5)
def write_at(pick: Pick) -> None:
    block = pick.block()
    number = _buffer(pick, block, "write")
    pick.call("write_at", pick.loop(block), block, number, _scope(pick))


@sampler("StorageAlign", 0.7)
def storage_align(pick: Pick) -> None:
    block = pick.block()
    number = _buffer(pick, block, "write")
    rank = len(pick.statement(block).writes[number].buffer.shape)
    axis = pick.number(-1, rank - 1)
    pick.call("storage_align", block, number, axis, pick.among([4, 8, 16]), pick.number(0, 3))


@sampler("SetScope", 0.5)
def set_scope(pick: Pick) -> None:
    block = pick.block()
    pick.call("set_scope", block, _buffer(pick, block, "write"), _scope(pick))


_WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}


@sampler("UnsafeSetDType", 0.3)
def unsafe_set_dtype(pick: Pick) -> None:
    """Change a dtype, only to one that holds the same numbers: the primitive promises no more."""
    exact = {
        tensor["name"]
        for stage in pick.recipe["stages"]
        for tensor in stage["tensors"]
        if tensor["ulp"] is None and tensor["dtype"] in _WIDER
    }
    block = pick.block()
    number = _buffer(pick, block, "write")
    buffer = pick.statement(block).writes[number].buffer
    if buffer.name not in exact or pick.is_parameter(buffer) or buffer.dtype not in _WIDER:
        raise Nothing
    if any(
        match.source.buffer is buffer for one in pick.blocks_now() for match in one.match_buffers
    ):
        raise Nothing
    pick.call("unsafe_set_dtype", block, number, _WIDER[str(buffer.dtype)])


@sampler("TransformLayout", 2)
def transform_layout(pick: Pick) -> None:
    """Transform the layout of a buffer that callers do not see."""
    block = pick.block()
    kind = pick.among(["read", "write"])
    number = _buffer(pick, block, kind)
    buffer = _regions(pick.statement(block), kind)[number].buffer
    if pick.is_parameter(buffer):
        raise Nothing
    mapping = pick.index_map(buffer.shape, exact=pick.chance(0.7))
    numbers: list[float] = [0, 1] if not buffer.dtype.is_float else [0.0, 1.0]
    more = {"pad_value": pick.among(numbers)} if pick.chance(0.4) else {}
    pick.call("transform_layout", block, (kind, number), mapping, **more)


@sampler("TransformBlockLayout", 1)
def transform_block_layout(pick: Pick) -> None:
    block = pick.block()
    extents = [axis.dom.extent for axis in pick.statement(block).iter_vars]
    pick.call("transform_block_layout", block, pick.index_map(extents, exact=pick.chance(0.8)))


@sampler("SetAxisSeparator", 0.4)
def set_axis_separator(pick: Pick) -> None:
    """Set separators of a buffer that callers do not see: a parameter would change its shape."""
    block = pick.block()
    number = _buffer(pick, block, "write")
    buffer = pick.statement(block).writes[number].buffer
    if pick.is_parameter(buffer) or len(buffer.shape) < 2:
        raise Nothing
    pick.call(
        "set_axis_separator", block, ("write", number), [pick.number(1, len(buffer.shape) - 1)]
    )


# Blocks and notes.


@sampler("Blockize", 1)
def blockize(pick: Pick) -> None:
    more = {"preserve_unit_iters": False} if pick.chance(0.3) else {}
    if pick.chance(0.2):
        pick.call("blockize", [pick.block(), pick.block()], **more)
    else:
        pick.call("blockize", pick.loop(), **more)


@sampler("Tensorize", 0.8)
def tensorize(pick: Pick) -> None:
    """Tensorize with the fuzzer's own intrinsics, at a loop of four iterations that is made
    innermost.
    """
    block = pick.block(lambda one: intrinsics.fitting(one) is not None)
    statement = pick.statement(block)
    loops = list(pick.loops(block))
    realize = pick.realize(block)
    driven = intrinsics.driving_variable(realize)
    fitting = [loop for loop in loops if pick.statement(loop).loop_var is driven]
    loop = fitting[0] if fitting and pick.chance(0.9) else pick.among(loops)
    loops.remove(loop)
    if (pick.extent(loop) or 1) % 4 and pick.chance(0.9):
        raise Nothing
    if pick.extent(loop) != 4:
        outer, loop = pick.call("split", loop, [None, 4])
        loops.append(outer)
    if loops:
        pick.call("reorder", *loops, loop)
    pick.call("tensorize", loop, intrinsics.fitting(statement))


@sampler("Annotate", 1)
def annotate(pick: Pick) -> None:
    block = pick.block()
    key, value = pick.among(
        [("fuzz_note", 1), ("pragma_auto_unroll_max_step", 8), ("pragma_unroll_explicit", 0),
         ("pragma_loop_partition_hint", 1), ("pragma_loop_partition_hint", 1)]
    )  # fmt: skip
    target = block if key == "fuzz_note" and pick.chance() else pick.loop(block)
    pick.call("annotate", target, key, value)


@sampler("Unannotate", 0.2)
def unannotate(pick: Pick) -> None:
    loops = pick.loops(pick.block())
    marked = [loop for loop in loops if pick.statement(loop).annotations]
    loop = pick.among(marked or loops[:1])
    pick.call("unannotate", loop, pick.among(list(pick.statement(loop).annotations) or ["none"]))


@sampler("AnnotateBufferAccess", 0.3)
def annotate_buffer_access(pick: Pick) -> None:
    """Declare the whole buffer instead of the part that is accessed; written values must stay
    exact.
    """
    block = pick.block()
    kind = "read"
    number = _buffer(pick, block, kind)
    statement = pick.statement(block)
    shape = _regions(statement, kind)[number].buffer.shape
    if not all(isinstance(size, IntImm) for size in shape):
        raise Nothing
    whole = [f"(0, {size.value})" for size in shape]
    ranges = IndexMapText(len(statement.iter_vars), whole)
    pick.call("annotate_buffer_access", block, number, kind, ranges)


@sampler("UnsafeHideBufferAccess", 0.1)
def unsafe_hide_buffer_access(pick: Pick) -> None:
    """Hide an access. Later primitives cannot respect it, so the schedule ends here."""
    block = pick.block()
    kind = pick.among(["read", "write"])
    pick.call("unsafe_hide_buffer_access", block, kind, [_buffer(pick, block, kind)])
    pick.recorder.is_final = True
