"""Lists the modules in which users know TOPI's schedules: ``tvm.topi.x86.conv2d``, ….

The sections of the tables of `topi.schedules` are their names. The files are read here, not
imported: programs that use no schedules do not load TOPI for the names.
"""

from __future__ import annotations

from pathlib import Path

import tilesmith

__all__ = ["schedule_modules"]


def schedule_modules() -> dict[str, str]:
    """Return the modules of users' programs, each with the module here that has its names."""
    topi = Path(tilesmith.__file__).with_name("topi")
    found: dict[str, str] = {}
    for table in sorted((topi / "schedules" / "names").glob("*.txt")):
        for line in table.read_text(encoding="utf-8").splitlines():
            if not line.startswith("["):
                continue
            parts = line.strip("[]").split(".")
            if (topi / table.stem / f"{parts[0]}.py").exists():
                continue  # a module here too
            for count in range(1, len(parts) + 1):
                inner = ".".join(parts[:count])
                found[f"tvm.topi.{table.stem}.{inner}"] = f"tilesmith.topi.{table.stem}"
    return found
