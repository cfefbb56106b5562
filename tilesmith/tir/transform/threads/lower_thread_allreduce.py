"""LowerThreadAllreduce: lowers reductions over threads to warp exchanges or shared memory.

    T.tvm_thread_allreduce(                     red[0] = x[0]
        1, x[0], True, total[0], tx)            mask[0] = T.tvm_warp_activemask()
                                                t[0] = T.tvm_warp_shuffle_down(mask[0], red[0], 16,
                                                                               32, 32)
                                                red[0] = red[0] + t[0]
                                                ... 8, 4, 2, 1 ...
                                                total[0] = T.tvm_warp_shuffle(mask[0], red[0], 0,
                                                                              32, 32)

Exchanges within a warp are used where the target has warps (``thread_warp_size``), the values have
32 or 64 bits, and the threads that combine lie next to each other: a power of two of them that
divides the warp, or several whole warps (then the warps' results go through shared memory). All
other reductions are a tree in shared memory. Threads whose condition is false give the identity.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, IntImm, PrimExpr, Var, const
from tilesmith.ir.intrinsics import (
    if_then_else,
    tvm_storage_sync,
    tvm_warp_activemask,
    tvm_warp_shuffle,
    tvm_warp_shuffle_down,
)
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, CommReducer, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    LetStmt,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.transform.blocks.reducers import combine

__all__ = ["lower_thread_allreduce"]

AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


class _Lowering(Rewriter):
    def __init__(self, warp_size: int) -> None:
        self.warp_size = warp_size
        self.threads: dict[str, tuple[Var, int]] = {}
        self.reducers: list[CommReducer] = []

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        thread = node.node
        if node.attr_key == "thread_extent" and isinstance(thread, IterVar):
            extent = node.value.value if isinstance(node.value, IntImm) else 0
            outer = self.threads.get(thread.thread_tag)
            self.threads[thread.thread_tag] = (thread.var, extent)
            body = self.visit(node.body)
            if outer is None:
                del self.threads[thread.thread_tag]
            return node if body is node.body else node.with_fields(body=body)
        if node.attr_key == "reduce_scope" and isinstance(thread, CommReducer):
            self.reducers.append(thread)
            body = self.visit(node.body)
            self.reducers.pop()
            return body
        body = self.visit(node.body)
        return node if body is node.body else node.with_fields(body=body)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if not is_call(call, "tir.tvm_thread_allreduce"):
            return node
        if not self.reducers:
            raise UnsupportedError(
                "tvm_thread_allreduce needs an attribute 'reduce_scope' with a reducer around it",
                span=node.span,
            )
        return _Allreduce(call, self.reducers[-1], self.threads, self.warp_size, node.span).lower()


class _Allreduce:
    """One reduction over threads."""

    def __init__(
        self, call: Call, reducer: CommReducer, threads: dict[str, tuple[Var, int]],
        warp_size: int, span: Any,
    ) -> None:  # fmt: skip
        count = call.args[0].value  # type: ignore[attr-defined]
        self.values = call.args[1 : 1 + count]
        self.condition = call.args[1 + count]
        self.results = call.args[2 + count : 2 + 2 * count]
        axes = [_variable(arg) for arg in call.args[2 + 2 * count :]]
        self.reducer, self.warp_size, self.span = reducer, warp_size, span
        self.buffers: list[Buffer] = []
        known = [(tag, *threads[tag]) for tag in AXES if tag in threads]
        for axis in axes:
            if axis is not None and not any(axis is var for _, var, _ in known):
                raise UnsupportedError(
                    f"tvm_thread_allreduce over '{axis.name}', which is not an axis of threads",
                    span=span,
                )
        if any(extent == 0 for _, _, extent in known):
            raise UnsupportedError(
                "a reduction over threads needs a constant number of them", span=span
            )
        reduced = [(v, e) for _, v, e in known if any(v is axis for axis in axes)]
        others = [(v, e) for _, v, e in known if not any(v is axis for axis in axes)]
        self.index, self.extent = _linear(reduced)
        self.group, self.groups = _linear(others)
        # The threads of one group lie next to each other where the first axes are reduced.
        flags = [any(v is axis for axis in axes) for _, v, e in known if e > 1]
        self.contiguous = flags == sorted(flags, reverse=True)

    def lower(self) -> Stmt:
        if self.extent == 1:
            stores = [_store(r, v) for r, v in zip(self.results, self.guarded())]
            return stmt_seq(*stores)
        if self.in_warps():
            body = self.warp_reduction()
        else:
            body = self.tree()
        for buffer in reversed(self.buffers):
            body = DeclBuffer(buffer, body)
            body = Allocate(buffer.data, buffer.dtype, buffer.shape, True, body)
        return body

    def in_warps(self) -> bool:
        """Return whether the values can be exchanged within warps."""
        size = self.warp_size
        if size <= 1 or not self.contiguous:
            return False
        if any(value.dtype.bits not in (32, 64) or value.dtype.lanes > 1 for value in self.values):
            return False
        if self.extent < size:
            return self.extent & (self.extent - 1) == 0
        return self.extent % size == 0 and self.extent // size <= size

    # Pieces.

    def buffer(self, name: str, dtype: Any, size: int, scope: str = "local") -> Buffer:
        made = decl_buffer((size,), dtype, name, scope=scope)
        self.buffers.append(made)
        return made

    def guarded(self) -> list[PrimExpr]:
        """Return the values, with the identity element where the condition is false."""
        if is_const(self.condition, 1):
            return list(self.values)
        return [
            if_then_else(self.condition, value, neutral)
            for value, neutral in zip(self.values, self.reducer.identity_element)
        ]

    def store_all(self, targets: list[PrimExpr], values: list[PrimExpr]) -> Stmt:
        """Store several values that are all computed before the first store."""
        if len(targets) == 1:
            return _store(targets[0], values[0])
        names = [Var("value", value.dtype) for value in values]
        body = stmt_seq(*[_store(target, name) for target, name in zip(targets, names)])
        for name, value in reversed(list(zip(names, values))):
            body = LetStmt(name, value, body)
        return body

    def merge(self, left: list[Any], right: list[Any]) -> Stmt:
        """Return ``left = left combined with right``."""
        return self.store_all(left, list(combine(self.reducer, left, right)))

    # Within warps.

    def warp_reduction(self) -> Stmt:
        """Reduce within each warp; then, if there are several, among their results."""
        size = min(self.extent, self.warp_size)
        values = self.guarded()
        partial = [self.buffer("red_buf", value.dtype, 1)[0] for value in values]
        shuffled = [self.buffer("t", value.dtype, 1)[0] for value in values]
        mask = self.buffer("mask", "uint32", 1)[0]
        steps = [self.store_all(partial, values), _store(mask, tvm_warp_activemask())]
        steps += self.shuffles(partial, shuffled, mask, size)
        if self.extent <= self.warp_size:
            steps += [
                _store(result, tvm_warp_shuffle(mask, value, 0, size, self.warp_size))
                for result, value in zip(self.results, partial)
            ]
            return stmt_seq(*steps)
        return stmt_seq(*steps, *self.between_warps(partial, shuffled, mask))

    def shuffles(
        self, partial: list[Any], shuffled: list[Any], mask: PrimExpr, width: int
    ) -> list[Stmt]:
        steps = []
        offset = width // 2
        while offset:
            steps += [
                _store(t, tvm_warp_shuffle_down(mask, value, offset, width, self.warp_size))
                for t, value in zip(shuffled, partial)
            ]
            steps.append(self.merge(partial, shuffled))
            offset //= 2
        return steps

    def between_warps(self, partial: list[Any], shuffled: list[Any], mask: PrimExpr) -> list[Stmt]:
        """Combine the results of the warps of a group in its first warp."""
        warps = self.extent // self.warp_size
        width = 1 << (warps - 1).bit_length()
        lane, warp = self.index % self.warp_size, self.index // self.warp_size
        staging = [
            self.buffer("red_buf_staging", value.dtype, self.groups * warps, "shared")
            for value in partial
        ]
        first = self.group * warps
        publish = stmt_seq(*[_store(b[first + warp], v) for b, v in zip(staging, partial)])
        fetched = [
            if_then_else(self.index < warps, b[first + self.index], neutral)
            for b, neutral in zip(staging, self.reducer.identity_element)
        ]
        answer = [self.buffer("red_result", v.dtype, self.groups, "shared") for v in partial]
        give = stmt_seq(*[_store(b[self.group], v) for b, v in zip(answer, partial)])
        return [
            IfThenElse(lane.equal(0), publish),
            _barrier("shared"),
            self.store_all(partial, fetched),
            _store(mask, tvm_warp_activemask()),
            *self.shuffles(partial, shuffled, mask, width),
            IfThenElse(self.index.equal(0), give),
            _barrier("shared"),
            *[_store(result, b[self.group]) for result, b in zip(self.results, answer)],
        ]

    # In shared memory.

    def tree(self) -> Stmt:
        """Combine pairs of elements, half as many in each step."""
        values = self.guarded()
        memory = [
            self.buffer("red_buf", value.dtype, self.groups * self.extent, "shared")
            for value in values
        ]
        first = self.group * self.extent

        def at(place: PrimExpr) -> list[Any]:
            return [buffer[first + place] for buffer in memory]

        steps = [self.store_all(at(self.index), values), _barrier("shared")]
        step = 1 << ((self.extent - 1).bit_length() - 1)
        whole_warps = self.contiguous and self.warp_size > 1 and self.extent % self.warp_size == 0
        while step:
            # The upper part may be smaller than the lower one in the first step only.
            limit = min(step, self.extent - step) if step * 2 >= self.extent else step
            merged = self.merge(at(self.index), at(self.index + step))
            steps.append(IfThenElse(self.index < limit, merged))
            one_warp = whole_warps and step < self.warp_size and step > 1
            steps.append(_barrier("warp" if one_warp else "shared"))
            step //= 2
        steps += [_store(result, at(const(0, "int32"))[i]) for i, result in enumerate(self.results)]
        steps.append(_barrier("shared"))  # the memory may be used again right afterwards
        return stmt_seq(*steps)


def _variable(arg: Any) -> Var | None:
    if isinstance(arg, IterVar):
        return arg.var
    return arg if isinstance(arg, Var) else None


def _linear(axes: list[tuple[Var, int]]) -> tuple[PrimExpr, int]:
    """Return a unique number for each combination of indices, the first axis varying fastest."""
    index: PrimExpr = const(0, "int32")
    total = 1
    for var, extent in axes:
        index = index + (var if total == 1 else var * total)
        total *= extent
    return index, total


def _store(target: Any, value: PrimExpr) -> Stmt:
    if not isinstance(target, BufferLoad):
        raise UnsupportedError("tvm_thread_allreduce: a result goes to an element of a buffer")
    return BufferStore(target.buffer, value, target.indices)


def _barrier(scope: str) -> Stmt:
    return Evaluate(tvm_storage_sync(scope))


def warp_size_of(func: PrimFunc) -> int:
    """Return the threads of a warp on the target of a function, 1 if it has no target or no
    warps."""
    target = func.attrs.get("target") or Target.current(allow_none=True)
    if target is None:
        return 1
    return int(Target(target).attrs.get("thread_warp_size", 1) or 1)


@compiler_pass("tir.LowerThreadAllreduce")
def lower_thread_allreduce(func: PrimFunc) -> PrimFunc:
    """Lowers reductions over threads to warp exchanges or shared memory.

    Returns ``func`` with each reduction over threads written out.
    """
    return func.with_body(_Lowering(warp_size_of(func)).visit(func.body))
