"""Checks between passes that the printed program parses back to an equal one."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.instrument import PassInstrument
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script.entry import from_source
from tilesmith.support.errors import TilesmithError, VerifyError

__all__ = ["RoundTrip"]


class RoundTrip(PassInstrument):
    """Prints, parses and compares the module after every pass::

        with PassContext(instruments=[RoundTrip()]):
            lowering.build(module)

    Raises VerifyError with the name of the pass; ``passes`` lists those that were checked.
    """

    def __init__(self) -> None:
        self.passes: list[str] = []

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Check the module."""
        if not isinstance(mod, IRModule):
            return
        self.passes.append(info.name)
        text = mod.script()
        try:
            again = from_source(text, check_well_formed=False)
            assert_structural_equal(mod, again)
        except TilesmithError as error:
            raise VerifyError(
                f"the text of the module after {info.name} does not parse back to it",
                notes=(str(error),),
            ) from error
        if again.script() != text:
            raise VerifyError(f"the text of the module after {info.name} changes when parsed back")
