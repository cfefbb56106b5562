"""Parses TVMScript: programs written as Python, read from the syntax tree.

    from tilesmith.script import ir as I, tir as T, relax as R

``from_source`` parses a text; ``ir_module`` decorates a class. The docstring of ``parsing.py`` says
how to add a dialect.
"""

from tilesmith.script import ir, tir
from tilesmith.script.builder import IRBuilder
from tilesmith.script.entry import from_source, parse
from tilesmith.script.ir import ir_module
from tilesmith.support.lazy import lazy_attributes

__all__ = ["IRBuilder", "from_source", "ir", "ir_module", "parse", "tir"]

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "highlight": "tilesmith.script.highlight",
        "printer": "tilesmith.script.printer",
    },
)
