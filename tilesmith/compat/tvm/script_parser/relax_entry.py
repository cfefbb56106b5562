"""Names the words of graph functions and their annotations as users know them.

A proxy is an annotation whose names of sizes are not resolved yet: ``TensorProxy(("n", 4))``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax import script
from tilesmith.relax.annotations import WORDS, StructInfoProxy
from tilesmith.relax.script import (
    Callable,
    MatchCastPair,
    Object,
    Prim,
    Shape,
    Tensor,
    Tuple,
    function,
    macro,
    match_cast,
)
from tilesmith.relax.struct_info import as_struct_info
from tilesmith.script.macros import ScriptMacro as RelaxMacro

FType = Any

_PROXIES = {f"{word}Proxy": getattr(script, word) for word in WORDS}

__all__ = [
    "Callable", "FType", "MatchCastPair", "Object", "Prim", "RelaxMacro", "Shape",
    "StructInfoProxy", "Tensor", "Tuple", "function", "macro", "match_cast", *_PROXIES,
]  # fmt: skip


def _proxy(name: str, word: Any) -> type[StructInfoProxy]:
    """Return the class of the proxies that a word of annotations makes."""

    def __init__(self: StructInfoProxy, *args: Any, **kwargs: Any) -> None:
        written = word(*args, **kwargs)
        if isinstance(written, StructInfoProxy):
            StructInfoProxy.__init__(self, written.build, written.texts)
        else:
            StructInfoProxy.__init__(self, lambda names: as_struct_info(written), [])

    namespace = {"__init__": __init__, "__doc__": word.__doc__, "__module__": __name__}
    return type(name, (StructInfoProxy,), namespace)


globals().update({name: _proxy(name, word) for name, word in _PROXIES.items()})
