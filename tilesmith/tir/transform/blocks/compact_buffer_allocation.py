"""CompactBufferAllocation: shrinks each buffer to the region that is live in it.

    for i in range(16):                         for i in range(16):
        with T.block():                             with T.block():
            B = T.alloc_buffer((16, 16))                B = T.alloc_buffer((1, 16))
            for j in range(16):                         for j in range(16):
                B[i, j] = A[i, j]                           B[0, j] = A[i, j]

For each dimension the indices of all accesses are bounded over the loops inside the allocating
scope, as far as conditions (``if 2 <= i``, ``T.where(i * 4 + j < 10)``) let these get. Loops over
threads that share the memory count as loops inside: "global" memory is shared by all threads,
"shared" memory by those of a block, "warp" and "warpgroup" memory along threadIdx.x. Where the
bounds span a constant number of elements below the declared size, or depend on fewer symbols than
it does, the dimension shrinks to them and the indices are moved; any other dimension stays as it
is. Buffers that ``T.allocate`` and ``T.decl_buffer`` declare are treated like those that blocks
allocate.

The annotation ``buffer_dim_align`` of a block (from ``Schedule.storage_align``) gives a buffer that
it writes strides that leave gaps: rows ``(number of the buffer, axis, factor, offset)`` ask for a
stride of the axis that is ``offset`` modulo ``factor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Call,
    IntImm,
    Let,
    Not,
    PrimExpr,
    Range,
    Var,
    Visitor,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import conjuncts, is_call, variables
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import accesses_element_only, addresses, free_variables
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Stmt,
)
from tilesmith.tir.transform.blocks.index_bounds import Bounds, IndexBounds, Loop
from tilesmith.tir.transform.loops.loop_partition import limit_of

__all__ = ["compact_buffer_allocation"]

_Tags = tuple[str, ...]  # how the tags of threads begin


class _Scope:
    """The loops around an allocation; bounds are taken over the loops further inside."""

    __slots__ = ("depth", "regions")

    def __init__(self, depth: int, rank: int) -> None:
        self.depth = depth
        self.regions: list[list[Bounds] | None] = [[] for _ in range(rank)]


class _RegionFinder(Visitor):
    """Collects, for each allocated buffer and dimension, the bounds of its accesses."""

    def __init__(self, func: PrimFunc, is_strict: bool) -> None:
        self.is_strict = is_strict
        self.inner = IndexBounds(func)
        self.analyzer = self.inner.analyzer
        self.scopes: dict[Buffer, _Scope] = {}
        self.pointers: dict[Var, Buffer] = {}
        self.allocated: dict[Var, tuple[Allocate, int]] = {}  # no buffer declared yet; with depth
        self.alignments: dict[Buffer, dict[int, tuple[int, int]]] = {}
        self.threads: dict[Var, str] = {}  # the variable of a loop over threads → its tag
        self.known_bounds: dict[tuple[int, int, _Tags, int], tuple[PrimExpr, Bounds | None]] = {}
        self.conditions = 0  # number of the conditions that hold here; 0 without any
        self.last_conditions = 0

    # -- accesses

    def access(self, buffer: Buffer, ranges: list[Bounds | None]) -> None:
        scope = self.scopes.get(buffer)
        if scope is None:
            return
        for axis, bounds in enumerate(ranges):
            known = scope.regions[axis]
            if bounds is None:
                scope.regions[axis] = None
            elif known is not None and not (known and known[-1] is bounds):
                known.append(bounds)

    def index_bounds(self, buffer: Buffer, index: PrimExpr, axis: int) -> Bounds | None:
        scope = self.scopes[buffer]
        if scope.regions[axis] is None:
            return None
        sharers = _sharers(buffer.scope())
        # an index that is read and written is one object
        key = (id(index), scope.depth, sharers, self.conditions)
        found = self.known_bounds.get(key)
        if found is None:
            self.inner.relaxed = {
                var for var, tag in self.threads.items() if tag.startswith(sharers)
            }
            found = self.known_bounds[key] = (index, self.inner.guarded_bounds(index, scope.depth))
        return found[1]

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.visit_children(load)
        self.point(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.visit_children(store)
        self.point(store)

    def point(self, access: BufferLoad | BufferStore) -> None:
        buffer = access.buffer
        if buffer in self.scopes:
            self.access(buffer, [
                self.index_bounds(buffer, index, axis) for axis, index in enumerate(access.indices)
            ])  # fmt: skip
        elif buffer.data in self.pointers:  # another view of the same memory
            self.escape(buffer.data)

    def visit_MatchBufferRegion(self, match: MatchBufferRegion) -> None:
        buffer = match.source.buffer
        for dim in match.source.region:
            self.visit(dim)
        if buffer not in self.scopes:
            return
        ranges: list[Bounds | None] = []
        for axis, dim in enumerate(match.source.region):
            low = self.index_bounds(buffer, dim.min, axis)
            high = self.index_bounds(buffer, ops.moved(dim.min + dim.extent, -1), axis)
            ranges.append(None if low is None or high is None else (low[0], high[1]))
        self.access(buffer, ranges)

    def visit_Var(self, var: Var) -> None:
        self.allocated.pop(var, None)
        if var in self.pointers:
            self.escape(var)

    def escape(self, pointer: Var) -> None:
        """Mark a buffer whose pointer escapes: its memory is used as a whole and cannot shrink."""
        scope = self.scopes[self.pointers[pointer]]
        scope.regions = [None] * len(scope.regions)

    # -- conditions

    def visit_IfThenElse(self, branch: IfThenElse) -> None:
        self.visit(branch.condition)
        self.visit_under(branch.condition, branch.then_case)
        if branch.else_case is not None:
            self.visit_under(self.opposite(branch.condition), branch.else_case)

    def visit_Call(self, call: Call) -> None:
        if accesses_element_only(call):
            self.visit_operands(call)
            return
        if is_call(call, "tir.address_of"):
            for load in addresses(call):
                if load.buffer in self.scopes:
                    self.escape(load.buffer.data)
        if not is_call(call, "tir.if_then_else"):
            self.visit_children(call)
            return
        self.visit(call.args[0])
        self.visit_under(call.args[0], call.args[1])
        self.visit_under(self.opposite(call.args[0]), call.args[2])

    def visit_operands(self, call: Call) -> None:
        """Visit the operands of a call that accesses the elements behind addresses, no others."""
        for arg in call.args:
            self.visit(arg.args[0] if is_call(arg, "tir.address_of") else arg)

    def opposite(self, condition: PrimExpr) -> PrimExpr:
        if not condition.dtype.is_bool:  # an integer: its opposite bounds nothing
            return const(True, "bool")
        parts = conjuncts(condition, through_likely=True)
        return self.analyzer.simplify(Not(ops.all_of(*parts)))

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        for value in realize.iter_values:
            self.visit(value)
        self.visit(realize.predicate)
        self.visit_under(realize.predicate, realize.block)

    def visit_under(self, condition: PrimExpr, node: Any) -> None:
        """Visit code under a condition, with the loop ranges narrowed by it."""
        narrowed = [] if ops.is_const(condition) else self.narrowed_loops(condition)
        guards = [] if ops.is_const(condition) else self.guards_of(condition)
        if not narrowed and not guards:
            self.visit(node)
            return
        loops, outside, others = list(self.inner.loops), self.conditions, self.inner.guards
        self.inner.guards = [*others, *guards]
        self.last_conditions += 1
        self.conditions = self.last_conditions
        for number, loop in narrowed:
            self.inner.loops[number] = loop
        self.visit(node)
        self.inner.loops, self.conditions, self.inner.guards = loops, outside, others

    def guards_of(self, condition: PrimExpr) -> list[PrimExpr]:
        """Return what a condition says of several loops, as values that are at most 0."""
        found: list[PrimExpr] = []
        for clause in conjuncts(condition, through_likely=True):
            if not isinstance(clause, (LT, LE, GT, GE)):
                continue
            if not clause.a.dtype.is_int or clause.a.dtype.bits < 32 or clause.a.dtype.lanes > 1:
                continue
            if len([var for var in variables(clause) if var in self.inner.depth_of]) < 2:
                continue
            less, more = clause.a, clause.b
            if isinstance(clause, (GT, GE)):
                less, more = more, less
            found.append(less - more + 1 if isinstance(clause, (LT, GT)) else less - more)
        return found

    def narrowed_loops(self, condition: PrimExpr) -> list[tuple[int, Loop]]:
        """Return the loops of constant bounds that have fewer iterations under a condition."""
        found: dict[int, Loop] = {}
        for clause in conjuncts(condition, through_likely=True):
            if not isinstance(clause, (LT, LE, GT, GE, EQ)):
                continue
            used = [var for var in variables(clause) if var in self.inner.depth_of]
            if len(used) != 1:
                continue
            number = self.inner.depth_of[used[0]]
            var, first, last = found.get(number, self.inner.loops[number])
            limit = limit_of(clause, var, {}, self.analyzer)
            first, last = self.analyzer.simplify(first), self.analyzer.simplify(last)
            if limit is None or not (isinstance(first, IntImm) and isinstance(last, IntImm)):
                continue
            low, end = limit
            least, most = first.value, last.value
            if isinstance(low, IntImm) and least < low.value <= most:
                least = low.value
            if isinstance(end, IntImm) and least < end.value <= most:
                most = end.value - 1
            if (least, most) != (first.value, last.value):
                found[number] = (var, const(least, var.dtype), const(most, var.dtype))
        return list(found.items())

    # -- scopes

    def visit_Block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            self.declare(buffer, len(self.inner.loops))
        for number, axis, factor, offset in block.annotations.get("buffer_dim_align", ()):
            rows = self.alignments.setdefault(block.writes[number].buffer, {})
            rows[int(axis)] = (int(factor), int(offset))
        for match in block.match_buffers:
            self.visit(match)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_Allocate(self, allocation: Allocate) -> None:
        for extent in allocation.extents:
            self.visit(extent)
        self.allocated[allocation.buffer_var] = allocation, len(self.inner.loops)
        self.visit(allocation.body)

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> None:
        buffer = declaration.buffer
        allocation, depth = self.allocated.pop(buffer.data, (None, 0))
        if buffer.data in self.pointers:
            if buffer not in self.scopes:
                self.escape(buffer.data)  # another view of the same memory
        elif allocation is not None and _has_size_of(allocation, buffer):
            self.declare(buffer, depth)
        self.visit(declaration.body)

    def declare(self, buffer: Buffer, depth: int) -> None:
        """Begin the scope of an allocated buffer, unless its memory is laid out in a special
        way."""
        if buffer.strides or buffer.axis_separators or not ops.is_const(buffer.elem_offset, 0):
            return
        self.scopes[buffer] = _Scope(depth, len(buffer.shape))
        self.pointers[buffer.data] = buffer

    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        binding = loop.thread_binding
        tag = None if binding is None else binding.thread_tag
        self.visit_loop(loop.loop_var, loop.min, loop.extent, tag, loop.body)

    def visit_AttrStmt(self, attribute: AttrStmt) -> None:
        if attribute.attr_key not in ("thread_extent", "virtual_thread"):
            self.visit_children(attribute)
            return
        self.visit(attribute.value)
        var = attribute.node.var
        if var in self.inner.depth_of:  # the same thread as further outside
            self.visit(attribute.body)
            return
        extent = ops.cast(var.dtype, attribute.value)
        tag = attribute.node.thread_tag
        self.visit_loop(var, const(0, var.dtype), extent, tag, attribute.body)

    def visit_loop(
        self, var: Var, low: PrimExpr, extent: PrimExpr, tag: str | None, body: Stmt
    ) -> None:
        self.inner.depth_of[var] = len(self.inner.loops)
        self.inner.loops.append((var, low, ops.moved(low + extent, -1)))
        self.analyzer.bind(var, Range.from_min_extent(low, extent))
        if tag is not None:
            self.threads[var] = tag
        self.visit(body)
        self.threads.pop(var, None)
        self.inner.loops.pop()
        del self.inner.depth_of[var]

    def visit_LetStmt(self, let: LetStmt | Let) -> None:
        # A value that is bound inside cannot be bounded here; it hides its loops.
        self.inner.depth_of[let.var] = len(self.inner.loops)
        self.inner.loops.append((let.var, _UNKNOWN, _UNKNOWN))
        self.visit_children(let)
        self.inner.loops.pop()
        del self.inner.depth_of[let.var]

    visit_Let = visit_LetStmt

    # -- results

    def region(self, buffer: Buffer) -> list[Range] | None:
        """Return the live region of a buffer; None when it is the whole buffer."""
        scope = self.scopes[buffer]
        ranges = [
            self.dimension(size, found) for size, found in zip(buffer.shape, scope.regions)
        ]  # fmt: skip
        if all(ops.is_const(dim.min, 0) and structural_equal(dim.extent, size)
               for dim, size in zip(ranges, buffer.shape)):  # fmt: skip
            return None
        return ranges

    def dimension(self, size: PrimExpr, found: list[Bounds] | None) -> Range:
        """Return the first live element and the live extent of one dimension."""
        whole = Range.from_min_extent(const(0, size.dtype), size)
        if not found:
            return whole
        simplify = self.analyzer.simplify
        first, last = simplify(found[0][0]), simplify(found[0][1])
        for low, high in found[1:]:
            below, above = simplify(first - low), simplify(high - last)
            if not isinstance(below, IntImm) or not isinstance(above, IntImm):
                return whole
            if below.value > 0:
                first = simplify(low)
            if above.value > 0:
                last = simplify(high)
        extent = simplify(last - first + 1)
        if not isinstance(extent, IntImm):
            constant = self.analyzer.const_int_bound(extent)
            is_size = isinstance(extent, Var) or constant.min_value >= 0  # else memory of size -1
            if is_size and set(free_variables(extent, sizes=False)) < set(free_variables(size)):
                smaller = simplify(ops.minimum(size, extent))
                return Range.from_min_extent(ops.cast(size.dtype, first), smaller)
            bound = constant.max_value  # an estimate: memory does not grow to it
            if not isinstance(size, IntImm) or bound >= size.value:
                return whole
            count = int(bound)
        else:
            count = extent.value
        if count < 1:
            return whole
        if isinstance(size, IntImm) and count >= size.value and self.is_strict:
            return whole
        return Range.from_min_extent(ops.cast(size.dtype, first), const(count, size.dtype))


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    size = sizes[0]
    for factor in sizes[1:]:
        size = size * factor
    return size


def _has_size_of(allocation: Allocate, buffer: Buffer) -> bool:
    """Return whether an allocation is as large as a buffer, so that it may be given its size."""
    if allocation.dtype is not buffer.dtype:
        return False
    extents = allocation.extents
    if len(extents) == 1 and len(buffer.shape) > 1:
        return structural_equal(Analyzer().simplify(_product(buffer.shape)), extents[0])
    return structural_equal(extents, buffer.shape)


_UNKNOWN = Call("int32", "tir.undef", ())


def _sharers(scope: str) -> _Tags:
    """Return the threads that share memory of a scope, which is allocated once for all of them."""
    if scope.startswith("global"):
        return ("",)
    if scope.startswith("shared"):
        return ("threadIdx", "vthread")
    return ("threadIdx.x",) if scope in ("warp", "warpgroup") else ()


def _aligned_strides(
    shape: tuple[PrimExpr, ...], rows: dict[int, tuple[int, int]]
) -> tuple[PrimExpr, ...]:
    """Return row-major strides, enlarged where an axis asks for an alignment."""
    stride: PrimExpr = const(1, shape[0].dtype)
    strides: list[PrimExpr] = []
    for axis in range(len(shape) - 1, -1, -1):
        if axis in rows:
            factor, offset = rows[axis]
            stride = stride + (factor + offset - stride % factor) % factor
        strides.append(stride)
        stride = stride * shape[axis]
    return tuple(strides[::-1])


class _Compactor(AccessRedirection):
    def __init__(self, finder: _RegionFinder) -> None:
        self.finder = finder
        self.regions: dict[Buffer, list[Range]] = {}
        self.compact: dict[Buffer, Buffer] = {}
        self.differences: dict[tuple[int, int], tuple[PrimExpr, PrimExpr, PrimExpr]] = {}
        for buffer in finder.scopes:
            region, rows = finder.region(buffer), finder.alignments.get(buffer)
            if region is None and rows is None:
                continue
            region = region or list(BufferRegion.full_region(buffer).region)
            shape = tuple([dim.extent for dim in region])
            strides = _aligned_strides(shape, rows) if rows else ()
            self.regions[buffer] = region
            self.compact[buffer] = buffer.with_fields(shape=shape, strides=strides)

    def redirected(self, buffer: Buffer) -> Buffer | None:
        return self.compact.get(buffer)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        body = self.visit(allocation.body)
        old = self.finder.pointers.get(allocation.buffer_var)
        new = None if old is None else self.compact.get(old)
        if new is not None:
            extents = new.shape
            if len(allocation.extents) == 1:
                extents = (self.finder.analyzer.simplify(_product(extents)),)
            return allocation.with_fields(extents=extents, body=body)
        return allocation if body is allocation.body else allocation.with_fields(body=body)

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        return [
            index if ops.is_const(dim.min, 0) else self.difference(index, dim.min)
            for index, dim in zip(indices, self.regions[buffer])
        ]

    def difference(self, index: PrimExpr, start: PrimExpr) -> PrimExpr:
        """Return ``index - start`` simplified; cached, so that all accesses at this index share one
        expression.
        """
        key = id(index), id(start)
        found = self.differences.get(key)
        if found is None:
            moved = self.finder.analyzer.simplify(index - start)
            found = self.differences[key] = (index, start, moved)
        return found[2]


@compiler_pass("tir.CompactBufferAllocation")
def compact_buffer_allocation(func: PrimFunc, is_strict: bool = True) -> PrimFunc:
    """Shrinks buffers to their live regions.

    Returns ``func`` with the buffers that it allocates shrunk to their live regions. Unless
    ``is_strict``, a buffer that is accessed beyond its size grows.
    """
    finder = _RegionFinder(func, is_strict)
    finder.visit(func.body)
    if not finder.scopes:
        return func
    compactor = _Compactor(finder)
    return func.with_body(compactor.visit(func.body)) if compactor.regions else func
