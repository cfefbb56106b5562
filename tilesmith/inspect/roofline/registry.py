"""What a machine can do at most, by the current target: `x86` answers for CPUs."""

from __future__ import annotations

from typing import Any, NoReturn

from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.target.generic_func import override_native_generic_func

__all__ = ["estimate_peak_bandwidth", "estimate_peak_flops"]


def _refuse(what: str) -> NoReturn:
    raise UnsupportedError(
        f"the {what} of '{Target.current(allow_none=True)}' are not measured",
        notes=("CPUs are; register a function for the target's key",),
    )


@override_native_generic_func("estimate_peak_flops")
def estimate_peak_flops(
    func: Any, features: Any, target: Any, dev: Any, remote: Any = None
) -> tuple[float, float, str]:
    """Return the operations of a kernel, how many the target does in a second at most, and the name
    of that limit. `register` adds a function for a key of targets.
    """
    _refuse("operations per second")


@override_native_generic_func("estimate_peak_bandwidth")
def estimate_peak_bandwidth(
    func: Any, features: Any, target: Any, dev: Any, remote: Any = None
) -> tuple[float, float, str]:
    """Return the bytes that a kernel reads and writes at least, how many the target moves in a
    second at most, and the name of that limit. `register` adds a function for a key of targets.
    """
    _refuse("bytes per second")
