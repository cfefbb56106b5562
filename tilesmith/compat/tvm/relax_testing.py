"""Helps tests of the executor, as ``tvm.relax.testing.vm`` does."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import VirtualMachine

__all__ = ["check_saved_func"]


def check_saved_func(vm: VirtualMachine, func_name: str, *inputs: Any) -> Any:
    """Save a function with its arguments as ``NAME_saved``, call that, and return its result."""
    saved = f"{func_name}_saved"
    vm.save_function(func_name, saved, *inputs)
    return vm[saved]()
