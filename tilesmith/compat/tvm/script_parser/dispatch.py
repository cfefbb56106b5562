"""Lets programs extend the parser: by kind of statement, and by operator.

    @dispatch.register(token="tir", type_name="While")
    def visit_while(self, node):           # self: the Parser
        with T.While(self.eval_expr(node.test)):
            self.visit_body(node.body)

What is registered takes the place of the handler that the dialect has; ``get`` returns that one
before, to be called for the cases that stay. A token is "tir", "relax", "ir" (what stands in a
module), "default" (statements for which a dialect has no handler), or the name of a new dialect,
whose functions are those with a decorator that has it as ``dispatch_token``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilesmith.compat.tvm.script_parser.error import ParserError
from tilesmith.compat.tvm.script_parser.parser import Parser
from tilesmith.script import parsing
from tilesmith.script.evaluator.operators import OVERRIDES
from tilesmith.script.parsing import DIALECTS, FALLBACK, MODULES, Dialect
from tilesmith.support.errors import UnsupportedError

__all__ = ["OpMethod", "ParseMethod", "get", "get_op", "register", "register_op"]

ParseMethod = Callable[[Parser, Any], Any]
OpMethod = Callable[..., Any]

_POINTS = {
    "FunctionDef": "parse_function",
    "tvm_annotation": "read_annotation",
    "tvm_declare_function": "declare_function",
}


class _Handler:
    """Calls a method of a program as the parser calls its handlers."""

    def __init__(self, method: ParseMethod, point: str) -> None:
        self.method, self.point = method, point

    def __call__(self, parser: parsing.Parser, node: Any, *more: Any) -> Any:
        """Call the method; ``more`` is what the parser says about functions."""
        view = Parser.of(parser)
        try:
            if self.point == "parse_function":
                return self._function(view, node)
            found = self.method(view, node)
        except ParserError as error:
            raise parser.error(error.node, error) from None
        if self.point == "declare_function" and found is not None:
            more[0].describe(getattr(found, "struct_info", None))
            return None
        return found

    def _function(self, view: Parser, node: Any) -> Any:
        """Return the function that a method returns, or has built in the frames of the builder."""
        with view.builder:
            outer, view.builder.result = view.builder.result, None
            try:
                found = self.method(view, node)
                return view.builder.get() if found is None else found
            finally:
                view.builder.result = outer


class _Method:
    """Calls a handler of the parser as programs call methods."""

    def __init__(self, handler: Callable[..., Any], point: str) -> None:
        self.handler, self.point = handler, point

    def __call__(self, parser: parsing.Parser, node: Any) -> Any:
        """Call the handler."""
        if self.point == "parse_function":
            return self.handler(parser, node, parser.decorator_of(node).options)
        if self.point == "declare_function":
            assert parser.module is not None
            variable = parser.module.variables[node.name]
            self.handler(parser, node, variable, parser.decorator_of(node).options)
            return variable
        return self.handler(parser, node)


def _dialect(token: str) -> Dialect | None:
    if token == "ir":
        return MODULES
    letter = {"tir": "T", "relax": "R"}.get(token, token)
    return DIALECTS.get(letter) if letter in DIALECTS else None


def _place(token: str, type_name: str) -> tuple[dict[Any, Any], Any] | None:
    """Return the table that holds the handler of a kind of syntax, and its key there; None where
    the parser calls nothing.
    """
    dialect = _dialect(token)
    if type_name in _POINTS and token not in ("ir", "default"):
        return None if dialect is None else (vars(dialect), _POINTS[type_name])
    kind = getattr(ast, type_name, None)
    if not (isinstance(kind, type) and issubclass(kind, ast.stmt)):
        return None
    if token == "default":
        return FALLBACK, kind
    return None if dialect is None else (dialect.statements, kind)


def register(token: str, type_name: str) -> Callable[[ParseMethod], ParseMethod]:
    """Decorate the method that parses a kind of syntax: ``method(parser, node)``."""
    if token != "default" and _dialect(token) is None:
        DIALECTS.register(token, Dialect(token, None))
    place = _place(token, type_name)
    if place is None:
        raise UnsupportedError(
            f"the parser calls no method for '{type_name}'",
            notes=(
                "it calls those for statements (the names of the classes of ast.stmt), and for "
                f"{', '.join(_POINTS)}",
            ),
        )
    table, key = place

    def decorate(method: ParseMethod) -> ParseMethod:
        point = key if isinstance(key, str) else ""
        table[key] = method.handler if isinstance(method, _Method) else _Handler(method, point)
        return method

    return decorate


def get(token: str, type_name: str, default: ParseMethod | None = None) -> ParseMethod | None:
    """Return the method that parses a kind of syntax."""
    place = _place(token, type_name)
    handler = None if place is None else place[0].get(place[1])
    if place is None or handler is None:
        return default
    if isinstance(handler, _Handler):
        return handler.method
    return _Method(handler, place[1] if isinstance(place[1], str) else "")


def register_op(
    operand_type: type, op_node_type: type, operand_index: int
) -> Callable[[OpMethod], OpMethod]:
    """Decorate a function of operands that is called for an operator (``doc.Add``, …) where the
    operand at this position is of this class.
    """

    def decorate(method: OpMethod) -> OpMethod:
        OVERRIDES[operand_type, op_node_type, operand_index] = method
        return method

    return decorate


def get_op(
    operand_type: type, op_node_type: type, operand_index: int, default: OpMethod | None = None
) -> OpMethod | None:
    """Return the function that is called for an operator."""
    return OVERRIDES.get((operand_type, op_node_type, operand_index), default)
