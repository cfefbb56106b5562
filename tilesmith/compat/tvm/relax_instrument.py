"""Checks graphs between passes: the instrument of ``tvm.relax.ir.instrument``."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.instrument import PassInstrument
from tilesmith.relax.analysis import well_formed
from tilesmith.support.errors import VerifyError

__all__ = ["WellFormedInstrument"]

_MAY_BREAK = ("Normalize", "NormalizeGlobalVar", "ResolveGlobals")
"""Passes whose input need not be well-formed yet: they make it so."""


class WellFormedInstrument(PassInstrument):
    """Raises VerifyError where a pass takes or makes a graph that is not well-formed."""

    def __init__(
        self, check_struct_info: bool = True, validate_before_transform: bool = True
    ) -> None:
        self.check_struct_info = check_struct_info
        self.validate_before_transform = validate_before_transform

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Check the input of a pass."""
        if self.validate_before_transform:
            self._check(mod, info.name, "before")

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        """Check the result of a pass."""
        self._check(mod, info.name, "after")

    def _check(self, mod: IRModule, name: str, when: str) -> None:
        if name.rpartition(".")[2] in _MAY_BREAK:
            return
        if not well_formed(mod, self.check_struct_info):
            raise VerifyError(f"the module is not well-formed {when} the pass {name}")
