"""``T`` under another name: every word of ``tilesmith.script.tir``."""

from typing import Any

from tilesmith.script import tir as _words
from tilesmith.script.tir import prim_func  # noqa: F401


def __getattr__(name: str) -> Any:
    return getattr(_words, name)


def __dir__() -> list[str]:
    return dir(_words)
