"""reindex, reindex_cache_read, reindex_cache_write: access a buffer through a copy with other
indices.

All three replace the accesses ``buffer[f(v)]`` of one block with iterators v by ``cache[g(v)]``,
and add a block that copies between the two for all values of v. That is correct if g determines
f: iterators with the same g(v) must access the same element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import is_const, moved
from tilesmith.ir.queries import nodes, variables
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.queries import accesses, free_variables, is_used_as_pointer, loads
from tilesmith.tir.schedule.blocks import is_declared_below, is_dominant, scope_of
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import Redirect, analyzer_for
from tilesmith.tir.schedule.parameters import BlockBuffer, ReadBuffer, StorageScope, WrittenBuffer
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.cache import (
    buffer_with,
    first_block,
    region_of,
    writers_of,
)
from tilesmith.tir.schedule.primitives.copies import (
    check_fills,
    check_outside_init,
    insert_nest,
    nest_of,
    statement_number,
)
from tilesmith.tir.schedule.primitives.inverse import inverse_of
from tilesmith.tir.schedule.primitives.layout import BlockMap
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.schedule.primitives.written_elements import writes_always
from tilesmith.tir.schedule.sizes import learn_sizes
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore

__all__ = ["reindex", "reindex_cache_read", "reindex_cache_write"]


class _Access:
    """The accesses of a block to a buffer: all at the same indices, which are functions of its
    iterators.
    """

    def __init__(self, cursor: BlockCursor, index: int, kind: str) -> None:
        self.cursor = cursor
        self.reads = kind == "read"
        self.block = cursor.block
        self.buffer = region_of(cursor, index, self.reads).buffer
        self.scope = scope_of(cursor)
        self.iterators = {iterator.var: iterator for iterator in self.block.iter_vars}
        self.indices = self._single_access()

    def refuse(self, reason: str, advice: str = "") -> Exception:
        """Return the error of the primitive, located at this block."""
        return refuse(reason, self.cursor, advice)

    def _single_access(self) -> tuple[PrimExpr, ...]:
        name, buffer = self.block.name_hint, self.buffer
        if self.reads and any(region.buffer is buffer for region in self.block.writes):
            raise self.refuse(f"block '{name}' writes '{buffer.name}' too")
        parts = [one for one in (self.block.body, self.block.init) if one is not None]
        inner = [region for one in nodes(parts, Block) for region in (*one.reads, *one.writes)]
        found = [access.indices for access in accesses(parts, buffer)]
        is_opaque = is_used_as_pointer(parts, buffer) or any(one.buffer is buffer for one in inner)
        if is_opaque or not found:
            raise self.refuse(
                f"block '{name}' uses '{buffer.name}' as a pointer, a matched region, or in blocks "
                "inside of it"
            )
        first, *others = found
        for indices in others:
            if not all(structural_equal(a, b) for a, b in zip(indices, first)):
                raise self.refuse(
                    f"block '{name}' accesses '{buffer.name}' at several different places"
                )
        free = set(free_variables(parts, sizes=False))
        for variable in variables(first):
            if variable not in free:
                raise self.refuse(
                    f"the place in '{buffer.name}' depends on '{variable.name}', which is bound "
                    "inside of the block"
                )
        return first

    def used(self, indices: Any) -> list[IterVar]:
        """Return the iterators on which some indices depend, in the order of the block."""
        used = set(variables(indices))
        return [iterator for iterator in self.block.iter_vars if iterator.var in used]


class _Moved(Redirect):
    """Redirects every access to a buffer to another buffer at given indices."""

    def __init__(self, old: Buffer, new: Buffer, place: list[PrimExpr]) -> None:
        super().__init__(old, new)
        self.place = place

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        """Return the given indices, the same for all accesses."""
        return self.place

    def ranges(self, buffer: Buffer, ranges: tuple[Range, ...]) -> list[Range]:
        """Return the region of the one element."""
        return list(BufferRegion.from_point(self.new, self.place).region)


@primitive(trace="ReIndex")
def reindex(block: BlockCursor, buffer: BlockBuffer) -> BlockCursor:
    """Access a buffer through a copy that is indexed by the block's own iterators.

        B[vi, vj] = A[vi // 4, vj, vi % 4]
      reindex(block, ("read", 0))
        A_reindex[vi, vj] = A[vi // 4, vj, vi % 4]    # a block before
        B[vi, vj] = A_reindex[vi, vj]

    ``buffer`` is ``("read", k)``, ``("write", k)``, a name or a Buffer. Gives the block that
    copies.
    """
    kind, index = buffer
    access = _Access(block, index, kind)
    iterators = access.used(access.indices)
    analyzer = Analyzer()
    indices = [analyzer.simplify(i.var - i.domain.min) for i in iterators]
    shape = [iterator.domain.extent for iterator in iterators]
    if not indices:
        indices, shape = [const(0, "int32")], [const(1, "int32")]
    name = access.buffer.name + "_reindex"
    return _through(access, indices, shape, name, access.buffer.scope())


@primitive()
def reindex_cache_read(
    block: BlockCursor, read_buffer_index: ReadBuffer, storage_scope: StorageScope,
    index_map: BlockMap,
) -> BlockCursor:  # fmt: skip
    """Read a buffer through a copy whose indices are a map of the block's iterators.

        B[vi, vj] = A[vi, vj] * 2
      reindex_cache_read(block, 0, "local", lambda vi, vj: (vj, vi))
        A_local[vj, vi] = A[vi, vj]    # a block before
        B[vi, vj] = A_local[vj, vi] * 2

    The block reads one element in each instance; the map must tell which. Gives the block that
    copies.
    """
    return _reindex_cache(_Access(block, read_buffer_index, "read"), storage_scope, index_map)


@primitive()
def reindex_cache_write(
    block: BlockCursor, write_buffer_index: WrittenBuffer, storage_scope: StorageScope,
    index_map: BlockMap,
) -> BlockCursor:  # fmt: skip
    """Write a buffer through a copy whose indices are a map of the block's iterators; see
    ``reindex_cache_read``. Returns the block that copies back.
    """
    return _reindex_cache(_Access(block, write_buffer_index, "write"), storage_scope, index_map)


def _reindex_cache(access: _Access, storage_scope: str, index_map: IndexMap) -> BlockCursor:
    block = access.block
    if len(index_map.initial_indices) != len(block.iter_vars):
        raise access.refuse(
            f"the map takes {len(index_map.initial_indices)} indices, block '{block.name_hint}' "
            f"has {len(block.iter_vars)} iterators"
        )
    indices = index_map.map_indices([iterator.var for iterator in block.iter_vars])
    own = set(variables(access.indices))
    for iterator in access.used(indices):
        is_open = access.reads and not is_const(iterator.domain.extent, 1)
        if is_open and iterator.var not in own:
            reason = f"the new indices use iterator '{iterator.var.name}', on which the place in "
            raise access.refuse(reason + f"'{access.buffer.name}' does not depend")
    _check_init(access, indices)
    domains = {iterator.var: iterator.domain for iterator in block.iter_vars}
    analyzer = Analyzer()
    shape = []
    for position in indices:
        covered = eval_set(position, domains)
        is_bounded = covered.has_lower_bound() and covered.has_upper_bound()
        if not is_bounded or not analyzer.can_prove(covered.min_value >= 0):
            raise access.refuse(f"the index {position} of the cache may be negative or unbounded")
        shape.append(analyzer.simplify(moved(covered.max_value, 1)))
    name = f"{access.buffer.name}_{storage_scope}"
    return _through(access, indices, shape, name, storage_scope, is_cache=True)


def _check_init(access: _Access, indices: list[PrimExpr]) -> None:
    """Check that the init of a reduction, which knows no reduction iterator, can use the cache."""
    init = access.block.init
    if init is None or not access.reads or next(accesses(init, access.buffer), None) is None:
        return
    for iterator in access.used(indices):
        if iterator.iter_type == IterVar.CommReduce:
            raise access.refuse(
                f"the new indices use reduction iterator '{iterator.var.name}', which the init of "
                f"block '{access.block.name_hint}' does not know"
            )


def _through(
    access: _Access,
    indices: list[PrimExpr],
    shape: list[PrimExpr],
    name: str,
    storage_scope: str,
    is_cache: bool = False,
) -> BlockCursor:
    """Redirect the block to a new buffer, and insert the copying block before or after it.

    A cache of a buffer that nothing here writes is filled before everything else, where its first
    block sees what is copied.
    """
    cursor, scope = access.cursor, access.scope
    _check_mapping(access, indices)
    _check_place(access)
    offset = const(0, access.buffer.elem_offset.dtype)
    cache = buffer_with(
        access.buffer,
        name,
        storage_scope,
        shape=tuple(shape),
        strides=(),
        elem_offset=offset,
        axis_separators=(),
    )
    used = access.used([*access.indices, *indices])
    realize, loops = _stage(access, cache, indices, used)
    anchor = cursor
    needed = [access.buffer, *[load.buffer for load in loads(access.indices)]]
    is_known_at_once = not any(
        is_declared_below(scope, one) or writers_of(scope, one) for one in needed
    )
    if is_cache and access.reads and is_known_at_once:
        anchor = first_block(scope)
    rewrite = _Moved(access.buffer, cache, indices)
    cursor.replace(rewrite.visit(cursor.stmt), rewrite.reuse)
    insert_nest(scope, nest_of(realize, loops), anchor, before=access.reads)
    add_allocation(scope, [cache])
    return scope.block_of(realize.block)


def _stage(
    access: _Access, cache: Buffer, indices: list[PrimExpr], used: list[IterVar]
) -> tuple[BlockRealize, list[tuple[Var, PrimExpr]]]:
    """Return the copying block, with iterators like those of the block that it serves."""
    loops: list[tuple[Var, PrimExpr]] = []
    iterators, values = [], []
    mapping: dict[Var, PrimExpr] = {}
    for number, iterator in enumerate(used):
        own = Var(iterator.var.name, iterator.var.dtype)
        mapping[iterator.var] = own
        iterators.append(IterVar(iterator.dom, own, IterVar.DataPar))
        variable = Var(f"ax{number}", own.dtype)
        loops.append((variable, iterator.domain.extent))
        low = iterator.domain.min
        values.append(variable if is_const(low, 0) else low + variable)
    rename = Substitution(mapping)
    old = [rename.visit(index) for index in access.indices]
    new = [rename.visit(index) for index in indices]
    source, source_indices, target, target_indices = (
        (access.buffer, old, cache, new) if access.reads else (cache, new, access.buffer, old)
    )
    block = Block(
        iterators,
        [BufferRegion.from_point(source, source_indices)],
        [BufferRegion.from_point(target, target_indices)],
        cache.name,
        BufferStore(target, BufferLoad(source, source_indices), target_indices),
    )
    found, _, _ = get_block_access_region(block, {})
    loaded = [region for region in found if region.buffer is not source]  # by the indices
    block = block.with_fields(reads=(*block.reads, *loaded))
    return BlockRealize(values, const(True, "bool"), block), loops


def _check_mapping(access: _Access, indices: list[PrimExpr]) -> None:
    """Check that iterators that share an element of the cache share an element of the buffer; for
    writes also the converse.
    """
    domains = {variable: iterator.domain for variable, iterator in access.iterators.items()}
    pairs: list[tuple[Sequence[PrimExpr], Sequence[PrimExpr], str]]
    pairs = [(indices, access.indices, "the new indices do not tell")]
    if not access.reads:
        pairs.append((access.indices, indices, f"the place in '{access.buffer.name}' leaves"))
    plain = Analyzer()
    for given, wanted, reason in pairs:
        _, known = inverse_of(list(given), domains)
        for index in wanted:
            # An index of what is read may be one of the cache, as the sum 'h + r'.
            if access.reads and any(plain.can_prove_equal(index, other) for other in given):
                continue
            for variable in variables(index):
                if variable in domains and variable not in known:
                    open_ = "" if reason.startswith("the new") else " open"
                    raise access.refuse(f"{reason} iterator '{variable.name}'{open_}")
    analyzer = analyzer_for(access.cursor)
    if loops := access.cursor.loops():
        learn_sizes(analyzer, loops[-1])
    for variable, domain in domains.items():
        analyzer.bind(variable, domain)
    for index, size in zip(access.indices, access.buffer.shape):
        if not (analyzer.can_prove(index >= 0) and analyzer.can_prove(index < size)):
            raise access.refuse(
                f"the index {index} of '{access.buffer.name}' is in bounds only under a condition"
            )


def _check_place(access: _Access) -> None:
    """Check that the copy can be inserted before or after the statement that contains the block."""
    scope, cursor, buffer = access.scope, access.cursor, access.buffer
    check_outside_init(scope, [cursor])
    number = statement_number(scope, cursor)
    if not access.reads:
        own = [region.buffer for region in access.block.reads]
        if access.block.init is None and buffer in own:
            name = access.block.name_hint
            raise access.refuse(
                f"block '{name}' reads what is in '{buffer.name}' before it writes; the copy "
                "is empty"
            )
        if not is_dominant(cursor, scope):
            raise access.refuse(f"another block writes '{buffer.name}' too")
        check_fills(cursor, buffer, scope)
        if not writes_always(access.block, buffer):
            name = access.block.name_hint
            raise access.refuse(f"block '{name}' writes '{buffer.name}' under a condition")
    for other in scope.blocks_below():
        if other == cursor or statement_number(scope, other) != number:
            continue
        block = other.block
        regions = block.writes if access.reads else block.reads
        if any(region.buffer is buffer for region in regions):
            verb = "writes" if access.reads else "reads"
            raise refuse(
                f"block '{block.name_hint}' {verb} '{buffer.name}' in the same nest",
                other,
                "reindex first, then move blocks into one nest",
            )
