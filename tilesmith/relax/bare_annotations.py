"""Annotations without the letter of the dialect: ``x: Tensor((n, 784), "float32")``.

Programs of 2022 write them so, under ``from __future__ import annotations``; a name among the sizes
that nothing defines is a symbolic size.
"""

from __future__ import annotations

import ast
import copy
import typing
from typing import Any

from tilesmith.relax import annotations
from tilesmith.script.parsing import Parser

__all__ = ["bare_words", "with_named_sizes"]

_WORDS = {name: getattr(annotations, name) for name in annotations.WORDS}


def bare_words(parser: Parser, node: ast.expr) -> dict[str, Any]:
    """Return the words of annotations that stand in ``node`` alone, and what they mean.

    A word that means something else to the program keeps that meaning, except for classes
    (``typing.Tuple``, ``torch.Tensor``), which describe no value of the graph.
    """
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return {
        name: word
        for name, word in _WORDS.items()
        if name in names and _is_free(parser.lookup(name))
    }


def _is_free(found: Any) -> bool:
    return found is None or isinstance(found, type) or found in vars(typing).values()


def with_named_sizes(parser: Parser, node: ast.expr) -> ast.expr:
    """Return an annotation in which unknown sizes of bare words are texts: ``Tensor(("n", 4))``."""
    made = copy.deepcopy(node)
    for one in ast.walk(made):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in _WORDS:
            for argument in one.args[:1]:
                if isinstance(argument, (ast.Tuple, ast.List)):
                    argument.elts = [_size(parser, size) for size in argument.elts]
    return made


def _size(parser: Parser, size: ast.expr) -> ast.expr:
    names = [one.id for one in ast.walk(size) if isinstance(one, ast.Name)]
    if all(name in _WORDS or parser.lookup(name) is not None for name in names):
        return size
    return ast.copy_location(ast.Constant(ast.unparse(size)), size)
