"""Describes the Python packages that Tilesmith needs or may use, and how to install them."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Package", "install_command"]


@dataclass(frozen=True)
class Package:
    """One package: its name for pip, its module, what it is for, the extra it comes with."""

    name: str
    module: str
    purpose: str
    extra: str = ""


def install_command(package: str, extra: str | None = None) -> str:
    """Return the command that installs a package, or the extra of Tilesmith that brings it.

    In a checkout the extra comes from there: the name alone would look for it on PyPI.
    """
    pip = _pip()
    if not extra:
        return f"{pip} install {package}"
    checkout = _checkout()
    if checkout is None:
        return f"{pip} install 'tilesmith[{extra}]'"
    here = "." if checkout == Path.cwd() else str(checkout)
    return f"{pip} install -e {shlex.quote(f'{here}[{extra}]')}"


def _pip() -> str:
    """Return the command of this Python's pip: another one would install elsewhere."""
    python = Path(sys.executable)
    found = shutil.which("pip")
    if found is not None and Path(found).parent == python.parent:
        return "pip"
    return f"{shlex.quote(str(python))} -m pip"


@cache
def _checkout() -> Path | None:
    """Return the folder of the project if Tilesmith is imported from its sources."""
    import tilesmith

    root = Path(tilesmith.__file__).resolve().parents[1]
    return root if (root / "pyproject.toml").is_file() else None
