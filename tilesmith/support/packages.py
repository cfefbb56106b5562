"""Lists the Python packages that Tilesmith needs or may use, for `tilesmith doctor`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Package"]


@dataclass(frozen=True)
class Package:
    """One package: its name for pip, its module, what it is for, the extra it comes with."""

    name: str
    module: str
    purpose: str
    extra: str = ""
