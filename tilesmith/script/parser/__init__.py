"""The parser under the names that users know; its own files are ``parsing`` and ``evaluator``.

from tilesmith.script.parser import ir as I, tir as T
from tilesmith.script.parser.core import parse
"""

from tilesmith.script.entry import from_source, parse
from tilesmith.script.parser import core, ir, tir
from tilesmith.script.parser.ir import ir_module
from tilesmith.script.parser.tir import prim_func
from tilesmith.script.parsing import DIALECTS, Dialect, FunctionDecorator, ModuleScope, Parser

__all__ = [
    "DIALECTS", "Dialect", "FunctionDecorator", "ModuleScope", "Parser", "core", "from_source",
    "ir", "ir_module", "parse", "prim_func", "tir",
]  # fmt: skip
