"""What checks of patterns and dispatchers have in common."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.expr import Call, Function, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import describe, sizes_of
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relax.transform.fuse_by_pattern import PatternCheckContext
from tilesmith.support.errors import ShapeError
from tilesmith.target import Target

__all__ = ["BackendDispatcher", "has_leaking_intermediate_variables"]


def has_leaking_intermediate_variables(context: PatternCheckContext) -> bool:
    """Return whether a value inside of a match is used outside of it."""
    inside = set(context.matched_bindings)
    output = context.value_to_bound_var[context.matched_expr]
    return any(
        user not in inside
        for var in inside
        if var is not output
        for user in context.var_usages.get(var, ())
    )


class BackendDispatcher(PyExprMutator):
    """Base of what replaces operators by kernels that depend on the target of their values."""

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.mod = mod

    @staticmethod
    def is_gpu_target(target: Any) -> bool:
        """Return whether a target has threads that are launched."""
        return "gpu" in Target(target).keys

    def get_shape_dtype(self, expr: Any) -> tuple[Any, Any]:
        """Return the shape and the dtype of a tensor. Raises ShapeError if they are not known."""
        info = known_struct_info(expr)
        if not isinstance(info, TensorStructInfo) or sizes_of(info) is None:
            raise ShapeError(f"a tensor of known shape is needed, got {describe(info)}")
        return info.shape, info.dtype

    def target_of(self, call: Call) -> Target:
        """Return the target of a call: that of its device, or the current one."""
        for info in (known_struct_info(one) for one in (call, *call.args)):
            first = info.fields[0] if isinstance(info, TupleStructInfo) and info.fields else info
            device = getattr(first, "vdevice", None)
            if device is not None and device.target is not None:
                return Target(device.target)
        return Target.current(allow_none=True) or Target("llvm")

    def run(self) -> IRModule:
        """Rewrite all functions of the module."""
        assert self.mod is not None
        for name, function in list(self.mod.functions.items()):
            if isinstance(function, Function) and function.body is not None:
                updated = self.visit_expr(function)
                if updated is not function:
                    self.builder_.update_func(name, updated)
        return self.builder_.get()
