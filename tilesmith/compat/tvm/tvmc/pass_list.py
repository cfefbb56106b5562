"""Reads names of passes from text."""

from __future__ import annotations

import argparse
import difflib
from functools import lru_cache

from tilesmith.relax import transform as relax_passes
from tilesmith.relay import transform as relay_passes
from tilesmith.tir import transform as tir_passes


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    """Return the names of all passes; a few of relay's have other names inside of the driver."""
    names = {n for module in (relay_passes, relax_passes, tir_passes) for n in dir(module)}
    return frozenset({name for name in names if name[:1].isupper()} | {"AlterOpLayout"})


def parse_pass_list_str(input_string: str) -> list[str]:
    """Return the names of passes in a text such as ``"FoldConstant,FuseOps"``.

    Raises ArgumentTypeError for a name that no pass has.
    """
    names = [name.strip() for name in input_string.split(",")]
    names = [name for name in names if name]
    unknown = [name for name in names if name.rpartition(".")[2] not in _known()]
    if unknown:
        near = difflib.get_close_matches(unknown[0], _known(), n=1)
        advice = f" (did you mean {near[0]}?)" if near else ""
        raise argparse.ArgumentTypeError(f"there is no pass called {', '.join(unknown)}{advice}")
    return names
