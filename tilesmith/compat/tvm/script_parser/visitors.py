"""Names the handlers of a dialect's statements as functions: ``visit_for(parser, node)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tilesmith.compat.tvm.script_parser.dispatch import get
from tilesmith.script import parsing
from tilesmith.support.errors import UnsupportedError

__all__ = ["FUNCTIONS", "STATEMENTS", "refuse_local_function", "visitors"]

STATEMENTS = {
    "visit_ann_assign": "AnnAssign", "visit_assert": "Assert", "visit_assign": "Assign",
    "visit_aug_assign": "AugAssign", "visit_expr_stmt": "Expr", "visit_for": "For",
    "visit_if": "If", "visit_return": "Return", "visit_while": "While", "visit_with": "With",
}  # fmt: skip
"""Function → the class of statements that it parses."""

FUNCTIONS = {
    "visit_function_def": "FunctionDef",
    "visit_tvm_annotation": "tvm_annotation",
    "visit_tvm_declare_function": "tvm_declare_function",
}
"""Function → the part of a function that it parses."""


def visitors(token: str, table: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """Return functions by name; each calls the handler that the dialect has at the time."""

    def make(name: str, type_name: str) -> Callable[..., Any]:
        def visit(self: parsing.Parser, node: Any) -> Any:
            method = get(token, type_name)
            if method is None:
                raise UnsupportedError(f"the dialect '{token}' has no {type_name}")
            return method(self, node)  # type: ignore[arg-type]

        visit.__name__ = visit.__qualname__ = name
        visit.__doc__ = f"Parse {type_name} as the dialect {token!r} does."
        return visit

    return {name: make(name, type_name) for name, type_name in table.items()}


def refuse_local_function(self: parsing.Parser, node: Any) -> NoReturn:
    """Raise UnsupportedError: a local function is parsed in one piece."""
    raise UnsupportedError(
        "nothing is called before or after a local function: it is parsed in one piece",
        notes=('register a method for "FunctionDef", and call the one that get() returns in it',),
    )
