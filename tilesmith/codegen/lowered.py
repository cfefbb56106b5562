"""Takes the functions out of a module whose code is to be generated."""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.support.errors import CodegenError
from tilesmith.tir.function import PrimFunc

__all__ = ["lowered_functions"]


def lowered_functions(module: IRModule, language: str) -> dict[str, PrimFunc]:
    """Return the functions of a lowered module by name. ``language`` is what is to be made of them.

    Raises CodegenError for functions that are not lowered.
    """
    found: dict[str, PrimFunc] = {}
    for variable, function in module.functions.items():
        if not isinstance(function, PrimFunc):
            raise CodegenError(
                f"'{variable.name_hint}' is a {type(function).__name__}; {language} code is made "
                "from PrimFuncs",
                notes=("compile graph functions with relax.build",),
            )
        if function.buffer_map:
            raise CodegenError(
                f"function '{variable.name_hint}' is not a lowered function: it still has buffers "
                "as parameters",
                notes=("lower the module first (tilesmith.lower or tilesmith.build)",),
            )
        found[variable.name_hint] = function
    return found
