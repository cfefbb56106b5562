"""``T.prim_func``: the decorator, and the frame of the same name for plain Python."""

from __future__ import annotations

from typing import Any

from tilesmith.script.entry import parse_now
from tilesmith.script.parser import FunctionDecorator
from tilesmith.script.tir_frames import PrimFuncFrame

__all__ = ["prim_func"]


class PrimFuncDecorator(FunctionDecorator):
    """``@T.prim_func``, ``@T.prim_func(private=True)``; ``with T.prim_func():`` in a builder."""

    def __enter__(self) -> PrimFuncFrame:
        self._frames.append(PrimFuncFrame(bool(self.options.get("private", False))))
        return self._frames[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        self._frames.pop().__exit__(*error)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._frames: list[PrimFuncFrame] = []


prim_func = PrimFuncDecorator("T", parse_now)
