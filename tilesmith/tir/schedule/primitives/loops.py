"""Primitives that change loops: split, fuse, reorder, partition, unit loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilesmith.arith import ConstIntBound
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const
from tilesmith.ir.operators import cast, floordiv, floormod, is_const, less, maximum
from tilesmith.ir.queries import mentions, variables
from tilesmith.tir.expr import IterVar
from tilesmith.tir.functor import Renewal, Substitution
from tilesmith.tir.queries import has_side_effect, loads
from tilesmith.tir.schedule.blocks import has_affine_binding
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import (
    SimplifyBindings,
    analyzer_for,
    append_predicate,
    domain_around,
)
from tilesmith.tir.schedule.parameters import Factors
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.repetition import has_start, reduction_loops
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    For,
    ForKind,
    stmt_seq,
)

__all__ = [
    "add_unit_loop",
    "check_plain",
    "fuse",
    "loop_partition",
    "reorder",
    "reorder_block_iter_var",
    "split",
]


def check_plain(cursor: LoopCursor) -> For:
    """Check that a loop can be split: it has no annotations, is not bound to a thread, and starts
    at 0.
    """
    loop = cursor.stmt
    name = loop.loop_var.name
    if loop.annotations:
        keys = ", ".join(loop.annotations)
        raise refuse(
            f"loop '{name}' has annotations ({keys})", cursor, "divide first, annotate later"
        )
    if loop.kind is ForKind.THREAD_BINDING:
        raise refuse(f"loop '{name}' is bound to a thread", cursor, "divide first, bind later")
    if not is_const(loop.min, 0):
        raise refuse(f"loop '{name}' does not start at 0", cursor)
    return loop


def _infer_factors(cursor: LoopCursor, factors: list[int | PrimExpr | None]) -> list[PrimExpr]:
    """Return the factors as expressions; None is replaced by the factor that the extent implies."""
    loop = cursor.stmt
    dtype = loop.loop_var.dtype
    if sum(factor is None for factor in factors) > 1:
        advice = "give all factors but one, which is inferred from the extent"
        raise refuse("more than one factor is None", cursor, advice)
    given = [factor for factor in factors if factor is not None]
    for factor in given:
        if isinstance(factor, int) and factor <= 0:
            advice = "factors are at least 1; None for the one that the extent implies"
            raise refuse(f"factor {factor} is not positive", cursor, advice)
    whole = [factor for factor in given if isinstance(factor, int)]
    rest: PrimExpr
    if len(whole) == len(given) and isinstance(loop.extent, IntImm):
        rest = const(-(-loop.extent.value // math.prod(whole)), dtype)
    else:
        product: PrimExpr = const(1, dtype)
        for factor in given:
            product = product * (cast(dtype, factor) if isinstance(factor, PrimExpr) else factor)
        rest = analyzer_for(cursor).simplify(floordiv(loop.extent + product - 1, product))
    return [
        rest if factor is None
        else cast(dtype, factor) if isinstance(factor, PrimExpr)
        else const(factor, dtype)
        for factor in factors
    ]  # fmt: skip


@primitive()
def split(
    loop: LoopCursor,
    factors: Factors,
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopCursor]:
    """Replace one loop by nested loops; at most one factor may be None, and is inferred from the
    extent.

        for i in range(64): A[i] = f(i)
      split(i, [None, 16])
        for i_0 in range(4):
            for i_1 in range(16): A[i_0 * 16 + i_1] = f(i_0 * 16 + i_1)

    Factors whose product exceeds the extent add a predicate, unless ``disable_predication``
    says that it is not needed. The new loops are serial. With ``preserve_unit_iters`` loops of
    one iteration stay visible in the bindings. Refuses loops bound to threads, loops with
    annotations, and loops that do not start at 0.
    """
    stmt = check_plain(loop)
    if not factors:
        raise refuse("no factors are given", loop)
    extents = _infer_factors(loop, factors)
    variables = [Var(f"{stmt.loop_var.name}_{k}", stmt.loop_var.dtype) for k in range(len(extents))]
    value: PrimExpr = const(0, stmt.loop_var.dtype)
    domain = domain_around(loop)
    for variable, extent in zip(variables, extents):
        value = value * extent + variable
        domain[variable] = Range.from_min_extent(const(0, variable.dtype), extent)
    replace = Substitution({stmt.loop_var: value})
    body = replace.visit(stmt.body)
    inferred = any(factor is None for factor in factors)
    if not disable_predication and not _covered(loop, extents, stmt.extent, inferred):
        body = append_predicate(body, less(value, stmt.extent))
    simplify = SimplifyBindings(domain, preserve_unit_iters)
    body = simplify.visit(body)
    _chain(replace.reuse, simplify.reuse)
    for position in reversed(range(len(extents))):
        body = For(
            variables[position],
            const(0, stmt.loop_var.dtype),
            extents[position],
            ForKind.SERIAL,
            body,
            span=stmt.span,
        )
    loop.replace(body, replace.reuse)
    return [loop.loop_of(variable) for variable in variables]


def _covered(cursor: LoopCursor, extents: list[PrimExpr], total: PrimExpr, inferred: bool) -> bool:
    """Return whether the product of the factors is the extent, so that no predicate is needed.

    Refuses factors that leave iterations out, or may; one that was ``inferred`` leaves none.
    """
    product: PrimExpr = const(1, total.dtype)
    for extent in extents:
        product = product * extent
    if isinstance(product, IntImm) and isinstance(total, IntImm):
        if product.value < total.value:
            raise refuse(
                "the product of factors is not larger than or equal to the extent: "
                f"{product.value} of {total.value} iterations",
                cursor,
                "give a larger factor, or None for one of them",
            )
        return product.value == total.value
    analyzer = analyzer_for(cursor)
    if not inferred and not analyzer.can_prove(product >= total):
        raise refuse(
            f"the product of factors is not proven to be larger than or equal to the extent: "
            f"{product} and {total}",
            cursor,
            "give None for one of the factors",
        )
    return analyzer.can_prove(product <= total)


def _chain(first: dict[Block, Block], second: dict[Block, Block]) -> None:
    """Compose two replacements of blocks, from the original to the final blocks."""
    later = dict(second)
    for before, after in list(first.items()):
        if after in later:
            first[before] = later.pop(after)
    for before, after in later.items():
        first.setdefault(before, after)


@primitive()
def fuse(*loops: LoopCursor, preserve_unit_iters: bool = True) -> LoopCursor:
    """Fuse directly nested loops, given outermost first, into one loop.

      for i in range(4):
          for j in range(16): A[i, j] = f(i, j)
    fuse(i, j)
      for i_j_fused in range(64): A[i_j_fused // 16, i_j_fused % 16] = ...

    The new loop is serial.
    """
    if not loops:
        raise refuse("no loops are given")
    stmts = [check_plain(cursor) for cursor in loops]
    for outer, inner, inner_cursor in zip(stmts, stmts[1:], loops[1:]):
        if outer.body is not inner:
            raise refuse(
                f"loop '{inner.loop_var.name}' is not the only thing in loop "
                f"'{outer.loop_var.name}'",
                inner_cursor,
                "fuse directly nested loops, outermost first",
            )
    variables = [stmt.loop_var for stmt in stmts]
    for stmt, inner_cursor in zip(stmts, loops):
        if any(mentions(stmt.extent, {variable}) for variable in variables):
            name = stmt.loop_var.name
            raise refuse(f"the extent of '{name}' depends on a loop to be fused", inner_cursor)
    dtype = max([stmt.loop_var.dtype for stmt in stmts], key=lambda one: one.bits)
    total = math.prod([stmt.extent.value for stmt in stmts if isinstance(stmt.extent, IntImm)])
    if total >= 1 << (dtype.bits - 1):
        raise refuse(
            f"the loops have {total} iterations together, more than {dtype} counts",
            loops[0],
            "write them with indices of 64 bits",
        )
    fused = Var("_".join([variable.name for variable in variables]) + "_fused", dtype)
    extent: PrimExpr = const(1, dtype)
    mapping: dict[Var, PrimExpr] = {}
    for stmt, count in reversed(list(zip(stmts, _iterations(loops[0], stmts)))):
        value, wide = floordiv(fused, extent), cast(dtype, count)
        index = value if stmt is stmts[0] else floormod(value, wide)
        mapping[stmt.loop_var] = cast(stmt.loop_var.dtype, index)
        extent = wide * extent
    if not is_const(extent):
        extent = analyzer_for(loops[0]).simplify(extent)
    domain = domain_around(loops[0])
    domain[fused] = Range.from_min_extent(const(0, dtype), extent)
    replace = Substitution(mapping)
    body = replace.visit(stmts[-1].body)
    simplify = SimplifyBindings(domain, preserve_unit_iters)
    body = simplify.visit(body)
    _chain(replace.reuse, simplify.reuse)
    new = For(fused, const(0, dtype), extent, ForKind.SERIAL, body, span=stmts[0].span)
    loops[0].replace(new, replace.reuse)
    return loops[0].loop_of(fused)


def _iterations(cursor: LoopCursor, stmts: Sequence[For]) -> list[PrimExpr]:
    """Return the numbers of iterations of loops whose product is needed: if several extents may be
    negative, 0 stands for each negative one (sizes are not negative).
    """
    extents = [stmt.extent for stmt in stmts]
    computed = [one for one in extents if not isinstance(one, (IntImm, Var))]
    if len(computed) < 2:
        return extents
    analyzer = analyzer_for(cursor)
    around: set[Var] = set()
    for ancestor in cursor.ancestors():
        stmt = ancestor.stmt
        around.update(
            [stmt.loop_var] if isinstance(stmt, For) else [it.var for it in stmt.block.iter_vars]
        )
    for size in variables(computed):
        if size not in around:
            analyzer.update(size, ConstIntBound(0, ConstIntBound.POS_INF))
    open_ = [one for one in computed if not analyzer.can_prove(one >= 0)]
    if len(open_) < 2:
        return extents
    return [maximum(one, 0) if any(one is other for other in open_) else one for one in extents]


@primitive()
def reorder(*ordered_loops: LoopCursor) -> None:
    """Reorder loops of one nest as given; other loops between them keep their positions.

    Refuses loops of different nests, nests with statements between the loops, blocks that are
    not bound affinely, orders in which an outer loop would depend on an inner one, and those that
    move a loop that repeats a reduction past one that drives it.
    """
    if not ordered_loops:
        return
    wanted = set(ordered_loops)
    if len(wanted) != len(ordered_loops):
        raise refuse("a loop is given twice", ordered_loops[0], "name each loop once, in new order")
    chain = _chain_of(ordered_loops, wanted)
    _check_blocks_below(chain[0])
    order = iter(ordered_loops)
    new_chain = [next(order) if loop in wanted else loop for loop in chain]
    outer: set[Var] = {loop.stmt.loop_var for loop in chain}
    for loop in new_chain:
        stmt = loop.stmt
        needed = [v for v in variables([stmt.min, stmt.extent]) if v in outer]
        if needed:
            raise refuse(
                f"the range of '{stmt.loop_var.name}' depends on '{needed[0].name}', "
                "which would be inside of it",
                loop,
            )
        outer.discard(stmt.loop_var)
    _check_reductions_stay_whole(chain, new_chain)
    body = chain[-1].stmt.body
    for loop in reversed(new_chain):
        body = loop.stmt.with_fields(body=body)
    chain[0].replace(body)


def _chain_of(cursors: Sequence[Cursor], wanted: set[LoopCursor]) -> list[LoopCursor]:
    """Return the directly nested loops from the outermost to the innermost of the given ones."""
    for bottom in cursors:
        above = [bottom, *bottom.ancestors()]
        missing = wanted.difference(above)
        if not missing:
            break
    else:
        raise refuse(
            "the loops are not nested in each other",
            cursors[0],
            "give loops of one nest: each around or inside of all others",
        )
    chain: list[Any] = []
    left = len(wanted)
    for cursor in above:
        if not isinstance(cursor.stmt, For):
            raise refuse("a block stands between the loops", cursor)
        if chain and cursor.stmt.body is not chain[-1].stmt:
            raise refuse(
                f"loop '{cursor.stmt.loop_var.name}' has several statements",
                cursor,
                "only directly nested loops can be reordered; move the other "
                "statements away first (compute_at, reverse_compute_at)",
            )
        chain.append(cursor)
        left -= cursor in wanted
        if left == 0:
            break
    return chain[::-1]


def _check_reductions_stay_whole(chain: list[LoopCursor], new_chain: list[LoopCursor]) -> None:
    """Check that the iteration in which a reduction stores its first value stays the first one of
    each element, and that each update is counted as often as before.

    That is so in any order of loops that drive either the reduction or the result. Through a loop
    that drives both, as after fuse and split, each element has iterations of its own. A loop that
    repeats the reduction starts it anew only from outside of it.
    """
    if not chain[0].state.enable_check:
        return
    for cursor in chain[0].blocks_below():
        if not has_start(cursor.block):
            continue
        name = cursor.block.name_hint
        loops = cursor.loops()
        roles = reduction_loops(cursor, loops[loops.index(chain[0]) :])
        moved = [loop for loop in chain if loop in roles.driving]
        is_moved = moved != [loop for loop in new_chain if loop in roles.driving]
        both = [loop for loop in moved if loop in roles.both]
        if both and is_moved:
            raise refuse(
                f"loop '{both[0].stmt.loop_var.name}' drives the reduction and the result of block "
                f"'{name}', whose init would then not run first for each element",
                both[0],
                "use decompose_reduction before, or reorder before the loops are fused",
            )
        if roles.is_ordered and is_moved:
            raise refuse(
                f"the reduction loops of block '{name}' may run several times through its "
                "reduction, whose init would then not run first each time",
                moved[0],
                "reorder before a loop that repeats the block is fused with a reduction loop",
            )
        for repeating in roles.repeating:
            for driving in moved if repeating in chain else []:
                inside = chain.index(repeating) > chain.index(driving)
                if inside != (new_chain.index(repeating) > new_chain.index(driving)):
                    outer, inner = repeating.stmt.loop_var.name, driving.stmt.loop_var.name
                    raise refuse(
                        f"loop '{outer}' may repeat block '{name}' for the same elements, and "
                        f"would change places with its reduction loop '{inner}': updates would be "
                        "counted another number of times",
                        repeating,
                        f"keep the order of '{outer}' and '{inner}', or move the block out of "
                        f"'{outer}' before",
                    )


def _check_blocks_below(top: LoopCursor) -> None:
    """Check the blocks below reordered loops: data-parallel or reduction iterators, affine
    bindings.
    """
    if not top.state.enable_check:
        return
    blocks = top.blocks_below()
    for cursor in blocks:
        block = cursor.block
        for iterator in block.iter_vars:
            if iterator.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
                raise refuse(
                    f"iterator '{iterator.var.name}' of block '{block.name_hint}' must keep "
                    "its order",
                    cursor,
                )
        # Loops outside of the reordered ones stay: for these, parts may overlap.
        if has_affine_binding(cursor, top) or (len(blocks) == 1 and _may_repeat(block)):
            continue
        raise refuse(f"the binding of block '{block.name_hint}' is not affine", cursor)


def _may_repeat(block: Block) -> bool:
    """Return whether a block that runs again for the same iterators writes the same values again:
    then it does not matter in which order this happens.
    """
    if any(iterator.iter_type != IterVar.DataPar for iterator in block.iter_vars):
        return False
    written = {region.buffer.data for region in block.writes}
    if block.init is not None or any(load.buffer.data in written for load in loads(block.body)):
        return False
    return not has_side_effect(block.body)


@primitive()
def loop_partition(
    loop: LoopCursor, factors: Factors, preserve_unit_iters: bool = True
) -> list[LoopCursor]:
    """Replace one loop by consecutive loops over parts of its range, of the given lengths.

      for i in range(10): f(i)
    loop_partition(i, [3, None])
      for i_0 in range(3): f(i_0)
      for i_1 in range(7): f(i_1 + 3)
    """
    stmt = check_plain(loop)
    dtype = stmt.loop_var.dtype
    if not isinstance(stmt.extent, IntImm):
        raise refuse("the extent is not constant", loop)
    if sum(factor is None for factor in factors) > 1:
        raise refuse("more than one factor is None", loop)
    given = [factor for factor in factors if isinstance(factor, int)]
    if any(isinstance(factor, PrimExpr) for factor in factors):
        raise refuse(f"the parts {[str(one) for one in factors]} are not constant lengths", loop)
    rest = stmt.extent.value - sum(given)
    lengths = [factor if isinstance(factor, int) else rest for factor in factors]
    if sum(lengths) < stmt.extent.value:
        lengths.append(stmt.extent.value - sum(lengths))
    if sum(lengths) != stmt.extent.value or any(length <= 0 for length in lengths):
        raise refuse(f"parts of {lengths} do not make up {stmt.extent.value} iterations", loop)
    start, parts, variables = 0, [], []
    for number, length in enumerate(lengths):
        variable = Var(f"{stmt.loop_var.name}_{number}", dtype)
        variables.append(variable)
        suffix = "" if number == 0 else f"_{number}"
        copy = CopyNest({stmt.loop_var: variable + start}, suffix)
        body = copy.visit(stmt.body)
        if number == 0:
            # The first part keeps the identities of the blocks.
            kept = copy.copies
        domain = domain_around(loop)
        domain[variable] = Range.from_min_extent(const(0, dtype), const(length, dtype))
        body = SimplifyBindings(domain, preserve_unit_iters).visit(body)
        parts.append(
            For(variable, const(0, dtype), const(length, dtype), stmt.kind, body, span=stmt.span)
        )
        start += length
    loop.replace(stmt_seq(*parts), kept)
    return [loop.loop_of(variable) for variable in variables]


class CopyNest(Renewal):
    """Copies a nest with new variables and buffers, replaces variables from outside, and adds a
    suffix to block names."""

    def __init__(self, mapping: dict[Var, PrimExpr], suffix: str) -> None:
        super().__init__()
        self.mapping = mapping
        self.suffix = suffix
        self.copies: dict[Block, Block] = {}

    def visit_Var(self, node: Var) -> Any:
        """Return the replacement, or the new variable."""
        given = self.mapping.get(node)
        return super().visit_Var(node) if given is None else given

    def visit_Block(self, node: Block) -> Block:
        """Copy a block, and record it."""
        copy: Block = super().visit_Block(node)
        self.copies[node] = copy = copy.with_fields(name_hint=copy.name_hint + self.suffix)
        return copy


@primitive()
def add_unit_loop(block_or_loop: Cursor) -> LoopCursor:
    """Insert a loop of extent 1 around a block or loop."""
    stmt = block_or_loop.stmt
    if block_or_loop.parent() is None:
        raise refuse("a loop cannot be added around the root block", block_or_loop)
    variable = Var("u", _index_dtype(stmt))
    loop = For(variable, const(0, variable.dtype), const(1, variable.dtype), ForKind.SERIAL, stmt)
    block_or_loop.replace(loop, {})
    return block_or_loop.loop_of(variable)


def _index_dtype(stmt: For | BlockRealize) -> Any:
    """Return the dtype of a loop's variable or of a block's iterators."""
    if isinstance(stmt, For):
        return stmt.loop_var.dtype
    iterators = stmt.block.iter_vars
    return iterators[0].var.dtype if iterators else "int32"


@primitive()
def reorder_block_iter_var(block: BlockCursor, new_order: list[int]) -> None:
    """Reorder the iterators of a block: position k gets the iterator ``new_order[k]``."""
    realize = block.stmt
    node = realize.block
    if sorted(new_order) != list(range(len(node.iter_vars))):
        raise refuse(f"{new_order} is not a permutation of {len(node.iter_vars)} iterators", block)
    new = node.with_fields(iter_vars=tuple([node.iter_vars[k] for k in new_order]))
    values = tuple([realize.iter_values[k] for k in new_order])
    block.replace(realize.with_fields(iter_values=values, block=new), {node: new})
