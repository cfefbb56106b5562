"""Prints targets as `T.target({"kind": "llvm", …})`, which parses back to an equal target."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.printing import Doc, Printer, prints, quoted
from tilesmith.target.target import Target


@prints(Target)
def _target(node: Target, printer: Printer) -> Doc:
    return Doc(f"{printer.word('T')}.target({_literal(node.export())})", node=node)


def _literal(value: Any) -> str:
    """Return a Python literal with double quotes, as all texts are printed."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join([_literal(part) for part in value]) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{quoted(k)}: {_literal(v)}" for k, v in value.items()]) + "}"
    return repr(value)
