"""Checks that host code touches only host memory and kernels only device memory."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Node, Var
from tilesmith.ir.queries import is_call, walk
from tilesmith.support.errors import VerifyError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, BufferStore, For, ForKind

__all__ = ["check_memory", "memory_violations", "verify_memory"]

_HOST_DEVICES = (1,)  # kDLCPU; kernels for these run on the host's own memory
_DEVICE_MARKS = ("thread_extent", "pipeline_exec_scope", "device_scope", "target")


def _runs_on_host(node: Node) -> bool:
    """Return whether the accesses inside a node run outside of all threads; taking an address is
    not an access.
    """
    if isinstance(node, AttrStmt):
        return node.attr_key not in _DEVICE_MARKS
    if isinstance(node, For):
        return node.kind is not ForKind.THREAD_BINDING
    return not is_call(node, "tir.address_of")


def _host_accesses(func: PrimFunc) -> list[str]:
    """Return the accesses of the parameters' memory outside of all threads, as texts."""
    outside: dict[Var, str] = {b.data: b.name for b in func.buffers}
    for param in func.params:
        if param.dtype.is_handle and param not in func.buffer_map:
            outside[param] = param.name
    found = []
    for node in walk(func.body, _runs_on_host):
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer.data in outside:
            what = "read" if isinstance(node, BufferLoad) else "written"
            found.append(f"the buffer '{node.buffer.name}' is {what} outside of all threads")
    return found


def memory_violations(func: PrimFunc) -> list[str]:
    """Return descriptions of the accesses to device memory that a function makes on the host.

    Without a target, or for one that shares the host's memory, there are none; a function with a
    calling convention other than the host's runs on the device as a whole.
    """
    target = func.attrs.get("target")
    if target is None or target.get_target_device_type() in _HOST_DEVICES:
        return []
    if int(func.attrs.get("calling_conv", 0)) == 2:
        return []
    if func.attrs.get("tir.is_global_func") or func.attrs.get("tir.is_device_function"):
        return []
    return _host_accesses(func)


def verify_memory(func: PrimFunc) -> bool:
    """Return whether a function for a device touches the device's memory inside of threads only."""
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
