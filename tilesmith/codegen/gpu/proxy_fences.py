"""Finds the fences that a kernel needs between the two ways to shared memory.

Threads reach it one way (loads, stores, ``cp.async``); tensor cores (``ptx_wgmma``) and bulk copies
another way, which the PTX ISA calls the async proxy. What threads did is ordered before what these
do by ``fence.proxy.async`` only, and a barrier behind it:

    S[tx] = A[tx]                   or a load of what a bulk copy replaces
    fence_proxy_async();            by the threads that did so
    __syncthreads();                or the arrival at a barrier in shared memory

Nobody can put a fence before the arrival of ``ptx_cp_async_barrier``, which happens when copies
end: there the threads that wait have it, behind their wait. Tiles that bulk copies bring and tensor
cores read need none. (CUTLASS and Triton have their fences at the same places.)
"""

from __future__ import annotations

from typing import NamedTuple

from tilesmith.ir import Call
from tilesmith.ir.queries import called_name, nodes
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore, Stmt
from tilesmith.tir.tensor_copies import pointer_base

__all__ = ["ProxyFences", "proxy_fences"]

_PRODUCT = "tir.ptx_wgmma"
_BULK_COPIES = ("tir.ptx_cp_async_bulk", "tir.ptx_cp_async_bulk_tensor")
_ADDRESSES = ("tir.address_of", "tir.tvm_access_ptr", "tir.handle_add_byte_offset")


class ProxyFences(NamedTuple):
    """The operator for which a kernel needs fences ("" for none), and whether behind waits, too."""

    operator: str = ""
    behind_waits: bool = False


def proxy_fences(body: Stmt) -> ProxyFences:
    """Return the fences that a kernel needs."""
    calls = list(nodes(body, Call))
    names = {called_name(call) for call in calls}
    copies = [name for name in _BULK_COPIES if name in names]
    if not copies and _PRODUCT not in names:
        return ProxyFences()
    is_accessed = _is_written(body, calls) or (copies and _is_read(body, calls))
    if not is_accessed:
        return ProxyFences()
    operator = _PRODUCT if _PRODUCT in names else copies[0]
    return ProxyFences(operator.removeprefix("tir."), "tir.ptx_cp_async_barrier" in names)


def _is_shared(scope: str) -> bool:
    return scope.partition(".")[0] == "shared"


def _is_written(body: Stmt, calls: list[Call]) -> bool:
    """Return whether threads may write shared memory."""
    stores = [store.buffer.data.storage_scope for store in nodes(body, BufferStore)]
    return any(_is_shared(scope) for scope in stores) or _is_given(calls, ("tir.ptx_ldmatrix",))


def _is_read(body: Stmt, calls: list[Call]) -> bool:
    """Return whether threads may read shared memory."""
    addressed = {id(call.args[0]) for call in calls if called_name(call) == "tir.address_of"}
    loads = [load for load in nodes(body, BufferLoad) if id(load) not in addressed]
    return any(_is_shared(load.buffer.data.storage_scope) for load in loads) or _is_given(calls)


def _is_given(calls: list[Call], but_to: tuple[str, ...] = ()) -> bool:
    """Return whether a call gets a pointer to shared memory by which threads may access it."""
    for call in calls:
        if called_name(call) in (_PRODUCT, *_BULK_COPIES, *_ADDRESSES, *but_to):
            continue
        bases = [pointer_base(arg) for arg in call.args if arg.dtype.is_handle]
        if any(base is not None and _is_shared(base.storage_scope) for base in bases):
            return True
    return False
