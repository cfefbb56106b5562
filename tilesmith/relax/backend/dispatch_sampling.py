"""DispatchSampling: draws from distributions by the kernels of the target."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import pass_factory
from tilesmith.relax import op as operators
from tilesmith.relax.backend.utils import BackendDispatcher
from tilesmith.relax.backend_tir.sampling import (
    generic_get_sample_index,
    gpu_multinomial_from_uniform,
)
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.transform.legalize_ops import is_known

__all__ = ["DispatchSampling", "SamplingDispatcher"]

_NAME = "relax.multinomial_from_uniform"


class SamplingDispatcher(BackendDispatcher):
    """Replaces ``multinomial_from_uniform`` by calls of kernels."""

    def visit_call_(self, call: Call) -> Any:
        """Replace a call of the operator."""
        made = super().visit_call_(call)
        if not isinstance(made, Call) or not isinstance(made.op, Op) or made.op.name != _NAME:
            return made
        if not all(is_known(known_struct_info(one)) for one in (*made.args, made)):
            return made
        prob, uniform, rows = made.args
        a, b, c, d = [str(self.get_shape_dtype(one)[1]) for one in (*made.args, made)]
        if self.is_gpu_target(self.target_of(made)):
            kernel = gpu_multinomial_from_uniform(a, b, c, d)
            name, arguments = "gpu_multinomial_from_uniform", [prob, uniform, rows]
        else:
            kernel = generic_get_sample_index(a, b, c, d)
            sums = self.builder_.emit(operators.cumsum(prob, 1))
            name, arguments = "get_sample_index", [sums, uniform, rows]
        variable = self.builder_.add_func(kernel, name)
        return operators.call_tir(variable, arguments, known_struct_info(made))


@compiler_pass("DispatchSampling")
def dispatch_sampling(mod: IRModule) -> IRModule:
    """Replaces ``multinomial_from_uniform`` by kernels for the target: that of the tensors' device,
    or the current one.
    """
    return SamplingDispatcher(mod).run()


DispatchSampling = pass_factory("DispatchSampling")
