"""Names the machinery of the parser as users know it."""

from tilesmith.compat.tvm.script_parser import (
    diagnostics,
    dispatch,
    doc,
    doc_core,
    entry,
    error,
    evaluator,
    parser,
    utils,
)
from tilesmith.compat.tvm.script_parser.entry import parse, scan_macro
from tilesmith.compat.tvm.script_parser.parser import Parser

__all__ = [
    "Parser", "diagnostics", "dispatch", "doc", "doc_core", "entry", "error", "evaluator", "parse",
    "parser", "scan_macro", "utils",
]  # fmt: skip
