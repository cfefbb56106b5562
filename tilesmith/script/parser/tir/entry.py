"""What begins a tensor function, and the words that are types."""

from tilesmith.script.macros import ScriptMacro as TIRMacro
from tilesmith.script.macros import inline, macro
from tilesmith.script.tir import Buffer, Ptr, ptr
from tilesmith.script.tir_entry import prim_func
from tilesmith.script.tir_types import BufferWord as BufferProxy
from tilesmith.script.tir_types import PtrWord as PtrProxy

__all__ = [
    "Buffer", "BufferProxy", "Ptr", "PtrProxy", "TIRMacro", "inline", "macro", "prim_func", "ptr",
]  # fmt: skip
