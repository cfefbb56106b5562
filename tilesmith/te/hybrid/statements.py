"""Parses the statements of hybrid script that need more than a line: assignments, loops, return.

A variable that is assigned once is bound to its value; one that is assigned again is memory for
one element. Both are known until the end of the block in which they are assigned first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.ir import PrimExpr, Var, convert
from tilesmith.ir.operators import cast, is_const
from tilesmith.te.hybrid import calls
from tilesmith.te.hybrid.expressions import Symbol, operated
from tilesmith.te.hybrid.utils import is_docstring, make_nop, replace_io
from tilesmith.te.operation import placeholder
from tilesmith.te.tensor import HybridOp, Operation, Tensor
from tilesmith.tir.expr import ProducerLoad
from tilesmith.tir.stmt import For, ForKind, LetStmt, ProducerStore, Stmt, is_no_op, stmt_seq

if TYPE_CHECKING:
    from tilesmith.te.hybrid.parser import HybridParser

__all__ = [
    "Part", "assignment", "augmented", "block", "concat_list_to_block", "loop", "returned",
    "visit_list_to_block",
]  # fmt: skip

Part = Stmt | Callable[[Stmt], Stmt]
"""A statement, or what puts itself around the rest of its block."""

_SCOPES = {
    "global": Symbol.GlobalBuffer, "local": Symbol.LocalBuffer, "shared": Symbol.SharedBuffer,
}  # fmt: skip


def concat_list_to_block(lst: Sequence[Part]) -> Stmt:
    """Return statements one after the other as one; a function among them is put around what
    follows.
    """
    body: Stmt = stmt_seq()
    for part in reversed(lst):
        body = stmt_seq(part, body) if isinstance(part, Stmt) else part(body)
    return make_nop() if is_no_op(body) else body


def visit_list_to_block(visit: Callable[[ast.AST], Any], lst: Sequence[ast.stmt]) -> Stmt:
    """Return the statements that a list of parts of the syntax tree stands for, as one."""
    return concat_list_to_block([visit(one) for one in lst if not is_docstring(one)])


def block(parser: HybridParser, statements: Sequence[ast.stmt]) -> Stmt:
    """Return the statement of a block; what it declares is known inside of it."""
    known = dict(parser.scope.names)
    parser.declared.append([])
    body = visit_list_to_block(parser.visit, statements)
    body = parser.wrap_up_realize(None, body)
    parser.scope.names = known
    return body


def assignment(parser: HybridParser, node: ast.Assign) -> Part:
    """Parse an assignment: a declaration, an element, a variable, results of another
    script.
    """
    if len(node.targets) != 1:
        raise parser.scope.refusal(node, "one assignment in a statement")
    target = node.targets[0]
    call = node.value
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        if call.func.id in ("output_tensor", "allocate"):
            return _declare(parser, node, target, call)
    value = parser.visit(node.value)
    if isinstance(value, Operation):
        return _results(parser, node, target, value)
    parser.scope.require_scalar(node.value, value)
    if isinstance(target, ast.Subscript):
        return _store_element(parser, target, value)
    if not isinstance(target, ast.Name):
        raise parser.scope.refusal(target, "a variable or an element is assigned")
    return _store_variable(parser, target, value)


def _declare(parser: HybridParser, node: ast.Assign, target: ast.AST, call: ast.Call) -> Stmt:
    """Parse ``x = output_tensor(shape, dtype)`` or ``x = allocate(shape, dtype, scope)``."""
    word = call.func.id  # type: ignore[attr-defined]
    if not isinstance(target, ast.Name):
        raise parser.scope.refusal(target, f"{word} makes a tensor: give it a name")
    given = [parser.visit(one) for one in call.args]
    named = {one.arg: parser.visit(one.value) for one in call.keywords}
    fields = dict(zip(("shape", "dtype", "scope"), given)) | named
    if "shape" not in fields or set(fields) - {"shape", "dtype", "scope"}:
        raise parser.scope.refusal(call, f"{word} takes shape, dtype and scope")
    shape, scope = fields["shape"], fields.get("scope", "global")
    if scope not in _SCOPES:
        raise parser.scope.refusal(call, f"the scope is {scope!r}", f"known: {', '.join(_SCOPES)}")
    shape = shape if isinstance(shape, tuple) else (shape,)
    tensor = placeholder(shape, fields.get("dtype", "float32"), target.id)
    kind = _SCOPES[scope]
    if word == "output_tensor":
        if len(parser.declared) > 1:
            raise parser.scope.refusal(call, "output_tensor stands outside of loops and branches")
        kind = Symbol.OutputBuffer
    else:
        parser.declared[-1].append((tensor, scope))
    parser.add_symbol(target.id, kind, tensor, node)
    return make_nop()


def _results(parser: HybridParser, node: ast.Assign, target: ast.AST, op: Operation) -> Stmt:
    """Parse ``c = script(a, b)``: the loops of another script, with results in ``c``."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    if not isinstance(op, HybridOp) or len(parts) != op.num_outputs:
        raise parser.scope.refusal(
            node, f"'{op.name}' has {op.num_outputs} results, not {len(parts)}"
        )
    into: dict[Any, Tensor] = {}
    for part, placeholder_ in zip(parts, op.outputs):
        tensor = _buffer(parser, part)
        fits = len(tensor.shape) == len(placeholder_.shape) and all(
            is_const(a - b, 0) for a, b in zip(tensor.shape, placeholder_.shape)
        )
        if not fits or tensor.dtype is not placeholder_.dtype:
            raise parser.scope.refusal(
                part, f"'{tensor.name}' does not fit the result '{placeholder_.name}' of "
                f"'{op.name}', of shape {placeholder_.shape} and dtype {placeholder_.dtype}",
            )  # fmt: skip
        into[placeholder_] = tensor
    return replace_io(op.body, into)


def _buffer(parser: HybridParser, node: ast.AST) -> Tensor:
    """Return the tensor that is assigned to; inputs are not."""
    name = node.id if isinstance(node, ast.Name) else None
    kind, tensor = parser.scope.names.get(name or "", (None, None))
    if kind is Symbol.Input:
        raise parser.scope.refusal(
            node, f"'{name}' is an input, which is only read", "copy it first"
        )
    if not isinstance(tensor, Tensor) or kind is Symbol.BufferVar:
        raise parser.scope.refusal(
            node, f"'{name or ast.unparse(node)}' is no tensor of this script",
            "make it by output_tensor(shape, dtype) or allocate(shape, dtype)",
        )  # fmt: skip
    return tensor


def _store_element(parser: HybridParser, target: ast.Subscript, value: Any) -> Stmt:
    tensor = _buffer(parser, target.value)
    indices = parser.scope.indices(target, tensor, parser.visit_Index(target.slice))
    return _store(parser, target, tensor, value, indices)


def _store(parser: HybridParser, node: ast.AST, tensor: Tensor, value: Any, indices: Any) -> Stmt:
    stored = cast(tensor.dtype, convert(value))
    return ProducerStore(tensor, stored, indices, parser.scope.source.span(node))


def _store_variable(parser: HybridParser, target: ast.Name, value: Any) -> Part:
    """Parse an assignment to a variable: its first one declares it."""
    name = target.id
    found = parser.scope.names.get(name)
    if found is not None and found[0] is not Symbol.BufferVar:
        raise parser.scope.refusal(
            target, f"'{name}' is {_described(found[0])}, which is not assigned",
            "take another name",
        )  # fmt: skip
    if found is None:
        if "AugStore" not in parser.usage[name][2]:
            return _bind(parser, target, value)
        tensor = placeholder((1,), convert(value).dtype, name)
        parser.declared[-1].append((tensor, "local"))
        parser.add_symbol(name, Symbol.BufferVar, tensor, target)
    return _store(parser, target, parser.scope.names[name][1], value, [0])


def _bind(parser: HybridParser, target: ast.Name, value: Any) -> Part:
    if not isinstance(value, PrimExpr) or is_const(value):
        parser.add_symbol(target.id, Symbol.ConstVar, value, target)
        return make_nop()
    variable = Var(target.id, value.dtype)
    parser.add_symbol(target.id, Symbol.ConstVar, variable, target)
    return lambda rest: LetStmt(variable, value, rest, parser.scope.source.span(target))


def augmented(parser: HybridParser, node: ast.AugAssign) -> Stmt:
    """Parse ``x += value``, for a variable or an element."""
    value = parser.visit(node.value)
    parser.scope.require_scalar(node.value, value)
    target = node.target
    if isinstance(target, ast.Subscript):
        tensor = _buffer(parser, target.value)
        indices: Any = parser.scope.indices(target, tensor, parser.visit_Index(target.slice))
    elif isinstance(target, ast.Name):
        kind, tensor = parser.scope.names.get(target.id, (None, None))  # type: ignore[assignment]
        if kind is not Symbol.BufferVar:
            raise parser.scope.refusal(
                target, f"the variable '{target.id}' has no value here", "assign it before"
            )
        indices = [0]
    else:
        raise parser.scope.refusal(target, "a variable or an element is assigned")
    before = ProducerLoad(tensor, indices)
    return _store(parser, node, tensor, operated(parser, node, node.op, before, value), indices)


def loop(parser: HybridParser, node: ast.For) -> Stmt:
    """Parse a loop over a range."""
    if node.orelse:
        raise parser.scope.refusal(node, "a loop of hybrid script has no else")
    call, target = node.iter, node.target
    words = ", ".join([*calls.LOOP_INTRIN, "bind"])
    is_word = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    word = call.func.id if is_word else ""  # type: ignore[attr-defined]
    if not is_word or word not in (*calls.LOOP_INTRIN, "bind"):
        raise parser.scope.refusal(call, "a loop goes over a range", f"known ones: {words}")
    if not isinstance(target, ast.Name):
        raise parser.scope.refusal(target, "a loop has one variable")
    args = [parser.visit(one) for one in call.args]  # type: ignore[attr-defined]
    if word == "bind":
        return _threads(parser, node, target.id, args)
    low, extent, step = calls.loop_range(word, args)
    kind = calls.LOOP_INTRIN[word]
    if isinstance(kind, tuple):
        return _written_out(parser, node, target.id, low, extent, step)
    variable = Var(target.id, convert(extent).dtype)
    counted = variable if step == 1 else variable * step
    value = counted if is_const(low, 0) else low + counted
    body = _loop_body(parser, node, target.id, Symbol.LoopVar, value)
    span = parser.scope.source.span(node)
    return For(variable, 0, convert(extent), ForKind(kind), body, span=span)


def _loop_body(parser: HybridParser, node: ast.For, name: str, kind: Symbol, value: Any) -> Stmt:
    known = dict(parser.scope.names)
    parser.add_symbol(name, kind, value, node.target)
    body = block(parser, node.body)
    parser.scope.names = known
    return body


def _written_out(
    parser: HybridParser, node: ast.For, name: str, low: Any, extent: Any, step: int
) -> Stmt:
    first, count = parser.scope.number(node.iter, low), parser.scope.number(node.iter, extent)
    return concat_list_to_block(
        [
            _loop_body(parser, node, name, Symbol.ConstLoopVar, first + number * step)
            for number in range(count)
        ]
    )


def _threads(parser: HybridParser, node: ast.For, name: str, args: Sequence[Any]) -> Stmt:
    """Parse ``for i in bind("threadIdx.x", 32)``."""
    thread, _, extent, _ = calls.bind("bind", args)
    known = parser.binds.setdefault(thread.thread_tag, thread)
    if known is not thread and not is_const(known.domain.extent - convert(extent), 0):
        raise parser.scope.refusal(
            node.iter, f"'{thread.thread_tag}' has {known.domain.extent} threads in another "
            f"loop, {extent} here", "all loops over one axis have the same extent",
        )  # fmt: skip
    return _loop_body(parser, node, name, Symbol.ThreadBind, known.var)


def returned(parser: HybridParser, node: ast.Return) -> Stmt:
    """Parse what the function returns: the names of its outputs."""
    if len(parser.declared) > 1 or parser.is_returned:
        raise parser.scope.refusal(node, "return stands once, at the end of the function")
    value = node.value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    for part in parts:
        name = part.id if isinstance(part, ast.Name) else ""
        kind, tensor = parser.scope.names.get(name, (None, None))
        if kind is not Symbol.OutputBuffer or tensor in parser.outputs:
            raise parser.scope.refusal(
                node, "an output is returned: each one once",
                "make it by output_tensor(shape, dtype)",
            )  # fmt: skip
        parser.outputs.append(tensor)
    for name, (kind, tensor) in parser.scope.names.items():
        if kind is Symbol.OutputBuffer and tensor not in parser.outputs:
            raise parser.scope.refusal(node, f"the output '{name}' is not returned")
    parser.is_returned = True
    return make_nop()


def _described(kind: Symbol) -> str:
    names = {
        Symbol.Input: "an input", Symbol.LoopVar: "the variable of a loop",
        Symbol.ConstLoopVar: "the variable of a loop", Symbol.ThreadBind: "a thread",
        Symbol.ConstVar: "a value",
    }  # fmt: skip
    return names.get(kind, "a tensor")
