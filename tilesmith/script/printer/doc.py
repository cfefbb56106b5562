"""Defines documents: pieces of Python as a tree, which ``doc_printer.to_python_script`` prints.

AssignDoc(IdDoc("x"), IdDoc("T").attr("int32").call(LiteralDoc(3)))     # x = T.int32(3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

__all__ = [
    "AssertDoc", "AssignDoc", "AttrAccessDoc", "CallDoc", "ClassDoc", "CommentDoc", "DictDoc",
    "Doc", "DocStringDoc", "ExprDoc", "ExprStmtDoc", "ForDoc", "FunctionDoc", "IdDoc", "IfDoc",
    "IndexDoc", "LambdaDoc", "ListDoc", "LiteralDoc", "OperationDoc", "OperationKind", "ReturnDoc",
    "ScopeDoc", "SliceDoc", "StmtBlockDoc", "StmtDoc", "TupleDoc", "WhileDoc",
]  # fmt: skip


class Doc:
    """Root of all documents. ``source_paths``: the parts of a program that it shows."""

    source_paths: Sequence[Any] = ()

    def __init__(self) -> None:
        self.source_paths = []


class ExprDoc(Doc):
    """An expression."""

    def attr(self, name: str) -> AttrAccessDoc:
        """``self.name``."""
        return AttrAccessDoc(self, name)

    def call(self, *args: ExprDoc, **kwargs: ExprDoc) -> CallDoc:
        """``self(args, name=value)``."""
        return CallDoc(self, *args, **kwargs)

    def __getitem__(self, indices: Any) -> IndexDoc:
        return IndexDoc(self, indices if isinstance(indices, tuple) else (indices,))

    __iter__ = None  # iterating by __getitem__ would never end


class StmtDoc(Doc):
    """A statement, with a comment after or above it."""

    comment: str | None = None


class StmtBlockDoc(Doc):
    """Statements one after the other."""

    def __init__(self, stmts: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.stmts = list(stmts)


# Expressions.


class LiteralDoc(ExprDoc):
    """A text, number, bool or None."""

    def __init__(self, value: str | float | bool | int | None, path: Any = None) -> None:
        super().__init__()
        self.value = value
        if path is not None:
            self.source_paths = [path]


class IdDoc(ExprDoc):
    """A name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class AttrAccessDoc(ExprDoc):
    """``value.name``."""

    def __init__(self, value: ExprDoc, name: str) -> None:
        super().__init__()
        self.value, self.name = value, name


class IndexDoc(ExprDoc):
    """``value[indices]``."""

    def __init__(self, value: ExprDoc, indices: Sequence[Any]) -> None:
        super().__init__()
        self.value, self.indices = value, list(indices)


class CallDoc(ExprDoc):
    """``callee(args, name=value)``."""

    def __init__(self, callee: ExprDoc, *args: ExprDoc, **kwargs: ExprDoc) -> None:
        super().__init__()
        self.callee, self.args = callee, list(args)
        self.kwargs_keys, self.kwargs_values = list(kwargs), list(kwargs.values())


class OperationKind(IntEnum):
    """Operators of Python."""

    USub = 1
    Invert = 2
    Not = 3
    Add = 6
    Sub = 7
    Mult = 8
    Div = 9
    FloorDiv = 10
    Mod = 11
    Pow = 12
    LShift = 13
    RShift = 14
    BitAnd = 15
    BitOr = 16
    BitXor = 17
    Lt = 18
    LtE = 19
    Eq = 20
    NotEq = 21
    Gt = 22
    GtE = 23
    And = 24
    Or = 25
    IfThenElse = 28


class OperationDoc(ExprDoc):
    """An operator and its operands; of ``IfThenElse``: condition, value, other value."""

    def __init__(self, kind: OperationKind, operands: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.kind, self.operands = OperationKind(kind), list(operands)


class LambdaDoc(ExprDoc):
    """``lambda args: body``."""

    def __init__(self, args: Sequence[IdDoc], body: ExprDoc) -> None:
        super().__init__()
        self.args, self.body = list(args), body


class TupleDoc(ExprDoc):
    """``(a, b)``."""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.elements = list(elements)


class ListDoc(ExprDoc):
    """``[a, b]``."""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.elements = list(elements)


class DictDoc(ExprDoc):
    """``{key: value}``."""

    def __init__(self, content: Mapping[ExprDoc, ExprDoc]) -> None:
        super().__init__()
        self.keys, self.values = list(content), list(content.values())


class SliceDoc(Doc):
    """``start:stop:step``, between brackets."""

    def __init__(
        self, start: ExprDoc | None = None, stop: ExprDoc | None = None, step: ExprDoc | None = None
    ) -> None:
        super().__init__()
        self.start, self.stop, self.step = start, stop, step


# Statements.


class AssignDoc(StmtDoc):
    """``lhs: annotation = rhs``; without ``rhs`` a declaration."""

    def __init__(
        self, lhs: ExprDoc, rhs: ExprDoc | None, annotation: ExprDoc | None = None
    ) -> None:
        super().__init__()
        self.lhs, self.rhs, self.annotation = lhs, rhs, annotation


class IfDoc(StmtDoc):
    """``if predicate:``, with ``else:`` unless that branch is empty."""

    def __init__(
        self,
        predicate: ExprDoc,
        then_branch: Sequence[StmtDoc] | None,
        else_branch: Sequence[StmtDoc] | None,
    ) -> None:
        super().__init__()
        self.predicate = predicate
        self.then_branch, self.else_branch = list(then_branch or ()), list(else_branch or ())


class WhileDoc(StmtDoc):
    """``while predicate:``."""

    def __init__(self, predicate: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.predicate, self.body = predicate, list(body)


class ForDoc(StmtDoc):
    """``for lhs in rhs:``."""

    def __init__(self, lhs: ExprDoc, rhs: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.lhs, self.rhs, self.body = lhs, rhs, list(body)


class ScopeDoc(StmtDoc):
    """``with rhs as lhs:``; without ``lhs``, ``with rhs:``."""

    def __init__(self, lhs: ExprDoc | None, rhs: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.lhs, self.rhs, self.body = lhs, rhs, list(body)


class ExprStmtDoc(StmtDoc):
    """An expression by itself."""

    def __init__(self, expr: ExprDoc) -> None:
        super().__init__()
        self.expr = expr


class AssertDoc(StmtDoc):
    """``assert test, msg``."""

    def __init__(self, test: ExprDoc, msg: ExprDoc | None = None) -> None:
        super().__init__()
        self.test, self.msg = test, msg


class ReturnDoc(StmtDoc):
    """``return value``."""

    def __init__(self, value: ExprDoc) -> None:
        super().__init__()
        self.value = value


class FunctionDoc(StmtDoc):
    """``def name(args) -> return_type:``; the arguments are assignments."""

    def __init__(
        self,
        name: IdDoc,
        args: Sequence[AssignDoc],
        decorators: Sequence[ExprDoc],
        return_type: ExprDoc | None,
        body: Sequence[StmtDoc],
    ) -> None:
        super().__init__()
        self.name, self.args, self.decorators = name, list(args), list(decorators)
        self.return_type, self.body = return_type, list(body)


class ClassDoc(StmtDoc):
    """``class name:``."""

    def __init__(self, name: IdDoc, decorators: Sequence[ExprDoc], body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.name, self.decorators, self.body = name, list(decorators), list(body)


class CommentDoc(StmtDoc):
    """Lines of comment."""

    def __init__(self, comment: str) -> None:
        super().__init__()
        self.comment = comment


class DocStringDoc(StmtDoc):
    """The docstring of a function or class."""

    def __init__(self, docs: str) -> None:
        super().__init__()
        self.comment = docs
