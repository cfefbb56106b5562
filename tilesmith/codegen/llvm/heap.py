"""Allocates memory in functions: on the stack, or with the system's allocator."""

from __future__ import annotations

from tilesmith.codegen.facts import constant_bytes
from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.tir.stmt import Allocate

__all__ = ["ALIGNMENT", "allocate", "is_on_stack", "release"]

ALIGNMENT = 64
STACK_BYTES = 16 * 1024
"""Memory of at most this many bytes is on the stack."""
LOCAL_BYTES = 256 * 1024
"""The same for memory in scope "local", which mostly becomes registers."""


def is_on_stack(allocation: Allocate) -> bool:
    """True if an allocation is on the stack."""
    size = constant_bytes(allocation)
    scope = allocation.buffer_var.storage_scope
    return size is not None and size <= (LOCAL_BYTES if scope == "local" else STACK_BYTES)


def allocate(out: Builder, text: ModuleText, size: str) -> str:
    """Allocate aligned memory of `size` bytes (an i64 operand); null if there is none."""
    kind = out.machine.size_type
    if size.isdigit():
        rounded = str((int(size) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT or ALIGNMENT)
    else:
        more = out.define(f"add i64 {size}, {2 * ALIGNMENT - 1}")
        rounded = out.define(f"and i64 {more}, {-ALIGNMENT}")
        if kind == "i32":
            rounded = out.define(f"trunc i64 {rounded} to i32")
    if out.machine.is_windows:
        function = text.declare("_aligned_malloc", "noalias ptr", [kind, kind])
        return out.define(f"call ptr {function}({kind} {rounded}, {kind} {ALIGNMENT})")
    function = text.declare("aligned_alloc", "noalias ptr", [kind, kind])
    return out.define(f"call noalias ptr {function}({kind} {ALIGNMENT}, {kind} {rounded})")


def release(out: Builder, text: ModuleText, pointer: str) -> None:
    """Free memory of `allocate`."""
    name = "_aligned_free" if out.machine.is_windows else "free"
    out.write(f"call void {text.declare(name, 'void', ['ptr'])}(ptr {pointer})")
