"""Computes sizes, live ranges and conflicts of the allocations of a function and its operators.

The program is read in the order in which it runs, a step for each access; a call is read as its
function's body, as often as it is called. A buffer is alive from its first to its last access,
through all pointers to it; what is accessed in a loop and allocated around it lives in the whole
loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tilesmith.ir import Call, IntImm, IRModule, PoolInfo, PrimExpr, Var, Visitor
from tilesmith.ir.queries import variables
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, BufferStore, For, LetStmt, While
from tilesmith.tir.usmp.calls import Functions
from tilesmith.tir.usmp.utils import CANDIDATE_MEMORY_POOL_ATTR, BufferInfo

__all__ = ["bytes_of", "extract_buffer_info"]


def extract_buffer_info(main_func: PrimFunc, mod: IRModule) -> dict[BufferInfo, Allocate]:
    """Return the buffers to be planned, with the allocation of each.

    They are the allocations with candidate pools of ``main_func`` and of the functions of ``mod``
    that it calls. Raises UnsupportedError where a size is not constant or functions call each
    other in a circle.
    """
    reader = _Reader(Functions(mod))
    reader.read(main_func)
    found: dict[BufferInfo, Allocate] = {}
    for allocation, ranges in reader.ranges.items():
        pools: Sequence[PoolInfo] = allocation.annotations[CANDIDATE_MEMORY_POOL_ATTR]
        name, size = allocation.buffer_var.name, bytes_of(allocation)
        found[BufferInfo(name, size, tuple(pools), live=tuple(ranges))] = allocation
    conflicts: dict[BufferInfo, list[BufferInfo]] = {info: [] for info in found}
    for one, other in combinations(found, 2):
        if any(a <= d and c <= b for a, b in one.live for c, d in other.live):
            conflicts[one].append(other)
            conflicts[other].append(one)
    for info, others in conflicts.items():
        info.set_conflicts(others)
    return found


def bytes_of(allocation: Allocate) -> int:
    """Return the size of an allocation. Raises UnsupportedError if it is not constant."""
    size = allocation.dtype.nbytes
    for extent in allocation.extents:
        if not isinstance(extent, IntImm):
            raise UnsupportedError(
                f"'{allocation.buffer_var.name}' has candidate pools and a size that is not "
                f"constant: {extent}",
                span=allocation.span,
                notes=("remove its pools: it is then allocated when the program runs",),
            )
        size *= extent.value
    return size


class _Reader(Visitor):
    """Reads a program in the order in which it runs."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.step = 0
        self.ranges: dict[Allocate, list[tuple[int, int]]] = {}
        self.alive: dict[Var, tuple[int, int]] = {}  # allocations around, from first to last access
        self.memory: dict[Var, frozenset[Var]] = {}  # pointer → the allocations that it may mean
        self.running: list[PrimFunc] = []

    def read(self, function: PrimFunc) -> None:
        """Read the body of a function."""
        if any(one is function for one in self.running):
            raise UnsupportedError(
                "memory of functions that call each other in a circle can't be planned"
            )
        self.running.append(function)
        self.visit(function.body)
        self.running.pop()

    def touch(self, pointer: Var) -> None:
        for root in self.memory.get(pointer, ()):
            first, _ = self.alive.get(root, (self.step, self.step))
            self.alive[root] = (first, self.step)
        self.step += 1

    def roots(self, value: PrimExpr) -> frozenset[Var]:
        """Return the allocations into which a value may point."""
        return frozenset().union(*[self.memory.get(one, ()) for one in variables(value)])

    def visit_Var(self, node: Var) -> None:
        if node in self.memory:
            self.touch(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit_children(node)
        self.touch(node.buffer.data)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit_children(node)
        self.touch(node.buffer.data)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        self.memory[node.var] = self.roots(node.value)
        self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> None:
        pointer = node.buffer_var
        self.memory[pointer] = frozenset([pointer])
        self.visit(node.body)
        alive = self.alive.pop(pointer, None)
        if node.annotations.get(CANDIDATE_MEMORY_POOL_ATTR):
            # Memory that nobody accesses still needs an address while its body runs.
            self.ranges.setdefault(node, []).append(alive or (self.step, self.step))
        self.step += 1

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.loop(node)

    def visit_While(self, node: While) -> None:
        self.loop(node)

    def loop(self, node: For | While) -> None:
        start = self.step
        if isinstance(node, While):
            self.visit(node.condition)
        self.visit(node.body)
        for root, (first, last) in self.alive.items():
            if last >= start:
                self.alive[root] = (min(first, start), self.step)
        self.step += 1

    def visit_Call(self, node: Call) -> None:
        function = self.functions.callee(node)
        if function is None:
            self.visit_children(node)
            return
        arguments = self.functions.arguments(node)
        given: set[Var] = set()
        for param, argument in zip(function.params, arguments):
            self.visit(argument)
            roots = self.roots(argument)
            given |= roots
            self.memory[param] = roots
            if param in function.buffer_map:
                self.memory[function.buffer_map[param].data] = roots
        self.read(function)
        for root in given:
            self.touch(root)
