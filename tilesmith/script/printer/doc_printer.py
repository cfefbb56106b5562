"""Prints trees of documents as Python text."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilesmith.ir.object_path import ObjectPath
from tilesmith.ir.printing import quoted
from tilesmith.ir.printing.marks import marked_text
from tilesmith.script.printer import doc as docs
from tilesmith.script.printer.doc import Doc, ExprDoc, OperationKind, StmtDoc
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["to_python_script"]

_K = OperationKind
# Operator → text, how tightly it binds (as Python has it; higher is tighter).
_BINARY = {
    _K.Or: ("or", 1), _K.And: ("and", 2), _K.Lt: ("<", 4), _K.LtE: ("<=", 4), _K.Eq: ("==", 4),
    _K.NotEq: ("!=", 4), _K.Gt: (">", 4), _K.GtE: (">=", 4), _K.BitOr: ("|", 5),
    _K.BitXor: ("^", 6), _K.BitAnd: ("&", 7), _K.LShift: ("<<", 8), _K.RShift: (">>", 8),
    _K.Add: ("+", 9), _K.Sub: ("-", 9), _K.Mult: ("*", 10), _K.Div: ("/", 10),
    _K.FloorDiv: ("//", 10), _K.Mod: ("%", 10), _K.Pow: ("**", 12),
}  # fmt: skip
_UNARY = {_K.Not: ("not ", 3), _K.USub: ("-", 11), _K.Invert: ("~", 11)}
_ATOM, _CONDITIONAL = 13, 0


def to_python_script(
    doc: Doc,
    indent_spaces: int = 4,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
    path_to_underline: Any = None,
) -> str:
    """Return the text of a document: an expression in one line, statements in lines of their
    own.

    ``path_to_underline``: a path into a program, or several; what shows it, or else the nearest
    part around it (by ``source_paths``), is underlined. ``num_context_lines``: how many lines are
    shown before and after that.
    """
    with deep_recursion():
        lines = _lines(doc, indent_spaces)
        marks = _marks(doc, indent_spaces, lines, path_to_underline)
        return marked_text(lines, marks, print_line_numbers, num_context_lines)


def _lines(doc: Doc, indent_spaces: int) -> list[str]:
    if isinstance(doc, ExprDoc):
        return [_expression(doc)[0]]
    lines: list[str] = []
    body: Sequence[Any] = doc.stmts if isinstance(doc, docs.StmtBlockDoc) else [doc]
    _write_body(body, "", " " * indent_spaces, lines)
    return lines


# Marks.

_STAND_IN = "\ue000"  # a character that no text has: it is printed in place of what is marked


def _marks(
    doc: Doc, indent_spaces: int, lines: list[str], paths: Any
) -> dict[int, list[tuple[int, int]]]:
    """Return, by line, the columns of what shows the paths: where a stand-in appears if it takes
    the place of the document, and how much shorter the line becomes by that.
    """
    wanted = [] if paths is None else [paths] if isinstance(paths, ObjectPath) else list(paths)
    marks: dict[int, list[tuple[int, int]]] = {}
    for path in wanted:
        for part in _showing(doc, path):
            name = docs.IdDoc(_STAND_IN)
            other = name if isinstance(part, ExprDoc) else docs.ExprStmtDoc(name)
            changed = _lines(_replaced(doc, part, other), indent_spaces)
            first = next((n for n, line in enumerate(changed) if _STAND_IN in line), None)
            if first is None:
                continue  # documents without a text of their own
            column, longer = changed[first].index(_STAND_IN), len(lines) - len(changed)
            if isinstance(part, ExprDoc) and not longer:
                end = column + len(lines[first]) - len(changed[first]) + 1
                marks.setdefault(first, []).append((column, end))
                continue
            for number in range(first, first + longer + 1):
                if lines[number]:
                    indent = len(lines[number]) - len(lines[number].lstrip())
                    marks.setdefault(number, []).append((indent, len(lines[number])))
    return marks


def _showing(doc: Doc, path: ObjectPath) -> list[Doc]:
    """Return the documents whose paths have most of the steps of ``path``."""
    best, found = -1, []
    todo: list[Any] = [doc]
    while todo:
        one = todo.pop()
        if isinstance(one, (list, tuple)):
            todo += one
        elif isinstance(one, Doc):
            todo += [value for name, value in vars(one).items() if name != "source_paths"]
            for shown in one.source_paths:
                if len(shown) < best or not shown.is_prefix_of(path):
                    continue
                if len(shown) > best:
                    best, found = len(shown), []
                found.append(one)
    return found


def _replaced(value: Any, old: Doc, new: Doc) -> Any:
    """Return a copy of a document with a part replaced."""
    if value is old:
        return new
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    if not isinstance(value, Doc):
        return value
    made = copy.copy(value)
    for name, part in vars(value).items():
        setattr(made, name, part if name == "source_paths" else _replaced(part, old, new))
    return made


# Expressions: text and how tightly it binds.


def _expression(doc: Any) -> tuple[str, int]:
    writer = _EXPRESSIONS.get(doc.__class__)
    if writer is None:
        raise TypeMismatchError(f"not an expression: a {type(doc).__name__}")
    return writer(doc)


def _text(doc: Any, level: int = _CONDITIONAL) -> str:
    text, own = _expression(doc)
    return f"({text})" if own < level else text


def _list(items: Iterable[Any]) -> str:
    return ", ".join([_text(item) for item in items])


def _literal(doc: docs.LiteralDoc) -> tuple[str, int]:
    value = doc.value
    if isinstance(value, str):
        return quoted(value), _ATOM
    if isinstance(value, float) and repr(value) in ("inf", "-inf", "nan"):
        return f'float("{value!r}")', _ATOM
    text = repr(value)
    return text, 11 if text.startswith("-") else _ATOM


def _call(doc: docs.CallDoc) -> tuple[str, int]:
    named = [f"{k}={_text(v)}" for k, v in zip(doc.kwargs_keys, doc.kwargs_values)]
    return (
        f"{_text(doc.callee, _ATOM)}({', '.join([*[_text(item) for item in doc.args], *named])})",
        _ATOM,
    )


def _index(doc: docs.IndexDoc) -> tuple[str, int]:
    return f"{_text(doc.value, _ATOM)}[{_list(doc.indices) if doc.indices else '()'}]", _ATOM


def _slice(doc: docs.SliceDoc) -> tuple[str, int]:
    start, stop, step = [
        "" if part is None else _text(part) for part in (doc.start, doc.stop, doc.step)
    ]
    return f"{start}:{stop}" + (f":{step}" if step else ""), _ATOM


def _tuple(doc: docs.TupleDoc) -> tuple[str, int]:
    return f"({_list(doc.elements)}{',' if len(doc.elements) == 1 else ''})", _ATOM


def _dict(doc: docs.DictDoc) -> tuple[str, int]:
    items = [f"{_text(key)}: {_text(value)}" for key, value in zip(doc.keys, doc.values)]
    return "{" + ", ".join(items) + "}", _ATOM


def _lambda(doc: docs.LambdaDoc) -> tuple[str, int]:
    names = _list(doc.args)
    return f"lambda{' ' if names else ''}{names}: {_text(doc.body)}", _CONDITIONAL


def _operation(doc: docs.OperationDoc) -> tuple[str, int]:
    kind, operands = doc.kind, doc.operands
    wanted = 3 if kind is _K.IfThenElse else 1 if kind in _UNARY else 2
    if len(operands) != wanted:
        raise TypeMismatchError(f"{kind.name} takes {wanted} operands, got {len(operands)}")
    if kind is _K.IfThenElse:
        condition, value, other = operands
        return f"{_text(value, 1)} if {_text(condition, 1)} else {_text(other)}", _CONDITIONAL
    if kind in _UNARY:
        sign, level = _UNARY[kind]
        return sign + _text(operands[0], level), level
    sign, level = _BINARY[kind]
    # A chain of comparisons means something else; powers bind to the right.
    left = level + (level == 4 or kind is _K.Pow)
    right = level + (kind is not _K.Pow)
    return f"{_text(operands[0], left)} {sign} {_text(operands[1], right)}", level


_EXPRESSIONS: dict[type, Callable[[Any], tuple[str, int]]] = {
    docs.LiteralDoc: _literal,
    docs.IdDoc: lambda doc: (doc.name, _ATOM),
    docs.AttrAccessDoc: lambda doc: (f"{_text(doc.value, _ATOM)}.{doc.name}", _ATOM),
    docs.IndexDoc: _index,
    docs.CallDoc: _call,
    docs.OperationDoc: _operation,
    docs.LambdaDoc: _lambda,
    docs.TupleDoc: _tuple,
    docs.ListDoc: lambda doc: (f"[{_list(doc.elements)}]", _ATOM),
    docs.DictDoc: _dict,
    docs.SliceDoc: _slice,
}


# Statements.


def _write_body(body: Sequence[StmtDoc], indent: str, step: str, lines: list[str]) -> None:
    for number, statement in enumerate(body):
        if number and isinstance(statement, (docs.FunctionDoc, docs.ClassDoc)):
            lines.append("")
        _write(statement, indent, step, lines)
    if not body:
        lines.append(indent + "pass")


def _write(doc: StmtDoc, indent: str, step: str, lines: list[str]) -> None:
    if isinstance(doc, docs.CommentDoc):
        lines.extend([f"{indent}# {line}" for line in (doc.comment or "").split("\n")])
        return
    if isinstance(doc, docs.DocStringDoc):
        text = (doc.comment or "").replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        lines.extend([indent + line for line in f'"""\n{text}\n"""'.split("\n")])
        return
    simple = _SIMPLE.get(doc.__class__)
    if simple is not None:
        behind = f"  # {doc.comment}" if doc.comment else ""
        lines.append(indent + simple(doc) + behind)
        return
    if doc.comment:
        lines.extend([f"{indent}# {line}" for line in doc.comment.split("\n")])
    for decorator in getattr(doc, "decorators", ()):
        lines.append(f"{indent}@{_text(decorator)}")
    lines.append(indent + _header(doc))
    body = doc.then_branch if isinstance(doc, docs.IfDoc) else doc.body  # type: ignore[attr-defined]
    _write_body(body, indent + step, step, lines)
    if isinstance(doc, docs.IfDoc) and doc.else_branch:
        lines.append(indent + "else:")
        _write_body(doc.else_branch, indent + step, step, lines)


def _header(doc: StmtDoc) -> str:
    """Return the first line of a compound statement."""
    if isinstance(doc, docs.IfDoc):
        return f"if {_text(doc.predicate)}:"
    if isinstance(doc, docs.WhileDoc):
        return f"while {_text(doc.predicate)}:"
    if isinstance(doc, docs.ForDoc):
        return f"for {_target(doc.lhs)} in {_text(doc.rhs)}:"
    if isinstance(doc, docs.ScopeDoc):
        name = "" if doc.lhs is None else f" as {_text(doc.lhs)}"
        return f"with {_text(doc.rhs)}{name}:"
    if isinstance(doc, docs.FunctionDoc):
        arrow = "" if doc.return_type is None else f" -> {_text(doc.return_type)}"
        arguments = ", ".join([_argument(argument) for argument in doc.args])
        return f"def {doc.name.name}({arguments}){arrow}:"
    if isinstance(doc, docs.ClassDoc):
        return f"class {doc.name.name}:"
    raise TypeMismatchError(f"not a statement: a {type(doc).__name__}")


def _target(doc: ExprDoc) -> str:
    """Return the target of an assignment: several names need no parentheses."""
    text = _text(doc)
    return text[1:-1] if isinstance(doc, docs.TupleDoc) and len(doc.elements) > 1 else text


def _assign(doc: docs.AssignDoc) -> str:
    annotation = "" if doc.annotation is None else f": {_text(doc.annotation)}"
    value = "" if doc.rhs is None else f" = {_text(doc.rhs)}"
    return _target(doc.lhs) + annotation + value


def _argument(doc: docs.AssignDoc) -> str:
    text = _assign(doc)
    return text if doc.annotation is not None else text.replace(" = ", "=", 1)


def _assert(doc: docs.AssertDoc) -> str:
    return f"assert {_text(doc.test)}" + ("" if doc.msg is None else f", {_text(doc.msg)}")


_SIMPLE: dict[type, Callable[[Any], str]] = {
    docs.AssignDoc: _assign,
    docs.ExprStmtDoc: lambda doc: _text(doc.expr),
    docs.AssertDoc: _assert,
    docs.ReturnDoc: lambda doc: f"return {_text(doc.value)}",
}
