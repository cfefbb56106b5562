"""Names the registers that instructions of matrix units read and write.

An operand is a pointer and, behind it among the arguments, the number of its first register: a
count of the elements of each thread. In memory of a warp, that number depends on the thread.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tilesmith.ir import Call, IntImm, PrimExpr, StringImm
from tilesmith.ir.queries import called_name
from tilesmith.tir.warpgroup_products import WARPGROUP, product_sizes

__all__ = ["RegisterOperand", "register_operands"]

WARP = 32


class RegisterOperand(NamedTuple):
    """An operand: the place of its pointer among the arguments, and how many elements of a thread
    are read or written from there on.
    """

    place: int
    elements: int
    reads: bool
    writes: bool


def register_operands(call: PrimExpr) -> tuple[RegisterOperand, ...]:
    """Return the operands of a call that are registers of each thread; none of other calls."""
    name = called_name(call).removeprefix("tir.")
    if name not in ("ptx_mma", "ptx_mma_sp", "ptx_ldmatrix", "mma_fill", "mma_store", "ptx_wgmma"):
        return ()
    assert isinstance(call, Call)
    if name == "ptx_ldmatrix":
        number = _number(call.args[1])
        return (RegisterOperand(3, number * 32 // call.dtype.element.bits, False, True),)
    if name == "mma_fill":
        return (RegisterOperand(1, _number(call.args[0]), False, True),)
    if name == "mma_store":
        return (RegisterOperand(3, 8, True, False),)
    if name == "ptx_wgmma":
        return _of_warpgroup(call)
    return _of_product(call, name == "ptx_mma_sp")


def _of_warpgroup(call: Call) -> tuple[RegisterOperand, ...]:
    columns, steps = product_sizes(call.args[0].value)  # type: ignore[attr-defined]
    results = RegisterOperand(14, columns // 2, True, True)
    if call.args[6].value != "registers":  # type: ignore[attr-defined]
        return (results,)
    return (RegisterOperand(4, 64 * steps // WARPGROUP, True, False), results)


def _of_product(call: Call, is_sparse: bool) -> tuple[RegisterOperand, ...]:
    shape = call.args[0].value if isinstance(call.args[0], StringImm) else ""
    sizes = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    m, n, k = [int(size) for size in sizes.groups()] if sizes is not None else (0, 0, 0)
    in_quads = shape == "m8n8k4" and getattr(call.args[3], "value", "") in ("fp16", "float16")
    factor = 4 if in_quads else 1
    kept = 2 if is_sparse else 1
    found = (
        RegisterOperand(6, m * k * factor // WARP // kept, True, False),
        RegisterOperand(8, n * k * factor // WARP, True, False),
        RegisterOperand(10, m * n * factor // WARP, True, True),
    )
    return (*found, RegisterOperand(12, 1, True, False)) if is_sparse else found


def _number(expr: PrimExpr) -> int:
    return int(expr.value) if isinstance(expr, IntImm) else 0
