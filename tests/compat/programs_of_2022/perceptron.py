"""A small perceptron of kernels, graph, registered functions and constants."""

# ruff: noqa: F821, UP037 - written as people wrote in 2022

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.ir.module import IRModule
from tvm.script import relax as R
from tvm.script import tir as T


@tvm.script.ir_module
class Net:
    @T.prim_func
    def scale0(
        X: T.Buffer[(1, 6), "float32"], S: T.Buffer[(6,), "float32"], Y: T.Buffer[(1, 6), "float32"]
    ):
        # function attr dict
        T.func_attr({"global_symbol": "scale0", "tir.noalias": True})
        for i, j in T.grid(1, 6):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * S[vj]

    @T.prim_func
    def project0(
        X: T.Buffer[(1, 6), "float32"],
        W: T.Buffer[(4, 6), "float32"],
        B: T.Buffer[(4,), "float32"],
        Z: T.Buffer[(1, 4), "float32"],
    ):
        T.func_attr({"global_symbol": "project0", "tir.noalias": True})
        Y = T.alloc_buffer((1, 4), "float32")
        for i, j, k in T.grid(1, 4, 6):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 4):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: Tensor((1, 6), "float32"),
        s: Tensor((6,), "float32"),
        w: Tensor((4, 6), "float32"),
        b: Tensor((4,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_tir(scale0, (x, s), (1, 6), dtype="float32")
            out = R.call_tir(project0, (lv0, w, b), (1, 4), dtype="float32")
            R.output(out)
        return out


@tvm.script.ir_module
class Mixed:
    @T.prim_func
    def scale0(
        X: T.Buffer[(1, 6), "float32"], S: T.Buffer[(6,), "float32"], Y: T.Buffer[(1, 6), "float32"]
    ):
        T.func_attr({"global_symbol": "scale0", "tir.noalias": True})
        for i, j in T.grid(1, 6):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * S[vj]

    @R.function
    def main(
        x: Tensor((1, 6), "float32"),
        s: Tensor((6,), "float32"),
        w: Tensor((4, 6), "float32"),
        b: Tensor((4,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_tir(scale0, (x, s), (1, 6), dtype="float32")
            out = R.call_tir("env.project", (lv0, w, b), (1, 4), dtype="float32")
            R.output(out)
        return out


@tvm.register_func("env.project", override=True)
def project(x: tvm.nd.NDArray, w: tvm.nd.NDArray, b: tvm.nd.NDArray, out: tvm.nd.NDArray):
    np.from_dlpack(out)[...] = x.numpy() @ w.numpy().T + b.numpy()


rng = np.random.default_rng(0)
x = rng.standard_normal((1, 6)).astype("float32")
params = {
    "s": rng.standard_normal(6).astype("float32"),
    "w": rng.standard_normal((4, 6)).astype("float32"),
    "b": rng.standard_normal(4).astype("float32"),
}
expected = (x * params["s"]) @ params["w"].T + params["b"]
nd_params = {k: tvm.nd.array(v) for k, v in params.items()}

assert isinstance(Net, IRModule)
ex = relax.vm.build(Net, target="llvm")
assert isinstance(ex, relax.vm.Executable)
vm = relax.VirtualMachine(ex, tvm.cpu())
res = vm["main"](tvm.nd.array(x), nd_params["s"], nd_params["w"], nd_params["b"])
np.testing.assert_allclose(res.numpy(), expected, rtol=1e-5)

vm = relax.VirtualMachine(relax.vm.build(Mixed, target="llvm"), tvm.cpu())
res = vm["main"](tvm.nd.array(x), nd_params["s"], nd_params["w"], nd_params["b"])
np.testing.assert_allclose(res.numpy(), expected, rtol=1e-5)

WithParams = relax.transform.BindParams("main", nd_params)(Net)
vm = relax.VirtualMachine(relax.vm.build(WithParams, target="llvm"), tvm.cpu())
np.testing.assert_allclose(vm["main"](tvm.nd.array(x)).numpy(), expected, rtol=1e-5)
timer = vm.module.time_evaluator("main", tvm.cpu(), number=2)
assert timer(tvm.nd.array(x)).mean > 0
print("ok")
