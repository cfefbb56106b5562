"""Whether a function touches memory only where it can: kernels the device's, hosts the host's."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, Var, Visitor
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import VerifyError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, BufferStore, For, ForKind

__all__ = ["check_memory", "memory_violations", "verify_memory"]

_HOST_DEVICES = (1,)  # kDLCPU; kernels for these run on the host's own memory
_DEVICE_MARKS = ("thread_extent", "pipeline_exec_scope", "device_scope", "target")


class _HostAccesses(Visitor):
    """Collects accesses of the parameters' memory that stand outside of all threads."""

    def __init__(self, func: PrimFunc) -> None:
        self.depth = 0
        self.found: list[str] = []
        self.outside: dict[Var, str] = {b.data: b.name for b in func.buffers}
        for param in func.params:
            if param.dtype.is_handle and param not in func.buffer_map:
                self.outside[param] = param.name

    def visit_AttrStmt(self, attribute: AttrStmt) -> None:
        marks = attribute.attr_key in _DEVICE_MARKS
        self.depth += marks
        self.visit(attribute.body)
        self.depth -= marks

    def visit_For(self, loop: For) -> None:
        marks = loop.kind is ForKind.THREAD_BINDING
        self.depth += marks
        self.visit_children(loop)
        self.depth -= marks

    def access(self, buffer: Buffer, what: str) -> None:
        if not self.depth and buffer.data in self.outside:
            self.found.append(f"the buffer '{buffer.name}' is {what} outside of all threads")

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.access(load.buffer, "read")
        self.visit_children(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.access(store.buffer, "written")
        self.visit_children(store)

    def visit_Call(self, call: Call) -> None:
        if not is_call(call, "tir.address_of"):  # an address is no access
            self.visit_children(call)


def memory_violations(func: PrimFunc) -> list[str]:
    """What a function does with a device's memory on the host, as texts.

    Without a target, or for one whose memory is the host's, there is nothing to find; a function
    that runs on the device (a calling convention other than the host's) is all device.
    """
    target = func.attrs.get("target")
    if target is None or target.get_target_device_type() in _HOST_DEVICES:
        return []
    if int(func.attrs.get("calling_conv", 0)) == 2 or func.attrs.get("tir.is_global_func"):
        return []
    finder = _HostAccesses(func)
    with deep_recursion():
        finder.visit(func.body)
    return finder.found


def verify_memory(func: PrimFunc) -> bool:
    """Whether a function for a device touches the device's memory inside of threads only."""
    return not memory_violations(func)


def check_memory(func: PrimFunc, name: Any = "") -> None:
    """Raise VerifyError with the accesses that cannot be made on the host."""
    found = memory_violations(func)
    if found:
        raise VerifyError(
            f"the function '{name or func.attrs.get('global_symbol', '')}' touches memory of its "
            f"device on the host: {found[0]}",
            notes=(
                *found[1:4],
                "bind a loop to threads: sch.bind(loop, 'threadIdx.x'), or set another target",
            ),
            span=func.span,
        )
