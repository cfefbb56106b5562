"""Parses hybrid script: the syntax tree of a Python function becomes a statement over tensors.

@te.hybrid.script                       for i in range(8):
def f(a):                                   c[i] = a[i] + 1.0
    c = output_tensor((8,), "float32")
    for i in range(8):                  →   a HybridOp: inputs [a], outputs [c], axis [i]
        c[i] = a[i] + 1.0
    return c
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from tilesmith.ir import Range, const
from tilesmith.ir.queries import nodes
from tilesmith.support.errors import ScriptError, TilesmithError
from tilesmith.te.hybrid.expressions import (
    Scope,
    Symbol,
    attribute,
    call,
    choice,
    comparison,
    condition,
    connected,
    element,
    operated,
    unary,
)
from tilesmith.te.hybrid.preprocessor import determine_variable_usage
from tilesmith.te.hybrid.statements import (
    Part,
    assignment,
    augmented,
    block,
    concat_list_to_block,
    loop,
    returned,
    visit_list_to_block,
)
from tilesmith.te.hybrid.utils import Source, is_docstring, make_nop, source_of
from tilesmith.te.tensor import HybridOp, Tensor
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import (
    AssertStmt,
    AttrStmt,
    For,
    ForKind,
    IfThenElse,
    ProducerRealize,
    Stmt,
)

__all__ = [
    "HybridParser", "Symbol", "concat_list_to_block", "parse_python", "source_to_op",
    "visit_list_to_block",
]  # fmt: skip


class HybridParser(ast.NodeVisitor):
    """Parses one function for some arguments."""

    def __init__(
        self,
        args: Sequence[Any],
        usage: Mapping[str, tuple[ast.AST, ast.AST, set[str]]],
        symbols: Mapping[str, Any],
        closure_vars: Mapping[str, Any],
        func_name: str | None = None,
        source: Source | None = None,
    ) -> None:
        self.scope = Scope(source or Source(""), symbols, closure_vars)
        self.args = list(args)
        self.usage = usage
        self.func_name = func_name
        self.outputs: list[Tensor] = []
        self.parsed_body: Stmt | None = None
        self.binds: dict[str, IterVar] = {}
        self.declared: list[list[tuple[Tensor, str]]] = [[]]  # by block: what gets memory there
        self.is_returned = False

    def visit(self, node: ast.AST) -> Any:
        """Parse a part; errors of what it is made of get its place."""
        try:
            return getattr(self, f"visit_{_kind(node)}", self.generic_visit)(node)
        except TilesmithError as error:
            span = self.scope.source.span(node)
            if error.span is None and span is not None:
                raise type(error)(error.message, span, error.notes) from None
            raise

    def generic_visit(self, node: ast.AST) -> Any:
        """Refuse what hybrid script does not have; `pass` does nothing."""
        if isinstance(node, ast.Pass):
            return make_nop()
        raise self.scope.refusal(
            node,
            f"`{type(node).__name__}` is no part of hybrid script",
            "it has loops over ranges, if, assignments, arithmetic, calls of its words, return",
        )

    def add_symbol(self, key: str, ty: Symbol, val: Any, node: ast.AST) -> None:
        """Make a name known; refuse one that is known already."""
        self.scope.add(key, ty, val, node)

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
            raise self.scope.refusal(node, "one function is needed")
        return self.visit_FunctionDef(functions[0])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Stmt:
        """Parse a function: its parameters stand for the arguments."""
        names = [one.arg for one in node.args.args]
        if len(names) != len(self.args) or node.args.vararg or node.args.kwonlyargs:
            raise self.scope.refusal(
                node, f"'{node.name}' has {len(names)} parameters, got {len(self.args)} arguments"
            )
        self.func_name = self.func_name or node.name
        for name, value in zip(names, self.args):
            kind = Symbol.Input if isinstance(value, Tensor) else Symbol.ConstVar
            self.add_symbol(name, kind, value, node)
        body = visit_list_to_block(self.visit, node.body)
        body = self.wrap_up_binds(self.wrap_up_realize(node, body))
        if not self.is_returned:
            raise self.scope.refusal(
                node, f"hybrid script '{node.name}' returns nothing",
                "end it with: return c, where c = output_tensor(shape, dtype)",
            )  # fmt: skip
        self.parsed_body = body
        return body

    def visit_Expr(self, node: ast.Expr) -> Stmt:
        """Refuse a value that nobody uses; a text is a comment."""
        if is_docstring(node):
            return make_nop()
        raise self.scope.refusal(node, "the value is not used", "assign it")

    def visit_Assign(self, node: ast.Assign) -> Part:
        """Parse an assignment."""
        return assignment(self, node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Stmt:
        """Parse ``x += value``, for a variable or an element."""
        return augmented(self, node)

    def visit_If(self, node: ast.If) -> Stmt:
        """Parse a branch; one that is known to be (not) taken is chosen here."""
        test = condition(self, node.test)
        if isinstance(test, bool):
            return block(self, node.body if test else node.orelse)
        then = block(self, node.body)
        other = block(self, node.orelse) if node.orelse else None
        return IfThenElse(test, then, other, self.scope.source.span(node))

    def visit_For(self, node: ast.For) -> Stmt:
        """Parse a loop over a range."""
        return loop(self, node)

    def visit_Return(self, node: ast.Return) -> Stmt:
        """Parse what the function returns: the names of its outputs."""
        return returned(self, node)

    def visit_Assert(self, node: ast.Assert) -> Stmt:
        """Parse a condition that has to hold when the program runs."""
        test = condition(self, node.test)
        text = "assertion failed" if node.msg is None else self.visit(node.msg)
        if isinstance(test, bool):
            if not test:
                raise self.scope.refusal(node, str(text))
            return make_nop()
        return AssertStmt(test, text, make_nop(), self.scope.source.span(node))

    def visit_With(self, node: ast.With) -> Stmt:
        """Refuse a with statement."""
        raise self.scope.refusal(
            node, "hybrid script has no with statements", "attach pragmas in the schedule"
        )

    # Expressions

    def visit_Name(self, node: ast.Name) -> Any:
        """Return the value of a name."""
        return self.scope.value(node)

    def visit_Num(self, node: ast.Constant) -> Any:
        """Return a number."""
        if not isinstance(node.value, (int, float)):
            raise self.scope.refusal(node, f"{node.value!r} is no number that hybrid script has")
        return node.value

    def visit_NameConstant(self, node: ast.Constant) -> Any:
        """Return True, False or None."""
        return node.value

    def visit_Str(self, node: ast.Constant) -> Any:
        """Return a text: a dtype, a scope, a thread's tag."""
        return node.value

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        """Return a tuple, such as a shape."""
        return tuple([self.visit(one) for one in node.elts])

    def visit_Index(self, node: Any) -> tuple[Any, ...]:
        """Return the indices between brackets."""
        found = self.visit(node)
        return found if isinstance(found, tuple) else (found,)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Return the shape or dtype of a tensor, or what a module holds."""
        return attribute(self, node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Return an element of a tensor or of a tuple."""
        return element(self, node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Return the result of arithmetic."""
        return operated(self, node, node.op, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Return a negated value."""
        return unary(self, node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Return a comparison, or several in a row."""
        return comparison(self, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Return conditions joined by `and` or `or`."""
        return connected(self, node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Return one of two values; only the chosen one is computed."""
        return choice(self, node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Return the result of a call."""
        return call(self, node)


def _kind(node: ast.AST) -> str:
    """Return the name of the method that parses a part of the syntax tree."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return "Str"
        is_name = node.value is None or isinstance(node.value, bool)
        return "NameConstant" if is_name else "Num"
    return "Tuple" if isinstance(node, ast.List) else type(node).__name__


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
    inputs = [one for one in [*flat, *parser.scope.captured] if isinstance(one, Tensor)]
    axes = [
        IterVar(Range(loop.min, loop.extent), loop.loop_var, _KINDS[loop.kind])
        for loop in nodes(body, For)
    ]
    name = parser.func_name or "hybrid"
    op = HybridOp(name, "HybridOp", None, dict.fromkeys(inputs), parser.outputs, axes, body)
    results = [op.output(k) for k in range(op.num_outputs)]
    return results[0] if len(results) == 1 else results
