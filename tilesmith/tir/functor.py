"""Walks and rewrites TensorIR programs: substitution, renaming of definitions, generic
transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

from tilesmith.ir import IntImm, Node, PrimExpr, Rewriter, Var, post_order_visit, pre_order_visit
from tilesmith.ir.expr import convert
from tilesmith.ir.node import AnyNode, Field, Role
from tilesmith.ir.queries import variables
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, DeclBuffer, MatchBufferRegion, Stmt

__all__ = [
    "BufferRemapper", "Renewal", "Substitution", "ir_transform", "post_order_visit",
    "pre_order_visit", "renew_defs", "renewed_fields", "substitute",
]  # fmt: skip


class BufferRemapper(Rewriter):
    """A rewriter that propagates changes of variables into buffers.

    A buffer whose data, shape, strides or offset changes becomes another buffer, the same one
    wherever it is used, and where a block or a declaration defines it. Subclasses override
    ``visit_Var``; they may fill ``buffers`` (old to new) beforehand.
    """

    def __init__(self) -> None:
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Buffer(self, node: Buffer) -> Buffer:
        """Return the buffer that replaces this one."""
        found = self.buffers.get(node)
        if found is None:
            found = self.buffers[node] = self.remap_buffer(node)
        return found

    def remap_buffer(self, node: Buffer) -> Buffer:
        """Return ``node`` with its data, shape, strides and offset rewritten."""
        data = self.visit(node.data)
        if data is not node.data and not isinstance(data, Var):
            raise TypeMismatchError(
                f"the data of buffer '{node.name}' must remain a variable, got {data!r}"
            )
        shape = [self.visit(size) for size in node.shape]
        strides = [self.visit(stride) for stride in node.strides]
        offset = self.visit(node.elem_offset)
        if (
            data is node.data
            and offset is node.elem_offset
            and all(new is old for new, old in zip(shape, node.shape))
            and all(new is old for new, old in zip(strides, node.strides))
        ):
            return node
        return node.with_fields(data=data, shape=shape, strides=strides, elem_offset=offset)

    def visit_Block(self, node: Block) -> Block:
        """Rewrite a block: its allocations are definitions of buffers."""
        allocated = [self.visit(buffer) for buffer in node.alloc_buffers]
        if any(new is not old for new, old in zip(allocated, node.alloc_buffers)):
            node = node.with_fields(alloc_buffers=allocated)
        return node.map_children(self.visit)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        """Rewrite a declaration of a buffer."""
        buffer = self.visit(node.buffer)
        body = self.visit(node.body)
        if buffer is node.buffer and body is node.body:
            return node
        return DeclBuffer(buffer, body, node.span)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:
        """Rewrite a buffer that is matched with a region."""
        buffer = self.visit(node.buffer)
        source = self.visit(node.source)
        if buffer is node.buffer and source is node.source:
            return node
        return MatchBufferRegion(buffer, source)


class Substitution(BufferRemapper):
    """Replaces variables and buffers: what ``substitute`` does, for those who substitute several
    times, need to know which blocks changed, or derive a rewriter from it.

    ``reuse`` says which block became which. A view of a buffer that moves to another storage scope
    moves along.
    """

    def __init__(
        self, mapping: Mapping[Var, Any], buffers: Mapping[Buffer, Buffer] | None = None
    ) -> None:
        super().__init__()
        self.mapping: dict[Var, Any] = dict(mapping)
        self.reuse: dict[Block, Block] = {}
        for old, new in (buffers or {}).items():
            self.buffers[old] = new
            self.mapping.setdefault(old.data, new.data)

    def visit_Var(self, node: Any) -> Any:
        """Return what stands for a variable, or the variable itself."""
        return self.mapping.get(node, node)

    def visit_IntImm(self, node: IntImm) -> IntImm:
        """Return the constant: most leaves are such."""
        return node

    def remap_buffer(self, node: Buffer) -> Buffer:
        """Return ``node`` with its data, shape, strides and offset rewritten."""
        sizes = (*node.shape, *node.strides, node.elem_offset)
        if node.data not in self.mapping and all(size.__class__ is IntImm for size in sizes):
            return node  # the usual case: there is nothing to visit
        return super().remap_buffer(node)

    def visit_Block(self, node: Block) -> Block:
        """Rewrite a block, and note what it became."""
        for match in node.match_buffers:  # before the accesses to the view
            self._move_view(match)
        new = super().visit_Block(node)
        if new is not node:
            self.reuse[node] = new
        return new

    def _move_view(self, match: MatchBufferRegion) -> None:
        view, source = match.buffer, match.source.buffer
        scope = self.visit_Buffer(source).scope()
        if scope != source.scope() and view not in self.buffers:
            self.buffers[view] = moved = self.remap_buffer(view).in_scope(scope)
            self.mapping[view.data] = moved.data

    def visit_PrimFunc(self, node: PrimFunc) -> PrimFunc:
        buffers = {param: self.visit(buffer) for param, buffer in node.buffer_map.items()}
        if any(buffers[param] is not old for param, old in node.buffer_map.items()):
            node = node.with_fields(buffer_map=buffers)
        return node.with_body(self.visit(node.body))


@overload
def substitute(
    node: PrimExpr, vmap: Mapping[Any, Any], *, buffers: Mapping[Buffer, Buffer] | None = None
) -> PrimExpr: ...


@overload
def substitute(
    node: Block, vmap: Mapping[Any, Any], *, buffers: Mapping[Buffer, Buffer] | None = None
) -> Block: ...


@overload
def substitute(
    node: Stmt, vmap: Mapping[Any, Any], *, buffers: Mapping[Buffer, Buffer] | None = None
) -> Stmt: ...


@overload
def substitute(
    node: PrimFunc, vmap: Mapping[Any, Any], *, buffers: Mapping[Buffer, Buffer] | None = None
) -> PrimFunc: ...


@overload
def substitute(
    node: Any, vmap: Mapping[Any, Any], *, buffers: Mapping[Buffer, Buffer] | None = None
) -> Any: ...


def substitute(
    node: Any, vmap: Mapping[Any, Any], *, buffers: Mapping[Buffer, Buffer] | None = None
) -> Any:
    """Return ``node`` with variables replaced by expressions, inside the shapes of its buffers too.

    ``node`` is an expression, a statement, a function, or a tuple, list or mapping of such. Keys
    may be iterators, values Python scalars; variables of a graph become what stands for them there.
    ``buffers`` are replaced by others wherever they are accessed, declared or defined, and their
    pointers by those of the others; indices stay (``tir.redirection`` changes them). What does not
    change is the same object afterwards. Raises TypeMismatchError where a value has another dtype
    than its variable.
    """
    mapping: dict[Any, Any] = {}
    for key, value in vmap.items():
        variable = key.var if isinstance(key, IterVar) else key
        if isinstance(value, IterVar):
            value = value.var
        if not isinstance(variable, Var):
            mapping[variable] = value
            continue
        if not isinstance(value, PrimExpr):
            value = convert(value, None if variable.dtype.is_handle else variable.dtype)
        if value.dtype is not variable.dtype:
            raise TypeMismatchError(
                f"variable '{variable.name}' is {variable.dtype}, its value is {value.dtype}"
            )
        mapping[variable] = value
    if not mapping and not buffers:
        return node
    with deep_recursion():
        return _map_structure(Substitution(mapping, buffers).visit, node)


def _map_structure(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, Node):
        return function(value)
    if isinstance(value, tuple):
        new = tuple([_map_structure(function, item) for item in value])
        return value if all(a is b for a, b in zip(new, value)) else new
    if isinstance(value, list):
        return [_map_structure(function, item) for item in value]
    if isinstance(value, Mapping):
        return {key: _map_structure(function, item) for key, item in value.items()}
    return value


class _Transform(Rewriter):
    def __init__(
        self,
        preorder: Callable[[Any], Any] | None,
        postorder: Callable[[Any], Any] | None,
        only_enable: Iterable[str] | None,
    ) -> None:
        self.preorder = preorder
        self.postorder = postorder
        self.keys = None if only_enable is None else set(only_enable)

    def visit(self, node: Any) -> Any:
        cls = type(node)
        if (
            self.keys is not None
            and cls.node_key not in self.keys
            and cls.__name__ not in self.keys
        ):
            return super().visit(node)
        if self.preorder is not None:
            replaced = self.preorder(node)
            if replaced is not None:
                return replaced
        node = super().visit(node)
        if self.postorder is not None:
            replaced = self.postorder(node)
            if replaced is not None:
                return replaced
        return node

    __call__ = visit


def ir_transform(
    stmt: Node,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Iterable[str] | None = None,
) -> Any:
    """Rewrite a statement with two functions.

    ``preorder(node)`` is called before the children are visited: a node that it returns is put in
    place as it is; None means to go on. ``postorder(node)`` is called with the node whose children
    have been rewritten; None keeps that. ``only_enable`` restricts both to classes ("tir.For").
    """
    with deep_recursion():
        return _Transform(preorder, postorder, only_enable).visit(stmt)


# Class of a node → what `renewed_fields` says: each node of a program is asked.
_RENEWED: dict[type[Node], list[Field]] = {}


def renewed_fields(cls: type[Node]) -> list[Field]:
    """Return the fields of nodes that define something, definitions before their uses; none for
    other nodes."""
    found = _RENEWED.get(cls)
    if found is None:
        found = _RENEWED[cls] = _ordered_fields(cls)
    return found


def _ordered_fields(cls: type[Node]) -> list[Field]:
    fields = list(cls.node_fields)
    if not any(field.role is Role.DEFINES for field in fields):
        return []
    order = getattr(cls, "structural_order", None)
    if not order:
        return sorted(fields, key=_definitions_first)
    by_name = {field.name: field for field in fields}
    return [by_name[name] for name in order]


class Renewal(BufferRemapper):
    """Gives each definition a new variable or buffer; subclasses may choose which ones.

    ``values`` stand for variables that are defined outside.
    """

    def __init__(self, values: Mapping[Var, PrimExpr] | None = None) -> None:
        super().__init__()
        self.variables: dict[Var, PrimExpr] = dict(values or {})
        self.binding = False  # variables that occur first are bound here

    def fresh(self, variable: Var) -> Var:
        """Return the variable that replaces one that is bound here."""
        new = type(variable)(variable.name, variable.type_annotation, variable.span)
        self.variables[variable] = new
        return new

    def visit_Var(self, node: Var) -> PrimExpr:
        found = self.variables.get(node)
        if found is None:
            return self.fresh(node) if self.binding else node
        return found

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """Return a new buffer for one that is bound here, with its pointer and symbolic sizes."""
        outer, self.binding = self.binding, True
        new = self.remap_buffer(buffer)
        self.binding = outer
        if new is buffer:
            new = buffer.with_fields()
        self.buffers[buffer] = new
        return new

    def define(self, value: Any) -> Any:
        """Return the replacements of the definitions in a field."""
        if isinstance(value, Var):
            return self.fresh(value)
        if isinstance(value, Buffer):
            return self.define_buffer(value)
        if isinstance(value, tuple):
            return tuple([self.define(item) for item in value])
        if isinstance(value, Mapping):
            return {self.visit(key): self.define(item) for key, item in value.items()}
        return value

    def visit_default(self, node: Any) -> Any:
        fields = renewed_fields(node.__class__)
        if not fields:
            return node.map_children(self.visit)
        changes: dict[str, Any] = {}
        for field in fields:
            value = getattr(node, field.name)
            if field.role is Role.DEFINES:
                changes[field.name] = self.define(value)
            elif field.role is Role.CHILD:
                changes[field.name] = _map_structure(self.visit, value)
        return node.with_fields(**changes)

    def visit_Block(self, node: Block) -> Any:
        for buffer in node.alloc_buffers:
            self.keep_outer_sizes(buffer)
        return self.visit_default(node)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> Any:
        """Renew only those sizes of the view that the region and its buffer do not mention."""
        self.keep_outer(node.source.region)
        self.keep_outer_sizes(node.source.buffer)
        return self.visit_default(node)

    def keep_outer(self, used: Sequence[Node]) -> None:
        """Keep the variables in some expressions that have not been defined so far: they are
        defined outside.
        """
        for variable in variables(used):
            self.variables.setdefault(variable, variable)

    def keep_outer_sizes(self, buffer: Buffer) -> None:
        """Keep the variables in the shape, strides and offset of a buffer that are not defined."""
        self.keep_outer([*buffer.shape, *buffer.strides, buffer.elem_offset])

    def visit_DeclBuffer(self, node: DeclBuffer) -> DeclBuffer:
        buffer = self.remap_buffer(node.buffer)
        if buffer is node.buffer:
            buffer = buffer.with_fields()
        self.buffers[node.buffer] = buffer
        return DeclBuffer(buffer, self.visit(node.body), node.span)

    def visit_PrimFunc(self, node: PrimFunc) -> PrimFunc:
        params = [self.fresh(param) for param in node.params]
        buffers = {
            self.visit(param): self.define_buffer(node.buffer_map[param])
            for param in node.params
            if param in node.buffer_map
        }
        return node.with_fields(params=params, buffer_map=buffers, body=self.visit(node.body))


def _definitions_first(field: Field) -> bool:
    return field.role is not Role.DEFINES


def renew_defs(func: AnyNode, values: Mapping[Var, PrimExpr] | None = None) -> AnyNode:
    """Return a copy whose variables and buffers are all new objects, so that it can stand beside
    the original in one program. ``values`` replace variables that are defined outside of it."""
    with deep_recursion():
        renewed: AnyNode = Renewal(values).visit(func)
    return renewed
