"""Names the parts of the parser of graph functions as users know them."""

from __future__ import annotations

import ast
from contextlib import AbstractContextManager
from typing import Any

from tilesmith.compat.tvm.script_parser.tir_parser import find_decorator_annotation
from tilesmith.compat.tvm.script_parser.visitors import (
    FUNCTIONS,
    STATEMENTS,
    refuse_local_function,
    visitors,
)
from tilesmith.ir import Var
from tilesmith.relax.annotations import StructInfoProxy
from tilesmith.relax.parser import R_DIALECT, bind_value
from tilesmith.relax.script_frames import SeqExprFrame, innermost
from tilesmith.relax.struct_info import StructInfo
from tilesmith.script.parsing import Parser
from tilesmith.script.tir_types import DTypeWord
from tilesmith.support.errors import UnsupportedError

_OF_TENSORS = ("visit_assert", "visit_aug_assign", "visit_for", "visit_while")
_VISITORS = visitors(
    "relax", {n: t for n, t in {**STATEMENTS, **FUNCTIONS}.items() if n not in _OF_TENSORS}
)
globals().update(_VISITORS)

__all__ = [
    "bind_assign_value", "collect_symbolic_var_from_params", "collect_symbolic_var_from_prelude",
    "enter_token", "eval_struct_info", "eval_struct_info_proxy", "exit_token",
    "find_decorator_annotation", "is_called", "is_recursive", "post_visit_local_function",
    "pre_visit_local_function", "visit_arguments", *_VISITORS,
]  # fmt: skip

pre_visit_local_function = post_visit_local_function = refuse_local_function


def bind_assign_value(
    self: Parser, node: ast.expr, var_name: str, value: Any, anno_sinfo: StructInfo | None = None
) -> Any:
    """Bind a value as an assignment does; return what the name stands for."""
    bind_value(self, var_name, value, anno_sinfo)
    return self.lookup(var_name)


def eval_struct_info_proxy(self: Parser, node: ast.expr) -> StructInfoProxy:
    """Return the struct info of an annotation, with the names of its sizes unresolved."""
    with self.in_dialect(R_DIALECT):
        written = self.annotation(node)
    written = written() if callable(written) else written
    if isinstance(written, StructInfoProxy):
        return written
    if isinstance(written, StructInfo):
        return StructInfoProxy(lambda names: written, [])
    raise self.error(node, "a struct info is needed here", ("for example R.Tensor((8, 4))",))


def eval_struct_info(self: Parser, node: ast.expr, eval_str: bool = False) -> StructInfo:
    """Return the struct info of an annotation; its sizes are those of the function around it.

    ``eval_str`` is accepted: texts among the sizes are always names, or expressions of them.
    """
    frame = innermost("a struct info", SeqExprFrame)
    return frame.struct_info(eval_struct_info_proxy(self, node))


def is_called(node: Any, func_name: str) -> bool:
    """True if a piece of syntax calls a function by its name."""
    parts = node if isinstance(node, (list, tuple)) else [node]
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == func_name
        for part in parts
        for one in ast.walk(part)
    )


def is_recursive(node: ast.FunctionDef) -> bool:
    """True if a function calls itself by its name."""
    return is_called(node.body, node.name)


def collect_symbolic_var_from_prelude(
    self: Parser, node: ast.FunctionDef, symbolic_vars: dict[str, Var]
) -> dict[str, Var]:
    """Return the sizes known so far, with those that the first statements of a function declare:
    ``n = T.int64()``.
    """
    found = dict(symbolic_vars)
    for statement in node.body:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
            break
        target, callee = statement.targets[0], statement.value.func
        if not (isinstance(callee, ast.Attribute) and isinstance(target, ast.Name)):
            break
        if not isinstance(self.evaluate(callee), DTypeWord):
            break
        value = self.evaluate(statement.value)
        found.setdefault(target.id, Var(target.id, value.dtype))
    return found


def collect_symbolic_var_from_params(self: Parser, node: ast.FunctionDef) -> dict[str, Var]:
    """Return a variable for each name that stands alone as a size of a parameter."""
    found: dict[str, Var] = {}
    for parameter in [*node.args.posonlyargs, *node.args.args]:
        if parameter.annotation is not None:
            for name in eval_struct_info_proxy(self, parameter.annotation).get_symbolic_vars():
                found.setdefault(name, Var(name, "int64"))
    return found


def visit_arguments(self: Parser, node: ast.arguments) -> Any:
    """Raise UnsupportedError: parameters are parsed together with their function."""
    raise UnsupportedError(
        "parameters are not parsed by themselves", notes=("visit the FunctionDef",)
    )


def enter_token(self: Parser) -> AbstractContextManager[None]:
    """Let the dialect of graphs handle what follows; give the result to ``exit_token``."""
    context = self.in_dialect(R_DIALECT)
    context.__enter__()
    return context


def exit_token(self: Parser, context: AbstractContextManager[None]) -> None:
    """Return to the dialect before ``enter_token``."""
    context.__exit__(None, None, None)
