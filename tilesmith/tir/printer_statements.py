"""Prints statements of TensorIR; ``printer_buffers`` and ``printer_blocks`` print buffers and
blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Call, PrimExpr, PrimType, StringImm, Var, is_const
from tilesmith.ir.printer import type_doc
from tilesmith.ir.printing import Doc, Printer, call, joined, prints, prints_lines, quoted
from tilesmith.ir.printing.doc import Piece, listed
from tilesmith.ir.queries import called_name, mentions
from tilesmith.ir.structural import structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.printer_buffers import (
    buffer_arguments,
    declare_sizes,
    define_buffer,
    index_docs,
    pointer_fits,
    points_to,
    range_arguments,
    region_doc,
    write_buffer,
)
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    NodeList,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
)

__all__ = ["loop_keywords", "write_body"]


# Statements.


def _declare_pending(printer: Printer) -> None:
    """Write the declarations of buffers that no statement declares, as soon as everything they
    refer to has a name.
    """
    pending: list[tuple[Buffer, list[Var]]] | None = printer.state.get("buffers")
    if not pending:
        return
    rest = []
    for buffer, needed in pending:
        if any(printer.defined(var) is None for var in needed):
            rest.append((buffer, needed))
        elif printer.defined(buffer) is None:
            write_buffer(buffer, printer, "Buffer")
    printer.state["buffers"] = rest


def write_body(stmt: Stmt, printer: Printer) -> None:
    """Write a statement that is the last of its block, so that its bindings need no ``with``."""
    _declare_pending(printer)
    statements = stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)
    for statement in statements[:-1]:
        printer.state["last"] = False
        printer.write(statement)
    if statements:
        printer.state["last"] = True
        printer.write(statements[-1])


def _write_scoped(
    node: Any,
    printer: Printer,
    concise: Callable[[], None],
    header: Callable[[], list[Any]],
    body: Stmt,
) -> None:
    """Write a statement that binds something for its body.

    Last in its block it is one line, the body follows; else it is a ``with`` block. ``concise``
    writes the line; ``header`` gives the parts of ``with …`` and defines names inside the block.
    """
    if printer.state.pop("last", False) and printer.config.syntax_sugar:
        concise()
        write_body(body, printer)
        return
    at = len(printer.lines)
    printer.line("with")
    line = printer.lines[at]
    with printer.block():
        line.doc = Doc("with ", *header(), ":", node=node)
        write_body(body, printer)


@prints_lines(SeqStmt)
def _seq(node: SeqStmt, printer: Printer) -> None:
    last = printer.state.pop("last", False)
    for statement in node.seq[:-1]:
        printer.state["last"] = False
        printer.write(statement)
    if node.seq:
        printer.state["last"] = last
        printer.write(node.seq[-1])


def _is_return(node: Evaluate) -> bool:
    """Return whether a statement is what ``return value`` makes."""
    call = node.value
    if not isinstance(call, Call) or called_name(call) != "tir.ret" or len(call.args) != 1:
        return False
    value = call.args[0]
    return isinstance(value, PrimExpr) and value.dtype is call.dtype


@prints_lines(Evaluate)
def _evaluate(node: Evaluate, printer: Printer) -> None:
    if node is printer.state.get("last statement") and _is_return(node):
        printer.line("return ", printer.doc(node.value.args[0]), node=node)
        return
    value = printer.doc(node.value)
    # An operator or a function called for its side effect is a statement of its own, as in Python.
    if type(node.value).__name__ == "Call":
        printer.line(value, node=node)
    else:
        printer.line(call(f"{printer.word('T')}.evaluate", [value]), node=node)


@prints_lines(BufferStore)
def _buffer_store(node: BufferStore, printer: Printer) -> None:
    buffer, value = printer.doc(node.buffer), printer.doc(node.value)
    if node.predicate is not None:
        indices = printer.docs(node.indices)
        predicate = printer.doc(node.predicate)
        written = call(Doc(buffer, ".vstore"), [listed(indices), value], None, predicate=predicate)
        printer.line(written, node=node)
        return
    indices = index_docs(node.indices, printer)
    target = Doc(buffer, "[", joined(indices) if indices else "()", "]")
    printer.line(target, " = ", value, node=node)


@prints_lines(LetStmt)
def _let_stmt(node: LetStmt, printer: Printer) -> None:
    value = printer.doc(node.value)
    known = printer.defined(node.var)  # bound twice: a program in which a name is reused

    def concise() -> None:
        type_ = type_doc(node.var.type_annotation, printer)
        name = known or printer.define(node.var, node.var.name)
        printer.line(Doc(name, node=node.var), ": ", type_, " = ", value, node=node)

    def header() -> list[Any]:
        name = known or printer.define(node.var, node.var.name)
        type_ = node.var.type_annotation
        arguments = [value]
        if not (isinstance(type_, PrimType) and type_.dtype is node.value.dtype):
            arguments.append(type_doc(type_, printer))
        written = call(f"{printer.word('T')}.LetStmt", arguments)
        return [written, " as ", Doc(name, node=node.var)]

    _write_scoped(node, printer, concise, header, node.body)


@prints(NodeList)
def _node_list(node: NodeList, printer: Printer) -> Doc:
    return Doc(listed(printer.docs(node.items)), node=node)


@prints_lines(AttrStmt)
def _attr(node: AttrStmt, printer: Printer) -> None:
    word = printer.word("T")
    thread = node.node
    live = node.body
    if node.attr_key == "realize_scope" and isinstance(live, BufferRealize):
        if live.buffer is node.node and isinstance(node.value, StringImm) and node.value.value:
            _write_realize(live, node.value.value, printer)
            return
    if isinstance(thread, IterVar) and node.attr_key == (
        "virtual_thread" if thread.thread_tag == "vthread" else "thread_extent"
    ):
        if _launch_thread(node, printer):
            return
    arguments = [
        printer.doc(node.node),
        quoted(node.attr_key),
        printer.doc(node.value),
    ]
    written = call(f"{word}.attr", arguments)
    _write_scoped(
        node, printer, lambda: printer.line(written, node=node), lambda: [written], node.body
    )


def is_thread(iterator: IterVar) -> bool:
    """Return whether ``T.launch_thread`` creates this iterator."""
    domain = iterator.dom
    return (
        iterator.iter_type == IterVar.ThreadIndex
        and bool(iterator.thread_tag)
        and domain is not None
        and is_const(domain.min, 0)
        and iterator.var.dtype is domain.extent.dtype
    )


def _launch_thread(node: AttrStmt, printer: Printer) -> bool:
    """Write ``tx = T.launch_thread("threadIdx.x", 32)``; return False for any other iterator."""
    iterator = node.node
    if not is_thread(iterator):
        return False
    function = f"{printer.word('T')}.launch_thread"
    shared = printer.defined(iterator)
    if shared is not None:
        written = call(function, [Doc(shared, node=iterator), printer.doc(node.value)])
        _write_scoped(
            node, printer, lambda: printer.line(written, node=node), lambda: [written], node.body
        )
        return True
    if printer.defined(iterator.var) is not None:
        return False
    if not structural_equal(iterator.dom.extent, node.value):
        return False
    written = call(function, [quoted(iterator.thread_tag), printer.doc(node.value)])

    _write_variable(iterator.var, written, node, printer)
    return True


@prints_lines(AssertStmt)
def _assert(node: AssertStmt, printer: Printer) -> None:
    condition, message = printer.doc(node.condition), printer.doc(node.message)
    written = call(f"{printer.word('T')}.Assert", [condition, message])
    _write_scoped(
        node,
        printer,
        lambda: printer.line("assert ", condition, ", ", message, node=node),
        lambda: [written],
        node.body,
    )


@prints_lines(Allocate)
def _allocate(node: Allocate, printer: Printer) -> None:
    word = printer.word("T")
    if _allocated_buffer(node, printer):
        return
    named: dict[str, Piece | None] = {}
    if not is_const(node.condition, 1):
        named["condition"] = printer.doc(node.condition)
    if node.annotations:
        named["annotations"] = printer.mapping(node.annotations)
    type_ = node.buffer_var.type_annotation
    if not points_to(type_, node.dtype):
        named["pointer"] = type_doc(type_, printer)
    arguments: list[Piece] = [
        listed(printer.docs(node.extents)),
        quoted(str(node.dtype)),
        quoted(node.buffer_var.storage_scope or "global"),
    ]
    written = call(f"{word}.allocate", arguments, None, **named)
    _write_variable(node.buffer_var, written, node, printer)


def _write_variable(variable: Var, written: Doc, node: Any, printer: Printer) -> None:
    """Write a statement that defines a variable for its body: ``name = written``."""

    def name() -> Doc:
        return Doc(printer.define(variable, variable.name), node=variable)

    _write_scoped(
        node,
        printer,
        lambda: printer.line(name(), " = ", written, node=node),
        lambda: [written, " as ", name()],
        node.body,
    )


def _allocated_buffer(node: Allocate, printer: Printer) -> bool:
    """Write ``A = T.decl_buffer(shape, dtype)``: memory and the one buffer in it, of the same
    shape."""
    inner = node.body
    if not (isinstance(inner, DeclBuffer) and printer.config.syntax_sugar):
        return False
    buffer = inner.buffer
    same = (
        buffer.data is node.buffer_var
        and buffer.dtype is node.dtype
        and len(buffer.shape) == len(node.extents)
        and all(structural_equal(a, b) for a, b in zip(buffer.shape, node.extents))
        and not buffer.strides
        and is_const(node.condition, 1)
        and not node.annotations
        and pointer_fits(buffer)
    )
    if not same:
        return False
    positional, named = buffer_arguments(buffer, printer)
    written = call(f"{printer.word('T')}.decl_buffer", positional, None, **named)

    def concise() -> None:
        printer.line(define_buffer(buffer, printer), " = ", written, node=node)

    _write_scoped(
        node,
        printer,
        concise,
        lambda: [written, " as ", define_buffer(buffer, printer)],
        inner.body,
    )
    return True


@prints_lines(AllocateConst)
def _allocate_const(node: AllocateConst, printer: Printer) -> None:
    values = node.data_or_idx
    named: dict[str, Piece | None] = {}
    if node.annotations:
        named["annotations"] = printer.mapping(node.annotations)
    type_ = node.buffer_var.type_annotation
    if not points_to(type_, node.dtype) or node.buffer_var.storage_scope != "global":
        named["pointer"] = type_doc(type_, printer)
    arguments = [
        _constant(values, node.dtype, printer),
        quoted(str(node.dtype)),
        listed(printer.docs(node.extents)),
    ]
    written = call(f"{printer.word('T')}.allocate_const", arguments, None, **named)
    _write_variable(node.buffer_var, written, node, printer)


_INLINE_CONSTANTS = 16


def _constant(values: Any, dtype: DataType, printer: Printer) -> Piece:
    """Return a small array as a list, a large one as metadata, a number as it is."""
    if isinstance(values, int) or values is None:
        return printer.doc(values)
    array = values.numpy() if hasattr(values, "numpy") else values
    if getattr(array, "size", 0) > _INLINE_CONSTANTS or not dtype.is_integer:
        return printer.array("tir.AllocateConst", array, str(dtype))
    return printer.doc(array.tolist() if hasattr(array, "tolist") else list(array))


@prints_lines(DeclBuffer)
def _decl_buffer(node: DeclBuffer, printer: Printer) -> None:
    buffer = node.buffer
    declare_sizes(buffer, printer)
    data = printer.doc(buffer.data)
    positional, named = buffer_arguments(buffer, printer, data)
    written = call(f"{printer.word('T')}.decl_buffer", positional, None, **named)

    def concise() -> None:
        printer.line(define_buffer(buffer, printer), " = ", written, node=node)

    _write_scoped(
        node, printer, concise, lambda: [written, " as ", define_buffer(buffer, printer)], node.body
    )


@prints_lines(BufferRealize)
def _buffer_realize(node: BufferRealize, printer: Printer) -> None:
    _write_realize(node, "", printer)


def _write_realize(node: BufferRealize, scope: str, printer: Printer) -> None:
    """Write ``T.realize(A[0:8], "scope")``."""
    bounds = joined([region_doc(item, printer) for item in node.bounds])
    arguments: list[Piece] = [Doc(printer.doc(node.buffer), "[", bounds, "]"), quoted(scope)]
    if not is_const(node.condition, 1):
        arguments.append(printer.doc(node.condition))
    written = call(f"{printer.word('T')}.realize", arguments)
    _write_scoped(
        node, printer, lambda: printer.line(written, node=node), lambda: [written], node.body
    )


@prints_lines(Prefetch)
def _prefetch(node: Prefetch, printer: Printer) -> None:
    function = f"{printer.word('T')}.Range.from_min_extent"
    bounds = listed([call(function, printer.docs([item.min, item.extent])) for item in node.bounds])
    written = call(f"{printer.word('T')}.prefetch", [printer.doc(node.buffer), bounds])
    printer.line(written, node=node)


@prints_lines(ProducerStore)
def _producer_store(node: ProducerStore, printer: Printer) -> None:
    """Write a statement of a classic schedule, for reading only: it does not parse back."""
    name = getattr(node.producer, "name", type(node.producer).__name__)
    indices = joined(printer.docs(node.indices))
    printer.line(name, "[", indices, "] = ", printer.doc(node.value), node=node)


@prints_lines(ProducerRealize)
def _producer_realize(node: ProducerRealize, printer: Printer) -> None:
    name = getattr(node.producer, "name", type(node.producer).__name__)
    bounds = joined([region_doc(item, printer) for item in node.bounds])
    arguments: list[Piece] = [
        Doc(name, "[", bounds, "]"),
        quoted(node.storage_scope),
        printer.doc(node.condition),
    ]
    printer.line("with ", call("T.realize", arguments), ":", node=node)
    with printer.block():
        write_body(node.body, printer)


_CHAIN = 16  # longer chains of conditions are not indented more and more


@prints_lines(IfThenElse)
def _if(node: IfThenElse, printer: Printer) -> None:
    printer.state.pop("last", None)
    word = printer.state.pop("branch", "if ")
    printer.line(word, printer.doc(node.condition), ":", node=node)
    with printer.block():
        write_body(node.then_case, printer)
    other = node.else_case
    if (
        isinstance(other, IfThenElse)
        and (word == "elif " or _is_long_chain(node))
        and not _writes_before(other, printer)
    ):
        printer.state["branch"] = "elif "
        printer.write(other)
    elif other is not None:
        printer.line("else:")
        with printer.block():
            write_body(other, printer)


def _is_long_chain(node: IfThenElse) -> bool:
    length = 0
    inner: Stmt | None = node
    while isinstance(inner, IfThenElse) and length <= _CHAIN:
        length, inner = length + 1, inner.else_case
    return length > _CHAIN


def _writes_before(branch: IfThenElse, printer: Printer) -> bool:
    """Return whether a declaration must be written before the condition of a branch."""
    before = len(printer.lines)
    with printer.scope():
        printer.doc(branch.condition)
    declared = len(printer.lines) > before
    del printer.lines[before:]
    return declared or bool(printer.state.get("buffers"))


@prints_lines(While)
def _while(node: While, printer: Printer) -> None:
    printer.state.pop("last", None)
    printer.line("while ", printer.doc(node.condition), ":", node=node)
    with printer.block():
        write_body(node.body, printer)


# Loops.


def _plain(loop: For) -> bool:
    """Return whether a loop can be part of ``T.grid``."""
    return (
        loop.kind is ForKind.SERIAL
        and not loop.annotations
        and loop.thread_binding is None
        and is_const(loop.min, 0)
    )


def _nest(node: For, printer: Printer) -> list[For]:
    """Return the nested loops that one ``T.grid`` can print."""
    loops = [node]
    if not printer.config.syntax_sugar:
        return loops
    while _plain(loops[-1]) and isinstance(loops[-1].body, For) and _plain(loops[-1].body):
        inner = loops[-1].body
        if any(
            marked is loops[-1] or marked is inner for marked in printer.config.obj_to_underline
        ):
            break  # a marker under the line must point at this one loop
        outer = {loop.loop_var for loop in loops}
        if inner.loop_var in outer or mentions(inner.extent, outer):
            break
        loops.append(inner)
    return loops


_KINDS = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}


def _thread(loop: For, iterator: IterVar, printer: Printer) -> Piece:
    """Return only the tag if ``T.thread_binding`` would create this very iterator, else the
    iterator.
    """
    domain = iterator.dom
    plain = iterator.iter_type == IterVar.ThreadIndex and bool(iterator.thread_tag)
    if plain and domain is None:
        dtype = [] if iterator.var.dtype == "int32" else [quoted(str(iterator.var.dtype))]
        return call(f"{printer.word('T')}.env_thread", [quoted(iterator.thread_tag), *dtype])
    if plain and domain is not None and iterator.var.dtype is loop.loop_var.dtype:
        same = structural_equal(domain.min, loop.min)
        if same and structural_equal(domain.extent, loop.extent):
            return quoted(iterator.thread_tag)
    return printer.doc(iterator)


def loop_keywords(loop: For, printer: Printer) -> dict[str, Piece | None]:
    """Return ``thread=`` and ``annotations=`` of a loop."""
    named: dict[str, Piece | None] = {}
    if loop.thread_binding is not None:
        named["thread"] = _thread(loop, loop.thread_binding, printer)
    if loop.annotations:
        named["annotations"] = printer.mapping(loop.annotations)
    return named


@prints_lines(For)
def _for(node: For, printer: Printer) -> None:
    printer.state.pop("last", None)
    loops = _nest(node, printer)
    innermost = loops[-1]
    if len(loops) > 1:
        extents = [printer.doc(loop.extent) for loop in loops]
        iterable = call(f"{printer.word('T')}.grid", extents)
    else:
        arguments = range_arguments(node.min, node.extent, printer)
        if _is_range(node, printer):
            iterable = call("range", arguments)
        else:
            named = loop_keywords(node, printer)
            word = printer.word("T")
            iterable = call(f"{word}.{_KINDS[node.kind]}", arguments, None, **named)
    at = len(printer.lines)
    printer.line("for")
    line = printer.lines[at]
    with printer.block():
        names = [
            Doc(printer.define(loop.loop_var, loop.loop_var.name), node=loop.loop_var)
            for loop in loops
        ]
        line.doc = Doc("for ", joined(names), " in ", iterable, ":", node=node)
        loops_in_sight = printer.state.setdefault("loops", {})
        for loop in loops:
            loops_in_sight[id(loop.loop_var)] = loop
        write_body(innermost.body, printer)


def _is_range(loop: For, printer: Printer) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations and loop.thread_binding is None
