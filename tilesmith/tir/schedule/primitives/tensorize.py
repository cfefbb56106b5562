"""Defines tensorize, which replaces a block by the instruction of a tensor intrinsic.

The block's body is compared with the intrinsic's description; where they agree, it is replaced by
the implementation, whose buffers are views of regions of the block's buffers
(`T.match_buffer`), with strides and offsets that lowering fills in.
"""

from __future__ import annotations

from typing import Annotated, Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Ramp, Range, Var, const
from tilesmith.ir.operators import floormod, is_const
from tilesmith.ir.queries import nodes
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.queries import accesses, is_used_as_pointer
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.parameters import ParameterKind
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.blockize import blockize
from tilesmith.tir.schedule.primitives.tensorize_comparison import (
    BufferMatch,
    DescriptionMatcher,
    Mismatch,
)
from tilesmith.tir.schedule.primitives.tensorize_limits import narrowed
from tilesmith.tir.schedule.state import child_statements
from tilesmith.tir.stmt import Block, BlockRealize, For, MatchBufferRegion, Stmt
from tilesmith.tir.tensor_intrin import TensorIntrin
from tilesmith.tir.transform.storage.view_binder import row_major_strides

__all__ = ["as_tensor_intrin", "described_statement", "tensorize"]


def as_tensor_intrin(intrin: Any) -> TensorIntrin:
    """Convert the name of an intrinsic, an intrinsic, or a pair (description, implementation) to an
    intrinsic.
    """
    if isinstance(intrin, TensorIntrin):
        return intrin
    if isinstance(intrin, str):
        found = TensorIntrin.get(intrin)
        if found is None:
            raise ScheduleError(f"there is no tensor intrinsic '{intrin}'")
        return found
    if isinstance(intrin, (tuple, list)) and len(intrin) == 2:
        return TensorIntrin(*intrin)
    raise ScheduleError(
        f"tensorize takes the name of an intrinsic, a TensorIntrin or the pair (description, "
        f"implementation), got {intrin!r}"
    )


def described_statement(function: PrimFunc) -> Stmt:
    """Return the body of the root block of a description or implementation."""
    body = function.body
    return body.block.body if isinstance(body, BlockRealize) else body


class _Intrinsic(ParameterKind):
    """A tensor intrinsic; the trace records its name if it has one."""

    users_type = "str | TensorIntrin | tuple[PrimFunc, PrimFunc]"

    def resolve(self, sch: Any, name: str, value: Any, known: dict[str, Any]) -> TensorIntrin:
        return as_tensor_intrin(value)

    def kept(self, value: Any, resolved: Any) -> Any:
        return value if isinstance(value, str) else resolved.registered_name() or resolved


Intrinsic = Annotated[TensorIntrin, _Intrinsic()]


@primitive(is_composed=True)
def tensorize(
    block_or_loop: Cursor, tensor_intrin: Intrinsic, preserve_unit_iters: bool = True
) -> None:
    """Replace a block, or a loop with its body, by a tensor intrinsic.

    ``tensor_intrin``: the name of a registered intrinsic, a TensorIntrin, or the pair
    (description, implementation). What is computed must be what the description says, loop by
    loop; names, the places in the buffers, strides, further dimensions in front of the buffers
    and loops of one iteration may differ.
    """
    if isinstance(block_or_loop, BlockCursor) and block_or_loop.children():
        cursor = block_or_loop
    else:  # An init in the description is compared with one that stays inside.
        units = preserve_unit_iters and not _has_init(described_statement(tensor_intrin.desc))
        cursor = blockize([block_or_loop], units)
    realize = _Replacement(cursor, tensor_intrin).realize()
    cursor.replace(realize, {cursor.block: realize.block})


def _has_init(stmt: Stmt) -> bool:
    if isinstance(stmt, BlockRealize):
        return stmt.block.init is not None or _has_init(stmt.block.body)
    return any(_has_init(inner) for inner in child_statements(stmt))


class _Replacement:
    """Builds the block that contains the implementation."""

    def __init__(self, cursor: BlockCursor, intrin: TensorIntrin) -> None:
        self.cursor = cursor
        self.intrin = intrin
        name = intrin.registered_name()
        self.name = f"intrinsic '{name}'" if name else "the intrinsic"
        self.before = cursor.stmt
        self.matcher = DescriptionMatcher()

    def refuse(self, reason: str) -> Exception:
        """Return the error, which shows the program and the description."""
        advice = f"the description of {self.name}:\n{self.intrin.desc.script()}"
        return refuse(reason, self.cursor, advice)

    def realize(self) -> BlockRealize:
        """Return the block after its comparison with the description."""
        block = self.before.block
        for iterator in block.iter_vars:
            self.matcher.analyzer.bind(iterator.var, iterator.domain)
        if block.match_buffers:
            raise self.refuse(
                f"block '{block.name_hint}' matches regions: is it tensorized already?"
            )
        try:
            self.matcher.statement(block.body, described_statement(self.intrin.desc))
        except Mismatch as mismatch:
            text = f"block '{block.name_hint}' does not match {self.name}:\n  {mismatch}"
            raise self.refuse(text) from None
        self.check_aliases()
        return self.before.with_fields(block=self.implemented(block))

    def check_aliases(self) -> None:
        """Check that a buffer that the intrinsic writes does not alias its other buffers."""
        matches = self.matcher.buffers
        for written in self.matcher.written:
            for other, match in matches.items():
                if other is not written and match.buffer is matches[written].buffer:
                    raise self.refuse(
                        f"'{match.buffer.name}' of the block stands for '{written.name}' of the "
                        f"description, which is written, and for '{other.name}'"
                    )

    def implemented(self, block: Block) -> Block:
        """Return the block with the implementation's statements and matched buffers."""
        desc, impl = self.intrin.desc, renew_defs(self.intrin.impl)
        matches, left = [], {}
        for wanted, given in zip(desc.params, impl.params):
            source, target = desc.buffer_map.get(wanted), impl.buffer_map.get(given)
            if source is None or target is None:
                raise self.refuse(f"parameter '{wanted.name}' of {self.name} is not a buffer")
            match = self.matcher.buffers.get(source)
            if match is None:
                raise self.refuse(f"the description of {self.name} does not use '{source.name}'")
            self.check_layout(impl, source, target, match)
            matches.append(MatchBufferRegion(target, _region(match, source)))
            left[target.name] = _elements_left(match, source)
        inner = impl.body.block if isinstance(impl.body, BlockRealize) else None
        annotations = {**self.inner_annotations(block), **block.annotations}
        if inner is not None:
            annotations.update(inner.annotations)
        made = block.with_fields(
            body=narrowed(
                impl, inner.body if inner is not None else impl.body, left, self.matcher.analyzer
            ),
            alloc_buffers=(*block.alloc_buffers, *(inner.alloc_buffers if inner else ())),
            match_buffers=(*matches, *(inner.match_buffers if inner else ())),
            annotations=annotations,
        )
        return _with_declared(made, [match.source for match in matches])

    def inner_annotations(self, block: Block) -> dict[str, Any]:
        """Return the annotations of the blocks that are removed."""
        found: dict[str, Any] = {}
        for child in self.cursor.blocks_below():
            inner = child.block
            if inner.init is None or not block.init:
                found.update(inner.annotations)
        return found

    def check_layout(
        self, impl: PrimFunc, source: Buffer, target: Buffer, match: BufferMatch
    ) -> None:
        """Check that the region has the memory layout that the implementation assumes."""
        if target.dtype is not source.dtype or len(target.shape) != len(source.shape):
            raise self.refuse(
                f"'{source.name}' of the description is {source!r}, in the implementation of "
                f"{self.name} it is {target!r}"
            )
        analyzer = self.matcher.analyzer
        strides = row_major_strides(match.buffer)
        offset: PrimExpr = match.buffer.elem_offset
        for start, stride in zip(match.start, strides):
            offset = offset + start * stride.astype(start.dtype)
        what = f"'{target.name}' of {self.name}"
        factor = target.offset_factor
        if factor > 1 and not analyzer.can_prove_equal(floormod(offset, factor), 0):
            raise self.refuse(
                f"{what} must begin at a multiple of {factor} elements, the region of "
                f"'{match.buffer.name}' begins at {analyzer.simplify(offset)}"
            )
        if not _counts_on_layout(impl, target):
            return
        if not isinstance(target.elem_offset, Var):
            if not analyzer.can_prove_equal(offset, target.elem_offset.astype(offset.dtype)):
                raise self.refuse(
                    f"{what} has no symbolic offset, and the region of '{match.buffer.name}' "
                    f"begins at {analyzer.simplify(offset)} (declare it with offset_factor=1)"
                )
        own = strides[len(strides) - len(target.shape) :]
        for size, wanted, stride in zip(target.shape, row_major_strides(target), own):
            if is_const(size, 1) or isinstance(wanted, Var):
                continue
            if not analyzer.can_prove_equal(stride, wanted.astype(stride.dtype)):
                raise self.refuse(
                    f"{what} has the strides "
                    f"{[str(one) for one in row_major_strides(target)]}, the region of "
                    f"'{match.buffer.name}' {[str(one) for one in own]} (change its layout with "
                    "transform_layout, or copy it with cache_read)"
                )


def _with_declared(block: Block, regions: list[BufferRegion]) -> Block:
    """Add the accesses that an implementation makes beyond the description, such as reading back an
    intermediate result.
    """
    reads, writes, _ = get_block_access_region(block, {})
    changes = {}
    for name, found in (("reads", reads), ("writes", writes)):
        declared = getattr(block, name)
        missing = [
            region
            for region in regions
            if any(one.buffer is region.buffer for one in found)
            and not any(one.buffer is region.buffer for one in declared)
        ]
        if missing:
            changes[name] = (*declared, *missing)
    return block.with_fields(**changes) if changes else block


def _region(match: BufferMatch, source: Buffer) -> BufferRegion:
    """Return the box of the block's buffer that corresponds to a buffer of the description."""
    leading = len(match.start) - len(source.shape)
    ranges = []
    for number, (start, size) in enumerate(zip(match.start, match.buffer.shape)):
        extent: PrimExpr = const(1, size.dtype)
        if number >= leading:
            extent = source.shape[number - leading].astype(size.dtype)
        ranges.append(Range.from_min_extent(start.astype(size.dtype), extent))
    return BufferRegion(match.buffer, tuple(ranges))


def _elements_left(match: BufferMatch, source: Buffer) -> list[PrimExpr]:
    """Return how many elements the block's buffer has from the start of the box, by axis of the
    description's buffer.
    """
    axes = list(zip(match.start, match.buffer.shape))[len(match.start) - len(source.shape) :]
    return [size - start.astype(size.dtype) for start, size in axes]


def _counts_on_layout(impl: PrimFunc, buffer: Buffer) -> bool:
    """Return whether an implementation relies on the strides that it declares for a buffer: it uses
    the buffer through its pointer, or accesses it beyond the end of its rows.
    """
    body = impl.body
    whole = [match.source.buffer for match in nodes(body, MatchBufferRegion)]
    if buffer in whole or is_used_as_pointer(body, buffer):
        return True
    analyzer = Analyzer()
    for loop in nodes(body, For):
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    for access in accesses(body, buffer):
        for index, size in zip(access.indices, buffer.shape):
            last = index
            if isinstance(index, Ramp):
                last = index.base + index.stride * (index.lanes - 1)
            if last.dtype.lanes != 1 or not analyzer.can_prove(last < size):
                return True
    return False
