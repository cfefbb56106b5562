"""Tensor intrinsics in TVMScript: what instructions of CPUs and GPUs compute, and how to call them.

Importing this package registers all of them; `tir.TensorIntrin.get` does so at the first name that
it does not know. Users find the names of a machine in `tir.tensor_intrin.x86`, `.arm_cpu`, `.cuda`,
`.rocm` and `.dot_product_common`.
"""

from tilesmith.schedule_rules.intrinsics import (
    arm_cpu,
    cuda,
    dot_product_common,
    rocm,
    x86,
)

__all__ = ["arm_cpu", "cuda", "dot_product_common", "rocm", "x86"]
