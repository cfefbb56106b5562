"""Builds blocks that copy a part of a buffer to another buffer, and finds where they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.arith import (
    Analyzer,
    eval_set,
)
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, cast, is_const, maximum, minimum, moved
from tilesmith.ir.queries import mentions, variables
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.schedule.blocks import (
    check_no_condition,
    ranges_between,
    reduction_without_start,
    runs_for_all,
    scope_of,
)
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import analyzer_for, iterator_values, loop_range, without_lets
from tilesmith.tir.schedule.primitives.written_elements import exact_box, writes_always
from tilesmith.tir.schedule.state import child_statements
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    Stmt,
    stmt_list,
    stmt_seq,
)

__all__ = [
    "analyzer_inside", "bound_region", "box_around", "check_fills", "check_finished",
    "check_made_at", "check_outside_init", "common_place", "copy_nest",
    "insert_nest", "is_in_init", "nest_of", "possible_region", "statement_number",
]  # fmt: skip


# --- where ----------------------------------------------------------------------------------------


def statement_number(place: Cursor, cursor: Cursor) -> int:
    """Return the position of the statement directly below a place that contains a block."""
    chain = [cursor, *cursor.ancestors()]
    top = chain[chain.index(place) - 1]
    return place.children().index(top)


def common_place(scope: BlockCursor, cursors: Sequence[Cursor]) -> Cursor:
    """Return the innermost loop around some blocks of a scope; the scope if they share no loop."""
    common = list(cursors[0].ancestors())
    for cursor in cursors[1:]:
        others = set(cursor.ancestors())
        common = [ancestor for ancestor in common if ancestor in others]
    return common[0] if common else scope


def check_outside_init(place: Cursor, cursors: Sequence[BlockCursor]) -> None:
    """Check that no block is in the init of ``place``, where a copy cannot be inserted."""
    for cursor in cursors:
        if isinstance(place, BlockCursor) and is_in_init(place, cursor):
            block, around = cursor.block, place.block
            reason = f"block '{block.name_hint}' stands in the init of block '{around.name_hint}'"
            raise refuse(reason, cursor, "decompose_reduction takes it out")


def insert_nest(place: Cursor, nest: Stmt, cursor: Cursor, before: bool) -> None:
    """Insert a nest directly below a loop or block, before or after the statement that contains a
    block.

    What belongs before or after an initialisation (``T.init()``) begins the updates.
    """
    chain = [cursor, *cursor.ancestors()]
    anchor = chain[chain.index(place) - 1].stmt
    stmt = place.stmt
    body = stmt.body if isinstance(stmt, For) else stmt.block.body
    if is_in_init(place, cursor):
        new = [nest, *stmt_list(body)]
    else:
        new = _beside(body, nest, anchor, before)
    if isinstance(stmt, For):
        place.replace(stmt.with_fields(body=stmt_seq(*new)))
        return
    block = stmt.block.with_fields(body=stmt_seq(*new))
    place.replace(stmt.with_fields(block=block), {stmt.block: block})


_PRELUDES = (Allocate, AllocateConst, AssertStmt, DeclBuffer, LetStmt)


def _beside(body: Stmt, nest: Stmt, anchor: Stmt, before: bool) -> list[Stmt]:
    """Return the statements of a body with a nest before or after the one that holds ``anchor``,
    inside of declarations and assertions around it: the nest may use what they declare, and runs
    only if they hold.
    """
    new: list[Stmt] = []
    for inner in stmt_list(body):
        holds = inner is anchor or (
            not isinstance(inner, (For, BlockRealize))
            and any(child is anchor for child in child_statements(inner))
        )
        if holds and isinstance(inner, _PRELUDES):
            statements = _beside(inner.body, nest, anchor, before)
            new.append(inner.with_fields(body=stmt_seq(*statements)))
        elif holds:
            new += [nest, inner] if before else [inner, nest]
        else:
            new.append(inner)
    return new


def is_in_init(place: Cursor, cursor: Cursor) -> bool:
    """Return whether a block belongs to the initialisation of the block ``place``."""
    chain = [cursor, *cursor.ancestors()]
    stmt, anchor = place.stmt, chain[chain.index(place) - 1].stmt
    if not isinstance(stmt, BlockRealize) or stmt.block.init is None:
        return False
    init = stmt.block.init
    return init is anchor or any(child is anchor for child in child_statements(init))


def analyzer_inside(place: Cursor) -> Analyzer:
    """Return an analyzer that knows the ranges of a loop or block and of its ancestors."""
    analyzer = analyzer_for(place)
    stmt = place.stmt
    if isinstance(stmt, For):
        analyzer.bind(stmt.loop_var, loop_range(stmt))
    else:
        for iterator in stmt.block.iter_vars:
            analyzer.bind(iterator.var, iterator.domain)
    return analyzer


def check_finished(cursor: BlockCursor, place: Cursor) -> None:
    """Check that the elements that a block writes are final after one iteration of ``place``: no
    loop at or outside of it carries a reduction of the block.
    """
    realize = cursor.stmt
    outside: dict[Var, LoopCursor] = {}
    for ancestor in (place, *place.ancestors()):
        if not isinstance(ancestor, LoopCursor):
            break
        outside[ancestor.stmt.loop_var] = ancestor
    values = iterator_values(cursor)
    for iterator, value in zip(realize.block.iter_vars, values):
        if iterator.iter_type == IterVar.DataPar:
            continue
        for variable in variables(value):
            if variable in outside and not is_const(outside[variable].stmt.extent, 1):
                raise refuse(
                    f"block '{realize.block.name_hint}' is complete only after loop "
                    f"'{variable.name}'",
                    outside[variable],
                )


def check_fills(cursor: BlockCursor, buffer: Buffer, place: Cursor) -> None:
    """Check that a block alone writes, in one iteration of ``place``, all copied elements of a
    buffer.

    The bindings may leave values of the iterators to other blocks, as after loop_partition. Where
    they leave out the start of a reduction, the init never runs, and the block adds to what others
    have written. At the top of a scope, the copy is of all that the iterators reach.
    """
    realize = cursor.stmt
    block, scope = realize.block, scope_of(cursor)
    if buffer in scope.block.alloc_buffers:
        return  # nothing else has written it
    check_no_condition(cursor)
    ranges, name = ranges_between(cursor, scope), block.name_hint
    values = iterator_values(cursor)
    bound = realize.with_fields(iter_values=values)
    if place == scope:
        regions = [part for one in block.writes if one.buffer is buffer for part in one.region]
        used = [i.var for i in block.iter_vars if mentions(regions, {i.var})]
        if not runs_for_all(bound, ranges, set(used)):
            raise refuse(
                f"block '{name}' may take only a part of the values of "
                f"{_named(used)}; the copy would overwrite other parts of '{buffer.name}'",
                cursor,
            )
    iterator = reduction_without_start(bound, ranges, analyzer_inside(scope))
    if iterator is not None:
        raise refuse(
            f"the loops in block '{scope.block.name_hint}' may leave out the start of reduction"
            f" iterator '{iterator.var.name}', where block '{name}' initialises "
            f"'{buffer.name}'; the copy is empty",
            cursor,
        )


def _named(iterators: Sequence[Var]) -> str:
    names = ", ".join([f"'{variable.name}'" for variable in iterators])
    return f"its iterator {names}" if len(iterators) == 1 else f"its iterators {names}"


# --- what -----------------------------------------------------------------------------------------


def bound_region(realize: BlockRealize, region: BufferRegion) -> list[Range]:
    """Return a region of a block in terms of the loops around it."""
    bind = Substitution({i.var: v for i, v in zip(realize.block.iter_vars, realize.iter_values)})
    return [
        Range.from_min_extent(bind.visit(part.min), bind.visit(part.extent))
        for part in region.region
    ]


def box_around(
    analyzer: Analyzer,
    region: Sequence[Range],
    ranges: dict[Var, Range],
    shape: Sequence[PrimExpr],
    within: bool = True,
) -> list[Range]:
    """Return the bounding box of a region over all values of some variables; ``within``: clipped to
    the buffer.
    """
    box = []
    for part, size in zip(region, shape):
        covered = eval_set(part, ranges) if ranges else None
        low, end = part.min, part.min + part.extent
        if covered is not None:
            if not (covered.has_lower_bound() and covered.has_upper_bound()):
                box.append(Range.from_min_extent(const(0, size.dtype), size))
                continue
            low, end = covered.min_value, moved(covered.max_value, 1)
        if within and not analyzer.can_prove(low >= 0):
            low = maximum(low, const(0, size.dtype))
        if within and not analyzer.can_prove(end <= size):
            end = minimum(end, size)
        low, extent = analyzer.simplify(low), analyzer.simplify(end - low)
        if isinstance(extent, IntImm) and extent.value < 0:  # outside of the buffer: never read
            extent = const(0, extent.dtype)
        box.append(Range.from_min_extent(low, extent))
    return box


def possible_region(analyzer: Analyzer, block: Block, region: BufferRegion) -> list[Range]:
    """Return the bounding box of the elements that a block can access by a region, over all its
    iterations.
    """
    domains = {iterator.var: iterator.domain for iterator in block.iter_vars}
    return box_around(analyzer, region.region, domains, region.buffer.shape)


def writes_before_reads(cursor: BlockCursor, buffer: Buffer) -> bool:
    """Return whether a block that holds blocks writes each element of a buffer before it reads it:
    the first inner block that uses the buffer writes, in one iteration of the loops that it shares
    with another one, all that this one reads.
    """
    if not writes_always(cursor.block, buffer) or _is_used_directly(cursor.block.body, buffer):
        return False
    users = [
        (inner, region)
        for inner in cursor.blocks_below()
        for region in (*inner.block.reads, *inner.block.writes)
        if region.buffer is buffer
    ]
    if not users:
        return False
    first, written = users[0]  # in the order in which they run
    if any(one is first and region in first.block.reads for one, region in users):
        return False
    loops = ranges_between(first, cursor)
    if reduction_without_start(first.stmt, loops, analyzer_inside(cursor)) is not None:
        return False
    for other, region in users:
        if other is first or region not in other.block.reads:
            continue
        place = common_place(cursor, [first, other])
        made, needed = exact_region_at(first, written, place), region_at(other, region, place)
        analyzer = analyzer_inside(place)
        if made is None or not all(
            analyzer.can_prove(a.min <= b.min)
            and analyzer.can_prove(b.min + b.extent <= a.min + a.extent)
            for a, b in zip(made, needed)
        ):
            return False
    return True


def _is_used_directly(stmt: Stmt, buffer: Buffer) -> bool:
    """Return whether something outside of the inner blocks of a statement names a buffer."""
    stack: list[Any] = [stmt]
    while stack:
        node = stack.pop()
        if node is buffer or node is buffer.data:
            return True
        if not isinstance(node, BlockRealize):
            stack.extend(node.children())
    return False


def region_at(cursor: BlockCursor, region: BufferRegion, place: Cursor) -> list[Range]:
    """Return the elements that a block accesses by a region in one iteration of a place.

    It may extend beyond the buffer, where a condition cuts off the last part.
    """
    ranges = ranges_between(cursor, place)
    bound = without_lets(cursor, bound_region(cursor.stmt, region))
    analyzer = analyzer_inside(place)
    return box_around(analyzer, bound, ranges, region.buffer.shape, within=False)


def check_made_at(cursor: BlockCursor, buffer: Buffer, place: LoopCursor) -> None:
    """Check that a block does not read by opaque iterators what earlier iterations of a loop have
    written to a buffer: a copy inside of the loop would be memory of one iteration.
    """
    realize = cursor.stmt
    for loop in (place, *place.loops()):
        if all(
            buffer is not part.buffer for one in loop.blocks_below() for part in one.block.writes
        ):
            continue
        for iterator, value in zip(realize.block.iter_vars, iterator_values(cursor)):
            if iterator.iter_type == IterVar.Opaque and mentions(value, {loop.stmt.loop_var}):
                raise refuse(
                    f"block '{realize.block.name_hint}' may read what earlier iterations have "
                    f"written to '{buffer.name}' (opaque iterator '{iterator.var.name}')",
                    cursor,
                )


def exact_region_at(cursor: BlockCursor, region: BufferRegion, place: Cursor) -> list[Range] | None:
    """Return the box that a block touches by a region in one iteration of a place; None where it
    may have gaps."""
    bound = without_lets(cursor, bound_region(cursor.stmt, region))
    return exact_box(bound, ranges_between(cursor, place))


def hull(analyzer: Analyzer, boxes: Sequence[list[Range]]) -> list[Range]:
    """Return the bounding box of some boxes.

    Empty ones do not count: they may lie outside of the buffer, which the box around would leave.
    """
    around, *others = [box for box in boxes if not _is_empty(box)] or boxes[:1]
    for box in others:
        made = []
        for x, y in zip(around, box):
            low = analyzer.simplify(minimum(x.min, y.min))
            end = maximum(x.min + x.extent, y.min + y.extent)
            made.append(Range.from_min_extent(low, analyzer.simplify(end - low)))
        around = made
    return around


def _is_empty(box: Sequence[Range]) -> bool:
    return any(isinstance(one.extent, IntImm) and one.extent.value <= 0 for one in box)


def nest_of(
    realize: BlockRealize, loops: Sequence[tuple[Var, PrimExpr]], kind: ForKind = ForKind.SERIAL
) -> Stmt:
    """Return a block under loops that start at 0."""
    nest: Stmt = realize
    for variable, extent in reversed(loops):
        nest = For(variable, const(0, variable.dtype), extent, kind, nest)
    return nest


def copy_nest(
    source: Buffer,
    target: Buffer,
    part: Sequence[Range],
    bounds: Sequence[Range],
    analyzer: Analyzer,
    name: str,
    value_of: Callable[[BufferLoad], PrimExpr] | None = None,
    small: Buffer | None = None,
) -> tuple[Stmt, BlockRealize]:
    """Return a nest that copies a region of one buffer to the same region of another one.

    ``bounds``: the box that the part never leaves; a condition ensures it where needed. ``small``:
    the buffer that holds the part alone, from its start.
    """
    if small is not None:
        return _copy_of_part(source, target, part, name, small)
    loops: list[tuple[Var, PrimExpr]] = []
    iterators: list[IterVar] = []
    values: list[PrimExpr] = []
    conditions: list[PrimExpr] = []
    dtype = _counting_dtype(source.shape)
    for number, (one, bound) in enumerate(zip(_counted(part, dtype), _counted(bounds, dtype))):
        variable = Var(f"ax{number}", dtype)
        loops.append((variable, one.extent))
        analyzer.bind(variable, Range.from_min_extent(const(0, dtype), one.extent))
        value = variable if is_const(one.min, 0) else one.min + variable
        values.append(value)
        iterators.append(IterVar(bound, Var(f"v{number}", dtype), IterVar.DataPar))
        for condition in (value >= bound.min, value < bound.min + bound.extent):
            if not analyzer.can_prove(condition):
                conditions.append(condition)
    indices = [iterator.var for iterator in iterators]
    load = BufferLoad(source, indices)
    block = Block(
        iterators,
        [BufferRegion.from_point(source, indices)],
        [BufferRegion.from_point(target, indices)],
        name,
        BufferStore(target, load if value_of is None else value_of(load), indices),
    )
    predicate: Any = all_of(*conditions) if conditions else const(True, "bool")
    realize = BlockRealize(values, predicate, block)
    return nest_of(realize, loops), realize


def _counting_dtype(sizes: Sequence[PrimExpr]) -> DataType:
    """Return the widest dtype of some sizes. All loops of a copy count in it: fused ones would not
    be divided into iterators of fewer bits without casts that may cut bits off.
    """
    return max([size.dtype for size in sizes], key=_bits, default=DataType("int32"))


def _bits(dtype: DataType) -> int:
    return dtype.bits


def _counted(box: Sequence[Range], dtype: DataType) -> list[Range]:
    """Return a box whose sizes have no fewer bits than a dtype."""
    return [
        Range.from_min_extent(*[_widened(size, dtype) for size in (one.min, one.extent)])
        for one in box
    ]


def _widened(size: PrimExpr, dtype: DataType) -> PrimExpr:
    return cast(dtype, size) if size.dtype.bits < dtype.bits else size


def _copy_of_part(
    source: Buffer, target: Buffer, part: Sequence[Range], name: str, small: Buffer
) -> tuple[Stmt, BlockRealize]:
    """Copy between a part of one buffer and the whole of another one."""
    dtype = _counting_dtype([one.extent for one in part])
    part = _counted(part, dtype)
    loops = [(Var(f"ax{k}", dtype), one.extent) for k, one in enumerate(part)]
    iterators = [
        IterVar(
            Range.from_min_extent(const(0, dtype), extent),
            Var(f"v{k}", dtype),
            IterVar.DataPar,
        )
        for k, (_, extent) in enumerate(loops)
    ]
    own = [iterator.var for iterator in iterators]
    moved = [v if is_const(one.min, 0) else one.min + v for one, v in zip(part, own)]
    from_, to = (own, moved) if source is small else (moved, own)
    block = Block(
        iterators,
        [BufferRegion.from_point(source, from_)],
        [BufferRegion.from_point(target, to)],
        name,
        BufferStore(target, BufferLoad(source, from_), to),
    )
    realize = BlockRealize([variable for variable, _ in loops], const(True, "bool"), block)
    return nest_of(realize, loops), realize


__all__ += ["exact_region_at", "hull", "region_at", "writes_before_reads"]
