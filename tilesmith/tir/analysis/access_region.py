"""Computes the regions of buffers that a block reads and writes.

Loops inside the block are relaxed over their domains, nested blocks count with the regions that
they declare, accesses to a matched buffer count for the region that it stands for. An index that
depends on loaded values may be anywhere in its dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    Broadcast,
    Call,
    IntImm,
    Let,
    PrimExpr,
    Ramp,
    Range,
    Var,
    Visitor,
    const,
    is_const,
    structural_equal,
)  # fmt: skip
from tilesmith.ir.operators import maximum, minimum, moved
from tilesmith.ir.queries import is_call, variables
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import reads_memory
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    MatchBufferRegion,
    Stmt,
)  # fmt: skip

__all__ = [
    "domain_touched",
    "get_block_access_region",
    "get_block_read_write_region",
    "regions_within_iterators",
]

Region = tuple[Range, ...]


def get_block_access_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer]
) -> tuple[list[BufferRegion], list[BufferRegion], list[BufferRegion]]:
    """Return the regions that a block reads, writes, and touches through pointers in unknown ways.

    ``buffer_var_map`` gives the buffer behind a pointer variable. Where the block has an ``init``,
    the buffers that it writes do not count as read.
    """
    with deep_recursion():
        finder = _AccessFinder(block, buffer_var_map)
        finder.enter()
        writes = finder.collect(finder.writes)
        written = {region.buffer for region in writes} if block.init is not None else set()
        reads = finder.collect(finder.reads, written)
        return reads, writes, finder.collect(finder.opaque)


def regions_within_iterators(block: Block) -> tuple[list[BufferRegion], list[BufferRegion]]:
    """Return the regions that a block reads and writes like ``get_block_access_region``, but
    tighter: nested blocks under a condition count with the values that their iterators can have."""
    with deep_recursion():
        finder = _CloseFinder(block, {})
        finder.enter()
        writes = finder.collect(finder.writes)
        written = {region.buffer for region in writes} if block.init is not None else set()
        return finder.collect(finder.reads, written), writes


def get_block_read_write_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer]
) -> tuple[list[BufferRegion], list[BufferRegion]]:
    """Return the regions that a block reads and writes; accesses through pointers count as both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    for region in opaque:
        for regions in (reads, writes):
            if not any(known.buffer is region.buffer for known in regions):
                regions.append(region)
    return reads, writes


def domain_touched(
    stmt: Stmt, buffer: Buffer, consider_loads: bool = True, consider_stores: bool = True
) -> list[Range]:
    """Return a box around all that a statement reads or writes of a buffer: a range for each
    dimension.

    Loops and thread extents inside the statement are relaxed, so that the ranges are in terms of
    what lies outside. Nested blocks count with the regions that they declare. The list is empty if
    the buffer is not touched (in the ways that are considered).
    """
    with deep_recursion():
        finder = _TouchFinder(Block((), (), (), "", stmt), {})
        finder.enter()
        regions: list[Region] = []
        if consider_loads:
            regions += finder.reads.get(buffer, [])
        if consider_stores:
            regions += finder.writes.get(buffer, [])
        return list(finder.union(regions)) if regions else []


class _AccessFinder(Visitor):
    """Collects accesses; their ranges are in terms of what lies outside the block."""

    def __init__(self, block: Block, buffer_var_map: Mapping[Var, Buffer]) -> None:
        self.block = block
        self._analyzer: Analyzer | None = None
        self.buffer_of = dict(buffer_var_map)
        self.domains: dict[Var, Range] = {}  # loops inside the block, outermost first
        self.values: dict[Var, PrimExpr] = {}  # variables bound by `let`
        self.matched: dict[Buffer, MatchBufferRegion] = {}
        self.allocated: set[Var] = {buffer.data for buffer in block.alloc_buffers}
        self.views: dict[Buffer, Buffer | None] = {}  # declared in the block; over what
        self.reads: dict[Buffer, list[Region]] = {}
        self.writes: dict[Buffer, list[Region]] = {}
        self.opaque: dict[Buffer, list[Region]] = {}

    @property
    def analyzer(self) -> Analyzer:
        """Return an analyzer that knows the iterators of the block; it is made on first use."""
        if self._analyzer is None:
            self._analyzer = Analyzer()
            for iterator in self.block.iter_vars:
                if iterator.dom is not None:
                    self._analyzer.bind(iterator.var, iterator.dom)
        return self._analyzer

    def simplified(self, expr: PrimExpr) -> PrimExpr:
        return expr if is_const(expr) else self.analyzer.simplify(expr)

    def enter(self) -> None:
        block = self.block
        for match in block.match_buffers:
            self.matched[match.buffer] = match
            self.buffer_of.setdefault(match.buffer.data, match.buffer)
        for buffer in block.alloc_buffers:
            self.buffer_of.setdefault(buffer.data, buffer)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def collect(
        self,
        found: Mapping[Buffer, list[Region]],
        excluded: Iterable[Buffer] = (),
    ) -> list[BufferRegion]:
        hidden = {*self.block.alloc_buffers, *excluded}
        return [
            BufferRegion(buffer, self.union(regions))
            for buffer, regions in found.items()
            if buffer not in hidden
        ]

    # Statements.

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.domains[node.loop_var] = Range.from_min_extent(
            self.resolved(node.min), self.resolved(node.extent)
        )
        self.visit(node.body)
        del self.domains[node.loop_var]

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit_bound(node)

    def visit_Let(self, node: Let) -> None:
        self.visit_bound(node)

    def visit_bound(self, node: LetStmt | Let) -> None:
        self.visit(node.value)
        self.values[node.var] = self.resolved(node.value)
        self.visit(node.body)
        del self.values[node.var]

    def visit_Allocate(self, node: Allocate | AllocateConst) -> None:
        self.allocated.add(node.buffer_var)
        node.for_each_child(self.visit)

    visit_AllocateConst = visit_Allocate

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        data = node.buffer.data
        if data in self.allocated:
            self.views[node.buffer] = None
        elif data in self.buffer_of and self.buffer_of[data] is not node.buffer:
            self.views[node.buffer] = self.buffer_of[data]
        self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.record(self.writes, node.buffer, self.point(node.buffer, node.indices))
        node.for_each_child(self.visit)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.record(self.reads, node.buffer, self.point(node.buffer, node.indices))
        node.for_each_child(self.visit)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        binding = dict(zip([iterator.var for iterator in node.block.iter_vars], node.iter_values))
        for found, regions in ((self.reads, node.block.reads), (self.writes, node.block.writes)):
            for region in regions:
                ranges = substitute(region.region, binding)
                relaxed = [
                    self.relax(
                        self.resolved(one.min), self.resolved(moved(one.min + one.extent, -1)), size
                    )
                    for one, size in zip(ranges, region.buffer.shape)
                ]
                self.record(found, region.buffer, self.clipped(node, region, tuple(relaxed)))

    def clipped(self, node: BlockRealize, declared: BufferRegion, region: Region) -> Region:
        """Return the part of a nested block's region that counts as accessed; all of it here,
        subclasses may narrow it.
        """
        return region

    # Expressions.

    def visit_Var(self, node: Var) -> None:
        buffer = self.buffer_of.get(node)
        if buffer is not None:
            self.record(self.opaque, buffer, _everything(buffer))

    def visit_Call(self, node: Call) -> None:
        if is_call(node, "tir.tvm_access_ptr"):
            self.visit_access_ptr(node)
        else:
            node.for_each_child(self.visit)

    def visit_access_ptr(self, node: Call) -> None:
        _, data, offset, extent, mask = node.args
        self.visit(offset)
        self.visit(extent)
        buffer = self.buffer_of.get(data) if isinstance(data, Var) else None
        if buffer is None or not isinstance(mask, IntImm):
            return
        found = {1: self.reads, 2: self.writes}.get(mask.value & 3, self.opaque)
        self.record(found, buffer, _everything(buffer))

    # Regions.

    def record(self, found: dict[Buffer, list[Region]], buffer: Buffer, region: Region) -> None:
        if buffer in self.views:
            viewed = self.views[buffer]
            if viewed is None:
                return  # memory of the block itself
            buffer, region = viewed, _everything(viewed)
        match = self.matched.get(buffer)
        while match is not None:
            source = match.source
            missing = len(source.region) - len(region)
            head = [Range.from_min_extent(one.min, 1) for one in source.region[:missing]]
            tail = [
                Range.from_min_extent(outer.min + inner.min, inner.extent)
                for outer, inner in zip(source.region[missing:], region)
            ]
            buffer, region = source.buffer, tuple(head + tail)
            match = self.matched.get(buffer)
        regions = found.setdefault(buffer, [])
        if not any(_same_region(known, region) for known in regions):
            regions.append(region)

    def point(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Region:
        ranges = []
        for index, size in zip(indices, buffer.shape):
            if isinstance(index, Broadcast):
                index = index.value
            if isinstance(index, Ramp):
                ranges.append(self.relax_ramp(index, size))
            elif index.dtype.lanes != 1:
                ranges.append(Range.from_min_extent(const(0, size.dtype), size))
            else:
                index = self.resolved(index)
                ranges.append(self.relax(index, index, size))
        return tuple(ranges)

    def relax_ramp(self, index: Ramp, size: PrimExpr) -> Range:
        base, stride = self.resolved(index.base), self.resolved(index.stride)
        if not isinstance(stride, IntImm):
            return Range.from_min_extent(const(0, size.dtype), size)
        last = base + stride * (index.lanes - 1)
        return self.relax(base, last, size) if stride.value >= 0 else self.relax(last, base, size)

    def resolved(self, expr: PrimExpr) -> PrimExpr:
        if not self.values:
            return expr
        found = substitute(expr, self.values)
        return expr if found is expr else self.simplified(found)

    def relax(self, low: PrimExpr, high: PrimExpr, size: PrimExpr) -> Range:
        """Return the indices from ``low`` to ``high`` over all values of the loops inside the
        block."""
        if reads_memory(low) or (high is not low and reads_memory(high)):
            return Range.from_min_extent(const(0, size.dtype), size)
        inner = self.inner_loops(low, high)
        if not inner:
            if low is high:
                return Range.from_min_extent(low, const(1, low.dtype))
            return Range.from_min_extent(low, self.simplified(moved(high - low, 1)))
        analyzer = self.analyzer
        for variable in inner:
            # From the inside out: the domain of an inner loop may depend on an outer one.
            domain = {variable: self.domains[variable]}
            lower, upper = analyzer.int_set(low, domain), analyzer.int_set(high, domain)
            if not (lower.has_lower_bound() and upper.has_upper_bound()):
                return Range.from_min_extent(const(0, size.dtype), size)
            low, high = lower.min_value, upper.max_value
        low = analyzer.simplify(low)
        return Range.from_min_extent(low, analyzer.simplify(moved(high - low, 1)))

    def union(self, regions: list[Region]) -> Region:
        """Return the smallest box that is known to contain some boxes of one buffer."""
        result = regions[0]
        for region in regions[1:]:
            result = tuple([self.range_union(a, b) for a, b in zip(result, region)])
        return result

    def range_union(self, a: Range, b: Range) -> Range:
        if structural_equal(a.min, b.min):
            if structural_equal(a.extent, b.extent):
                return a
            return Range.from_min_extent(a.min, self.simplified(maximum(a.extent, b.extent)))
        low = self.simplified(minimum(a.min, b.min))
        high = maximum(a.min + a.extent, b.min + b.extent)
        return Range.from_min_extent(low, self.simplified(high - low))

    def inner_loops(self, *exprs: PrimExpr) -> list[Var]:
        """Return the loops inside the block on which the expressions depend, innermost first."""
        if not self.domains:
            return []
        used: set[Var] = set()
        waiting = variables(exprs)
        while waiting:
            variable = waiting.pop()
            if variable in self.domains and variable not in used:
                used.add(variable)
                waiting += variables(self.domains[variable])
        return [variable for variable in reversed(self.domains) if variable in used]


class _CloseFinder(_AccessFinder):
    """Bounds the regions of nested blocks under a condition by their iterators' domains too."""

    def clipped(self, node: BlockRealize, declared: BufferRegion, region: Region) -> Region:
        if is_const(node.predicate, 1):
            return region
        domains = {iterator.var: iterator.dom for iterator in node.block.iter_vars}
        made = []
        for found, one in zip(region, declared.region):
            covered = self.analyzer.int_set(one.min, domains)
            last = self.analyzer.int_set(moved(one.min + one.extent, -1), domains)
            if covered.has_lower_bound() and last.has_upper_bound():
                low = maximum(found.min, covered.min_value)
                end = minimum(found.min + found.extent, moved(last.max_value, 1))
                low = self.simplified(low)
                found = Range.from_min_extent(low, self.simplified(end - low))
            made.append(found)
        return tuple(made)


class _TouchFinder(_AccessFinder):
    """Collects the accesses of any statement, with the threads that it launches as loops."""

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key not in ("thread_extent", "virtual_thread"):
            node.for_each_child(self.visit)
            return
        self.visit(node.value)
        variable, extent = node.node.var, self.resolved(node.value)
        low = const(0, extent.dtype)
        self.domains[variable] = Range.from_min_extent(low, extent)
        self.visit(node.body)
        del self.domains[variable]


def _everything(buffer: Buffer) -> Region:
    return BufferRegion.full_region(buffer).region


def _same_region(left: Region, right: Region) -> bool:
    return len(left) == len(right) and all(
        structural_equal(a.min, b.min) and structural_equal(a.extent, b.extent)
        for a, b in zip(left, right)
    )
