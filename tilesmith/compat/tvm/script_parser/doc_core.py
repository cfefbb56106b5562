"""Names the nodes of Python's syntax tree: ``doc_core.For`` is ``ast.For``, and so on.

The parser reads Python's own tree, so that a ``doc`` needs no classes beside it. The classes that
Python keeps for old programs (``Index``, ``Suite``, ``Param``, …) are among them.
"""

from __future__ import annotations

import ast

__all__ = sorted(
    name
    for name, value in vars(ast).items()
    if isinstance(value, type) and issubclass(value, ast.AST)
)

globals().update({name: getattr(ast, name) for name in __all__})
