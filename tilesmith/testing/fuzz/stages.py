"""Builds stages of recipes as loop nests with blocks."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith import tir
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import cast
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.nd import array as as_tensor
from tilesmith.testing.fuzz.expressions import ExpressionBuilder
from tilesmith.tir import Buffer, BufferLoad, BufferStore, For, ForKind, IterVar
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.stmt import (
    AllocateConst,
    Block,
    BlockRealize,
    DeclBuffer,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    stmt_seq,
)

__all__ = ["StageBuilder", "all_loads"]

_KINDS = {"S": IterVar.DataPar, "R": IterVar.CommReduce, "O": IterVar.Opaque}


class StageBuilder:
    """Builds the nest of one stage.

    ``binding`` says how loops drive the block's iterators: "plain" (a loop each, in
    ``loop_order``), "fused" (one loop for all spatial axes), "tiled" (the last spatial axis as two
    loops with a predicate), "inner" (a block over the first axis with the other loops inside it).
    """

    def __init__(self, stage: dict[str, Any], buffers: dict[str, Buffer], sizes: Any, index: str):
        self.stage = stage
        self.buffers = buffers
        self.sizes = sizes
        self.index = index
        self.axes = stage["axes"]
        self.extents = [sizes.expr(axis["size"]) for axis in self.axes]
        self.iterators = [Var(f"v{k}", index) for k in range(len(self.axes))]
        self.inside: list[int] = []
        self.loop_variables: dict[int, Var] = {}  # of axes that have one loop of their own
        if stage["binding"] == "inner":
            self.inside = list(range(1, len(self.axes)))
        values: dict[int, PrimExpr] = dict(enumerate(self.iterators))
        self.builder = ExpressionBuilder(buffers, values, sizes, index)

    def nest(self) -> Stmt:
        """Return the loops with the block, and constant memory around them (``tables_outside``)."""
        return self._with_tables(self._loops(*self.block()))

    def block(self) -> tuple[list[int], Block]:
        """Return the block, and the axes that it iterates itself."""
        body, init = self._body()
        for number in reversed(self.inside):
            body = self._loop(self.iterators[number], self.extents[number], body)
        if not self.stage.get("tables_outside"):
            body = self._with_tables(body)
        own = [k for k in range(len(self.axes)) if k not in self.inside]
        return own, self._block(own, self.stage["name"], body, init)

    def _with_tables(self, body: Stmt) -> Stmt:
        """Return a body with the constant memory that the expressions made so far read."""
        tables, self.builder.tables = self.builder.tables, []
        for table, numbers in tables:
            data = numpy.asarray(numbers).astype(DataType(table.dtype).numpy())
            body = AllocateConst(
                table.data, table.dtype, table.shape, as_tensor(data), DeclBuffer(table, body)
            )
        return body

    def _block(self, own: list[int], name: str, body: Stmt, init: Stmt | None) -> Block:
        iter_vars = [
            IterVar(
                Range.from_min_extent(const(self.begin(k), self.index), self.extents[k]),
                self.iterators[k],
                _KINDS[self.axes[k]["type"]],
            )
            for k in own
        ]
        notes = self.stage.get("annotations")
        block = Block(iter_vars, (), (), name, body, init, annotations=notes)
        reads, writes, _ = get_block_access_region(block, {})
        return block.with_fields(reads=tuple(reads), writes=tuple(writes))

    def begin(self, number: int) -> int:
        """Return where the domain of an axis begins."""
        return 0

    # Loops around the block.

    def _loop(self, variable: Var, extent: PrimExpr, body: Stmt) -> Stmt:
        return For(variable, const(0, self.index), extent, ForKind.SERIAL, body)

    def _loops(self, own: list[int], block: Block) -> Stmt:
        spatial = [k for k in own if self.axes[k]["type"] != "R"]
        binding = self.stage["binding"]
        predicate: PrimExpr = const(True, "bool")
        loops: list[tuple[Var, PrimExpr]] = []
        values: dict[int, PrimExpr] = {}
        if binding == "fused" and len(spatial) > 1:
            loops, values = self._fused(spatial)
        elif binding == "tiled" and spatial:
            loops, values, predicate = self._tiled(spatial[-1], self.stage.get("factor", 4))
        order = self.stage.get("loop_order") or own
        for k in sorted(own, key=lambda k: order.index(k) if k in order else len(order)):
            if k not in values:
                variable = self.loop_variables[k] = Var(f"i{k}", self.index)
                loops.append((variable, self.extents[k]))
                values[k] = variable
        realize = self._realize([values[k] for k in own], predicate, block)
        for variable, extent in reversed(loops):
            realize = self._loop(variable, extent, realize)
        return realize

    def _realize(self, values: list[PrimExpr], predicate: PrimExpr, block: Block) -> Stmt:
        """Return the block with the values of its iterators."""
        return BlockRealize(values, predicate, block)

    def _fused(self, spatial: list[int]) -> tuple[list, dict[int, PrimExpr]]:
        variable, total = Var("f", self.index), self.extents[spatial[0]]
        for k in spatial[1:]:
            total = total * self.extents[k]
        values: dict[int, PrimExpr] = {}
        rest: PrimExpr = variable
        for k in reversed(spatial[1:]):
            values[k] = tir.floormod(rest, self.extents[k])
            rest = tir.floordiv(rest, self.extents[k])
        values[spatial[0]] = rest
        return [(variable, total)], values

    def _tiled(self, k: int, factor: int) -> tuple[list, dict[int, PrimExpr], PrimExpr]:
        outer, inner = Var(f"i{k}_0", self.index), Var(f"i{k}_1", self.index)
        size = const(factor, self.index)
        count = tir.floordiv(self.extents[k] + (factor - 1), size)
        value = outer * size + inner
        return [(outer, count), (inner, size)], {k: value}, value < self.extents[k]

    # What the block computes.

    def _target(self, number: int = 0) -> tuple[Buffer, list[PrimExpr]]:
        tensor = self.stage["tensors"][number]
        indices = self.builder.make_indices(tensor["name"], self.stage["indices"])
        return self.buffers[tensor["name"]], indices

    def _body(self) -> tuple[Stmt, Stmt | None]:
        return getattr(self, "_body_" + self.stage["kind"])()

    def _body_compute(self) -> tuple[Stmt, None]:
        buffer, indices = self._target()
        stage = self.stage
        value = self.builder.make(stage["value"])
        if stage.get("other") is not None:
            condition = self.builder.make(stage["condition"])
            other = self.builder.make(stage["other"])
            then = BufferStore(buffer, value, indices)
            return IfThenElse(condition, then, BufferStore(buffer, other, indices)), None
        if stage.get("let"):
            variable = Var("y", value.dtype)
            return LetStmt(variable, value, BufferStore(buffer, variable, indices)), None
        return BufferStore(buffer, value, indices), None

    def _body_update(self) -> tuple[Stmt, None]:
        """Return a block that changes elements in place, maybe only under a condition."""
        buffer, indices = self._target()
        own = BufferLoad(buffer, indices)
        value = self.builder.make(self.stage["value"])
        if self.stage["combiner"] == "sum":
            value = own + value
        else:
            value = (tir.Max if self.stage["combiner"] == "max" else tir.Min)(own, value)
        store: Stmt = BufferStore(buffer, value, indices)
        if self.stage.get("condition") is not None:
            store = IfThenElse(self.builder.make(self.stage["condition"]), store, None)
        return store, None

    def _body_reduce(self) -> tuple[Stmt, Stmt]:
        buffer, indices = self._target()
        own = BufferLoad(buffer, indices)
        value = self.builder.make(self.stage["value"])
        combiner = self.stage["combiner"]
        identity: PrimExpr
        if combiner == "sum":
            identity, combined = const(0, buffer.dtype), own + value
        elif combiner == "max":
            identity, combined = tir.min_value(buffer.dtype), tir.Max(own, value)
        else:
            identity, combined = tir.max_value(buffer.dtype), tir.Min(own, value)
        if self.stage.get("start") is not None:
            identity = self.builder.make(self.stage["start"])
        return BufferStore(buffer, combined, indices), BufferStore(buffer, identity, indices)

    def _body_argmax(self) -> tuple[Stmt, Stmt]:
        place, indices = self._target(0)
        best, _ = self._target(1)
        reduced = next(k for k, axis in enumerate(self.axes) if axis["type"] == "R")
        number = cast(place.dtype, self.iterators[reduced])
        value = self.builder.make(self.stage["value"])
        old_number, old = BufferLoad(place, indices), BufferLoad(best, indices)
        new_number, new = Var("v_number", place.dtype), Var("v_best", best.dtype)
        keep = old >= value
        stores = stmt_seq(BufferStore(place, new_number, indices), BufferStore(best, new, indices))
        body = LetStmt(
            new_number,
            tir.Select(keep, old_number, number),
            LetStmt(new, tir.Select(keep, old, value), stores),
        )
        init = stmt_seq(
            BufferStore(place, const(-1, place.dtype), indices),
            BufferStore(best, tir.min_value(best.dtype), indices),
        )
        return body, init

    def _body_scan(self) -> tuple[Stmt, None]:
        """Return running sums over the last axis, in a loop inside the block; maybe a ``while``."""
        buffer, _ = self._target()
        last = len(self.axes) - 1
        self.inside = [last]
        outer: list[PrimExpr] = [*self.iterators[:last]]
        step, extent = self.iterators[last], self.extents[last]
        value = self.builder.make(self.stage["value"])
        previous = BufferLoad(buffer, [*outer, step - 1])
        store = IfThenElse(
            tir.EQ(step, const(0, self.index)),
            BufferStore(buffer, value, [*outer, step]),
            BufferStore(buffer, previous + value, [*outer, step]),
        )
        if not self.stage.get("while"):
            return store, None
        self.inside = []
        counter = tir.decl_buffer((1,), self.index, self.stage["name"] + "_count", scope="local")
        zero = const(0, self.index)
        now = BufferLoad(counter, [zero])
        body = stmt_seq(
            LetStmt(step, now, store), BufferStore(counter, now + 1, [zero])
        )  # fmt: skip
        loop = stmt_seq(BufferStore(counter, zero, [zero]), While(now < extent, body))
        self.inside = []
        self.axes = self.axes[:last]
        inner = Block((), (), (), self.stage["name"] + "_steps", loop, None, [counter])
        reads, writes, _ = get_block_access_region(inner, {})
        reads = [region for region in reads if region.buffer is not counter]
        writes = [region for region in writes if region.buffer is not counter]
        return BlockRealize((), True, inner.with_fields(reads=reads, writes=writes)), None


def _loads(expr: Any, found: set[str]) -> None:
    if isinstance(expr, list):
        if expr and expr[0] == "load":
            found.add(expr[1])
        for part in expr:
            _loads(part, found)


def all_loads(stage: dict[str, Any]) -> set[str]:
    """Return the names of the tensors that a stage reads."""
    found: set[str] = set()
    for key in ("value", "other", "condition", "start", "indices"):
        _loads(stage.get(key), found)
    return found
