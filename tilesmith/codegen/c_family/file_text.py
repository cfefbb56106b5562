"""Collects the parts of a file beside its functions: headers, helpers, constants, imported source.

Each is written once, in the order of first use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy

from tilesmith.codegen.c_family.dialect import Dialect, is_narrow, short
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed, pack

__all__ = ["CommonFileText", "source_of"]


class CommonFileText:
    """Collects the parts of one file. ``imported`` is source, or files with it, that functions
    import; ``constants`` are the arrays that functions refer to by number; ``local_names`` the
    names of variables in functions.
    """

    def __init__(self, dialect: Dialect, constants: Sequence[Any]) -> None:
        self.dialect = dialect
        self.constants = constants
        self.local_names: set[str] = set()
        self.imported: list[str] = []
        self.headers: dict[str, None] = {}
        self.helpers: dict[str, str] = {}
        self.arrays: dict[str, str] = {}
        self._array_keys: dict[tuple[str, int], tuple[str, Any]] = {}

    def has(self, name: str) -> bool:
        """True if a name means something in the whole file: a local variable would hide it."""
        return name in self.helpers or name in self.arrays

    def fresh(self, base: str, used: Collection[str]) -> str:
        """Return a name for the whole file that no local variable hides."""
        number = len(used)
        while f"{base}_{number}" in self.local_names or self.has(f"{base}_{number}"):
            number += 1
        return f"{base}_{number}"

    def use(self, dtype: DataType) -> None:
        """Include the header that a type needs."""
        if dtype.is_float and self.dialect.headers:
            header = self.dialect.headers.get(short(dtype))
            if header is not None:
                self.include(header)

    def include(self, header: str) -> None:
        """Include a header."""
        self.headers.setdefault(header)

    def import_source(self, part: str) -> None:
        """Add source, or the name of a file with it, once."""
        if part not in self.imported:
            self.imported.append(part)

    def helper_text(self, name: str, dtype: DataType | None) -> tuple[str, tuple[str, ...]]:
        """Return the text of a helper, and the names of the helpers and headers that it needs."""
        raise NotImplementedError

    def helper(self, name: str, dtype: DataType | None = None) -> str:
        """Add a helper to the file; return its name."""
        full = name if dtype is None else f"{name}_{short(dtype)}"
        if full not in self.helpers:
            text, needs = self.helper_text(name, dtype)
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
        """Add a constant array; return its name and the dtype with which it is declared. The same
        array is written once.
        """
        key = (str(dtype), id(array))
        if is_packed(dtype):
            array, dtype = pack(array, dtype), DataType("uint8")
        declared = DataType(f"uint{max(8, dtype.bits)}") if is_narrow(dtype) else dtype
        if key not in self._array_keys:
            name = self.fresh(hint, self.arrays)
            head = self.dialect.constant.format(
                type=self.dialect.memory_type(declared), name=name, count=max(1, array.size)
            )
            self.arrays[name] = f"{head} = {self.dialect.array_text(array, dtype)};"
            self._array_keys[key] = (name, array)
        return self._array_keys[key][0], declared


def source_of(part: str) -> str:
    """Return source that a pragma imports: the text itself or the name of a file with it."""
    if "\n" in part or "{" in part or ";" in part:
        return part
    with open(part, encoding="utf-8") as file:
        return file.read()
