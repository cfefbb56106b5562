"""Collects the parts of a file beside its functions: headers, helpers, constants, imported source.

Each is written once, in the order of first use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.codegen.gpu.dialect import Dialect, numbers_text, short
from tilesmith.codegen.gpu.helpers import helper_text
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed, pack

__all__ = ["FileText"]


class FileText:
    """Collects the parts of one file. ``imported`` is source, or files with it, that functions
    import; ``constants`` are the arrays that functions refer to by number; ``declarations`` are
    lines of the file beside helpers; ``local_names`` the names of variables in functions.
    """

    def __init__(self, dialect: Dialect, constants: Sequence[Any] = ()) -> None:
        self.dialect = dialect
        self.constants = constants
        self.local_names: set[str] = set()
        self.function_names: set[str] = set()
        self.imported: list[str] = []
        self.headers: dict[str, None] = {}
        self.declarations: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.arrays: dict[str, str] = {}
        self._array_keys: dict[tuple[str, int], tuple[str, Any]] = {}

    def text(self, title: str, bodies: Sequence[str], prototypes: Sequence[str]) -> str:
        """Return the file with the given functions."""
        headers = [
            header if header.startswith("#") else f"#include <{header}>" for header in self.headers
        ]
        content = [
            *[_source_of(part).rstrip() for part in self.imported],
            *self.declarations.values(),
            *self.helpers.values(),
            *self.arrays.values(),
            *prototypes,
            *["\n" + body.rstrip() for body in bodies],
        ]
        written = "\n".join(content)
        prologue = self.dialect.prologue if re.search(r"\b(INFINITY|NAN)\b", written) else ""
        parts = [f"// Made by Tilesmith: {title}", *headers, prologue.rstrip(), written]
        return "\n".join([part for part in parts if part]) + "\n"

    def has(self, name: str) -> bool:
        """True if a name means something in the whole file: a local variable would hide it."""
        return name in self.helpers or name in self.arrays or name in self.function_names

    def use(self, dtype: DataType) -> None:
        """Include the header that a type needs."""
        header = self.dialect.headers.get(short(dtype)) if dtype.is_float else None
        if header is not None:
            self.headers.setdefault(header)

    def include(self, header: str) -> None:
        """Include a header."""
        self.headers.setdefault(header)

    def declare(self, name: str, text: str) -> None:
        """Add lines to the file, once for each name."""
        self.declarations.setdefault(name, text)

    def helper(self, name: str, dtype: DataType | None = None, space: str = "") -> str:
        """Add a helper to the file; return its name."""
        full = name if dtype is None else f"{name}_{short(dtype)}"
        if full not in self.helpers:
            text, needs = helper_text(name, self.dialect, dtype, space)
            for other in needs:
                self.include(other) if other.endswith(".h") else self.helper(other)
            self.helpers[full] = text
        return full

    def reinterpret(self, source: DataType, target: DataType) -> str:
        """Return the name of the helper that reads the bits of one type as another."""
        name = f"bits_{short(source)}_as_{short(target)}"
        from_type, to_type = self.dialect.type(source), self.dialect.type(target)
        text = (
            f"{self.dialect.inline} {to_type} {name}({from_type} x) {{\n"
            f"  {to_type} y;\n  memcpy(&y, &x, sizeof y);\n  return y;\n}}"
        )
        self.helpers.setdefault(name, text)
        return name

    def constant_array(
        self, hint: str, array: numpy.ndarray, dtype: DataType
    ) -> tuple[str, DataType]:
        """Add a constant array; return its name and the dtype with which it is written. The same
        array is written once.
        """
        key = (str(dtype), id(array))
        if is_packed(dtype):
            array, dtype = pack(array, dtype), DataType("uint8")
        elif dtype.is_float and dtype.bits < 32:
            dtype = DataType(f"uint{dtype.bits}")
            array = array.view(dtype.numpy())
        elif dtype.is_bool:
            dtype = DataType("uint8")
            array = array.view("u1")
        if key not in self._array_keys:
            number = len(self.arrays)
            while f"{hint}_{number}" in self.local_names or self.has(f"{hint}_{number}"):
                number += 1
            name = f"{hint}_{number}"
            kind = self.dialect.type(dtype)
            values = numbers_text(array, self.dialect, dtype)
            self.arrays[name] = (
                f"{self.dialect.constant} {kind} {name}[{max(1, array.size)}] = {values};"
            )
            self._array_keys[key] = (name, array)
        return self._array_keys[key][0], dtype


def _source_of(part: str) -> str:
    """Return source that a pragma imports: the text itself or the name of a file with it."""
    if "\n" in part or "{" in part or ";" in part:
        return part
    with open(part, encoding="utf-8") as file:
        return file.read()
