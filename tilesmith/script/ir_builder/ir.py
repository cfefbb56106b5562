"""``I`` under another name: every word of ``tilesmith.script.ir``."""

from typing import Any

from tilesmith.script import ir as _words
from tilesmith.script.ir import ir_module  # noqa: F401


def __getattr__(name: str) -> Any:
    return getattr(_words, name)


def __dir__() -> list[str]:
    return dir(_words)
