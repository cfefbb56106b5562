"""Tensor intrinsics in TVMScript: what CPU and GPU instructions compute, and how to call them.

Importing a module of this package registers its intrinsics; `tir.TensorIntrin.get` imports the
module that defines a name (`tir/tensor_intrin.py` has the table). Programs that say `import tvm`
find the names of a machine in `tvm.tir.tensor_intrin.x86`, `.arm_cpu`, `.cuda`, `.rocm`,
`.hexagon` and `.dot_product_common`.
"""
