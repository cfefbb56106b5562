"""LowerDeviceStorageAccessInfo: places allocations in the special memory that a device describes.

A scope with a tag ("local.L1", "shared.bank") may be described by a registered function
``tvm.info.mem.SCOPE`` that gives a mapping: ``unit_bits`` and ``max_num_bits`` (sizes are checked),
``head_address`` (an integer: the memory begins there, nothing is allocated). Tags without a
description, and those of matrix units and of dynamic shared memory, stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import Call, IntImm, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, LetStmt, Stmt

__all__ = ["lower_device_storage_access_info"]


def memory_info(scope: str) -> Mapping[str, Any] | None:
    """Return the description of the memory of a scope."""
    if "." not in scope or scope == "shared.dyn":
        return None
    from tilesmith.runtime.registry import get_global_func

    function = get_global_func("tvm.info.mem." + scope, allow_missing=True)
    return None if function is None else dict(function())


class _Lowering(Rewriter):
    def visit_Allocate(self, node: Allocate) -> Stmt:
        node = self.children(node)
        info = memory_info(node.buffer_var.storage_scope or "")
        if info is None:
            return node
        bits = node.dtype.bits * node.dtype.lanes
        for extent in node.extents:
            if not isinstance(extent, IntImm):
                raise UnsupportedError(
                    f"'{node.buffer_var.name}' lies in '{node.buffer_var.storage_scope}', where "
                    "sizes must be constant",
                    span=node.span,
                )
            bits *= extent.value
        limit = info.get("max_num_bits")
        if limit is not None and bits > int(limit):
            raise UnsupportedError(
                f"'{node.buffer_var.name}' needs {bits} bits of '{node.buffer_var.storage_scope}', "
                f"which has {int(limit)}",
                span=node.span,
            )
        head = info.get("head_address")
        if head is None:
            return node
        address = Call(node.buffer_var.dtype, "tir.reinterpret", (const(int(head), "uint64"),))
        return LetStmt(node.buffer_var, address, node.body, node.span)


@compiler_pass("tir.LowerDeviceStorageAccessInfo")
def lower_device_storage_access_info(func: PrimFunc) -> PrimFunc:
    """Places allocations in the special memory that a device describes.

    Returns ``func`` whose memory in described scopes is checked, and placed where it has an
    address.
    """
    return func.with_body(_Lowering().visit(func.body))
