"""OrderBlocks: starts the blocks of a grid in another order (block swizzle).

    for blockIdx_y in thread_binding(5,             for blockIdx_x in thread_binding(30):
            annotations={"launch_order":                row, column = (
                         ["columns", 2]}):                  blockIdx_x >> 2, blockIdx_x & 3
        for blockIdx_x in thread_binding(6):            ) if blockIdx_x < 20 else (…)
            C[blockIdx_y, blockIdx_x] = …               C[row, column] = …

Blocks start in the order of their numbers, as many at once as the machine holds. Rows and columns
of the grid become functions of one number: shifts and masks, and a second part for what is left
over where a size of the grid is no multiple of the group's. Each tile has exactly one block, and no
block is without a tile.

    "columns"   groups of ``2 ** bits`` columns, each from the top to the bottom
    "rows"      groups of ``2 ** bits`` rows, each from left to right
    "morton"    squares of ``2 ** bits`` rows and columns, along a Z-curve in each

The tiles that run at once then form a rectangle, whose rows and columns read the same data.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, PrimExpr, Range, Rewriter, Select, Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import ConfigError, UnsupportedError
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import statements
from tilesmith.tir.stmt import For, LetStmt, Stmt

__all__ = ["LAUNCH_ORDER", "ORDERS", "check_order", "order_blocks", "tile_of"]

LAUNCH_ORDER = "launch_order"
"""The annotation of the loop over rows of blocks: the name of an order, and its bits."""

ORDERS = ("columns", "rows", "morton")
_MOST_BITS = 15


def check_order(order: Any, bits: Any) -> None:
    """Raise ConfigError unless this is an order of blocks."""
    if order not in ORDERS or not isinstance(bits, int) or not 0 <= bits <= _MOST_BITS:
        raise ConfigError(
            f"({order!r}, {bits!r}) is no order of blocks",
            notes=(
                f"orders: {', '.join(ORDERS)}; bits: 0 to {_MOST_BITS}, log2 of a group's size",
            ),
        )


def tile_of(order: str, bits: int, rows: int, columns: int, number: Any) -> tuple[Any, Any]:
    """Return row and column of the tile that a block makes; numbers are ints or expressions."""
    if order == "rows":
        column, row = tile_of("columns", bits, columns, rows, number)
        return row, column
    size, mask = 1 << bits, (1 << bits) - 1
    whole = columns >> bits << bits
    if order == "columns":
        group, place = _divided(number, rows << bits)
        inside = (place >> bits, (group << bits) + (place & mask))
        row, column = _divided(number - rows * whole, columns - whole)
        return _either(number, rows * whole, inside, (row, column + whole), columns - whole)
    high = rows >> bits << bits
    square, place = number >> (2 * bits), number & ((1 << (2 * bits)) - 1)
    row, column = _divided(square, max(columns >> bits, 1))
    row, column = row * size, column * size
    for bit in range(bits):
        column = column + ((place >> (2 * bit) & 1) << bit)
        row = row + ((place >> (2 * bit + 1) & 1) << bit)
    found = row, column
    beside = _divided(number - high * whole, columns - whole)
    found = _either(number, high * whole, found, (beside[0], beside[1] + whole),
                    high * (columns - whole))  # fmt: skip
    low, left = _divided(number - high * columns, rows - high)[::-1]
    return _either(number, high * columns, found, (low + high, left), rows - high)


def _divided(number: Any, size: int) -> tuple[Any, Any]:
    """Return quotient and remainder; a shift and a mask where the size is a power of two."""
    if size <= 1:
        return number, 0
    if size & (size - 1) == 0:
        return number >> (size.bit_length() - 1), number & (size - 1)
    return number // size, number % size


def _either(number: Any, limit: int, first: Any, second: Any, rest: int) -> tuple[Any, Any]:
    """Return the first pair below a limit and the second one from there on; ``rest`` is 0 if there
    is nothing from there on.
    """
    if not rest:
        return first  # type: ignore[no-any-return]
    if limit <= 0:
        return second  # type: ignore[no-any-return]
    if isinstance(number, int):
        return first if number < limit else second  # type: ignore[no-any-return]
    dtype = number.dtype
    row, column = [
        Select(
            number < limit,
            *[const(side, dtype) if isinstance(side, int) else side for side in pair],
        )
        for pair in zip(first, second)
    ]
    return row, column


class _Orderer(Rewriter):
    """Replaces two loops over blocks by one."""

    def visit_For(self, loop: For) -> Stmt:
        if LAUNCH_ORDER not in loop.annotations:
            return self.children(loop)
        order, bits = [getattr(one, "value", one) for one in loop.annotations[LAUNCH_ORDER]]
        check_order(order, bits)
        loops = [loop]
        while isinstance(loops[-1].body, For) and loops[-1].body.thread_binding is not None:
            loops.append(loops[-1].body)
        axes = {
            str(one.thread_binding.thread_tag): one
            for one in loops
            if one.thread_binding is not None
        }
        above, across = axes.get("blockIdx.y"), axes.get("blockIdx.x")
        if above is None or across is None or above is not loop or "blockIdx.z" in axes:
            raise UnsupportedError(
                "an order of blocks needs rows bound to blockIdx.y, columns to blockIdx.x, and no "
                "blockIdx.z",
                span=loop.span,
            )
        rows, columns = [_size(one) for one in (above, across)]
        number = Var("blockIdx_x", across.loop_var.dtype)
        row, column = tile_of(order, bits, rows, columns, number)
        row, column = [
            const(one, number.dtype) if isinstance(one, int) else one for one in (row, column)
        ]
        names = [Var(name, number.dtype) for name in ("tile_row", "tile_column")]
        values = {above.loop_var: names[0], across.loop_var: names[1]}
        body = _Renamed(values).visit(loops[-1].body)
        body = LetStmt(names[0], row, LetStmt(names[1], column, body))
        for one in reversed([one for one in loops if one not in (above, across)]):
            body = one.with_fields(body=body)
        domain = Range.from_min_extent(const(0, number.dtype), const(rows * columns, number.dtype))
        assert across.thread_binding is not None
        thread = IterVar(domain, Var("", number.dtype), IterVar.ThreadIndex, "blockIdx.x")
        kept = {key: one for key, one in {**loop.annotations, **across.annotations}.items()
                if key != LAUNCH_ORDER}  # fmt: skip
        return across.with_fields(
            loop_var=number, min=const(0, number.dtype), extent=domain.extent, body=body,
            thread_binding=thread, annotations=kept,
        )  # fmt: skip


def _size(loop: For) -> int:
    if not isinstance(loop.extent, IntImm):
        raise UnsupportedError(
            f"an order of blocks needs a grid of constant size, not of {loop.extent}",
            span=loop.span,
        )
    return int(loop.extent.value)


class _Renamed(Rewriter):
    """Replaces the variables of the old axes."""

    def __init__(self, values: dict[Var, Var]) -> None:
        self.values = values

    def visit_Var(self, variable: Var) -> PrimExpr:
        return self.values.get(variable, variable)


@compiler_pass("tir.OrderBlocks")
def order_blocks(func: PrimFunc) -> PrimFunc:
    """Starts the blocks of grids in the order that ``launch_order`` asks for."""
    marked = [one for one in statements(func.body)
              if isinstance(one, For) and LAUNCH_ORDER in one.annotations]  # fmt: skip
    return func.with_body(_Orderer().visit(func.body)) if marked else func
