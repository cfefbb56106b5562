"""LowerWarpMemory: lowers memory of a warp to registers and exchanges.

    W = T.allocate([32], "float32", "warp")     W = T.allocate([1], "float32", "local")
    W[tx] = A[tx]                               W[0] = A[tx]
    B[tx] = W[(tx + 1) % 32]                    B[tx] = T.tvm_warp_shuffle(
                                                    T.tvm_warp_activemask(), W[0], (tx + 1) % 32,
                                                    32, 32)

Instructions of matrix units (``ptx_mma``) get the thread's own registers. Each thread holds the
elements that it writes: those at ``m * tx`` and the ``m - 1`` after, then every ``m * width``
elements the same again. A read gets its element from the thread that holds it. ``width`` is the
size of the warp, or the extent of threadIdx.x if that is smaller. Memory of a warpgroup is divided
among 128 threads in the same way; its threads cannot exchange, so each reads what it holds.

All lanes have to take part in an exchange, those too that others read from. So an exchange under a
condition that may differ between threads is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.arith import Analyzer, detect_linear_equation
from tilesmith.ir import Call, IntImm, Let, PointerType, PrimExpr, Ramp, Range, Var, Visitor, const
from tilesmith.ir.intrinsics import tvm_warp_activemask, tvm_warp_shuffle
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call, nodes, variables
from tilesmith.ir.span import Span
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import has_side_effect, uses_variable
from tilesmith.tir.register_operands import register_operands
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from tilesmith.tir.transform.threads.lower_thread_allreduce import warp_size_of
from tilesmith.tir.warpgroup_products import WARPGROUP

__all__ = ["lower_warp_memory"]

_PRIVATE = ("local", "warp", "warpgroup")
"""Scopes of memory in which each thread may find something else."""


class _StoreFinder(Visitor):
    """Finds the distance between the elements that neighbouring threads write."""

    def __init__(self, pointer: Var, thread: Var) -> None:
        self.pointer, self.thread = pointer, thread
        self.step = 0

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit_children(node)
        if node.buffer.data is not self.pointer:
            return
        (index,) = node.indices
        lanes = index.lanes if isinstance(index, Ramp) else 1
        self.note(index.base if isinstance(index, Ramp) else index, lanes, node.span)

    def visit_Call(self, node: Call) -> None:
        self.visit_children(node)
        for operand in register_operands(node):
            if node.args[operand.place] is self.pointer and operand.writes:
                self.note(node.args[operand.place + 1], operand.elements, None)

    def note(self, index: PrimExpr, count: int, span: Span | None) -> None:
        """Note that each thread writes so many elements from an index on."""
        form = detect_linear_equation(index, [self.thread])
        step = form[0] if form else None
        if not isinstance(step, IntImm) or step.value < count:
            raise UnsupportedError(
                f"warp memory '{self.pointer.name}': a thread must write at a constant times "
                f"{self.thread.name}, not at {index}",
                span=span,
            )
        if self.step not in (0, step.value):
            raise UnsupportedError(
                f"warp memory '{self.pointer.name}' is written with different distances between "
                f"threads: {self.step} and {step.value}",
                span=span,
            )
        self.step = step.value


class _Lowering(Rewriter):
    def __init__(self, warp_size: int) -> None:
        self.warp_size = warp_size
        self.thread: tuple[Var, int] | None = None
        self.analyzer = Analyzer()
        self.memory: dict[Var, tuple[int, int]] = {}  # pointer → step, width
        self.pointers: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.differing: set[Var] = set()  # variables whose values may differ between threads
        self.divided: PrimExpr | None = None  # the condition that not all threads may meet

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            if isinstance(node.value, IntImm):
                self.analyzer.bind(node.node.var, Range(0, node.value))
                if node.node.thread_tag.startswith("threadIdx"):
                    self.differing.add(node.node.var)
                if node.node.thread_tag == "threadIdx.x":
                    self.thread = (node.node.var, node.value.value)
        body = self.visit(node.body)
        return node if body is node.body else node.with_fields(body=body)

    def visit_For(self, node: For) -> Stmt:
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
        if self.differs(node.min):
            self.differing.add(node.loop_var)
        with self.under(node.extent):
            return self.children(node)

    # What all threads do.

    def differs(self, value: PrimExpr) -> bool:
        """Return whether a value may differ between the threads of a warp."""
        if not self.differing.isdisjoint(variables(value)):
            return True
        private = [load for load in nodes(value, BufferLoad) if load.buffer.scope() in _PRIVATE]
        return bool(private) or has_side_effect(value)

    @contextmanager
    def under(self, condition: PrimExpr) -> Iterator[None]:
        """Visit what happens under a condition (or as often as a number says)."""
        before = self.divided
        if before is None and self.differs(condition):
            self.divided = condition
        yield
        self.divided = before

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)  # all threads ask for it
        lowered = node if condition is node.condition else node.with_fields(condition=condition)
        with self.under(node.condition):
            return self.children(lowered)

    def visit_While(self, node: While) -> Stmt:
        with self.under(node.condition):
            return self.children(node)

    def visit_Call(self, node: Call) -> PrimExpr:
        if not is_call(node, "tir.if_then_else"):
            return self.children(self.with_registers(node))
        condition = self.visit(node.args[0])
        same = condition is node.args[0]
        lowered = node if same else node.with_fields(args=(condition, *node.args[1:]))
        with self.under(node.args[0]):
            return self.children(lowered)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        if self.differs(node.value):
            self.differing.add(node.var)
        return self.children(node)

    def visit_Let(self, node: Let) -> PrimExpr:
        if self.differs(node.value):
            self.differing.add(node.var)
        return self.children(node)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        pointer = node.buffer_var
        if pointer.storage_scope not in ("warp", "warpgroup"):
            return self.children(node)
        thread, width = self.width(node)
        finder = _StoreFinder(pointer, thread)
        finder.visit(node.body)
        step = finder.step or 1
        (extent,) = node.extents if len(node.extents) == 1 else (None,)
        if not isinstance(extent, IntImm):
            raise UnsupportedError(
                f"warp memory '{pointer.name}' needs one constant size", span=node.span
            )
        count = -(-extent.value // (step * width)) * step
        pointed = pointer.type_annotation
        assert isinstance(pointed, PointerType)
        element = pointed.element_type
        local = Var(pointer.name, PointerType(element, "local"))
        self.memory[pointer], self.pointers[pointer] = (step, width), local
        return node.with_fields(
            buffer_var=local, extents=(const(count, extent.dtype),), body=self.visit(node.body)
        )

    def width(self, node: Allocate) -> tuple[Var, int]:
        """Return the number of threads that exchange: threadIdx.x within a warp."""
        name = node.buffer_var.name
        if self.warp_size <= 1:
            raise UnsupportedError(
                f"'{name}' lies in warp memory, but the target has no warps", span=node.span
            )
        if self.thread is None:
            raise UnsupportedError(
                f"warp memory '{name}' needs threadIdx.x with a constant extent", span=node.span
            )
        var, extent = self.thread
        if node.buffer_var.storage_scope == "warpgroup":
            return var, _warpgroup(name, extent, node.span)
        width = min(extent, self.warp_size)
        if extent % width or self.warp_size % width:
            raise UnsupportedError(
                f"warp memory '{name}': {extent} threads of threadIdx.x do not make whole warps of "
                f"{self.warp_size}",
                span=node.span,
            )
        return var, width

    # Accesses.

    def split(self, pointer: Var, index: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Return the place of an element: register and lane."""
        step, width = self.memory[pointer]
        place = index // (step * width) * step + index % step
        lane = index % (step * width) // step
        return self.analyzer.simplify(place), self.analyzer.simplify(lane)

    def place(self, pointer: Var, index: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        if isinstance(index, Ramp):
            if not is_const(index.stride, 1):
                raise UnsupportedError(
                    f"warp memory '{pointer.name}': the elements of a vector must be contiguous"
                )
            place, lane = self.split(pointer, index.base)
            return Ramp(place, 1, index.lanes), lane
        return self.split(pointer, index)

    def buffer(self, old: Buffer) -> Buffer:
        found = self.buffers.get(old)
        if found is None:
            step, width = self.memory[old.data]
            size = self.analyzer.simplify(-(-old.shape[0] // (step * width)) * step)
            found = old.with_fields(data=self.pointers[old.data], shape=(size,))
            self.buffers[old] = found
        return found

    def is_own(self, lane: PrimExpr, width: int) -> bool:
        assert self.thread is not None
        own = self.thread[0] % width
        return self.analyzer.can_prove_equal(lane, own)

    def with_registers(self, node: Call) -> Call:
        """Return an instruction whose operands are the registers of each thread."""
        args, changed = list(node.args), False
        for operand in register_operands(node):
            pointer = args[operand.place]
            if not isinstance(pointer, Var) or pointer not in self.memory:
                continue
            place, lane = self.split(pointer, args[operand.place + 1])
            step, width = self.memory[pointer]
            if operand.elements > step or not self.is_own(lane, width):
                raise UnsupportedError(
                    f"warp memory '{pointer.name}': an instruction takes registers of the thread "
                    f"itself, not those at {args[operand.place + 1]}"
                )
            args[operand.place : operand.place + 2] = self.pointers[pointer], place
            changed = True
        return node.with_fields(args=tuple(args)) if changed else node

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        body = self.visit(node.body)
        if node.buffer.data in self.memory:
            return DeclBuffer(self.buffer(node.buffer), body, node.span)
        return node if body is node.body else node.with_fields(body=body)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        node = self.children(node)
        pointer = node.buffer.data
        if pointer not in self.memory:
            return node
        place, lane = self.place(pointer, node.indices[0])
        if not self.is_own(lane, self.memory[pointer][1]):
            raise UnsupportedError(
                f"warp memory '{pointer.name}': a thread writes an element that another one holds",
                span=node.span,
            )
        return BufferStore(self.buffer(node.buffer), node.value, (place,), None, node.span)

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        node = self.children(node)
        pointer = node.buffer.data
        if pointer not in self.memory:
            return node
        place, lane = self.place(pointer, node.indices[0])
        value = BufferLoad(self.buffer(node.buffer), (place,), None, node.span)
        width = self.memory[pointer][1]
        if self.is_own(lane, width):
            return value
        if width > self.warp_size:
            raise UnsupportedError(
                f"memory of a warpgroup '{pointer.name}': a thread reads what another one holds",
                span=node.span,
                notes=("threads of different warps exchange values through shared memory",),
            )
        assert self.thread is not None
        if uses_variable(place, {self.thread[0]}):
            raise UnsupportedError(
                f"warp memory '{pointer.name}': which register is read differs between threads",
                span=node.span,
                notes=("only the thread that holds the element may differ",),
            )
        if self.divided is not None:
            raise UnsupportedError(
                f"warp memory '{pointer.name}': threads exchange values under a condition that may "
                f"differ between them: {self.divided}",
                span=node.span,
                notes=("read it outside of the condition, or use shared memory",),
            )
        return tvm_warp_shuffle(tvm_warp_activemask(), value, lane, width, self.warp_size)

    def visit_Var(self, node: Var) -> Var:
        if node in self.memory:
            raise UnsupportedError(f"warp memory '{node.name}' is used as a whole")
        return node


def _warpgroup(name: str, extent: int, span: Span | None) -> int:
    """Return the threads that memory of a warpgroup is divided among, if there are whole ones."""
    if extent != WARPGROUP:
        raise UnsupportedError(
            f"memory of a warpgroup '{name}' needs {WARPGROUP} threads of threadIdx.x, not "
            f"{extent}",
            span=span,
            notes=("bind the warpgroups of a block to threadIdx.y",),
        )
    return extent


@compiler_pass("tir.LowerWarpMemory")
def lower_warp_memory(func: PrimFunc) -> PrimFunc:
    """Lowers warp memory to registers and exchanges.

    Returns ``func`` without memory in the scopes "warp" and "warpgroup".
    """
    return func.with_body(_Lowering(warp_size_of(func)).visit(func.body))
