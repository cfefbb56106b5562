"""Strategies: which implementations compute an operator on a target, and which one is taken.

* `generic` has the generic function of each operator's strategies (`conv2d_strategy`), to which
  programs add versions for targets, and what these are written with (`wrap_compute_conv2d`, …).
* `x86`, `arm_cpu`, `cuda`, … have ours for one family of targets.
* `own.py` says what our own offer, `table.py` lists functions of TOPI, `selection.py` chooses.
"""

from __future__ import annotations

from typing import Any

from tilesmith.support.lazy import lazy_attributes, resolve

_MODULES = (
    "adreno", "arm_cpu", "bifrost", "cuda", "generic", "hexagon", "hls", "intel_graphics", "mali",
    "rocm", "x86",
)  # fmt: skip


class _GenericNames:
    """Finds the names of `generic` here, too."""

    def find(self, name: str) -> Any:
        """Return what a name stands for; raises AttributeError for an unknown one."""
        return getattr(resolve(f"{__name__}.generic"), name)

    def public_names(self) -> list[str]:
        """Return the names of `generic`."""
        return dir(resolve(f"{__name__}.generic"))


_TABLE = {name: f"{__name__}.{name}" for name in _MODULES}

__getattr__, __dir__ = lazy_attributes(__name__, _TABLE, finder=_GenericNames())
