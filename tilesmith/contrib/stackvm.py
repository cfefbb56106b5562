"""Exports programs that are interpreted: the single file is copied."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from tilesmith.contrib.programs import listed
from tilesmith.support.errors import ArtifactError

__all__ = ["build"]


def build(output: str, files: str | Sequence[str]) -> None:
    """Copy the one file of a program to ``output``: for `export_library(…, fcompile=…)`."""
    given = listed(files)
    if len(given) != 1:
        raise ArtifactError(f"stackvm.build copies one file, not {len(given)}")
    shutil.copy(given[0], output)


build.object_format = "stackvm"  # type: ignore[attr-defined]
