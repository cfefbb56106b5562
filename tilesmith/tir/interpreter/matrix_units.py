"""Matrix units."""

from __future__ import annotations

from tilesmith.tir.interpreter.calls import CallCompiler


class MatrixCompiler(CallCompiler):
    """Closures for operations of matrix units."""
