"""Helps tests of graphs and of the executor, as ``tvm.relax.testing`` does."""

from __future__ import annotations

from typing import Any

from tilesmith.compat.tvm import relax_testing_nn as nn
from tilesmith.compat.tvm.ast_printer import dump_ast
from tilesmith.relax import VirtualMachine

__all__ = ["check_saved_func", "dump_ast", "nn"]


def check_saved_func(vm: VirtualMachine, func_name: str, *inputs: Any) -> Any:
    """Save a function with its arguments as ``NAME_saved``, call that, and return its result."""
    saved = f"{func_name}_saved"
    vm.save_function(func_name, saved, *inputs)
    return vm[saved]()
