"""Primitives that change loops: split, fuse, reorder, partition, unit loops."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, Let, PrimExpr, Range, Var, const
from tilesmith.ir.operators import cast, floordiv, floormod, is_const, less
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.primitives.blocks import has_affine_binding
from tilesmith.tir.schedule.primitives.common import (
    Rebuild,
    Replace,
    SimplifyBindings,
    analyzer_for,
    append_predicate,
    domain_around,
    refuse_at,
    variables_in,
)
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block, BlockRealize, For, ForKind, stmt_seq

__all__ = [
    "add_unit_loop",
    "check_plain",
    "fuse",
    "loop_partition",
    "reorder",
    "reorder_block_iter_var",
    "split",
]


def check_plain(state: ScheduleState, primitive: str, sref: StmtSRef) -> For:
    """A loop that can be divided: no annotations, not bound to a thread, from 0."""
    loop: For = state.stmt(sref)
    name = loop.loop_var.name
    if loop.annotations:
        keys = ", ".join(loop.annotations)
        raise refuse_at(
            state,
            primitive,
            f"loop '{name}' has annotations ({keys})",
            sref,
            "divide first, annotate later",
        )
    if loop.kind is ForKind.THREAD_BINDING:
        raise refuse_at(
            state,
            primitive,
            f"loop '{name}' is bound to a thread",
            sref,
            "divide first, bind later",
        )
    if not is_const(loop.min, 0):
        raise refuse_at(state, primitive, f"loop '{name}' does not start at 0", sref)
    return loop


def _infer_factors(
    state: ScheduleState, sref: StmtSRef, factors: list[Any], primitive: str
) -> list[PrimExpr]:
    """The factors as expressions, the None among them found from the extent."""
    loop: For = state.stmt(sref)
    dtype = loop.loop_var.dtype
    if sum(factor is None for factor in factors) > 1:
        advice = "give all factors but one: the extent decides that one"
        raise refuse_at(state, primitive, "more than one factor is None", sref, advice)
    product = const(1, dtype)
    for factor in factors:
        if factor is not None:
            if isinstance(factor, int) and factor <= 0:
                advice = "factors are at least 1; None stands for the one that the extent decides"
                raise refuse_at(state, primitive, f"factor {factor} is not positive", sref, advice)
            product = product * (cast(dtype, factor) if isinstance(factor, PrimExpr) else factor)
    analyzer = analyzer_for(state, sref)
    result = []
    for factor in factors:
        if factor is None:
            factor = analyzer.simplify(floordiv(loop.extent + product - 1, product))
        result.append(cast(dtype, factor) if isinstance(factor, PrimExpr) else const(factor, dtype))
    return result


def split(
    state: ScheduleState,
    sref: StmtSRef,
    factors: list[Any],
    preserve_unit_iters: bool,
    disable_predication: bool,
) -> list[StmtSRef]:
    """Replace one loop by nested loops; see ``Schedule.split``."""
    loop = check_plain(state, "split", sref)
    if not factors:
        raise refuse_at(state, "split", "no factors are given", sref)
    extents = _infer_factors(state, sref, factors, "split")
    variables = [Var(f"{loop.loop_var.name}_{k}", loop.loop_var.dtype) for k in range(len(extents))]
    value: PrimExpr = const(0, loop.loop_var.dtype)
    domain = domain_around(state, sref)
    for variable, extent in zip(variables, extents):
        value = value * extent + variable
        domain[variable] = Range.from_min_extent(const(0, variable.dtype), extent)
    replace = Replace({loop.loop_var: value})
    body = replace.visit(loop.body)
    inferred = any(factor is None for factor in factors)
    if not disable_predication and not _covered(state, sref, extents, loop.extent, inferred):
        body = append_predicate(body, less(value, loop.extent))
    simplify = SimplifyBindings(domain, preserve_unit_iters)
    body = simplify.visit(body)
    _chain(replace.reuse, simplify.reuse)
    for position in reversed(range(len(extents))):
        body = For(
            variables[position],
            const(0, loop.loop_var.dtype),
            extents[position],
            ForKind.SERIAL,
            body,
            span=loop.span,
        )
    state.replace(sref, body, replace.reuse)
    return [state.loop_of(variable, sref) for variable in variables]


def _covered(
    state: ScheduleState,
    sref: StmtSRef,
    extents: list[PrimExpr],
    total: PrimExpr,
    inferred: bool,
) -> bool:
    """Whether the product of the factors is the extent, so that no iteration is superfluous.

    Refuses factors that leave iterations out, or may; one that was ``inferred`` leaves none.
    """
    product: PrimExpr = const(1, total.dtype)
    for extent in extents:
        product = product * extent
    if isinstance(product, IntImm) and isinstance(total, IntImm):
        if product.value < total.value:
            raise refuse_at(
                state,
                "split",
                f"the factors cover {product.value} of {total.value} iterations",
                sref,
                "give a larger factor, or None for one of them",
            )
        return product.value == total.value
    analyzer = analyzer_for(state, sref)
    if not inferred and not analyzer.can_prove(product >= total):
        raise refuse_at(
            state,
            "split",
            f"the factors cover {product} iterations, which may be fewer than {total}",
            sref,
            "give None for one of the factors",
        )
    return analyzer.can_prove(product <= total)


def _chain(first: dict[Block, Block], second: dict[Block, Block]) -> None:
    """Blocks that changed twice: what they were first to what they are last."""
    later = dict(second)
    for before, after in list(first.items()):
        if after in later:
            first[before] = later.pop(after)
    for before, after in later.items():
        first.setdefault(before, after)


def fuse(state: ScheduleState, srefs: list[StmtSRef], preserve_unit_iters: bool) -> StmtSRef:
    """Make one loop of directly nested ones; see ``Schedule.fuse``."""
    if not srefs:
        raise refuse("fuse", "no loops are given")
    loops = [check_plain(state, "fuse", sref) for sref in srefs]
    for outer, inner, inner_sref in zip(loops, loops[1:], srefs[1:]):
        if outer.body is not inner:
            raise refuse_at(
                state,
                "fuse",
                f"loop '{inner.loop_var.name}' is not the only thing in loop "
                f"'{outer.loop_var.name}'",
                inner_sref,
                "fuse directly nested loops, outermost first",
            )
    variables = [loop.loop_var for loop in loops]
    for loop, inner_sref in zip(loops, srefs):
        if any(variable in variables_in(loop.extent) for variable in variables):
            name = loop.loop_var.name
            raise refuse_at(
                state, "fuse", f"the extent of '{name}' depends on a loop to be fused", inner_sref
            )
    dtype = loops[0].loop_var.dtype
    fused = Var("_".join([variable.name for variable in variables]) + "_fused", dtype)
    analyzer = analyzer_for(state, srefs[0])
    extent: PrimExpr = const(1, dtype)
    mapping: dict[Var, PrimExpr] = {}
    for loop in reversed(loops):
        value = floordiv(fused, extent)
        mapping[loop.loop_var] = value if loop is loops[0] else floormod(value, loop.extent)
        extent = loop.extent * extent
    extent = analyzer.simplify(extent)
    domain = domain_around(state, srefs[0])
    domain[fused] = Range.from_min_extent(const(0, dtype), extent)
    replace = Replace(mapping)
    body = replace.visit(loops[-1].body)
    simplify = SimplifyBindings(domain, preserve_unit_iters)
    body = simplify.visit(body)
    _chain(replace.reuse, simplify.reuse)
    new = For(fused, const(0, dtype), extent, ForKind.SERIAL, body, span=loops[0].span)
    state.replace(srefs[0], new, replace.reuse)
    return state.loop_of(fused, srefs[0])


def reorder(state: ScheduleState, srefs: list[StmtSRef]) -> None:
    """Put loops of one nest into another order; see ``Schedule.reorder``."""
    if not srefs:
        return
    wanted = set(srefs)
    if len(wanted) != len(srefs):
        raise refuse_at(
            state, "reorder", "a loop is given twice", srefs[0], "name each loop once, in new order"
        )
    chain = _chain_of(state, srefs, wanted)
    _check_blocks_below(state, chain[0])
    order = iter(srefs)
    new_chain = [next(order) if sref in wanted else sref for sref in chain]
    outer: set[Var] = {state.stmt(sref).loop_var for sref in chain}
    for sref in new_chain:
        loop: For = state.stmt(sref)
        needed = [v for v in variables_in(loop.min, loop.extent) if v in outer]
        if needed:
            raise refuse_at(
                state,
                "reorder",
                f"the range of '{loop.loop_var.name}' depends on '{needed[0].name}', "
                "which would be inside of it",
                sref,
            )
        outer.discard(loop.loop_var)
    body = state.stmt(chain[-1]).body
    for sref in reversed(new_chain):
        body = state.stmt(sref).with_fields(body=body)
    state.replace(chain[0], body)


def _chain_of(state: ScheduleState, srefs: list[StmtSRef], wanted: set[StmtSRef]) -> list[StmtSRef]:
    """The loops from the outermost to the innermost of the given ones, nested directly."""
    for bottom in srefs:
        above = [bottom, *state.ancestors(bottom)]
        missing = wanted.difference(above)
        if not missing:
            break
    else:
        raise refuse_at(
            state,
            "reorder",
            "the loops are not all on one way from the root",
            srefs[0],
            "give loops of one nest: each around or inside of all others",
        )
    chain: list[StmtSRef] = []
    left = len(wanted)
    for sref in above:
        if not isinstance(state.stmt(sref), For):
            raise refuse_at(state, "reorder", "a block stands between the loops", sref)
        if chain and state.stmt(sref).body is not state.stmt(chain[-1]):
            raise refuse_at(
                state,
                "reorder",
                f"loop '{state.stmt(sref).loop_var.name}' has several statements",
                sref,
                "only loops that stand directly in each other change places; move the other "
                "statements away first (compute_at, reverse_compute_at)",
            )
        chain.append(sref)
        left -= sref in wanted
        if left == 0:
            break
    return chain[::-1]


def _check_blocks_below(state: ScheduleState, top: StmtSRef) -> None:
    """Below reordered loops: iterators are data-parallel or reductions, bindings are affine."""
    if not state.enable_check:
        return
    for sref in state.blocks_below(top):
        block = state.stmt(sref).block
        for iterator in block.iter_vars:
            if iterator.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
                raise refuse_at(
                    state,
                    "reorder",
                    f"iterator '{iterator.var.name}' of block '{block.name_hint}' must keep "
                    "its order",
                    sref,
                )
        # Loops outside of the reordered ones stay: for these, parts may overlap.
        if not has_affine_binding(state, sref, top):
            raise refuse_at(
                state, "reorder", f"the binding of block '{block.name_hint}' is not affine", sref
            )


def loop_partition(
    state: ScheduleState, sref: StmtSRef, factors: list[Any], preserve_unit_iters: bool
) -> list[StmtSRef]:
    """Replace one loop by loops over parts of its range; see ``Schedule.loop_partition``."""
    loop = check_plain(state, "loop_partition", sref)
    dtype = loop.loop_var.dtype
    if not isinstance(loop.extent, IntImm):
        raise refuse_at(state, "loop_partition", "the extent is not constant", sref)
    if sum(factor is None for factor in factors) > 1:
        raise refuse_at(state, "loop_partition", "more than one factor is None", sref)
    given = sum(int(factor) for factor in factors if factor is not None)
    lengths = [loop.extent.value - given if factor is None else int(factor) for factor in factors]
    if sum(lengths) < loop.extent.value:
        lengths.append(loop.extent.value - sum(lengths))
    if sum(lengths) != loop.extent.value or any(length <= 0 for length in lengths):
        raise refuse_at(
            state,
            "loop_partition",
            f"parts of {lengths} do not make up {loop.extent.value} iterations",
            sref,
        )
    start, parts, variables = 0, [], []
    for number, length in enumerate(lengths):
        variable = Var(f"{loop.loop_var.name}_{number}", dtype)
        variables.append(variable)
        suffix = "" if number == 0 else f"_{number}"
        copy = CopyNest({loop.loop_var: variable + start}, suffix)
        body = copy.visit(loop.body)
        if number == 0:
            # The first part keeps the identities of the blocks.
            kept = copy.copies
        domain = domain_around(state, sref)
        domain[variable] = Range.from_min_extent(const(0, dtype), const(length, dtype))
        body = SimplifyBindings(domain, preserve_unit_iters).visit(body)
        parts.append(
            For(variable, const(0, dtype), const(length, dtype), loop.kind, body, span=loop.span)
        )
        start += length
    state.replace(sref, stmt_seq(*parts), kept)
    return [state.loop_of(variable, sref) for variable in variables]


class CopyNest(Rebuild):
    """A copy of a nest with loops, iterators and buffers of its own, block names with a suffix."""

    def __init__(self, mapping: dict[Var, PrimExpr], suffix: str) -> None:
        super().__init__()
        self.mapping = dict(mapping)
        self.suffix = suffix
        self.copies: dict[Block, Block] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Var(self, variable: Var) -> PrimExpr:
        """The replacement, or the variable itself."""
        return self.mapping.get(variable, variable)

    def _renamed(self, variable: Var) -> Var:
        new = Var(variable.name, variable.type_annotation)
        self.mapping[variable] = new
        return new

    def _own_buffer(self, buffer: Buffer) -> Buffer:
        """A buffer with memory of its own; symbolic sizes of a matched region are its own too."""
        for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(size, Var) and size not in self.mapping:
                self._renamed(size)
        shape = [self.visit(size) for size in buffer.shape]
        strides = [self.visit(stride) for stride in buffer.strides]
        new = buffer.with_fields(
            data=self._renamed(buffer.data), shape=tuple(shape), strides=tuple(strides),
            elem_offset=self.visit(buffer.elem_offset),
        )  # fmt: skip
        self.buffers[buffer] = new
        return new

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        """The copy of a buffer that is defined inside, or the buffer itself."""
        return self.buffers.get(buffer, buffer)

    def visit_For(self, loop: For) -> For:
        """A loop with a variable of its own."""
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        variable = self._renamed(loop.loop_var)
        return loop.with_fields(
            loop_var=variable, min=low, extent=extent, body=self.visit(loop.body)
        )

    def visit_LetStmt(self, stmt: Any) -> Any:
        """A binding with a variable of its own."""
        value = self.visit(stmt.value)
        variable = self._renamed(stmt.var)
        return stmt.with_fields(var=variable, value=value, body=self.visit(stmt.body))

    def visit_Let(self, expr: Let) -> Let:
        """A binding inside an expression, with a variable of its own."""
        value = self.visit(expr.value)
        variable = self._renamed(expr.var)
        return Let(variable, value, self.visit(expr.body))

    def visit_Block(self, block: Block) -> Block:
        """A block with iterators of its own."""
        iterators = []
        for iterator in block.iter_vars:
            domain = self.visit(iterator.dom)
            iterators.append(iterator.with_fields(dom=domain, var=self._renamed(iterator.var)))
        sources = [self.visit(match.source) for match in block.match_buffers]
        matches = [
            match.with_fields(buffer=self._own_buffer(match.buffer), source=source)
            for match, source in zip(block.match_buffers, sources)
        ]
        allocations = tuple([self._own_buffer(buffer) for buffer in block.alloc_buffers])
        new = Block(
            tuple(iterators),
            [self.visit(region) for region in block.reads],
            [self.visit(region) for region in block.writes],
            block.name_hint + self.suffix,
            self.visit(block.body),
            None if block.init is None else self.visit(block.init),
            allocations,
            matches,
            block.annotations,
            block.span,
        )
        self.copies[block] = new
        return new


def add_unit_loop(state: ScheduleState, sref: StmtSRef) -> StmtSRef:
    """Put a loop of one iteration around a block or loop."""
    stmt = state.stmt(sref)
    if state.parent(sref) is None:
        raise refuse_at(state, "add_unit_loop", "nothing can stand around the root block", sref)
    variable = Var("u", _index_dtype(stmt))
    loop = For(variable, const(0, variable.dtype), const(1, variable.dtype), ForKind.SERIAL, stmt)
    state.replace(sref, loop, {})
    return state.loop_of(variable, sref)


def _index_dtype(stmt: For | BlockRealize) -> Any:
    """The dtype of a loop's variable or of a block's iterators."""
    if isinstance(stmt, For):
        return stmt.loop_var.dtype
    iterators = stmt.block.iter_vars
    return iterators[0].var.dtype if iterators else "int32"


def reorder_block_iter_var(state: ScheduleState, sref: StmtSRef, new_order: list[int]) -> None:
    """Put the iterators of a block into another order."""
    realize: BlockRealize = state.stmt(sref)
    block = realize.block
    if sorted(new_order) != list(range(len(block.iter_vars))):
        raise refuse_at(
            state,
            "reorder_block_iter_var",
            f"{new_order} is no order of {len(block.iter_vars)} iterators",
            sref,
        )
    new = block.with_fields(iter_vars=tuple([block.iter_vars[k] for k in new_order]))
    values = tuple([realize.iter_values[k] for k in new_order])
    state.replace(sref, realize.with_fields(iter_values=values, block=new), {block: new})
