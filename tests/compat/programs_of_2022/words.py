"""Annotations and words of early scripts."""

# ruff: noqa: F821 - written as people wrote in 2022

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.script import relax as R


@tvm.script.ir_module
class M:
    @R.function
    def rank_only(x: Tensor(None, "float32", ndim=2)) -> Tensor(None, "float32", ndim=2):
        y = R.nn.relu(x)
        return y

    @R.function
    def several(x: Tensor((n, m), "float32"), y: Tensor((n, m), "float32")) -> Tuple(
        Tensor((n, m), "float32"), Object
    ):
        z = relax.add(x, y)
        return (z, x)

    @R.function
    def size(s: Shape) -> Object:
        return s


n = M["several"].params[0].struct_info.shape[0]
assert n is M["several"].params[1].struct_info.shape[0] and n.name == "n"
assert M["rank_only"].params[0].struct_info.ndim == 2
del M["rank_only"], M["size"]
vm = relax.VirtualMachine(relax.vm.build(M, "llvm"), tvm.cpu())
x = tvm.nd.array(np.full((2, 3), -1, "float32"))
np.testing.assert_array_equal(vm["several"](x, x)[0].numpy(), np.full((2, 3), -2, "float32"))
print("ok")
