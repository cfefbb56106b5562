"""Collects the parts of a file of kernels beside its functions: headers, helpers, constants,
imported source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilesmith.codegen.c_family.file_text import CommonFileText, source_of
from tilesmith.codegen.gpu.dialect import DeviceDialect
from tilesmith.codegen.gpu.helpers import helper_text
from tilesmith.runtime.dtype import DataType

__all__ = ["FileText"]


class FileText(CommonFileText):
    """Collects the parts of one file. ``declarations`` are lines of the file beside helpers."""

    def __init__(self, dialect: DeviceDialect, constants: Sequence[Any] = ()) -> None:
        super().__init__(dialect, constants)
        self.dialect: DeviceDialect = dialect
        self.function_names: set[str] = set()
        self.declarations: dict[str, str] = {}

    def text(self, title: str, bodies: Sequence[str], prototypes: Sequence[str]) -> str:
        """Return the file with the given functions."""
        headers = [
            header if header.startswith("#") else f"#include <{header}>" for header in self.headers
        ]
        content = [
            *[source_of(part).rstrip() for part in self.imported],
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
        return super().has(name) or name in self.function_names

    def declare(self, name: str, text: str) -> None:
        """Add lines to the file, once for each name."""
        self.declarations.setdefault(name, text)

    def helper_text(self, name: str, dtype: DataType | None) -> tuple[str, tuple[str, ...]]:
        return helper_text(name, self.dialect, dtype)
