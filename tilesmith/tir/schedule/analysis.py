"""Analyses that tuners ask of a schedule's program: names, outputs, layouts, intrinsics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer, find_iter_map
from tilesmith.arith.iter_nodes import IterSplitExpr, IterSumExpr
from tilesmith.ir import Add, IntImm, Max, Min, Mul, PrimExpr, Range, Sub, Var, is_const
from tilesmith.ir.operators import floordiv, floormod
from tilesmith.ir.queries import mentions, variables
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.schedule.blocks import is_output_block as writes_output
from tilesmith.tir.schedule.cursor import BlockCursor, cursor_of
from tilesmith.tir.schedule.primitives.tensorize import described_statement
from tilesmith.tir.schedule.state import StmtSRef
from tilesmith.tir.stmt import BlockRealize, BufferStore, For, Stmt

__all__ = [
    "AutoTensorizeMappingInfo",
    "TensorizeInfo",
    "get_auto_tensorize_mapping_info",
    "get_tensorize_loop_mapping",
    "has_block",
    "is_output_block",
    "suggest_index_map",
]


def has_block(sch: Any, block_name: str) -> bool:
    """Return whether the function that the schedule works on has a block of that name."""
    variable = sch.func_working_on
    variables = [variable] if variable is not None else sch.mod.get_global_vars()
    return any(
        bool(sch.state.find_blocks(block_name, one))
        for one in variables
        if isinstance(sch.mod.functions[one], PrimFunc)
    )


def is_output_block(sch: Any, block: Any) -> bool:
    """Return whether a block writes a buffer from outside of its scope."""
    cursor = cursor_of(sch.state, sch.get_sref(block))
    scope = cursor.scope()
    if not isinstance(cursor, BlockCursor) or scope is None:
        found = "the root block" if scope is None else "a loop"
        raise ScheduleError(f"is_output_block: expected a block inside of another, got {found}")
    return writes_output(cursor, scope)


# --- layouts --------------------------------------------------------------------------------------


def suggest_index_map(
    buffer: Buffer, indices: Sequence[PrimExpr], loops: Sequence[For], predicate: PrimExpr
) -> IndexMap | None:
    """Return a layout in which loops access a buffer in memory order; None if there is none.

    The parts of the indices that belong to single loops become dimensions of their own, in the
    order of the loops:

        for i_0, j_0, i_1, j_1: A[i_0 * 16 + i_1, j_0 * 16 + j_1]
        (i, j) -> (i // 16, j // 16, i % 16, j % 16)
    """
    ranges = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    position = {loop.loop_var: number for number, loop in enumerate(loops)}
    found = find_iter_map(list(indices), ranges, predicate)
    if not found.indices:
        return None
    analyzer = Analyzer()
    variables = [Var(f"i{k}", size.dtype) for k, size in enumerate(buffer.shape)]
    parts: list[tuple[tuple[int, int], PrimExpr]] = []
    for variable, size, form in zip(variables, buffer.shape, found.indices):
        analyzer.bind(variable, Range.from_min_extent(0, size))
        if not is_const(form.base, 0):
            return None
        if not form.args:  # always the same element: it does not matter where
            parts.append(((-1, 0), variable))
        digits = _digits(form.args, position)
        if digits is None:
            return None
        for number, (order, digit) in enumerate(digits):
            value = floordiv(variable, digit.scale)
            if number:
                value = floormod(value, digit.extent)
            parts.append((order, analyzer.simplify(value)))
    parts.sort(key=lambda item: item[0])
    return IndexMap(variables, [value for _, value in parts], None)


def _digits(
    args: Sequence[IterSplitExpr], position: dict[Var, int]
) -> list[tuple[tuple[int, int], IterSplitExpr]] | None:
    """Return the digits of an index by falling scale, with the positions of their loops."""
    flat: list[IterSplitExpr] = []
    for arg in args:
        source = arg.source.source
        if isinstance(source, Var):
            flat.append(arg)
            continue
        whole = is_const(arg.lower_factor, 1) and is_const(arg.scale, 1)
        if not isinstance(source, IterSumExpr) or not whole or not is_const(source.base, 0):
            return None
        if not _same_size(arg.extent, arg.source.extent):
            return None  # the index starts again from 0 before the loops end
        flat += source.args
    digits: list[tuple[int, tuple[int, int], IterSplitExpr]] = []
    for arg in flat:
        source, scale, factor = arg.source.source, arg.scale, arg.lower_factor
        if not isinstance(source, Var) or source not in position or not is_const(arg.extent):
            return None
        if not isinstance(scale, IntImm) or not isinstance(factor, IntImm):
            return None
        digits.append((scale.value, (position[source], -factor.value), arg))
    digits.sort(key=lambda item: -item[0])
    return [(order, arg) for _, order, arg in digits]


def _same_size(a: PrimExpr, b: PrimExpr) -> bool:
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value


# --- intrinsics -----------------------------------------------------------------------------------


class TensorizeInfo:
    """The correspondence between the loops of a block and those of a description.

    ``loop_map``: loop of the block → loop of the description; ``desc_loop_indexer``: the number of
    each loop of the description; ``block_iter_paddings``: factors for ``pad_einsum``, or None.
    """

    def __init__(
        self,
        loop_map: dict[StmtSRef, For],
        desc_loop_indexer: dict[For, int],
        block_iter_paddings: list[int] | None,
    ) -> None:
        self.loop_map = loop_map
        self.desc_loop_indexer = desc_loop_indexer
        self.block_iter_paddings = block_iter_paddings

    def __repr__(self) -> str:
        return f"TensorizeInfo({len(self.loop_map)} loops, {self.block_iter_paddings})"


class AutoTensorizeMappingInfo:
    """The index maps from the iterators of a block to those of a description.

    ``mappings``: index maps for ``transform_block_layout``; ``lhs_iters`` and ``rhs_iters``: the
    iterators of the block and of the description; ``rhs_buffer_map``: buffer of the description →
    buffer of the block.
    """

    def __init__(
        self,
        mappings: list[IndexMap],
        lhs_iters: list[IterVar],
        rhs_iters: list[IterVar],
        rhs_buffer_map: dict[Buffer, Buffer],
    ) -> None:
        self.mappings = mappings
        self.lhs_iters = lhs_iters
        self.rhs_iters = rhs_iters
        self.rhs_buffer_map = rhs_buffer_map


Pair = tuple[Any, Any]  # an access of the block and the one of the description it stands for
Pairing = list[Pair]


class _Description:
    """The loops and the single block of a description."""

    def __init__(self, function: PrimFunc) -> None:
        self.loops: list[For] = []
        stmt: Stmt = described_statement(function)
        while isinstance(stmt, For):
            self.loops.append(stmt)
            stmt = stmt.body
        if not isinstance(stmt, BlockRealize) or not isinstance(stmt.block.body, BufferStore):
            raise ScheduleError(
                "a description for this analysis is loops around one block with one store"
            )
        self.realize = stmt
        self.block = stmt.block
        self.store: BufferStore = stmt.block.body

    def loop_of(self, iterator: Var) -> For | None:
        """Return the loop that an iterator is bound to."""
        values = dict(zip([i.var for i in self.block.iter_vars], self.realize.iter_values))
        return next((one for one in self.loops if one.loop_var is values[iterator]), None)


def _pairings(actual: PrimExpr, wanted: PrimExpr) -> list[Pairing]:
    """Return the ways in which an expression matches another one, ignoring indices."""
    if isinstance(wanted, BufferLoad):
        fits = isinstance(actual, BufferLoad) and actual.buffer.dtype is wanted.buffer.dtype
        return [[(actual, wanted)]] if fits else []
    if type(actual) is not type(wanted) or actual.dtype is not wanted.dtype:
        return []
    mine = [child for child in actual.children() if isinstance(child, PrimExpr)]
    other = [child for child in wanted.children() if isinstance(child, PrimExpr)]
    if not mine and not other:
        return [[]] if is_const(actual) and str(actual) == str(wanted) else []
    if len(mine) != len(other):
        return []
    orders = [mine]
    if isinstance(wanted, (Add, Mul, Min, Max)) and not isinstance(wanted, Sub):
        orders.append(mine[::-1])
    found: list[Pairing] = []
    for order in orders:
        partial: list[Pairing] = [[]]
        for one, two in zip(order, other):
            partial = [head + tail for head in partial for tail in _pairings(one, two)]
        found += partial
    return found


def _consistent(pairing: Pairing) -> dict[Buffer, Buffer] | None:
    """Return buffer of the description → buffer of the block, if the pairs form a one-to-one
    mapping."""
    mapping: dict[Buffer, Buffer] = {}
    for actual, wanted in pairing:
        if mapping.setdefault(wanted.buffer, actual.buffer) is not actual.buffer:
            return None
    return mapping if len({id(b) for b in mapping.values()}) == len(mapping) else None


def _matches(block_store: BufferStore, description: _Description) -> list[Pairing]:
    """Return all consistent pairings of the accesses of a block with those of a description."""
    wanted = description.store
    if block_store.buffer.dtype is not wanted.buffer.dtype:
        return []
    pairings = [
        [(block_store, wanted), *found] for found in _pairings(block_store.value, wanted.value)
    ]
    return [pairing for pairing in pairings if _consistent(pairing) is not None]


def get_tensorize_loop_mapping(
    sch: Any, block: Any, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """Return the mapping of loops of a block to those of a tensor intrinsic.

    None if the block does not have the form of the description, or (without ``allow_padding``) if
    the extents are not multiples of the description's.
    """
    sref = sch.get_sref(block)
    realize = sch.state.stmt(sref)
    if not isinstance(realize, BlockRealize) or not isinstance(realize.block.body, BufferStore):
        return None
    description = _Description(desc_func)
    loop_of = {sch.state.stmt(one).loop_var: one for one in sch.state.loops(sref)}
    for pairing in _matches(realize.block.body, description):
        iterators = _iterators_of(pairing, realize, description)
        if iterators is None:
            continue
        info = _loop_mapping(sch, realize, description, iterators, loop_of, allow_padding)
        if info is not None:
            return info
    return None


def _iterators_of(
    pairing: Pairing, realize: BlockRealize, description: _Description
) -> dict[Var, IterVar] | None:
    """Return iterator of the description → that of the block, by the last indices of all
    accesses."""
    own = {iterator.var: iterator for iterator in realize.block.iter_vars}
    wanted = {iterator.var: iterator for iterator in description.block.iter_vars}
    found: dict[Var, IterVar] = {}
    sums: list[tuple[Var, PrimExpr]] = []
    for actual, described in pairing:
        leading = len(actual.indices) - len(described.indices)
        if leading < 0:
            return None
        for index, other in zip(actual.indices[leading:], described.indices):
            if other not in wanted:
                if not is_const(other) or not is_const(index):
                    return None
            elif isinstance(index, Var) and index in own:
                if found.setdefault(other, own[index]) is not own[index]:
                    return None
            else:
                sums.append((other, index))
    for other, index in sums:  # as h + r in a convolution
        if other not in found or not mentions(index, {found[other].var}):
            return None
    kinds_agree = all(found[v].iter_type == wanted[v].iter_type for v in found)
    distinct = len({id(iterator) for iterator in found.values()}) == len(found)
    return found if len(found) == len(wanted) and kinds_agree and distinct else None


def _loop_mapping(
    sch: Any,
    realize: BlockRealize,
    description: _Description,
    iterators: dict[Var, IterVar],
    loop_of: dict[Var, StmtSRef],
    allow_padding: bool,
) -> TensorizeInfo | None:
    values = dict(zip([i.var for i in realize.block.iter_vars], realize.iter_values))
    loop_map: dict[StmtSRef, For] = {}
    paddings = {iterator.var: 1 for iterator in realize.block.iter_vars}
    padded = False
    for wanted, iterator in iterators.items():
        loop = description.loop_of(wanted)
        value = values[iterator.var]
        if loop is None or not isinstance(value, Var) or value not in loop_of:
            return None
        if not isinstance(loop.extent, IntImm):
            return None
        sref = loop_of[value]
        extent, size = sch.state.stmt(sref).extent, loop.extent.value
        if not Analyzer().can_prove_equal(floormod(extent, size), 0):
            if not allow_padding:
                return None
            padded = True
            paddings[iterator.var] = size
        loop_map[sref] = loop
    indexer = {loop: number for number, loop in enumerate(description.loops)}
    return TensorizeInfo(loop_map, indexer, list(paddings.values()) if padded else None)


def get_auto_tensorize_mapping_info(
    sch: Any, block: Any, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """Return how the iterators of a block can be fused into those of a description, or None.

    Iterators that index the same buffers have the same role: of ``C[i, j] += A[i, k] * B[k, j]``,
    i is in A and C. Those of a block with the role of one of the description are fused:

        Y[n, h, w, o] += X[n, h + r, w + s, c] * W[r, s, c, o]
        n, h, w, o, r, s, c  ->  (n * H + h) * W + w,  o,  (r * S + s) * C + c

    Iterators with a role of their own (batches, in all buffers) come first. None if the block does
    not have the form, or if an iterator of the description has no counterpart.
    """
    sref = sch.get_sref(block)
    realize = sch.state.stmt(sref)
    if not isinstance(realize, BlockRealize) or not isinstance(realize.block.body, BufferStore):
        return None
    description = _Description(desc_func)
    best: tuple[bool, IndexMap, dict[Buffer, Buffer]] | None = None
    for pairing in _matches(realize.block.body, description):
        buffers = _consistent(pairing)
        mapping = _fused(pairing, realize, description)
        if mapping is None or buffers is None:
            continue
        in_order = _output_in_order(pairing, realize, description)
        if best is None or (in_order and not best[0]):
            best = (in_order, mapping, buffers)
    if best is None:
        return None
    return AutoTensorizeMappingInfo(
        [best[1]],
        list(realize.block.iter_vars),
        list(description.block.iter_vars),
        best[2],
    )


def _roles(accesses: Sequence[Any], iterators: Sequence[IterVar]) -> dict[Var, tuple[bool, ...]]:
    """Return for each iterator which of the accesses it indexes."""
    used = [set(variables(access.indices)) for access in accesses]
    return {i.var: tuple([i.var in one for one in used]) for i in iterators}


def _fused(pairing: Pairing, realize: BlockRealize, description: _Description) -> IndexMap | None:
    own = realize.block.iter_vars
    mine = _roles([actual for actual, _ in pairing], own)
    wanted = _roles([other for _, other in pairing], description.block.iter_vars)
    kinds = {iterator.var: iterator.iter_type for iterator in own}
    analyzer = Analyzer()
    variables = {i.var: Var(i.var.name, i.var.dtype) for i in own}
    for iterator in own:
        analyzer.bind(variables[iterator.var], iterator.domain)
    taken: set[Var] = set()
    fused: list[PrimExpr] = []
    for iterator in description.block.iter_vars:
        group = [
            i
            for i in own
            if mine[i.var] == wanted[iterator.var]
            and kinds[i.var] == iterator.iter_type
            and i.var not in taken
        ]
        if not group:
            return None
        taken.update([i.var for i in group])
        value: PrimExpr = variables[group[0].var]
        for following in group[1:]:
            value = value * following.domain.extent + variables[following.var]
        fused.append(analyzer.simplify(value))
    rest: list[Any] = [variables[i.var] for i in own if i.var not in taken]
    return IndexMap(list(variables.values()), [*rest, *fused], None)


def _output_in_order(pairing: Pairing, realize: BlockRealize, description: _Description) -> bool:
    """Return whether the output's dimensions have their roles in the description's order."""
    mine = _roles([actual for actual, _ in pairing], realize.block.iter_vars)
    wanted = _roles([other for _, other in pairing], description.block.iter_vars)
    actual, described = pairing[0]
    known = set(wanted.values())
    order = [mine[v] for index in actual.indices for v in variables(index) if v in mine]
    other = [wanted[v] for index in described.indices for v in variables(index) if v in wanted]
    distinct = list(dict.fromkeys([role for role in order if role in known]))
    return distinct == list(dict.fromkeys(other))
