"""Write the stub files (`__init__.pyi`) of packages whose names are resolved at first use.

    python tools/write_stubs.py

The tables in the packages are the source; editors and type checkers read the stubs.
"""

from __future__ import annotations

import importlib
from pathlib import Path

PACKAGES = ("tilesmith", "tilesmith.runtime")


def stub_path(package: str) -> Path:
    """Where the stub of a package is."""
    return Path(importlib.import_module(package).__file__ or "").with_suffix(".pyi")


def stub_text(package: str) -> str:
    """The stub of a package: one import for each row of its table PUBLIC."""
    table: dict[str, str] = importlib.import_module(package).PUBLIC
    lines = ['"""Made by tools/write_stubs.py from the table PUBLIC; do not edit."""', ""]
    for name, path in sorted(table.items(), key=lambda row: (row[1].partition(":")[0], row[0])):
        module, _, attribute = path.partition(":")
        if not attribute:
            module, _, attribute = module.rpartition(".")
        lines.append(f"from {module} import {attribute} as {name}")
    lines += ["", "PUBLIC: dict[str, str]"]
    if package == "tilesmith":
        lines.append("__version__: str")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write all stubs."""
    for package in PACKAGES:
        path = stub_path(package)
        path.write_text(stub_text(package))
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
