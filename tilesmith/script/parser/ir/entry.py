"""What begins a module."""

from tilesmith.script.ir import ir_module

__all__ = ["ir_module"]
