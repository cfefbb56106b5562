"""Turns the statement of a schedule into a function: tensors become buffers, those of the arguments
parameters.

    realize C[0:8]: for i: C[i] = A[i] + 1    →    def main(A: Buffer(8), C: Buffer(8)):
                                                       for i in range(8): C[i] = A[i] + 1

On the way goes what only schedules know: launches of threads that are running already, regions to
prefetch, regions that are skipped for debugging.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import Call, PrimExpr, Range, Rewriter, StringImm, Var, convert
from tilesmith.ir.operators import cast
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.support.recursion import deep_recursion
from tilesmith.te.schedule.loop_nest import PREFETCH_SCOPE
from tilesmith.te.tensor import Tensor
from tilesmith.tir.analysis.access_region import domain_touched
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, IterVar, ProducerLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import (
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    NodeList,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    Stmt,
    stmt_seq,
)

__all__ = ["AXIS_SEPARATORS", "buffer_of_tensor", "schedule_post_proc_to_prim_func"]

AXIS_SEPARATORS = "axis_separators"
_OF_MEMORY = ("buffer_dim_align", "double_buffer_scope", "rolling_buffer_scope")


def buffer_of_tensor(tensor: Tensor, scope: str = "", axis_separators: Any = None) -> Buffer:
    """Return a buffer for the elements of a tensor."""
    return decl_buffer(
        tensor.shape, tensor.dtype, tensor.name, scope=scope, axis_separators=axis_separators
    )


@deep_recursion
def schedule_post_proc_to_prim_func(
    args: Sequence[Any], stmt: Stmt, binds: Mapping[Tensor, Buffer] | None = None
) -> PrimFunc:
    """Return a function that runs the statement of a schedule.

    ``args`` are tensors, buffers and scalar variables, in the order of its parameters; ``binds``
    are buffers for some tensors.
    """
    bound: dict[Tensor, Buffer] = dict(binds or {})
    separators = _separators(stmt)
    params: list[Var] = []
    buffers: dict[Var, Buffer] = {}
    for argument in args:
        if isinstance(argument, Var):
            params.append(argument)
            continue
        if isinstance(argument, Tensor):
            if argument not in bound:
                bound[argument] = buffer_of_tensor(argument, "", separators.get(argument))
            buffer = bound[argument]
        elif isinstance(argument, Buffer):
            buffer = argument
        else:
            raise TypeMismatchError(
                f"an argument is a tensor, a buffer or a variable, got {argument!r}",
                notes=("for example lower(s, [A, B, n]) with n = te.var('n')",),
            )
        params.append(Var(buffer.name, "handle"))
        buffers[params[-1]] = buffer
    body = _Converter(bound, separators).visit(stmt)
    return PrimFunc(params, body, None, buffers, {"from_legacy_te_schedule": True})


def _separators(stmt: Stmt) -> dict[Any, tuple[int, ...]]:
    """Return the axis separators of tensors whose layout was changed."""
    finder = _SeparatorFinder()
    finder.visit(stmt)
    return finder.found


class _SeparatorFinder(Rewriter):
    def __init__(self) -> None:
        self.found: dict[Any, tuple[int, ...]] = {}

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key == AXIS_SEPARATORS:
            value: Any = attribute.value
            self.found[attribute.node] = tuple([part.value for part in value.args])
        return self.children(attribute)


class _Converter(Rewriter):
    def __init__(
        self, bound: Mapping[Tensor, Buffer], separators: Mapping[Any, tuple[int, ...]]
    ) -> None:
        self.bound = bound
        self.separators = separators
        self.realized: dict[Any, Buffer] = {}
        self.scopes: dict[Any, str] = {}  # of tensors whose memory comes further inside
        self.storing: list[str] = []  # names of the stages whose stores are being visited
        self.loops: list[For] = []
        self.threads: dict[str, Var] = {}
        self.values: dict[Var, PrimExpr] = {}  # of threads that run already

    def buffer(self, producer: Any) -> Buffer:
        """Return the buffer of a tensor that is read or written."""
        if isinstance(producer, Buffer):
            return producer
        found = self.bound.get(producer)
        if found is None:
            found = self.realized.get(producer)
        if found is None:
            where = f"stage '{self.storing[-1]}' uses" if self.storing else "the schedule uses"
            raise ScheduleError(
                f"{where} tensor '{producer.name}', which is not among the arguments",
                notes=(
                    f"give it: lower(s, [..., {producer.name}, ...]), or bind it to a buffer: "
                    f"binds={{{producer.name}: buffer}}",
                ),
            )
        return found

    def of_memory(self, producer: Any) -> Buffer | None:
        """Return the buffer that an attribute around its memory is about; None for arguments."""
        if producer in self.bound:
            return None
        if producer not in self.realized:
            self.realized[producer] = buffer_of_tensor(
                producer, self.scopes.get(producer, ""), self.separators.get(producer)
            )
        return self.realized[producer]

    def visit_Var(self, variable: Var) -> PrimExpr:
        return self.values.get(variable, variable)

    # Tensors

    def visit_ProducerRealize(self, realize: ProducerRealize) -> Stmt:
        producer: Any = realize.producer
        if producer in self.bound:
            return self.visit(realize.body)
        outer = self.realized.get(producer)
        buffer = outer
        if buffer is None or buffer.scope() != realize.storage_scope:
            buffer = buffer_of_tensor(
                producer, realize.storage_scope, self.separators.get(producer)
            )
        self.realized[producer] = buffer
        bounds = tuple([self.visit(bound) for bound in realize.bounds])
        body = self.visit(realize.body)
        if outer is None:
            del self.realized[producer]
        return BufferRealize(buffer, bounds, self.visit(realize.condition), body, realize.span)

    def visit_ProducerStore(self, store: ProducerStore) -> Stmt:
        producer: Any = store.producer
        self.storing.append(producer.op.name if isinstance(producer, Tensor) else producer.name)
        value = self.visit(store.value)
        indices = [self.visit(index) for index in store.indices]
        buffer = self.buffer(producer)
        self.storing.pop()
        return BufferStore(buffer, cast(buffer.dtype, value), indices, None, store.span)

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        indices = [self.visit(index) for index in load.indices]
        return BufferLoad(self.buffer(load.producer), indices, None, load.span)

    # Attributes

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        key, node = attribute.attr_key, attribute.node
        if key in ("thread_extent", "virtual_thread"):
            return self.launch(attribute)
        if key == "pragma_debug_skip_region":
            return stmt_seq()
        if key in (AXIS_SEPARATORS, "extern_scope"):
            return self.visit(attribute.body)
        if key == PREFETCH_SCOPE:
            return self.prefetch(attribute)
        if isinstance(node, Tensor):
            if key in _OF_MEMORY and node in self.bound:
                return self.visit(attribute.body)
            if key in _OF_MEMORY:
                self.scopes[node] = _scope_inside(attribute.body, node)
            buffer = self.of_memory(node)
            node = self.buffer(node) if buffer is None else buffer
            return attribute.with_fields(node=node, body=self.visit(attribute.body))
        if isinstance(node, NodeList):
            items = [self.buffer(item) if isinstance(item, Tensor) else item for item in node.items]
            value, body = self.visit(attribute.value), self.visit(attribute.body)
            return attribute.with_fields(node=NodeList(tuple(items)), value=value, body=body)
        value, body = self.visit(attribute.value), self.visit(attribute.body)
        if value is attribute.value and body is attribute.body:
            return attribute
        return attribute.with_fields(value=value, body=body)

    def launch(self, attribute: AttrStmt) -> Stmt:
        """Leave out the launch of threads that run already."""
        thread: IterVar = attribute.node
        is_virtual = attribute.attr_key == "virtual_thread"
        key = str(id(thread.var)) if is_virtual else thread.thread_tag
        running = self.threads.get(key)
        if running is not None:
            if running is not thread.var:
                self.values[thread.var] = cast(thread.var.dtype, running)
            body = self.visit(attribute.body)
            self.values.pop(thread.var, None)
            return body
        self.threads[key] = thread.var
        value, body = self.visit(attribute.value), self.visit(attribute.body)
        del self.threads[key]
        return attribute.with_fields(value=value, body=body)

    def visit_For(self, loop: For) -> Stmt:
        self.loops.append(loop)
        new = self.children(loop)
        self.loops.pop()
        return new

    def prefetch(self, attribute: AttrStmt) -> Stmt:
        """Return a loop's body after a prefetch of what a later iteration reads."""
        body = self.visit(attribute.body)
        buffer = self.buffer(attribute.node)
        region = domain_touched(body, buffer, True, False)
        if not region or not self.loops:
            raise ScheduleError(
                f"prefetch: '{buffer.name}' is not read in the loop",
                notes=("prefetch a tensor at a loop of the stage that reads it",),
            )
        variable = self.loops[-1].loop_var
        ahead = {variable: variable + cast(variable.dtype, attribute.value)}
        ranges = [
            Range.from_min_extent(substitute(one.min, ahead), substitute(one.extent, ahead))
            for one in region
        ]
        return stmt_seq(Prefetch(buffer, tuple(ranges)), body)


def _scope_inside(stmt: Stmt, tensor: Tensor) -> str:
    """Return the memory that a tensor gets inside of a statement."""
    while isinstance(stmt, AttrStmt):
        stmt = stmt.body
    is_memory = isinstance(stmt, ProducerRealize) and stmt.producer is tensor
    return stmt.storage_scope if is_memory else ""  # type: ignore[union-attr]
