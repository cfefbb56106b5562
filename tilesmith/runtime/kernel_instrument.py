"""Shows the kernels of a model to an instrument of a virtual machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.runtime.observation import KernelObserver, ObservedProgram, Operands
from tilesmith.runtime.program_calls import VMInstrumentReturnKind
from tilesmith.support.errors import UnsupportedError

__all__ = ["KernelInstrument"]


class KernelInstrument(KernelObserver):
    """Calls ``instrument(None, name, before_run, None, *tensors)`` around each kernel."""

    def __init__(self, program: ObservedProgram, instrument: Callable[..., Any]) -> None:
        super().__init__()
        self.program, self.instrument = program, instrument

    def begins(self, number: int, operands: Operands) -> None:
        """Show the inputs of a kernel."""
        name = self.program.kernels[number].name
        answer = self.instrument(None, name, True, None, *operands.inputs())
        if answer is not None and int(answer) == VMInstrumentReturnKind.SKIP_RUN:
            raise UnsupportedError(
                f"the call of '{name}' cannot be left out: nothing else makes its results",
                notes=("an instrument may skip calls of registered functions",),
            )

    def ends(self, number: int, operands: Operands, seconds: float) -> None:
        """Show the inputs of a kernel, and what it has written."""
        name = self.program.kernels[number].name
        self.instrument(None, name, False, None, *operands.inputs(), *operands.outputs())

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the model whose kernels are shown."""
        found: Callable[..., Any] = self.program.executable[name]

        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return found(*args, **kwargs)

        return run
