"""Parses texts, functions and classes into programs and macros."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilesmith.compat.tvm.script_parser.diagnostics import Source
from tilesmith.compat.tvm.script_parser.utils import inspect_function_capture
from tilesmith.script.entry import default_variables, parse
from tilesmith.script.macros import ScriptMacro
from tilesmith.support.errors import ScriptError

__all__ = ["WELL_FORMED_ERROR_MESSAGE", "parse", "scan_macro"]

WELL_FORMED_ERROR_MESSAGE = (
    "The function is not well-formed. If this is meant, decorate it (or its module) with "
    "check_well_formed=False."
)
"""What an error says about programs that break a rule."""


def scan_macro(program: Any, extra_vars: Mapping[str, Any] | None = None) -> ScriptMacro:
    """Return the macro that a function, or the text of one, stands for; hygienic.

    ``extra_vars``: variables that its body may use; for a function, by default those around it.
    """
    source = Source(program)
    if not isinstance(source.definition, ast.FunctionDef):
        raise ScriptError(
            "a macro is one function", notes=("give a function, or the text of a single one",)
        )
    if extra_vars is None:
        known = default_variables()
        if not isinstance(program, str):
            known = inspect_function_capture(program)
    else:
        known = {**default_variables(), **extra_vars}
    return ScriptMacro(source.as_parsed(), source.definition, known, True)
