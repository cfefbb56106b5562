"""transform_layout and transform_block_layout: apply index maps to buffers and to iterators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import FloatImm, IntImm, PrimExpr, Range, Var, const, convert
from tilesmith.ir.operators import cast, is_const, moved
from tilesmith.ir.queries import variables
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule.blocks import check_not_a_pointer, has_affine_binding, scope_of
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import Redirect, SimplifiedSubstitution
from tilesmith.tir.schedule.parameters import Adapted, BlockBuffer, BufferChoice
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.cache import buffer_with, writers_of
from tilesmith.tir.schedule.primitives.layout_padding import Padding, WholeWriter
from tilesmith.tir.stmt import Block, BlockRealize, For, ForKind, Stmt

__all__ = [
    "as_block_index_map",
    "as_index_map",
    "as_pad_value",
    "transform_block_layout",
    "transform_layout",
]


def _buffer(cursor: BlockCursor, choice: BufferChoice) -> Buffer:
    block, (kind, index) = cursor.block, choice
    regions = block.reads if kind == "read" else block.writes
    if not 0 <= index < len(regions):
        raise refuse(
            f"block '{block.name_hint}' {kind}s {len(regions)} buffers, not {index + 1}", cursor
        )
    return regions[index].buffer


def as_index_map(known: Mapping[str, Any], index_map: Any) -> IndexMap:
    """Convert a function of the indices of the chosen buffer to an index map; return an index map
    unchanged.
    """
    if isinstance(index_map, IndexMap):
        return index_map
    buffer = _buffer(known["block"], known["buffer"])
    dtype = buffer.shape[0].dtype if buffer.shape else "int32"
    return _from_function(index_map, len(buffer.shape), dtype)


def _from_function(function: Callable[..., Any], ndim: int, dtype: Any) -> IndexMap:
    mapping, separators = IndexMap.from_func_with_separators(
        function, ndim=ndim, index_dtype=str(dtype)
    )
    return mapping.with_fields(axis_separators=tuple(separators)) if separators else mapping


def as_pad_value(known: Mapping[str, Any], pad_value: Any) -> IndexMap | None:
    """Convert a padding value to a map from the new indices to the value; None leaves the padding
    undefined.
    """
    if pad_value is None or isinstance(pad_value, IndexMap):
        return pad_value
    buffer, mapping = _buffer(known["block"], known["buffer"]), known["index_map"]
    if callable(pad_value):
        dtype = buffer.shape[0].dtype if buffer.shape else "int32"
        made = IndexMap.from_func(
            pad_value, ndim=len(mapping.final_indices), index_dtype=str(dtype)
        )
        return IndexMap(made.initial_indices, [_adapted(v, buffer) for v in made.final_indices])
    value = _adapted(convert(pad_value), buffer, isinstance(pad_value, (int, float)))
    variables = [Var(f"i{k}", "int32") for k in range(len(mapping.final_indices))]
    return IndexMap(variables, [value], None)


def _adapted(value: PrimExpr, buffer: Buffer, is_literal: bool = True) -> PrimExpr:
    """Convert a Python number to the dtype of the buffer's elements; integers do not become
    floats."""
    if is_literal and isinstance(value, (IntImm, FloatImm)):
        if value.dtype.is_float == buffer.dtype.is_float:
            return const(value.value, buffer.dtype)
    return value


def as_block_index_map(known: Mapping[str, Any], index_map: Any) -> IndexMap:
    """Return a map over the iterators of a block."""
    if isinstance(index_map, IndexMap):
        return index_map
    block: Block = known["block"].block
    dtype = block.iter_vars[0].var.dtype if block.iter_vars else "int32"
    mapping = _from_function(index_map, len(block.iter_vars), dtype)
    if mapping.axis_separators:
        raise UnsupportedError("the iterators of a block have no axis separators")
    return mapping


def _as_many_elements(a: Buffer, b: Buffer) -> bool:
    """Return whether buffers of constant shapes have the same number of elements."""
    counts = []
    for buffer in (a, b):
        sizes = [size.value for size in buffer.shape if isinstance(size, IntImm)]
        if len(sizes) < len(buffer.shape):
            return True
        counts.append(math.prod(sizes))
    return counts[0] == counts[1]


class _TransformAccess(Redirect):
    """Rewrites the indices of every access to a buffer."""

    def __init__(self, old: Buffer, new: Buffer, mapping: IndexMap) -> None:
        super().__init__(old, new)
        self.mapping = mapping
        self.analyzer = Analyzer()
        self.is_dense = _as_many_elements(old, new)

    def visit_For(self, loop: For) -> For:
        """Record the range of the variable, which helps to simplify the new indices."""
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        return self.children(loop)

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        """Return the new indices of an element."""
        # An index that stays as it was keeps its name, also where it can only be 0.
        return [
            index if isinstance(index, Var) else self.analyzer.simplify(index)
            for index in self.mapping.map_indices(list(indices))
        ]

    def ranges(self, buffer: Buffer, ranges: tuple[Range, ...]) -> list[Range]:
        """Return the new ranges: a point is mapped to a point, a box to the bounding box of its
        image.
        """
        if all(is_const(part.extent, 1) for part in ranges):
            place = self.indices(buffer, tuple([part.min for part in ranges]))
            return list(BufferRegion.from_point(self.new, place).region)
        variables = [Var(f"r{k}", part.min.dtype) for k, part in enumerate(ranges)]
        domain = dict(zip(variables, ranges))
        image = []
        for index, size in zip(self.mapping.map_indices(variables), self.new.shape):
            covered = eval_set(index, domain)
            if covered.has_lower_bound() and covered.has_upper_bound():
                low = self.analyzer.simplify(covered.min_value)
                extent = self.analyzer.simplify(moved(covered.max_value - low, 1))
                image.append(Range.from_min_extent(low, extent))
            else:
                image.append(Range.from_min_extent(const(0, size.dtype), size))
        return image

    def visit_Block(self, block: Block) -> Block:
        """Rewrite a block: the iterators' ranges, the accesses, the allocations."""
        for iterator in block.iter_vars:
            if self.is_dense:  # with padding, 'vi // 16' stays for readability, also where it is 0
                self.analyzer.bind(iterator.var, iterator.domain)
        for match in block.match_buffers:
            if match.source.buffer is self.old:
                raise _MatchedError(block)
        return super().visit_Block(block)


_MAP = "an IndexMap or a function of the indices that gives the new ones"
LayoutMap = Annotated[
    IndexMap,
    Adapted(as_index_map, "IndexMap | Callable[..., Any]", as_function=True, wanted=_MAP),
]
PadValue = Annotated[IndexMap | None, Adapted(as_pad_value, as_function=True)]
BlockMap = Annotated[
    IndexMap,
    Adapted(as_block_index_map, "IndexMap | Callable[..., Any]", as_function=True, wanted=_MAP),
]


class _MatchedError(Exception):
    """Raised if a block matches a region of the buffer."""


@primitive()
def transform_layout(
    block: BlockCursor,
    buffer: BlockBuffer,
    index_map: LayoutMap,
    pad_value: PadValue = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Change the layout of a buffer that a block reads or writes: element ``i`` goes to
    ``index_map(i)``. ``buffer`` is ``("read", k)``, ``("write", k)``, a name or a Buffer.

    Where the new shape has more elements, ``pad_value`` fills them: a number, an expression or
    a function of the new indices, in the dtype of the buffer. The producer writes them, or a
    block after it; of a parameter that is only read they are assumed to hold it. Refuses
    padding without a value, unless ``assume_injective_transform`` vouches for the map.
    """
    old = _buffer(block, buffer)
    _check_no_view(block, old)
    _check_arguments(block, old, index_map, pad_value)
    inverse: IndexMap | None = None
    padded: PrimExpr | None = None
    if not assume_injective_transform:
        inverse, padded = _inverse_and_padding(block, old, index_map, pad_value)
    new = buffer_with(
        old,
        old.name,
        shape=tuple(index_map.map_shape(list(old.shape))),
        strides=(),
        axis_separators=index_map.axis_separators,
    )
    variable = block.variable
    owner = _owner(block, old)
    check_not_a_pointer(owner, old, block)
    rewrite = _TransformAccess(old, new, index_map)
    before = owner.stmt
    whole = None
    writers = [] if padded is None else writers_of(owner, old)
    if pad_value is not None and len(writers) == 1:
        whole = WholeWriter.find(writers[0], old)
    try:
        owner.replace(rewrite.visit(before), rewrite.reuse)
    except _MatchedError:
        raise refuse(f"buffer '{old.name}' has matched regions", block) from None
    function = block.function
    if any(old is b for b in function.buffer_map.values()):
        buffers = {param: new if b is old else b for param, b in function.buffer_map.items()}
        block.state.replace_function(variable, function.with_fields(buffer_map=buffers))
    if inverse is None or padded is None or pad_value is None:
        return
    outside = Padding(new, inverse, padded, pad_value)
    if whole is not None:
        whole.write_padding_too(outside, index_map)
    elif writers or new not in block.state.buffers_of(variable):
        outside.fill(owner, writers)
    else:
        outside.assume(owner)


def _inverse_and_padding(
    cursor: BlockCursor, old: Buffer, mapping: IndexMap, padding: IndexMap | None
) -> tuple[IndexMap, PrimExpr | None]:
    """Return the inverse map and the condition that holds in the padding; None if there is no
    padding.
    """
    domain = [Range.from_min_extent(const(0, size.dtype), size) for size in old.shape]
    inverse, padded = _inverse_of(cursor, mapping, domain)
    if is_const(padded, 0):
        return inverse, None
    if padding is None:
        raise refuse(
            f"the map gives buffer '{old.name}' padding where {padded}, and no pad_value",
            cursor,
            "give pad_value, or assume_injective_transform=True to leave the padding undefined",
        )
    return inverse, padded


def _check_arguments(
    cursor: BlockCursor, old: Buffer, mapping: IndexMap, padding: IndexMap | None
) -> None:
    if len(mapping.initial_indices) != len(old.shape):
        raise refuse(
            f"the map takes {len(mapping.initial_indices)} indices, buffer "
            f"'{old.name}' has {len(old.shape)}",
            cursor,
        )
    if padding is not None and padding.final_indices[0].dtype != old.dtype:
        raise refuse(
            f"buffer '{old.name}' holds {old.dtype}, the value of the padding is "
            f"{padding.final_indices[0].dtype}",
            cursor,
        )
    if padding is not None and next(loads(padding.final_indices), None) is not None:
        raise refuse(
            "the value of the padding reads a buffer, which holds nothing yet when it is filled",
            cursor,
            "give a constant, or an expression over the new indices",
        )


def _inverse_of(
    cursor: BlockCursor, mapping: IndexMap, domain: list[Range]
) -> tuple[IndexMap, Any]:
    """Return the inverse of a map, and the condition for results outside its image. Raises a
    refusal if it is unknown.
    """
    try:
        return mapping.non_surjective_inverse(domain)
    except (ShapeError, UnsupportedError) as error:
        raise refuse(error.message, cursor, *error.notes[:1]) from error


def _check_no_view(cursor: BlockCursor, buffer: Buffer) -> None:
    for place in (cursor, *cursor.ancestors()):
        stmt = place.stmt
        if isinstance(stmt, BlockRealize) and any(
            match.buffer is buffer for match in stmt.block.match_buffers
        ):
            reason = f"'{buffer.name}' is a view of another buffer, whose layout it has"
            raise refuse(reason, place)


def _owner(cursor: BlockCursor, buffer: Buffer) -> BlockCursor:
    """Return the block that allocates a buffer; the root for a parameter."""
    last = cursor
    for ancestor in cursor.ancestors():
        if isinstance(ancestor, BlockCursor):
            last = ancestor
            if buffer in ancestor.block.alloc_buffers:
                return ancestor
    return last


@primitive()
def transform_block_layout(block: BlockCursor, index_map: BlockMap) -> None:
    """Replace the iterators (and loops) of a block by the results of ``index_map``."""
    realize = block.stmt
    node = realize.block
    scope_of(block)
    loops = block.loops()
    for outer, inner in zip(loops, [*loops[1:], block]):
        if outer.stmt.body is not inner.stmt:
            raise refuse("the loops hold other statements too", outer)
    if not loops or not has_affine_binding(block) or not is_const(realize.predicate, 1):
        raise refuse("the block is not plainly bound to its loops", block)
    for iterator in node.iter_vars:
        if not is_const(iterator.domain.min, 0):
            reason = f"the iterator '{iterator.var.name}' does not start at 0"
            raise refuse(reason, block)
    _check_whole_domain(block, node, loops)
    variables = [iterator.var for iterator in node.iter_vars]
    domain = [iterator.domain for iterator in node.iter_vars]
    inverse, padded = _inverse_of(block, index_map, domain)
    if not is_const(padded, 0):
        raise refuse("the map does not reach each point exactly once", block)
    analyzer = Analyzer()
    extents = index_map.map_shape([part.extent for part in domain])
    kinds = _iterator_kinds(block, index_map, node)
    iterators, new_loops = [], []
    for number, (extent, kind) in enumerate(zip(extents, kinds)):
        dtype = extent.dtype
        new_loops.append(Var(f"ax{number}", dtype))
        iterators.append(
            IterVar(Range.from_min_extent(const(0, dtype), extent), Var(f"v{number}", dtype), kind)
        )
        analyzer.bind(iterators[-1].var, iterators[-1].domain)
    values = inverse.map_indices([iterator.var for iterator in iterators])
    simple = {v: analyzer.simplify(value) for v, value in zip(variables, values)}
    replace = SimplifiedSubstitution(simple, analyzer)
    new = Block(
        tuple(iterators),
        [replace.visit(region) for region in node.reads],
        [replace.visit(region) for region in node.writes],
        node.name_hint,
        replace.visit(node.body),
        None if node.init is None else replace.visit(node.init),
        node.alloc_buffers,
        [replace.visit(match) for match in node.match_buffers],
        node.annotations,
        node.span,
    )
    body: Stmt = BlockRealize(tuple(new_loops), const(True, "bool"), new)
    for variable, extent in zip(reversed(new_loops), reversed(extents)):
        body = For(variable, const(0, variable.dtype), extent, ForKind.SERIAL, body)
    loops[0].replace(body, {node: new})


def _check_whole_domain(cursor: BlockCursor, block: Block, loops: Sequence[LoopCursor]) -> None:
    """Check that the loops cover all values of the iterators, so that the new loops will."""
    iterations: PrimExpr = const(1, "int64")
    points: PrimExpr = const(1, "int64")
    for loop in loops:
        iterations = iterations * cast("int64", loop.stmt.extent)
    for iterator in block.iter_vars:
        points = points * cast("int64", iterator.domain.extent)
    if not Analyzer().can_prove_equal(iterations, points):
        raise refuse(
            "the loops run through a part of the iterators' values only",
            cursor,
            "transform the block before its loops are divided (loop_partition)",
        )


def _iterator_kinds(cursor: BlockCursor, mapping: IndexMap, block: Block) -> list[int]:
    """Return the kinds of the new iterators: the kind of the old iterators that they consist of,
    which must agree.
    """
    kind_of = {v: i.iter_type for v, i in zip(mapping.initial_indices, block.iter_vars)}
    kinds = []
    for index in mapping.final_indices:
        found = {kind_of[v] for v in variables(index) if v in kind_of}
        if len(found) > 1:
            raise refuse("the map mixes data-parallel and reduction iterators", cursor)
        kinds.append(found.pop() if found else int(IterVar.DataPar))
    return kinds
