"""Back ends: lowered modules → code. `build(module, target)` chooses by the kind of the target."""

from __future__ import annotations

from tilesmith.codegen.registry import BACK_ENDS, BackEnd
from tilesmith.ir import IRModule
from tilesmith.runtime.module import Module
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target

__all__ = ["BACK_ENDS", "BackEnd", "build", "build_llvm"]


def build(module: IRModule, target: Target, opt_level: int | None = None) -> Module:
    """Compile a lowered module for a target.

    Raises UnsupportedError when there is no back end for the target's kind, CodegenError for what
    the back end cannot translate.
    """
    target = Target(target)
    back_end = BACK_ENDS.get(target.kind.name, None)
    if back_end is None:
        known = ", ".join(sorted(BACK_ENDS.names(load=True)))
        raise UnsupportedError(
            f"there is no back end for targets of kind '{target.kind.name}'",
            notes=(f"there are back ends for: {known}",),
        )
    return back_end(module, target, opt_level)


def build_llvm(module: IRModule, target: Target, opt_level: int | None = None) -> Module:
    """Compile a lowered module through LLVM."""
    from tilesmith.codegen import llvm

    return llvm.build(module, Target(target), opt_level)
