"""LowerDeviceStorageAccessInfo: places allocations in the special memory that a device describes.

A scope with a tag ("local.L1", "shared.bank") may be described by a registered function
``tvm.info.mem.SCOPE`` (see ``memory_info``): sizes are checked against ``max_num_bits``, and where
there is a ``head_address``, the memory begins there and nothing is allocated. Tags without a
description, and those of matrix units and of dynamic shared memory, stay.
"""

from __future__ import annotations

from tilesmith.ir import Call, IntImm, PrimExpr, const
from tilesmith.ir.operators import cast
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, LetStmt, Stmt
from tilesmith.tir.transform.storage.memory_info import memory_info

__all__ = ["lower_device_storage_access_info"]


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
        limit = info.max_num_bits
        if limit is not None and bits > int(limit):
            raise UnsupportedError(
                f"'{node.buffer_var.name}' needs {bits} bits of '{node.buffer_var.storage_scope}', "
                f"which has {int(limit)}",
                span=node.span,
            )
        head = info.head_address
        if head is None:
            return node
        place = cast("uint64", head) if isinstance(head, PrimExpr) else const(head, "uint64")
        address = Call(node.buffer_var.dtype, "tir.reinterpret", (place,))
        return LetStmt(node.buffer_var, address, node.body, node.span)


@compiler_pass("tir.LowerDeviceStorageAccessInfo")
def lower_device_storage_access_info(func: PrimFunc) -> PrimFunc:
    """Places allocations in the special memory that a device describes.

    Returns ``func`` whose memory in described scopes is checked, and placed where it has an
    address.
    """
    return func.with_body(_Lowering().visit(func.body))
