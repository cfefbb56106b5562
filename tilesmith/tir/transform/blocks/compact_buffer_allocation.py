"""CompactBufferAllocation: shrinks each buffer to the region that is live in it.

    for i in range(16):                         for i in range(16):
        with T.block():                             with T.block():
            B = T.alloc_buffer((16, 16))                B = T.alloc_buffer((1, 16))
            for j in range(16):                         for j in range(16):
                B[i, j] = A[i, j]                           B[0, j] = A[i, j]

For each dimension the indices of all accesses are bounded over the loops inside the allocating
scope, as far as conditions on a single loop (``if 2 <= i``) let these get. Loops over threads that
share the memory count as loops inside: "global" memory is shared by all threads, "shared" memory by
those of a block, "warp" memory along threadIdx.x. Where the bounds span a constant number of
elements below the declared size, or depend on fewer symbols than it does, the dimension shrinks to
them and the indices are moved; any other dimension stays as it is.

The annotation ``buffer_dim_align`` of a block (from ``Schedule.storage_align``) gives a buffer that
it writes strides that leave gaps: rows ``(number of the buffer, axis, factor, offset)`` ask for a
stride of the axis that is ``offset`` modulo ``factor``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    GE,
    GT,
    LE,
    LT,
    Add,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Range,
    Select,
    Sub,
    Var,
    Visitor,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import conjuncts, is_call, variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import free_variables
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
)
from tilesmith.tir.transform.loops.loop_partition import limit_of

__all__ = ["compact_buffer_allocation"]

Bounds = tuple[PrimExpr, PrimExpr]
_Loop = tuple[Var, PrimExpr, PrimExpr]  # variable, first, last
_Tags = tuple[str, ...]  # how the tags of threads begin


class _Scope:
    """The loops around an allocation; bounds are taken over the loops further inside."""

    __slots__ = ("depth", "regions")

    def __init__(self, depth: int, rank: int) -> None:
        self.depth = depth
        self.regions: list[list[Bounds] | None] = [[] for _ in range(rank)]


class _RegionFinder(Visitor):
    """Collects, for each allocated buffer and dimension, the bounds of its accesses."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.loops: list[_Loop] = []
        self.depth_of: dict[Var, int] = {}
        self.scopes: dict[Buffer, _Scope] = {}
        self.pointers: dict[Var, Buffer] = {}
        self.alignments: dict[Buffer, dict[int, tuple[int, int]]] = {}
        self.threads: dict[Var, str] = {}  # the variable of a loop over threads → its tag
        self.known_bounds: dict[tuple[int, int, _Tags, int], tuple[PrimExpr, Bounds | None]] = {}
        self.conditions = 0  # number of the conditions that hold here; 0 without any
        self.last_conditions = 0
        self.relaxed: set[Var] = set()  # of these, those whose threads share the buffer in question

    # -- bounds of an index over the loops from `depth` inwards

    def bounds(self, expr: PrimExpr, depth: int) -> Bounds | None:
        if isinstance(expr, IntImm):
            return expr, expr
        if isinstance(expr, Var):
            number = self.depth_of.get(expr, -1)
            if number < depth and (expr not in self.relaxed or number < 0):
                return expr, expr
            _, first, last = self.loops[number]
            low, high = self.bounds(first, depth), self.bounds(last, depth)
            return None if low is None or high is None else (low[0], high[1])
        if isinstance(expr, (Add, Sub, Min, Max)):
            a, b = self.bounds(expr.a, depth), self.bounds(expr.b, depth)
            if a is None or b is None:
                return None
            if a[0] is a[1] and b[0] is b[1]:
                return self.same(expr, a[0], b[0])
            if isinstance(expr, Sub):
                return a[0] - b[1], a[1] - b[0]
            combine = _COMBINE[type(expr)]
            return combine(a[0], b[0]), combine(a[1], b[1])
        if isinstance(expr, (Mul, FloorDiv, FloorMod)):
            return self.scaled(expr, depth)
        if isinstance(expr, Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
            inner = self.bounds(expr.value, depth)
            if inner is None:
                return None
            least = ops.cast(expr.dtype, inner[0])
            return least, least if inner[0] is inner[1] else ops.cast(expr.dtype, inner[1])
        if isinstance(expr, Select):
            return self.either(expr.true_value, expr.false_value, depth)
        if is_call(expr, "tir.if_then_else"):
            return self.either(expr.args[1], expr.args[2], depth)
        return None

    def same(self, expr: Any, a: PrimExpr, b: PrimExpr) -> Bounds:
        """Return equal lower and upper bounds for a value that is constant inside the scope."""
        value = expr if a is expr.a and b is expr.b else type(expr)(a, b)
        return value, value

    def either(self, a: PrimExpr, b: PrimExpr, depth: int) -> Bounds | None:
        first, second = self.bounds(a, depth), self.bounds(b, depth)
        if first is None or second is None:
            return None
        return ops.minimum(first[0], second[0]), ops.maximum(first[1], second[1])

    def scaled(self, expr: Any, depth: int) -> Bounds | None:
        a, b = self.bounds(expr.a, depth), self.bounds(expr.b, depth)
        if a is None or b is None or b[0] is not b[1]:
            if isinstance(expr, Mul) and a is not None and b is not None and a[0] is a[1]:
                a, b = b, a
            else:
                return None
        if a[0] is a[1]:
            return (
                self.same(expr, a[0], b[0]) if not isinstance(expr, Mul) else _single(a[0] * b[0])
            )
        factor = b[0]
        if not isinstance(factor, IntImm) or factor.value == 0:
            return None
        if isinstance(expr, Mul):
            ends = a[0] * factor, a[1] * factor
            return ends if factor.value > 0 else ends[::-1]
        if factor.value < 0:
            return None
        if isinstance(expr, FloorDiv):
            return a[0] // factor, a[1] // factor
        first, last = self.analyzer.simplify(a[0] // factor), self.analyzer.simplify(a[1] // factor)
        if ops.is_const(self.analyzer.simplify(last - first), 0):
            return a[0] - first * factor, a[1] - first * factor
        return const(0, factor.dtype), const(factor.value - 1, factor.dtype)

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
        if scope.regions[axis] is None or index.dtype.lanes > 1:
            return None
        sharers = _sharers(buffer.scope())
        # an index that is read and written is one object
        key = (id(index), scope.depth, sharers, self.conditions)
        found = self.known_bounds.get(key)
        if found is None:
            self.relaxed = {var for var, tag in self.threads.items() if tag.startswith(sharers)}
            found = self.known_bounds[key] = (index, self.bounds(index, scope.depth))
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
            high = self.index_bounds(buffer, dim.min + dim.extent - 1, axis)
            ranges.append(None if low is None or high is None else (low[0], high[1]))
        self.access(buffer, ranges)

    def visit_Var(self, var: Var) -> None:
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
            self.visit(branch.else_case)

    def visit_Call(self, call: Call) -> None:
        if not is_call(call, "tir.if_then_else"):
            self.visit_children(call)
            return
        self.visit(call.args[0])
        self.visit_under(call.args[0], call.args[1])
        self.visit(call.args[2])

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        for value in realize.iter_values:
            self.visit(value)
        self.visit(realize.predicate)
        self.visit_under(realize.predicate, realize.block)

    def visit_under(self, condition: PrimExpr, node: Any) -> None:
        """Visit code under a condition, with the loop ranges narrowed by it."""
        narrowed = [] if ops.is_const(condition) else self.narrowed_loops(condition)
        if not narrowed:
            self.visit(node)
            return
        loops, outside = list(self.loops), self.conditions
        self.last_conditions += 1
        self.conditions = self.last_conditions
        for number, loop in narrowed:
            self.loops[number] = loop
        self.visit(node)
        self.loops, self.conditions = loops, outside

    def narrowed_loops(self, condition: PrimExpr) -> list[tuple[int, _Loop]]:
        """Return the loops of constant bounds that have fewer iterations under a condition."""
        found: dict[int, _Loop] = {}
        for clause in conjuncts(condition, through_likely=True):
            if not isinstance(clause, (LT, LE, GT, GE)):
                continue
            used = [var for var in variables(clause) if var in self.depth_of]
            if len(used) != 1:
                continue
            number = self.depth_of[used[0]]
            var, first, last = found.get(number, self.loops[number])
            limit = limit_of(clause, var, {}, self.analyzer)
            first, last = self.analyzer.simplify(first), self.analyzer.simplify(last)
            if limit is None or not (isinstance(first, IntImm) and isinstance(last, IntImm)):
                continue
            low, end = limit
            if isinstance(low, IntImm) and first.value < low.value <= last.value:
                found[number] = (var, ops.cast(var.dtype, low), last)
            elif isinstance(end, IntImm) and first.value < end.value <= last.value:
                found[number] = (var, first, ops.cast(var.dtype, end - 1))
        return list(found.items())

    # -- scopes

    def visit_Block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            if buffer.strides or buffer.axis_separators or not ops.is_const(buffer.elem_offset, 0):
                continue
            self.scopes[buffer] = _Scope(len(self.loops), len(buffer.shape))
            self.pointers[buffer.data] = buffer
        for number, axis, factor, offset in block.annotations.get("buffer_dim_align", ()):
            rows = self.alignments.setdefault(block.writes[number].buffer, {})
            rows[int(axis)] = (int(factor), int(offset))
        for match in block.match_buffers:
            self.visit(match)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        var = loop.loop_var
        self.depth_of[var] = len(self.loops)
        self.loops.append((var, loop.min, loop.min + loop.extent - 1))
        self.analyzer.bind(var, Range.from_min_extent(loop.min, loop.extent))
        binding = loop.thread_binding
        if binding is not None:
            self.threads[var] = binding.thread_tag
        self.visit(loop.body)
        self.threads.pop(var, None)
        self.loops.pop()
        del self.depth_of[var]

    def visit_LetStmt(self, let: LetStmt) -> None:
        # A value that is bound inside cannot be bounded here; it hides its loops.
        self.depth_of[let.var] = len(self.loops)
        self.loops.append((let.var, _UNKNOWN, _UNKNOWN))
        self.visit_children(let)
        self.loops.pop()
        del self.depth_of[let.var]

    # -- results

    def region(self, buffer: Buffer) -> list[Range] | None:
        """Return the live region of a buffer; None when it is the whole buffer."""
        scope = self.scopes[buffer]
        ranges = [
            self.dimension(size, found) for size, found in zip(buffer.shape, scope.regions)
        ]  # fmt: skip
        if all(dim.extent is size for dim, size in zip(ranges, buffer.shape)):
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
            bound = constant.max_value
            if not isinstance(size, IntImm) or bound >= size.value:
                return whole
            count = int(bound)
        else:
            count = extent.value
        if count < 1:
            return whole
        if isinstance(size, IntImm) and count >= size.value:
            return whole
        return Range.from_min_extent(ops.cast(size.dtype, first), const(count, size.dtype))


_COMBINE = {Add: ops.add, Min: ops.minimum, Max: ops.maximum}
_UNKNOWN = Call("int32", "tir.undef", ())


def _sharers(scope: str) -> _Tags:
    """Return the threads that share memory of a scope, which is allocated once for all of them."""
    if scope.startswith("global"):
        return ("",)
    if scope.startswith("shared"):
        return ("threadIdx", "vthread")
    return ("threadIdx.x",) if scope == "warp" else ()


def _single(value: PrimExpr) -> Bounds:
    return value, value


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

    Returns ``func`` with the buffers of its blocks shrunk to their live regions.
    """
    finder = _RegionFinder()
    finder.visit(func.body)
    if not finder.scopes:
        return func
    compactor = _Compactor(finder)
    return func.with_body(compactor.visit(func.body)) if compactor.regions else func
