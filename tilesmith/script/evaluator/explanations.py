"""Explains errors in expressions of a script: where they are, and what to write instead."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.script.diagnostics import guilty_argument, nearest
from tilesmith.script.evaluator.host import Host
from tilesmith.support.errors import ScriptError, ShapeError, TilesmithError

__all__ = ["elements_of", "explain", "instead_of", "shape_note"]


def explain(parser: Host, node: ast.expr, error: Exception) -> ScriptError:
    """Return the error, with its marker under the argument or index that is wrong if that is
    known.
    """
    notes: tuple[str, ...] = ()
    place: ast.AST = node
    if isinstance(node, ast.Subscript) and isinstance(error, ShapeError):
        place = node.slice
        notes = _declared(parser, node)
    elif isinstance(node, ast.Subscript) and "not subscriptable" in str(error):
        return _no_elements(parser, node, error)
    elif isinstance(node, ast.Call):
        place = guilty_argument(node, str(error)) or node
        if not isinstance(error, TilesmithError):
            notes = _instead_of_python(parser, node, error) or _usage(parser, node, error)
            if notes and notes[0].startswith("usage"):
                # Python names the function as it was defined.
                written = ast.unparse(node.func)
                text = re.sub(r"^[\w.<>]+\(\)", f"{written}()", str(error))
                return parser.error(place, text, notes)
    return parser.error(place, error, notes)


def _no_elements(parser: Host, node: ast.Subscript, error: Exception) -> ScriptError:
    """Explain the subscript of a value that is not a buffer."""
    value, written = parser.evaluate(node.value), ast.unparse(node.value)
    if not isinstance(value, PrimExpr):
        return parser.error(node, error)
    problem = f"'{written}' is a value of {value.dtype}, which has no elements"
    return parser.error(node.value, problem, elements_of(written, value))


def _instead_of_python(parser: Host, node: ast.Call, error: Exception) -> tuple[str, ...]:
    """Suggest the word of the dialect, where a Python function refuses an expression."""
    dialect = parser.dialect
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    refused = any(f"{kind.__name__}" in str(error) for kind in _kinds_of_expressions())
    if dialect is None or not isinstance(error, TypeError) or not refused:
        return ()
    if name in ("int", "float"):
        dtype = {"int": "int32", "float": "float32"}[name]
        return (f'write {dialect.letter}.Cast("{dtype}", …): Python cannot know the value yet',)
    if not hasattr(dialect.namespace, name):
        return ()
    return (f"write {dialect.letter}.{name}: Python cannot know the value yet",)


def _declared(parser: Host, node: ast.Subscript) -> tuple[str, ...]:
    """Say how a buffer was declared."""
    buffer = parser.evaluate(node.value)
    return (shape_note(ast.unparse(node.value), buffer.shape),)


def _usage(parser: Host, node: ast.Call, error: Exception) -> tuple[str, ...]:
    """Return the signature of the function that was called with wrong arguments."""
    if not isinstance(error, TypeError):
        return ()
    try:
        function = parser.evaluate(node.func)
        signature = inspect.signature(function)
    except (ValueError, TypeError, ScriptError):
        return ()
    return (f"usage: {ast.unparse(node.func)}{_plain_signature(signature)}",)


def instead_of(parser: Host, name: str) -> tuple[str, ...]:
    """Suggest what to write instead of a name that is not defined."""
    if name in parser.ended:
        return (f"'{name}' is known only inside of the loop, block or branch that makes it",)
    dialect = parser.dialect
    if dialect is not None and name in dir(dialect.namespace):
        return (f"did you mean '{dialect.letter}.{name}'?",)
    advice = nearest(name, parser.known_names())
    if not advice and parser.source.is_text:
        return ("a text knows T, I, R and what it defines; give other names in extra_vars",)
    return advice


def shape_note(name: str, shape: Any) -> str:
    """Say which shape a buffer has, for an access with a wrong number of indices."""
    sizes = ", ".join([str(size) for size in shape])
    return f"{name} has the shape ({sizes}{',' if len(shape) == 1 else ''})"


def elements_of(written: str, value: PrimExpr) -> tuple[str, ...]:
    """Say how to access the elements behind a handle."""
    if not value.dtype.is_handle:
        return ()
    return (f"declare the buffer behind it: A = T.match_buffer({written}, shape, dtype)",)


def _kinds_of_expressions() -> list[type[PrimExpr]]:
    """Return all classes of expressions."""
    found, kinds = [PrimExpr], [PrimExpr]
    while kinds:
        below = kinds.pop().__subclasses__()
        found += below
        kinds += below
    return found


def _plain_signature(signature: inspect.Signature) -> str:
    """Return a signature without annotations."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters))
