"""Defines frames, the ``with`` blocks in which a program is built.

A frame is opened by ``with`` (by the user in plain Python, or by the parser) and makes its node
when it is closed; statements go to the innermost open frame. The frames of each dialect have files
of their own; this is what they share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir import Node, Var
from tilesmith.support.errors import ScriptError

__all__ = ["Frame", "IRBuilder", "current_builder", "name_fresh"]


class _Builders(threading.local):
    def __init__(self) -> None:
        self.stack: list[IRBuilder] = []


_builders = _Builders()


class IRBuilder:
    """The scope in which frames are opened::

    with IRBuilder() as builder:
        with T.prim_func():
            T.func_name("main")
            A = T.arg("A", T.Buffer((16,), "float32"))
            with T.serial(16) as i:
                T.buffer_store(A, A[i] + 1.0, [i])
    function = builder.get()
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.result: Any = None
        self.span: Any = None  # of the statement that is being built

    def __enter__(self) -> IRBuilder:
        _builders.stack.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _builders.stack.remove(self)

    @staticmethod
    def current() -> IRBuilder:
        """Return the innermost builder of this thread; an error outside of one."""
        if not _builders.stack:
            raise ScriptError(
                "this word of the script is used outside of a program",
                notes=("decorate the function with @T.prim_func, or open an IRBuilder",),
            )
        return _builders.stack[-1]

    @staticmethod
    def is_in_scope() -> bool:
        """True if a builder is open in this thread."""
        return bool(_builders.stack)

    def get(self) -> Any:
        """Return the finished function, module, or statement."""
        if self.result is None:
            raise ScriptError("nothing has been built yet: all frames must be closed")
        return self.result

    @staticmethod
    def name(s: str, v: Any) -> Any:
        """Name a variable, buffer or block that has no name yet."""
        return name_fresh(v, s)

    @staticmethod
    def name_many(s: Iterable[str], vs: Iterable[Any]) -> list[Any]:
        """Name several variables, buffers or blocks."""
        return [name_fresh(value, name) for name, value in zip(s, vs)]

    def find_frame(self, *kinds: type) -> Any:
        """Return the innermost open frame of one of these classes, or None."""
        for frame in reversed(self.frames):
            if isinstance(frame, kinds):
                return frame
        return None


def current_builder() -> IRBuilder:
    """Return the innermost builder of this thread."""
    return IRBuilder.current()


class Frame:
    """A construct opened by ``with``. Subclasses implement what happens on entry and at the end."""

    def __init__(self) -> None:
        self.builder = IRBuilder.current()
        self.span = self.builder.span
        self.callbacks: list[Callable[[], Any]] = []

    def enter(self) -> Any:
        """Return the value of ``with … as``."""
        return self

    def finish(self) -> None:
        """Make the node and pass it on."""

    def take_function(self, name: str, function: Any) -> bool:
        """Take a function that was built inside this frame; False if the frame does not accept
        it.
        """
        return False

    def add_callback(self, callback: Callable[[], Any]) -> None:
        """Call a function when the frame is closed."""
        self.callbacks.append(callback)

    def __enter__(self) -> Any:
        self.builder.frames.append(self)
        return self.enter()

    def __exit__(self, kind: type | None, error: Any, traceback: Any) -> None:
        # A frame that fails leaves its inner ones open: drop them too.
        frames = self.builder.frames
        while frames and frames.pop() is not self:
            pass
        if kind is None:
            for callback in self.callbacks:
                callback()
            self.finish()


def name_fresh(value: Any, name: str) -> Any:
    """Name a variable, buffer or iterator that was made without a name; return it.

    Nodes are immutable once they are used; this one is not used yet.
    """
    if isinstance(value, Var):
        if not value.name:
            object.__setattr__(value, "name", name)
    elif isinstance(value, Node) and hasattr(value, "name") and hasattr(value, "data"):
        if not value.name:
            object.__setattr__(value, "name", name)
            name_fresh(value.data, name)
            offset = getattr(value, "elem_offset", None)
            if isinstance(offset, Var) and offset.name == "_elem_offset":
                object.__setattr__(offset, "name", name + offset.name)
    elif hasattr(value, "var") and hasattr(value, "iter_type"):
        name_fresh(value.var, name)
    elif isinstance(value, Node) and getattr(value, "name_hint", name) == "":
        object.__setattr__(value, "name_hint", name)
    return value
