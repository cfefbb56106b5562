"""InjectRollingBuffer: keeps rows that the next iteration reads again in a circular buffer.

    for y in range(14):                         with T.realize(A[0:3, 0:16]):
        with T.attr(A, "rolling_buffer_scope", 1):  for y in range(14):
            with T.realize(A[y:y + 3, 0:16]):           for r, x in T.grid(3, 16):
                for r, x in T.grid(3, 16):                  if y == 0 or r >= 2:
                    A[y + r, x] = ...                           A[(y + r) % 3, x] = ...
                ... A[y + r, x] ...                     ... A[(y + r) % 3, x] ...

Each iteration computes only the part by which the live region has moved on. The memory of the
region is a circular buffer.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer, detect_linear_equation
from tilesmith.ir import Call, IntImm, PrimExpr, Range, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import (
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
)

__all__ = ["ROLLING", "inject_rolling_buffer"]

ROLLING = "rolling_buffer_scope"


class _Roll:
    """The axis along which a buffer rolls, the loop, and the number of new rows per iteration."""

    def __init__(self, realize: BufferRealize, loop: For, axis: int, step: int) -> None:
        self.realize = realize
        self.loop = loop
        self.axis = axis
        self.step = step
        bound = realize.bounds[axis]
        self.extent = bound.extent
        self.first = bound.min


class _RollingInjector(AccessRedirection):
    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.loops: list[For] = []
        self.rolling: set[Buffer] = set()
        self.rolls: dict[Buffer, _Roll] = {}

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key == ROLLING and isinstance(attribute.node, Buffer):
            self.rolling.add(attribute.node)
            return self.visit(attribute.body)
        return self.children(attribute)

    def visit_For(self, loop: For) -> Stmt:
        self.loops.append(loop)
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        new: Stmt = self.children(loop)
        self.loops.pop()
        for roll in list(self.rolls.values()):
            if roll.loop is loop:
                new = self.realized(roll, new)
                del self.rolls[roll.realize.buffer]
        return new

    def realized(self, roll: _Roll, body: Stmt) -> Stmt:
        """Return the realization of a rolling buffer around the loop that it rolls with."""
        bounds = list(roll.realize.bounds)
        zero = const(0, roll.extent.dtype)
        bounds[roll.axis] = Range.from_min_extent(zero, roll.extent)
        realize = roll.realize
        return BufferRealize(realize.buffer, bounds, realize.condition, body, realize.span)

    def visit_BufferRealize(self, realize: BufferRealize) -> Stmt:
        if realize.buffer not in self.rolling:
            return self.children(realize)
        self.rolls[realize.buffer] = self.roll_of(realize)
        return self.visit(realize.body)

    def roll_of(self, realize: BufferRealize) -> _Roll:
        """Find the loop and the axis along which the region of a realization moves."""
        name = realize.buffer.name
        for loop in reversed(self.loops):
            moving = [
                axis
                for axis, bound in enumerate(realize.bounds)
                if uses_variable(bound.min, {loop.loop_var})
            ]
            if not moving:
                continue
            if len(moving) > 1:
                raise UnsupportedError(
                    f"the region of '{name}' moves along {len(moving)} axes with the loop over "
                    f"'{loop.loop_var.name}'",
                    notes=("a rolling buffer moves along one axis",),
                )
            (axis,) = moving
            step = self.step(realize.bounds[axis].min, loop)
            extent = realize.bounds[axis].extent
            if loop.kind is not ForKind.SERIAL or step is None or not isinstance(extent, IntImm):
                break
            if not 0 < step <= extent.value:
                break
            return _Roll(realize, loop, axis, step)
        raise UnsupportedError(
            f"the buffer '{name}' cannot roll",
            span=realize.span,
            notes=("it needs a serial loop around that moves its region by a constant number of "
                   "rows, less than the region has",),
        )  # fmt: skip

    def step(self, first: PrimExpr, loop: For) -> int | None:
        found = detect_linear_equation(first, [loop.loop_var])
        if not found or not isinstance(found[0], IntImm):
            return None
        return found[0].value

    # -- accesses

    def redirected(self, buffer: Buffer) -> Buffer | None:
        return buffer if buffer in self.rolls else None

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        roll = self.rolls[buffer]
        new = list(indices)
        new[roll.axis] = ops.floormod(new[roll.axis], roll.extent)
        return new

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        new = super().visit_BufferStore(store)
        roll = self.rolls.get(store.buffer)
        if roll is None:
            return new
        place = self.visit(store.indices[roll.axis])
        kept = roll.extent - roll.step  # rows that the iteration before has computed
        is_first = ops.equal(roll.loop.loop_var, roll.loop.min)
        is_new = self.analyzer.simplify(ops.greater_equal(place - roll.first, kept))
        condition = Call("bool", "tir.likely", (ops.logical_or(is_first, is_new),))
        return IfThenElse(condition, new)


@compiler_pass("tir.InjectRollingBuffer")
def inject_rolling_buffer(func: PrimFunc) -> PrimFunc:
    """Makes marked buffers circular, and computes only the rows that are new.

    Returns ``func`` with the buffers marked ``rolling_buffer_scope`` made circular.
    """
    return func.with_body(_RollingInjector().visit(func.body))
