"""The machinery of the parser under the names that users know."""

from tilesmith.script.parser.core import diagnostics, entry, evaluator, parser, utils
from tilesmith.script.parser.core.entry import parse, scan_macro
from tilesmith.script.parser.core.parser import Parser

__all__ = [
    "Parser", "diagnostics", "entry", "evaluator", "parse", "parser", "scan_macro", "utils",
]  # fmt: skip
