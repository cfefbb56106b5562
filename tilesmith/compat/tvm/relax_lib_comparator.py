"""Compares what a model calls with other implementations, while it runs."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.program_calls import VMInstrumentReturnKind

__all__ = ["LibCompareVMInstrument"]


class LibCompareVMInstrument:
    """An instrument of a virtual machine: for each call of a function that ``mod`` has under the
    same name, it calls that, too, and compares what both wrote.

    A function writes its results into its last arguments. A class of one's own defines ``compare``
    or ``skip_instrument`` otherwise.
    """

    def __init__(
        self,
        mod: Any,
        device: Any,
        verbose: bool = True,
        rtol: float = 1e-05,
        atol: float = 1e-05,
    ) -> None:
        self.mod, self.device, self.verbose = mod, device, verbose
        self.rtol, self.atol = rtol, atol
        self.counter = 0
        """How many calls were compared."""

    def compare(self, name: str, ref_func: Any, args: list[Any]) -> None:
        """Call ``ref_func`` with copies of the arguments, the last one empty, and compare it."""
        copies = [array(one.numpy(), self.device) for one in args]
        copies[-1] = array(numpy.zeros_like(args[-1].numpy()), self.device)
        ref_func(*copies)
        numpy.testing.assert_allclose(
            args[-1].numpy(),
            copies[-1].numpy(),
            rtol=self.rtol,
            atol=self.atol,
            err_msg=f"'{name}' gives another result than the library's function",
        )

    def skip_instrument(
        self, func: Any, name: str, before_run: bool, ret_val: Any, *args: Any
    ) -> bool:
        """Return whether a call is not compared: functions of the machine, calls without
        tensors.
        """
        return name.startswith("vm.builtin.") or not args or not isinstance(args[-1], NDArray)

    def __call__(
        self, func: Any, name: str, before_run: bool, ret_val: Any, *args: Any
    ) -> VMInstrumentReturnKind:
        if before_run or self.skip_instrument(func, name, before_run, ret_val, *args):
            return VMInstrumentReturnKind.NO_OP
        if not self.mod.implements_function(name):
            return VMInstrumentReturnKind.NO_OP
        self.compare(name, self.mod[name], list(args))
        self.counter += 1
        if self.verbose:
            print(f"[{self.counter}] '{name}' agrees")
        return VMInstrumentReturnKind.NO_OP
