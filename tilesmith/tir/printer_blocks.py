"""Prints blocks and functions of TensorIR."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Node, PrimType, TupleType, Var, is_const
from tilesmith.ir.node import Role
from tilesmith.ir.printer import type_doc
from tilesmith.ir.printing import Doc, Printer, call, joined, prints_lines, quoted
from tilesmith.ir.printing.doc import Piece, tupled
from tilesmith.ir.queries import variables
from tilesmith.ir.structural import structural_equal
from tilesmith.tir import printer_buffers as buffers
from tilesmith.tir import printer_statements as statements
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.ranges import stop_of
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
)

_AXES = {
    IterVar.DataPar: ("spatial", "S"),
    IterVar.CommReduce: ("reduce", "R"),
    IterVar.Ordered: ("scan", ""),
    IterVar.Opaque: ("opaque", ""),
}


@prints_lines(BlockRealize)
def _block_realize(node: BlockRealize, printer: Printer) -> None:
    printer.state.pop("last", None)
    _write_block(node.block, node, printer)


@prints_lines(Block)
def _block(node: Block, printer: Printer) -> None:
    printer.state.pop("last", None)
    _write_block(node, None, printer)


def _write_block(block: Block, realize: BlockRealize | None, printer: Printer) -> None:
    word = printer.word("T")
    named: dict[str, Piece | None] = {"no_realize": "True" if realize is None else None}
    header = call(f"{word}.block", [quoted(block.name_hint)], None, **named)
    if realize is not None and not printer.state.get("inside a function"):
        printer.docs(realize.iter_values)  # they belong to what is around the block
    printer.line("with ", Doc(header, node=block), ":", node=realize)
    with printer.block():
        _write_axes(block, realize, printer)
        if realize is not None and not is_const(realize.predicate, 1):
            printer.line(call(f"{word}.where", [printer.doc(realize.predicate)]))
        own = {*block.alloc_buffers, *[match.buffer for match in block.match_buffers]}
        inside = any(region.buffer in own for region in (*block.reads, *block.writes))
        if inside:  # regions over variables that the block itself defines can only follow it
            _write_block_buffers(block, printer)
        for name, regions in (("reads", block.reads), ("writes", block.writes)):
            printer.line(call(f"{word}.{name}", printer.docs(regions)))
        if block.annotations:
            printer.line(call(f"{word}.block_attr", [printer.mapping(block.annotations)]))
        if not inside:
            _write_block_buffers(block, printer)
        if block.init is not None:
            printer.line(f"with {word}.init():")
            with printer.block():
                statements.write_body(block.init, printer)
        statements.write_body(block.body, printer)


def _write_block_buffers(block: Block, printer: Printer) -> None:
    for buffer in block.alloc_buffers:
        buffers.write_buffer(buffer, printer, "alloc_buffer")
    for match in block.match_buffers:
        buffers.declare_sizes(match.buffer, printer)
        buffers.write_buffer(match.buffer, printer, "match_buffer", printer.doc(match.source))


@prints_lines(MatchBufferRegion)
def _match_buffer(node: MatchBufferRegion, printer: Printer) -> None:
    buffers.write_buffer(node.buffer, printer, "match_buffer", printer.doc(node.source))


def _write_axes(block: Block, realize: BlockRealize | None, printer: Printer) -> None:
    """Write the iterators; adjacent ones that have the domain of their loop share one ``remap``."""
    values: list[Any] = list(realize.iter_values) if realize is not None else []
    values += [None] * (len(block.iter_vars) - len(values))
    pairs = list(zip(block.iter_vars, values))
    position = 0
    while position < len(pairs):
        run = position
        while run < len(pairs) and _can_remap(*pairs[run], printer):
            run += 1
        if run - position > 1:
            _write_remap(pairs[position:run], printer)
            position = run
        else:
            _write_axis(*pairs[position], printer)
            position += 1


def _can_remap(iterator: IterVar, value: Any, printer: Printer) -> bool:
    if not printer.config.syntax_sugar or not isinstance(value, Var):
        return False
    loop = printer.state.get("loops", {}).get(id(value))
    if loop is None or iterator.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
        return False
    return (
        iterator.var.dtype is value.dtype
        and iterator.dom is not None
        and not iterator.thread_tag
        and structural_equal(iterator.dom.min, loop.min)
        and structural_equal(iterator.dom.extent, loop.extent)
    )


def _write_remap(pairs: list[Any], printer: Printer) -> None:
    kinds = "".join([_AXES[iterator.iter_type][1] for iterator, _ in pairs])
    values = joined([printer.doc(value) for _, value in pairs])
    names = [_axis_name(iterator, printer) for iterator, _ in pairs]
    function = f"{printer.word('T')}.axis.remap"
    printer.line(joined(names), " = ", call(function, [quoted(kinds), Doc("[", values, "]")]))


def _axis_name(iterator: IterVar, printer: Printer) -> Doc:
    name = Doc(printer.define(iterator.var, iterator.var.name), node=iterator.var)
    return Doc(name, node=iterator)


def _write_axis(iterator: IterVar, value: Any, printer: Printer) -> None:
    kind = _AXES.get(iterator.iter_type, (None, ""))[0]
    if kind is None or iterator.dom is None:
        # The script has no syntax for such an iterator: it is shown for reading only.
        printer.line(_axis_name(iterator, printer), " = ", printer.doc(iterator))
        return
    domain = iterator.dom
    if is_const(domain.min, 0) and domain.min.dtype is domain.extent.dtype:
        written: Piece = printer.doc(domain.extent)
    else:
        stop = stop_of(domain.min, domain.extent)
        written = tupled([printer.doc(domain.min), printer.doc(stop)])
    arguments = [written] if value is None else [written, printer.doc(value)]
    named: dict[str, Piece | None] = {}
    if iterator.var.dtype is not domain.extent.dtype:
        named["dtype"] = quoted(str(iterator.var.dtype))
    made = call(f"{printer.word('T')}.axis.{kind}", arguments, None, **named)
    printer.line(_axis_name(iterator, printer), " = ", made)


# Functions.


class _Uses:
    """Collects what a function defines and uses, in one walk."""

    def __init__(self) -> None:
        self.defined: set[int] = set()
        self.buffers: dict[int, Buffer] = {}
        self.variables: set[int] = set()
        self.seen: set[int] = set()
        self.threads: dict[int, list[IterVar]] = {}  # launched iterators, each as often

    def visit(self, node: Any) -> None:
        if isinstance(node, Buffer):
            self.buffers[id(node)] = node
            return
        if isinstance(node, Var):
            self.variables.add(id(node))
            return
        if not isinstance(node, Node):
            return
        if isinstance(node, AttrStmt) and isinstance(node.node, IterVar):
            self.threads.setdefault(id(node.node), []).append(node.node)
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        for field in node.node_fields:
            if field.role is Role.DEFINES:
                self.define(getattr(node, field.name, None))
            elif field.role is Role.CHILD:
                value = getattr(node, field.name, None)  # broken programs are printed too
                if value.__class__ is tuple:
                    for item in value:
                        self.visit(item)
                elif value is not None:
                    self.visit(value)

    def define(self, value: Any) -> None:
        if value.__class__ is tuple:
            for item in value:
                self.define(item)
        elif isinstance(value, (Var, Buffer)):
            self.defined.add(id(value))


@prints_lines(PrimFunc)
def _prim_func(node: PrimFunc, printer: Printer) -> None:
    symbol = node.attrs.get("global_symbol")
    name = printer.function_name or printer.config.name or symbol or "main"
    if not isinstance(name, str) or not name.isidentifier():
        name = "main" if not isinstance(name, str) else printer.fresh_name(name)
    printer.function_name = None
    uses = _Uses()
    uses.visit(node.body)
    word = printer.word("T")
    options = ["private=True"] if symbol is None else []
    if has_block(node.body) and not _is_root(node.body):
        options.append("implicit_root=False")  # the parser must not put a root block around it
    printer.line(f"@{word}.prim_func" + (f"({', '.join(options)})" if options else ""))
    at = len(printer.lines)
    printer.line("def")
    printer.state["inside a function"] = True
    with printer.block():
        parameters, matches = _parameters(node, uses, printer)
        result = node.ret_type
        arrow: list[Piece] = []
        if not (isinstance(result, TupleType) and not result.fields):
            arrow = [" -> ", type_doc(result, printer)]
        line = printer.lines[at]
        line.doc = Doc(f"def {name}(", joined(parameters), ")", *arrow, ":", node=node)
        attributes = {
            key: value
            for key, value in node.attrs.items()
            if not (key == "global_symbol" and value == name)
        }
        if attributes:
            printer.line(call(f"{word}.func_attr", [printer.mapping(attributes)]))
        for param, buffer in matches:
            buffers.declare_sizes(buffer, printer)
            buffers.write_buffer(buffer, printer, "match_buffer", printer.doc(param))
        _write_shared_threads(uses, printer)
        _find_undeclared(node, uses, printer)
        if printer.config.syntax_sugar:
            printer.state["last statement"] = _last_statement(node.body)
        _write_function_body(node.body, printer)
    printer.state.pop("buffers", None)
    printer.state.pop("last statement", None)


def _last_statement(body: Stmt) -> Stmt:
    """Return the statement that ends a function, outside of its loops, branches and blocks."""
    while True:
        if isinstance(body, SeqStmt):
            body = body.seq[-1]
        elif isinstance(body, (AllocateConst, Allocate, AssertStmt, AttrStmt, DeclBuffer, LetStmt)):
            body = body.body
        else:
            return body


def _parameters(node: PrimFunc, uses: _Uses, printer: Printer) -> tuple[list[Piece], list[Any]]:
    """Return the parameters, and those whose buffers are matched in the body."""
    parameters: list[Piece] = []
    matches = []
    for param in node.params:
        buffer = node.buffer_map.get(param)
        if buffer is not None and _is_plain(param, buffer, uses, printer):
            positional, named = buffers.buffer_arguments(buffer, printer, annotation=True)
            written = call(f"{printer.word('T')}.Buffer", positional, None, **named)
            parameters.append(Doc(buffers.define_buffer(buffer, printer), ": ", written))
            continue
        name = Doc(printer.define(param, param.name), node=param)
        if isinstance(param.type_annotation, PrimType) and param.dtype.is_handle:
            type_: Piece = f"{printer.word('T')}.handle"
        else:
            type_ = type_doc(param.type_annotation, printer)
            if type(param).__name__ == "SizeVar":
                type_ = Doc(type_, "(is_size_var=True)")
        parameters.append(Doc(name, ": ", type_))
        if buffer is not None:
            matches.append((param, buffer))
    return parameters, matches


def _is_plain(param: Var, buffer: Buffer, uses: _Uses, printer: Printer) -> bool:
    """Return whether a buffer can be written as the annotation of its parameter."""
    constant = [is_const(size) for size in (*buffer.shape, *buffer.strides, buffer.elem_offset)]
    return (
        printer.config.syntax_sugar
        and all(constant)
        and isinstance(param.type_annotation, PrimType)
        and param.dtype.is_handle
        and id(param) not in uses.variables
        and printer.defined(buffer.data) is None
        and printer.defined(buffer) is None
        and buffers.pointer_fits(buffer)
    )


def _write_shared_threads(uses: _Uses, printer: Printer) -> None:
    """Write ``tx = T.env_thread("threadIdx.x")`` for iterators that are launched more than once."""
    for iterators in uses.threads.values():
        iterator = iterators[0]
        if len(iterators) == 1 or not statements.is_thread(iterator):
            continue
        name = printer.define(iterator.var, iterator.var.name)
        printer.bind(iterator, name)
        arguments = [quoted(iterator.thread_tag)]
        if iterator.var.dtype != "int32":
            arguments.append(quoted(str(iterator.var.dtype)))
        made = call(f"{printer.word('T')}.env_thread", arguments)
        printer.line(Doc(name, node=iterator.var), " = ", made)


def _find_undeclared(node: PrimFunc, uses: _Uses, printer: Printer) -> None:
    """Return the buffers that no statement declares, each with the variables that must be declared
    before it.
    """
    pending = []
    for key, buffer in uses.buffers.items():
        if key in uses.defined or printer.defined(buffer) is not None:
            continue
        needed = [buffer.data]
        for value in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            needed += variables(value)
        # What nothing in the function defines cannot become known later.
        pending.append((buffer, [var for var in needed if id(var) in uses.defined]))
    printer.state["buffers"] = pending


def _write_function_body(body: Stmt, printer: Printer) -> None:
    if printer.config.syntax_sugar and isinstance(body, BlockRealize) and _is_implicit_root(body):
        printer.line(f'# with {printer.word("T")}.block("root"):')
        for buffer in body.block.alloc_buffers:
            buffers.write_buffer(buffer, printer, "alloc_buffer")
        statements.write_body(body.block.body, printer)
        return
    statements.write_body(body, printer)


def _is_root(body: Any) -> bool:
    return isinstance(body, BlockRealize) and not body.block.iter_vars


def _is_implicit_root(realize: BlockRealize) -> bool:
    """Return whether the parser would add this root block by itself."""
    block = realize.block
    plain = (
        block.name_hint == "root"
        and not block.iter_vars
        and not block.reads
        and not block.writes
        and not block.annotations
        and not block.match_buffers
        and block.init is None
        and is_const(realize.predicate, 1)
    )
    if not plain:
        return False
    inner = block.body
    if isinstance(inner, BlockRealize) and not inner.block.iter_vars and not block.alloc_buffers:
        return False  # would be taken for the root itself
    return bool(block.alloc_buffers) or has_block(inner)


def has_block(stmt: Any) -> bool:
    """Return whether a statement contains a block."""
    if isinstance(stmt, BlockRealize):
        return True
    if not isinstance(stmt, Stmt):
        return False
    for field in stmt.node_fields:
        if field.role is not Role.CHILD:
            continue
        value = getattr(stmt, field.name, None)
        for inner in value if value.__class__ is tuple else (value,):
            if has_block(inner):
                return True
    return False
