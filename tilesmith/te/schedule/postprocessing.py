"""Turns the statement of a schedule into a function: tensors become buffers, those of the arguments
parameters.

    realize C[0:8]: for i: C[i] = A[i] + 1    →    def main(A: Buffer(8), C: Buffer(8)):
                                                       for i in range(8): C[i] = A[i] + 1

On the way goes what only schedules know: launches of threads that are running already, regions to
prefetch, regions that are skipped for debugging.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import PrimExpr, Range, Rewriter, Var, const
from tilesmith.ir.operators import cast
from tilesmith.ir.queries import nodes
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.support.recursion import deep_recursion
from tilesmith.te.arguments import memory_options
from tilesmith.te.schedule.loop_nest import PREFETCH_SCOPE
from tilesmith.te.schedule.operations.extern import BIND_SCOPE
from tilesmith.te.schedule.schedule_ops import AXIS_SEPARATORS, LAYOUT_TRANSFORMS
from tilesmith.te.tensor import Tensor
from tilesmith.tir.analysis.access_region import domain_touched
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, IterVar, ProducerLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.index_map import IndexMap
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

__all__ = ["buffer_of_tensor", "schedule_post_proc_to_prim_func", "verify_compact_buffer"]

_OF_MEMORY = ("buffer_dim_align", "double_buffer_scope", "rolling_buffer_scope")


@dataclass
class Layout:
    """How the elements of a tensor lie in memory: index maps, one after the other, and borders
    between groups of axes.
    """

    maps: tuple[IndexMap, ...] = ()
    separators: tuple[int, ...] = ()

    def shape(self, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the sizes of the memory's axes."""
        sizes = list(shape)
        for one in self.maps:
            sizes = list(one.map_shape(sizes))
        return sizes

    def indices(self, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the place of an element."""
        found = list(indices)
        for one in self.maps:
            found = list(one.map_indices(found))
        return found


_PLAIN = Layout()


def buffer_of_tensor(
    tensor: Tensor,
    scope: str = "",
    layout: Layout = _PLAIN,
    data_alignment: int = -1,
    offset_factor: int = 0,
) -> Buffer:
    """Return a buffer for the elements of a tensor; the last two parameters are those of
    ``decl_buffer``.
    """
    shape = layout.shape(tensor.shape)
    separators = layout.separators or None
    return decl_buffer(
        shape,
        tensor.dtype,
        tensor.name,
        data_alignment=data_alignment,
        offset_factor=offset_factor,
        scope=scope,
        axis_separators=separators,
    )


def verify_compact_buffer(stmt: Stmt) -> bool:
    """Return whether a buffer that stands for a region of a tensor is declared without strides: it
    has to be compact.
    """
    return any(
        isinstance(attribute.node, NodeList) and not attribute.node[0].strides  # type: ignore[attr-defined]
        for attribute in nodes(stmt, AttrStmt)
        if attribute.attr_key == BIND_SCOPE
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
    layouts = _layouts(stmt)
    params: list[Var] = []
    buffers: dict[Var, Buffer] = {}
    for number, argument in enumerate(args):
        if any(argument is other for other in args[:number]):
            raise TypeMismatchError(
                f"'{argument.name}' is twice among the arguments",
                notes=("each parameter is a tensor, a buffer or a variable of its own",),
            )
        if isinstance(argument, Var):
            params.append(argument)
            continue
        if isinstance(argument, Tensor):
            if argument not in bound:
                layout = layouts.get(argument, _PLAIN)
                bound[argument] = buffer_of_tensor(argument, "", layout, **memory_options())
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
    body = _Converter(bound, layouts).visit(stmt)
    return PrimFunc(params, body, None, buffers, {"from_legacy_te_schedule": True})


def _layouts(stmt: Stmt) -> dict[Any, Layout]:
    """Return the layouts of tensors, which attributes around the whole statement tell."""
    found: dict[Any, Layout] = {}
    while isinstance(stmt, AttrStmt) and stmt.attr_key in (AXIS_SEPARATORS, LAYOUT_TRANSFORMS):
        if stmt.attr_key == AXIS_SEPARATORS:
            value: Any = stmt.value
            layout = found.setdefault(stmt.node, Layout())
            layout.separators = tuple([part.value for part in value.args])
        else:
            tensor, *maps = stmt.node.items
            found.setdefault(tensor, Layout()).maps = tuple(maps)
        stmt = stmt.body
    return found


class _Converter(Rewriter):
    def __init__(self, bound: Mapping[Tensor, Buffer], layouts: Mapping[Any, Layout]) -> None:
        self.bound = bound
        self.layouts = layouts
        self.realized: dict[Any, Buffer] = {}
        self.scopes: dict[Any, str] = {}  # of tensors whose memory comes further inside
        self.storing: list[str] = []  # names of the stages whose stores are being visited
        self.firsts: dict[Any, list[PrimExpr]] = {}  # elements of tensors with a layout
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

    def layout(self, producer: Any) -> Layout:
        return self.layouts.get(producer, _PLAIN)

    def of_memory(self, producer: Any) -> Buffer | None:
        """Return the buffer that an attribute around its memory is about; None for arguments."""
        if producer in self.bound:
            return None
        if producer not in self.realized:
            self.realized[producer] = buffer_of_tensor(
                producer, self.scopes.get(producer, ""), self.layout(producer)
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
            buffer = buffer_of_tensor(producer, realize.storage_scope, self.layout(producer))
        self.realized[producer] = buffer
        bounds = self.region(producer, tuple([self.visit(one) for one in realize.bounds]))
        body = self.visit(realize.body)
        self.firsts.pop(producer, None)
        if outer is None:
            del self.realized[producer]
        return BufferRealize(buffer, bounds, self.visit(realize.condition), body, realize.span)

    def visit_ProducerStore(self, store: ProducerStore) -> Stmt:
        producer: Any = store.producer
        self.storing.append(producer.op.name if isinstance(producer, Tensor) else producer.name)
        value = self.visit(store.value)
        indices = self.place(producer, store.indices)
        buffer = self.buffer(producer)
        self.storing.pop()
        return BufferStore(buffer, cast(buffer.dtype, value), indices, None, store.span)

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        indices = self.place(load.producer, load.indices)
        return BufferLoad(self.buffer(load.producer), indices, None, load.span)

    def place(self, producer: Any, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return where an element lies in the tensor's layout, which begins with the first element
        that has memory.
        """
        found = [self.visit(index) for index in indices]
        firsts = self.firsts.get(producer)
        if firsts is not None:
            found = [index - first for index, first in zip(found, firsts)]
        return self.layout(producer).indices(found)

    def region(self, producer: Any, bounds: tuple[Range, ...]) -> tuple[Range, ...]:
        """Return the part of a tensor that has memory, in the tensor's layout."""
        layout = self.layout(producer)
        if not layout.maps:
            return bounds
        self.firsts[producer] = [one.min for one in bounds]
        sizes = layout.shape([one.extent for one in bounds])
        return tuple([Range.from_min_extent(const(0, size.dtype), size) for size in sizes])

    # Attributes

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        key, node = attribute.attr_key, attribute.node
        if key in ("thread_extent", "virtual_thread"):
            return self.launch(attribute)
        if key == "pragma_debug_skip_region":
            return stmt_seq()
        if key in (AXIS_SEPARATORS, LAYOUT_TRANSFORMS, "extern_scope"):
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
        tensor: Any = attribute.node
        if tensor not in self.bound and tensor not in self.realized:
            raise ScheduleError(
                f"prefetch: '{tensor.name}' has no memory where the loop begins: its stage is "
                "inlined, or computed further inside",
                notes=("prefetch arguments, and what is computed as a whole before",),
            )
        buffer = self.buffer(tensor)
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
    if isinstance(stmt, ProducerRealize) and stmt.producer is tensor:
        return stmt.storage_scope
    return ""
