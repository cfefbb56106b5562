"""Defines the error that functions of programs raise at a piece of syntax."""

from __future__ import annotations

import ast

from tilesmith.support.errors import ScriptError

__all__ = ["ParserError"]


class ParserError(ScriptError):
    """A problem at a node; the parser adds the file, the line, and a marker."""

    def __init__(self, node: ast.AST, msg: str) -> None:
        super().__init__(str(msg))
        self.node = node
