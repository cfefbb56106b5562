"""DispatchSortScan: sorting and running totals by the kernels of the target."""

from __future__ import annotations

import math
from typing import Any

from tilesmith.ir import IntImm, IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import pass_factory
from tilesmith.relax.backend.utils import BackendDispatcher
from tilesmith.relax.expr import Call, ShapeExpr, Var, known_struct_info
from tilesmith.relax.op import memory as memory_ops
from tilesmith.relax.op.declaration import find_function
from tilesmith.relax.transform.legalize_ops import is_known, legalize_call

__all__ = ["DispatchSortScan", "SortScanDispatcher"]

_SORTS = tuple([find_function(name).op for name in ("sort", "argsort", "topk")])
_SCANS = tuple([find_function(name).op for name in ("cumsum", "cumprod")])


class SortScanDispatcher(BackendDispatcher):
    """Replaces sort, argsort, topk, cumsum and cumprod by calls of kernels.

    The kernels sort by digits and add in blocks, on the CPU as on threads of a GPU; the default
    schedules divide their loops among threads, so no fallback has to be applied.
    """

    def apply_dlight_gpu_fallback(self) -> None:
        """Do nothing: kernels without a schedule get the default one when they are compiled."""

    def visit_call_(self, call: Call) -> Any:
        """Replace a call of one of the operators."""
        made = super().visit_call_(call)
        if not isinstance(made, Call) or not isinstance(made.op, Op):
            return made
        if made.op not in (*_SORTS, *_SCANS):
            return made
        if not all(is_known(known_struct_info(one)) for one in (*made.args, made)):
            return made
        with self.target_of(made):
            lowered = legalize_call(self.builder_, made)
        return made if lowered is None else lowered.with_fields(span=call.span)

    def estimate_thrust_workspace_size(self, call: Call) -> int:
        """Return the bytes that Thrust would need beside its tensors: keys and places twice, or
        the totals of one axis. Raises ShapeError where the shape is not known.
        """
        shape, dtype = self.get_shape_dtype(call.args[0])
        sizes = [size.value if isinstance(size, IntImm) else 1 for size in shape.values]
        places = 8 if call.op in _SORTS else 0
        return int((8 << 20) + 2 * math.prod(sizes) * (dtype.bits // 8 + places))

    def allocate_workspace(self, call: Call) -> Var:
        """Allocate the workspace of a call before it."""
        size = self.estimate_thrust_workspace_size(call)
        allocation = memory_ops.builtin_alloc_tensor(ShapeExpr([size]), "uint8")
        return self.builder_.emit(allocation, "workspace")


@compiler_pass("DispatchSortScan")
def dispatch_sort_scan(mod: IRModule) -> IRModule:
    """Replaces sort, argsort, topk, cumsum and cumprod by kernels for the target: that of the
    tensors' device, or the current one.
    """
    return SortScanDispatcher(mod).run()


DispatchSortScan = pass_factory("DispatchSortScan")
