"""Writes the frame of a backend: ``python -m tilesmith.relay.backend.contrib.uma.uma_cli
--add-hardware my_unit``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tilesmith.support.errors import ConfigError

__all__ = ["create_backend", "main"]

_FRAME = '''"""The backend "{name}"."""

from tilesmith.relay.backend.contrib.uma import UMABackend
from tilesmith.relay.dataflow_pattern import is_op, wildcard


class {title}Backend(UMABackend):
    """Takes dense layers; add patterns, passes and operator strategies here."""

    def __init__(self):
        super().__init__()
        self._register_pattern("dense", is_op("nn.dense")(wildcard(), wildcard()))
        self._register_codegen(fmt="c")

    @property
    def target_name(self):
        return "{name}"
'''


def create_backend(name: str, folder: str = ".") -> Path:
    """Write the file of a new backend, and return its path. Raises ConfigError if it exists, or if
    the name is none of Python's.
    """
    if not name.isidentifier():
        raise ConfigError(f"'{name}' is not a name in Python", notes=("for example my_unit",))
    path = Path(folder) / f"{name}_backend.py"
    if path.exists():
        raise ConfigError(f"'{path}' exists already")
    title = "".join([word.capitalize() for word in name.split("_")])
    path.write_text(_FRAME.format(name=name, title=title), encoding="utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file of a new backend."""
    parser = argparse.ArgumentParser(description="Writes the frame of a backend.")
    parser.add_argument("--add-hardware", "--add_hardware", required=True, dest="name")
    parser.add_argument("--folder", default=".")
    given = parser.parse_args(arguments)
    print(f"written: {create_backend(given.name, given.folder)}")


if __name__ == "__main__":
    main()
