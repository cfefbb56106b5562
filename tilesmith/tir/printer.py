"""Prints TensorIR: importing this file registers what prints statements, buffers and blocks."""

from tilesmith.tir import printer_blocks, printer_buffers, printer_statements

__all__ = ["printer_blocks", "printer_buffers", "printer_statements"]
