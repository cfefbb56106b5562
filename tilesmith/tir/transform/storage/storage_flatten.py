"""StorageFlatten: allocates the buffers of classic loop programs and flattens their indices.

    with T.realize(A[i:i + 4, 0:8]):            A = T.allocate([32], "float32", "global")
        A[i + 1, j] = 0.0                       A_1 = T.decl_buffer((32,), data=A)
                                                A_1[8 + j] = 0.0

``BufferRealize`` tells which part of a buffer is live; memory is allocated for that part only and
accesses are moved to its beginning. ``ProducerRealize``, ``ProducerStore`` and ``ProducerLoad``
name tensors of tensor expressions: each one becomes a buffer, those that are not realized have to
be parameters under the same name. Attributes ``buffer_dim_align`` leave gaps between rows;
``buffer_bind_scope`` makes a buffer a view of a region:

    T.attr([sub, A], "buffer_bind_scope", T.tvm_tuple(i, 4, 0, 8))      sub is A[i:i + 4, 0:8]
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, PrimExpr, Range, Rewriter, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import mentions, variables
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, ProducerLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    Stmt,
)
from tilesmith.tir.transform.loops.inject_prefetch import inject_prefetch
from tilesmith.tir.transform.storage.flatten_buffer import flatten_buffer
from tilesmith.tir.transform.storage.view_binder import ViewBinder, row_major_strides

__all__ = ["storage_flatten"]

BIND = "buffer_bind_scope"
DIM_ALIGN = "buffer_dim_align"


class _ProducersToBuffers(Rewriter):
    """Replaces tensors by buffers, the same one wherever a tensor is used."""

    def __init__(self, func: PrimFunc) -> None:
        self.declared = {buffer.name: buffer for buffer in func.buffers}
        self.buffers: dict[Any, Buffer] = {}

    def buffer(self, producer: Any, scope: str | None = None) -> Buffer:
        if isinstance(producer, Buffer):
            return producer
        found = self.buffers.get(producer)
        if found is not None:
            return found
        name = str(getattr(producer, "name", "tensor"))
        if scope is None:
            if name not in self.declared:
                raise UnsupportedError(
                    f"the tensor '{name}' is neither realized nor a parameter",
                    notes=("put a ProducerRealize around its uses, or bind it to a parameter",),
                )
            found = self.declared[name]
        else:
            found = decl_buffer(producer.shape, producer.dtype, name, scope=scope)
        self.buffers[producer] = found
        return found

    def visit_ProducerRealize(self, realize: ProducerRealize) -> Stmt:
        buffer = self.buffer(realize.producer, realize.storage_scope)
        body = self.visit(realize.body)
        return BufferRealize(buffer, realize.bounds, self.visit(realize.condition), body)

    def visit_ProducerStore(self, store: ProducerStore) -> Stmt:
        indices = [self.visit(index) for index in store.indices]
        value = self.visit(store.value)
        return BufferStore(self.buffer(store.producer), value, indices, None, store.span)

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        return BufferLoad(self.buffer(load.producer), [self.visit(index) for index in load.indices])

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key == BIND:
            view, producer = attribute.node.items
            value = self.visit(attribute.value)
            node = [view, self.buffer(producer)]
            body = self.visit(attribute.body)
            return attribute.with_fields(node=node, value=value, body=body)
        new = attribute.with_fields(body=self.visit(attribute.body))
        return new if new.body is not attribute.body else attribute


class _Realizer(AccessRedirection):
    """Replaces realized parts of buffers by allocations."""

    def __init__(self, create_bound_attribute: bool, known: set[Var]) -> None:
        self.create_bound = create_bound_attribute
        self.analyzer = Analyzer()
        self.places: dict[Buffer, tuple[Buffer, list[PrimExpr]]] = {}  # old → new, first indices
        self.alignments: dict[Buffer, dict[int, tuple[int, int]]] = {}
        self.allocated: set[Var] = set()  # around the statement that is visited
        self.views: dict[Buffer, tuple[Buffer, list[PrimExpr], int]] = {}
        self.binder = ViewBinder(known, self.visit)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        self.allocated.add(allocation.buffer_var)
        new = self.children(allocation)
        self.allocated.discard(allocation.buffer_var)
        return new

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key == DIM_ALIGN and isinstance(attribute.node, Buffer):
            alignment: Any = attribute.value
            axis, factor, offset = [part.value for part in alignment.args]
            self.alignments.setdefault(attribute.node, {})[axis] = (factor, offset)
            return self.visit(attribute.body)
        if attribute.attr_key == BIND:
            return self.bind(attribute)
        if attribute.attr_key in ("realize_scope", "double_buffer_scope") and isinstance(
            attribute.node, Buffer
        ):
            if attribute.attr_key == "realize_scope":
                return self.visit(attribute.body)
            body = self.visit(attribute.body)
            new = self.places.get(attribute.node)
            pointer = attribute.node.data if new is None else new[0].data
            return attribute.with_fields(node=pointer, body=body)
        return self.children(attribute)

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.binder.values.get(var, var)

    def visit_For(self, loop: For) -> Stmt:
        self.binder.known.add(loop.loop_var)
        return self.children(loop)

    def bind(self, attribute: AttrStmt) -> Stmt:
        """Make a buffer a view of a region, and bind the variables of its declaration."""
        view, buffer = attribute.node.items
        ends: Any = attribute.value
        parts = [self.visit(part) for part in ends.args]
        region = [Range.from_min_extent(*part) for part in zip(parts[::2], parts[1::2])]
        source = BufferRegion(buffer, region)
        target = self.visit(source)
        where = f"buffer_bind_scope of '{buffer.name}'"
        known = dict(self.binder.values)  # an intrinsic may be used at several places
        self.binder.bind_view(view, target, where, attribute.span)
        # The accesses of the view become those of the memory itself.
        leading = len(region) - len(view.shape)
        if not view.strides and mentions(attribute.body, {view.data}):
            self.require_compact(view, row_major_strides(target.buffer)[leading:], attribute)
        self.views[view] = (target.buffer, [one.min for one in target.region], leading)
        body = self.visit(attribute.body)
        del self.views[view]
        self.binder.values = known
        return body

    def require_compact(self, view: Buffer, strides: list[PrimExpr], attribute: AttrStmt) -> None:
        """Refuse a pointer to a view that is said to be compact where its rows lie apart."""
        for size, stride, compact in zip(view.shape, strides, row_major_strides(view)):
            size = self.visit(size)
            if not is_const(size, 1) and not self.analyzer.can_prove_equal(
                stride, self.visit(compact)
            ):
                raise ShapeError(
                    f"'{view.name}', a part of '{attribute.node.items[1].name}', is said to be "
                    f"compact, it has the stride {stride} where {compact} is needed",
                    span=attribute.span,
                    notes=("declare it with strides, such as strides=[te.var('s'), 1]",),
                )

    def visit_BufferRealize(self, realize: BufferRealize) -> Stmt:
        buffer = realize.buffer
        firsts = [self.visit(bound.min) for bound in realize.bounds]
        extents = tuple([self.analyzer.simplify(bound.extent) for bound in realize.bounds])
        strides = self.strides(buffer, extents)
        live = buffer.with_fields(
            shape=extents, strides=strides, elem_offset=const(0, buffer.elem_offset.dtype)
        )
        self.places[buffer] = (live, firsts)
        body = self.visit(realize.body)
        del self.places[buffer]
        size = (self.analyzer.simplify(strides[0] * extents[0]),) if strides else extents
        if not extents:
            size = (const(1, "int32"),)
        if self.create_bound:
            bound = Call("handle", "tir.tvm_tuple", extents)
            body = AttrStmt(live.data, "buffer_bound", bound, body)
        body, data = DeclBuffer(live, body), live.data
        if data in self.allocated:
            # `X = T.decl_buffer(…)` declares and allocates: this is separate memory inside of it
            data = Var(data.name, data.type_annotation, data.span)
            body = substitute(body, {live.data: data})
        condition = self.visit(realize.condition)
        return Allocate(data, live.dtype, size, condition, body, span=realize.span)

    def strides(self, buffer: Buffer, extents: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Return the strides of a realized buffer; aligned axes get gaps."""
        wanted = self.alignments.get(buffer)
        if not wanted or not extents:
            return ()
        strides: list[PrimExpr] = []
        stride: PrimExpr = const(1, extents[-1].dtype)
        for axis in reversed(range(len(extents))):
            if axis in wanted:
                factor, offset = wanted[axis]
                gap = (factor + offset - stride % factor) % factor
                stride = self.analyzer.simplify(stride + gap)
            strides.append(stride)
            stride = self.analyzer.simplify(stride * extents[axis])
        return tuple(reversed(strides))

    def redirected(self, buffer: Buffer) -> Buffer | None:
        if buffer in self.views:
            return self.views[buffer][0]
        return self.places[buffer][0] if buffer in self.places else None

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        if buffer in self.views:
            _, starts, leading = self.views[buffer]
            moved = [
                index + (start if index.dtype.lanes == 1 else ops.cast(index.dtype, start))
                for start, index in zip(starts[leading:], indices)
            ]
            return [*starts[:leading], *moved]
        return [
            index - first if index.dtype.lanes == 1 else index - ops.cast(index.dtype, first)
            for index, first in zip(indices, self.places[buffer][1])
        ]

    def visit_Prefetch(self, prefetch: Prefetch) -> Stmt:
        buffer = self.redirected(prefetch.buffer)
        if buffer is None:
            return self.children(prefetch)
        bounds = tuple([self.visit(bound) for bound in prefetch.bounds])
        return Prefetch(buffer, self.ranges(prefetch.buffer, bounds), prefetch.span)


@compiler_pass("tir.StorageFlatten")
def storage_flatten(
    func: PrimFunc, cache_line_size: int = 64, create_bound_attribute: bool = False
) -> PrimFunc:
    """Allocates the buffers of classic loop programs and flattens their indices.

    Returns ``func`` with allocations and flat accesses in place of realized tensors and buffers.

    ``cache_line_size``: bytes of memory that one prefetch brings. ``create_bound_attribute``: the
    extents of each allocation are noted in an attribute ``buffer_bound``.
    """
    body = _ProducersToBuffers(func).visit(func.body)
    sizes = [size for buffer in func.buffers for size in variables(buffer.shape)]
    body = _Realizer(create_bound_attribute, {*func.params, *sizes}).visit(body)
    return flatten_buffer(inject_prefetch(func.with_body(body), cache_line_size))
