"""Parses hybrid script: the syntax tree of a Python function becomes a statement over tensors.

    @te.hybrid.script                       for i in range(8):
    def f(a):                                   c[i] = a[i] + 1.0
        c = output_tensor((8,), "float32")
        for i in range(8):                  →   a HybridOp: inputs [a], outputs [c], axis [i]
            c[i] = a[i] + 1.0
        return c

A variable that is assigned once is bound to its value; one that is assigned again is memory for
one element. Both are known until the end of the block in which they are assigned first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from tilesmith.ir import PrimExpr, Range, Var, const, convert
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.queries import nodes
from tilesmith.support.errors import ScriptError
from tilesmith.te.hybrid import calls
from tilesmith.te.hybrid.expressions import ExpressionParser, Symbol
from tilesmith.te.hybrid.preprocessor import determine_variable_usage
from tilesmith.te.hybrid.utils import Source, is_docstring, make_nop, replace_io, source_of
from tilesmith.te.operation import placeholder
from tilesmith.te.tensor import HybridOp, Operation, Tensor
from tilesmith.tir.expr import IterVar, ProducerLoad
from tilesmith.tir.stmt import (
    AssertStmt,
    AttrStmt,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    ProducerRealize,
    ProducerStore,
    Stmt,
    is_no_op,
    stmt_seq,
)

__all__ = [
    "HybridParser", "Symbol", "concat_list_to_block", "parse_python", "source_to_op",
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


class HybridParser(ExpressionParser):
    """Parses the statements of one function."""

    def __init__(
        self,
        args: Sequence[Any],
        usage: Mapping[str, tuple[ast.AST, ast.AST, set[str]]],
        symbols: Mapping[str, Any],
        closure_vars: Mapping[str, Any],
        func_name: str | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(source or Source(""), symbols, closure_vars)
        self.args = list(args)
        self.usage = usage
        self.func_name = func_name
        self.outputs: list[Tensor] = []
        self.parsed_body: Stmt | None = None
        self.binds: dict[str, IterVar] = {}
        self.declared: list[list[tuple[Tensor, str]]] = [[]]  # by block: what gets memory there
        self.is_returned = False

    def add_symbol(self, key: str, ty: Symbol, val: Any, node: ast.AST) -> None:
        """Make a name known; refuse one that is known already."""
        if key in self.names:
            raise self.refusal(node, f"'{key}' has a meaning already", "take another name")
        self.names[key] = (ty, val)

    def block(self, statements: Sequence[ast.stmt]) -> Stmt:
        """Return the statement of a block; what it declares is known inside of it."""
        known = dict(self.names)
        self.declared.append([])
        body = visit_list_to_block(self.visit, statements)
        body = self.wrap_up_realize(None, body)
        self.names = known
        return body

    def wrap_up_realize(self, node: ast.AST | None, body: Stmt) -> Stmt:
        """Return the body of a block with memory for what was declared in it."""
        for tensor, scope in reversed(self.declared.pop()):
            ranges = [Range.from_min_extent(const(0, size.dtype), size) for size in tensor.shape]
            body = ProducerRealize(tensor, ranges, const(True, "bool"), body, scope)
        return body

    def wrap_up_binds(self, body: Stmt) -> Stmt:
        """Return the body of the function, run on the threads of its loops."""
        for thread in reversed(self.binds.values()):
            body = AttrStmt(thread, "thread_extent", thread.domain.extent, body)
        return body

    def visit_Module(self, node: ast.Module) -> Stmt:
        """Parse the function that is all of the source."""
        functions = [one for one in node.body if not is_docstring(one)]
        if len(functions) != 1 or not isinstance(functions[0], ast.FunctionDef):
            raise self.refusal(node, "one function is needed")
        return self.visit_FunctionDef(functions[0])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Stmt:
        """Parse a function: its parameters stand for the arguments."""
        names = [one.arg for one in node.args.args]
        if len(names) != len(self.args) or node.args.vararg or node.args.kwonlyargs:
            raise self.refusal(
                node, f"'{node.name}' has {len(names)} parameters, got {len(self.args)} arguments"
            )
        self.func_name = self.func_name or node.name
        for name, value in zip(names, self.args):
            kind = Symbol.Input if isinstance(value, Tensor) else Symbol.ConstVar
            self.add_symbol(name, kind, value, node)
        body = visit_list_to_block(self.visit, node.body)
        body = self.wrap_up_binds(self.wrap_up_realize(node, body))
        if not self.is_returned:
            raise self.refusal(
                node, f"hybrid script '{node.name}' returns nothing",
                "end it with: return c, where c = output_tensor(shape, dtype)",
            )  # fmt: skip
        self.parsed_body = body
        return body

    def visit_Expr(self, node: ast.Expr) -> Stmt:
        """Refuse a value that nobody uses; a text is a comment."""
        if is_docstring(node):
            return make_nop()
        raise self.refusal(node, "the value is not used", "assign it")

    # Assignments

    def visit_Assign(self, node: ast.Assign) -> Part:
        """Parse an assignment: a declaration, an element, a variable, results of another
        script.
        """
        if len(node.targets) != 1:
            raise self.refusal(node, "one assignment in a statement")
        target = node.targets[0]
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            if call.func.id in ("output_tensor", "allocate"):
                return self._declare(node, target, call)
        value = self.visit(node.value)
        if isinstance(value, Operation):
            return self._results(node, target, value)
        self.require_scalar(node.value, value)
        if isinstance(target, ast.Subscript):
            return self._store_element(target, value)
        if not isinstance(target, ast.Name):
            raise self.refusal(target, "a variable or an element is assigned")
        return self._store_variable(target, value)

    def _declare(self, node: ast.Assign, target: ast.AST, call: ast.Call) -> Stmt:
        """Parse ``x = output_tensor(shape, dtype)`` or ``x = allocate(shape, dtype, scope)``."""
        word = call.func.id  # type: ignore[attr-defined]
        if not isinstance(target, ast.Name):
            raise self.refusal(target, f"{word} makes a tensor: give it a name")
        given = [self.visit(one) for one in call.args]
        named = {one.arg: self.visit(one.value) for one in call.keywords}
        fields = dict(zip(("shape", "dtype", "scope"), given)) | named
        if "shape" not in fields or set(fields) - {"shape", "dtype", "scope"}:
            raise self.refusal(call, f"{word} takes shape, dtype and scope")
        shape, scope = fields["shape"], fields.get("scope", "global")
        if scope not in _SCOPES:
            raise self.refusal(call, f"the scope is {scope!r}", f"known: {', '.join(_SCOPES)}")
        shape = shape if isinstance(shape, tuple) else (shape,)
        tensor = placeholder(shape, fields.get("dtype", "float32"), target.id)
        kind = _SCOPES[scope]
        if word == "output_tensor":
            if len(self.declared) > 1:
                raise self.refusal(call, "output_tensor stands outside of loops and branches")
            kind = Symbol.OutputBuffer
        else:
            self.declared[-1].append((tensor, scope))
        self.add_symbol(target.id, kind, tensor, node)
        return make_nop()

    def _results(self, node: ast.Assign, target: ast.AST, op: Operation) -> Stmt:
        """Parse ``c = script(a, b)``: the loops of another script, with results in ``c``."""
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if not isinstance(op, HybridOp) or len(parts) != op.num_outputs:
            raise self.refusal(node, f"'{op.name}' has {op.num_outputs} results, not {len(parts)}")
        into: dict[Any, Tensor] = {}
        for part, placeholder_ in zip(parts, op.outputs):
            tensor = self._buffer(part)
            fits = len(tensor.shape) == len(placeholder_.shape) and all(
                is_const(a - b, 0) for a, b in zip(tensor.shape, placeholder_.shape)
            )
            if not fits or tensor.dtype is not placeholder_.dtype:
                raise self.refusal(
                    part, f"'{tensor.name}' does not fit the result '{placeholder_.name}' of "
                    f"'{op.name}', of shape {placeholder_.shape} and dtype {placeholder_.dtype}",
                )  # fmt: skip
            into[placeholder_] = tensor
        return replace_io(op.body, into)

    def _buffer(self, node: ast.AST) -> Tensor:
        """Return the tensor that is assigned to; inputs are not."""
        name = node.id if isinstance(node, ast.Name) else None
        kind, tensor = self.names.get(name or "", (None, None))
        if kind is Symbol.Input:
            raise self.refusal(node, f"'{name}' is an input, which is only read", "copy it first")
        if not isinstance(tensor, Tensor) or kind is Symbol.BufferVar:
            raise self.refusal(
                node, f"'{name or ast.unparse(node)}' is no tensor of this script",
                "make it by output_tensor(shape, dtype) or allocate(shape, dtype)",
            )  # fmt: skip
        return tensor

    def _store_element(self, target: ast.Subscript, value: Any) -> Stmt:
        tensor = self._buffer(target.value)
        indices = self.indices(target, tensor, self.visit_Index(target.slice))
        return self._store(target, tensor, value, indices)

    def _store(self, node: ast.AST, tensor: Tensor, value: Any, indices: Any) -> Stmt:
        stored = cast(tensor.dtype, convert(value))
        return ProducerStore(tensor, stored, indices, self.source.span(node))

    def _store_variable(self, target: ast.Name, value: Any) -> Part:
        """Parse an assignment to a variable: its first one declares it."""
        name = target.id
        found = self.names.get(name)
        if found is not None and found[0] is not Symbol.BufferVar:
            raise self.refusal(
                target, f"'{name}' is {_described(found[0])}, which is not assigned",
                "take another name",
            )  # fmt: skip
        if found is None:
            if "AugStore" not in self.usage[name][2]:
                return self._bind(target, value)
            tensor = placeholder((1,), convert(value).dtype, name)
            self.declared[-1].append((tensor, "local"))
            self.add_symbol(name, Symbol.BufferVar, tensor, target)
        return self._store(target, self.names[name][1], value, [0])

    def _bind(self, target: ast.Name, value: Any) -> Part:
        if not isinstance(value, PrimExpr) or is_const(value):
            self.add_symbol(target.id, Symbol.ConstVar, value, target)
            return make_nop()
        variable = Var(target.id, value.dtype)
        self.add_symbol(target.id, Symbol.ConstVar, variable, target)
        return lambda rest: LetStmt(variable, value, rest, self.source.span(target))

    def visit_AugAssign(self, node: ast.AugAssign) -> Stmt:
        """Parse ``x += value``, for a variable or an element."""
        value = self.visit(node.value)
        self.require_scalar(node.value, value)
        target = node.target
        if isinstance(target, ast.Subscript):
            tensor = self._buffer(target.value)
            indices: Any = self.indices(target, tensor, self.visit_Index(target.slice))
        elif isinstance(target, ast.Name):
            kind, tensor = self.names.get(target.id, (None, None))  # type: ignore[assignment]
            if kind is not Symbol.BufferVar:
                raise self.refusal(
                    target, f"the variable '{target.id}' has no value here", "assign it before"
                )
            indices = [0]
        else:
            raise self.refusal(target, "a variable or an element is assigned")
        before = ProducerLoad(tensor, indices)
        return self._store(node, tensor, self.operated(node, node.op, before, value), indices)

    # Control flow

    def visit_If(self, node: ast.If) -> Stmt:
        """Parse a branch; one that is known to be (not) taken is chosen here."""
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.block(node.body if condition else node.orelse)
        then = self.block(node.body)
        other = self.block(node.orelse) if node.orelse else None
        return IfThenElse(condition, then, other, self.source.span(node))

    def visit_For(self, node: ast.For) -> Stmt:
        """Parse a loop over a range."""
        if node.orelse:
            raise self.refusal(node, "a loop of hybrid script has no else")
        call, target = node.iter, node.target
        words = ", ".join([*calls.LOOP_INTRIN, "bind"])
        is_word = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        word = call.func.id if is_word else ""  # type: ignore[attr-defined]
        if not is_word or word not in (*calls.LOOP_INTRIN, "bind"):
            raise self.refusal(call, "a loop goes over a range", f"known ones: {words}")
        if not isinstance(target, ast.Name):
            raise self.refusal(target, "a loop has one variable")
        args = [self.visit(one) for one in call.args]  # type: ignore[attr-defined]
        if word == "bind":
            return self._threads(node, target.id, args)
        low, extent, step = calls.loop_range(word, args)
        kind = calls.LOOP_INTRIN[word]
        if isinstance(kind, tuple):
            return self._written_out(node, target.id, low, extent, step)
        variable = Var(target.id, convert(extent).dtype)
        counted = variable if step == 1 else variable * step
        value = counted if is_const(low, 0) else low + counted
        body = self._loop_body(node, target.id, Symbol.LoopVar, value)
        span = self.source.span(node)
        return For(variable, 0, convert(extent), ForKind(kind), body, span=span)

    def _loop_body(self, node: ast.For, name: str, kind: Symbol, value: Any) -> Stmt:
        known = dict(self.names)
        self.add_symbol(name, kind, value, node.target)
        body = self.block(node.body)
        self.names = known
        return body

    def _written_out(self, node: ast.For, name: str, low: Any, extent: Any, step: int) -> Stmt:
        first, count = self.number(node.iter, low), self.number(node.iter, extent)
        return concat_list_to_block(
            [
                self._loop_body(node, name, Symbol.ConstLoopVar, first + number * step)
                for number in range(count)
            ]
        )

    def _threads(self, node: ast.For, name: str, args: Sequence[Any]) -> Stmt:
        """Parse ``for i in bind("threadIdx.x", 32)``."""
        thread, _, extent, _ = calls.bind("bind", args)
        known = self.binds.setdefault(thread.thread_tag, thread)
        if known is not thread and not is_const(known.domain.extent - convert(extent), 0):
            raise self.refusal(
                node.iter, f"'{thread.thread_tag}' has {known.domain.extent} threads in another "
                f"loop, {extent} here", "all loops over one axis have the same extent",
            )  # fmt: skip
        return self._loop_body(node, name, Symbol.ThreadBind, known.var)

    def visit_Return(self, node: ast.Return) -> Stmt:
        """Parse what the function returns: the names of its outputs."""
        if len(self.declared) > 1 or self.is_returned:
            raise self.refusal(node, "return stands once, at the end of the function")
        value = node.value
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        for part in parts:
            name = part.id if isinstance(part, ast.Name) else ""
            kind, tensor = self.names.get(name, (None, None))
            if kind is not Symbol.OutputBuffer or tensor in self.outputs:
                raise self.refusal(
                    node, "an output is returned: each one once",
                    "make it by output_tensor(shape, dtype)",
                )  # fmt: skip
            self.outputs.append(tensor)
        for name, (kind, tensor) in self.names.items():
            if kind is Symbol.OutputBuffer and tensor not in self.outputs:
                raise self.refusal(node, f"the output '{name}' is not returned")
        self.is_returned = True
        return make_nop()

    def visit_Assert(self, node: ast.Assert) -> Stmt:
        """Parse a condition that has to hold when the program runs."""
        condition = self.condition(node.test)
        text = "assertion failed" if node.msg is None else self.visit(node.msg)
        if isinstance(condition, bool):
            if not condition:
                raise self.refusal(node, str(text))
            return make_nop()
        return AssertStmt(condition, text, make_nop(), self.source.span(node))

    def visit_With(self, node: ast.With) -> Stmt:
        """Refuse a with statement."""
        raise self.refusal(
            node, "hybrid script has no with statements", "attach pragmas in the schedule"
        )

    def visit_Pass(self, node: ast.Pass) -> Stmt:
        """Parse a statement that does nothing."""
        return make_nop()


def _described(kind: Symbol) -> str:
    names = {
        Symbol.Input: "an input", Symbol.LoopVar: "the variable of a loop",
        Symbol.ConstLoopVar: "the variable of a loop", Symbol.ThreadBind: "a thread",
        Symbol.ConstVar: "a value",
    }  # fmt: skip
    return names.get(kind, "a tensor")


def parse_python(
    src: Any, args: Sequence[Any], symbols: Mapping[str, Any], closure_vars: Mapping[str, Any]
) -> HybridParser:
    """Return the parser that has parsed a function for some arguments; ``src`` is the function, its
    text, its source or its syntax tree.
    """
    source = src if isinstance(src, Source) else Source("")
    if isinstance(src, FunctionType):
        source = source_of(src)
    elif isinstance(src, str):
        source = Source(src)
    if isinstance(src, ast.AST):
        root: ast.AST = src
    else:
        try:
            root = ast.parse(source.text)
        except SyntaxError as error:
            raise ScriptError(f"this is not Python: {error}") from None
    function = next((one for one in ast.walk(root) if isinstance(one, ast.FunctionDef)), None)
    usage = determine_variable_usage(root if function is None else function, args, symbols,
                                     closure_vars)  # fmt: skip
    parser = HybridParser(args, usage, symbols, closure_vars, None, source)
    with_module = root if isinstance(root, ast.Module) else ast.Module([root], [])  # type: ignore[list-item]
    parser.visit_Module(with_module)
    return parser


_KINDS = {
    ForKind.SERIAL: IterVar.DataPar, ForKind.PARALLEL: IterVar.Parallelized,
    ForKind.VECTORIZED: IterVar.Vectorized, ForKind.UNROLLED: IterVar.Unrolled,
}  # fmt: skip


def source_to_op(
    src: Any, args: Sequence[Any], symbols: Mapping[str, Any], closure_vars: Mapping[str, Any]
) -> Any:
    """Return the tensor (or the list of tensors) that a script computes from some arguments."""
    parser = parse_python(src, args, symbols, closure_vars)
    body = parser.parsed_body
    assert body is not None
    flat = [part for one in args for part in (one if isinstance(one, (list, tuple)) else [one])]
    inputs = [one for one in [*flat, *parser.captured] if isinstance(one, Tensor)]
    axes = [
        IterVar(Range(loop.min, loop.extent), loop.loop_var, _KINDS[loop.kind])
        for loop in nodes(body, For)
    ]
    name = parser.func_name or "hybrid"
    op = HybridOp(name, "HybridOp", None, dict.fromkeys(inputs), parser.outputs, axes, body)
    results = [op.output(k) for k in range(op.num_outputs)]
    return results[0] if len(results) == 1 else results
