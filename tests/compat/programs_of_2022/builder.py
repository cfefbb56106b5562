"""Graphs made with a builder, with tensor expressions and operators."""

import numpy as np
import tvm
from tvm import relax, te, topi


def te_matmul(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    n, m, inner = a.shape[0], b.shape[1], a.shape[1]
    k = te.reduce_axis((0, inner), name="k")
    return te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")


def te_relu(a):
    return te.compute(a.shape, lambda *i: te.max(a(*i), 0), name="relu")


A = relax.Var("A", (8, 8), relax.DynTensorType(2, "float32"))
B = relax.Var("B", (8, 8), relax.DynTensorType(2, "float32"))
bb = relax.BlockBuilder()
with bb.function("main"):
    with bb.dataflow():
        C = bb.emit_te(te_matmul, A, B)
        D = bb.emit_te(te_relu, C)
        R = bb.emit_output(D)
    bb.emit_func_output(R, params=[A, B])
module = bb.get()
module.show()
vm = relax.VirtualMachine(relax.vm.build(module, "llvm"), tvm.cpu())
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((8, 8)).astype("float32") for _ in range(2))
np.testing.assert_allclose(
    vm["main"](tvm.nd.array(a), tvm.nd.array(b)).numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5
)

weight = rng.standard_normal((5, 8)).astype("float32")
bias = rng.standard_normal(5).astype("float32")


def perceptron():
    bb = relax.BlockBuilder()
    x = relax.Var("x", [2, 8], relax.DynTensorType(2, "float32"))
    w = relax.const(weight, relax.DynTensorType(2, "float32"))
    b = relax.const(bias, "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.dense(x, w))
            lv1 = bb.emit(relax.op.add(lv0, b))
            gv = bb.emit_output(relax.op.relu(lv1))
        bb.emit_func_output(gv)
    return bb.get()


model = perceptron()
x = rng.standard_normal((2, 8)).astype("float32")
want = np.maximum(x @ weight.T + bias, 0)
vm = relax.VirtualMachine(relax.vm.build(model, "llvm"), tvm.cpu())
np.testing.assert_allclose(vm["main"](tvm.nd.array(x)).numpy(), want, rtol=1e-4, atol=1e-5)

# sizes that are known when the function runs, and a tensor of which only the rank is known
n = tvm.tir.Var("n", "int64")
bb = relax.BlockBuilder()
x_ = relax.Var("x", (n, 8), relax.DynTensorType(2, "float32"))
with bb.function("main", [x_]):
    bb.emit_func_output(bb.emit_te(topi.nn.dense, x_, relax.const(weight)))
vm = relax.VirtualMachine(relax.vm.build(bb.get(), "llvm"), tvm.cpu())
np.testing.assert_allclose(vm["main"](tvm.nd.array(x)).numpy(), x @ weight.T, rtol=1e-4, atol=1e-5)
assert relax.Var("u", None, relax.DynTensorType(3, "int8")).checked_type.ndim == 3


# an operator by name of a registered function
@tvm.register_func("env.negate2022", override=True)
def negate(x, out):
    out.copyfrom(-x.numpy())


bb = relax.BlockBuilder()
y = relax.Var("y", (2, 8), relax.DynTensorType(2, "float32"))
with bb.function("main", [y]):
    with bb.dataflow():
        gv = bb.emit_output(
            relax.op.call_tir(relax.extern("env.negate2022"), (y,), (2, 8), dtype="float32")
        )
    bb.emit_func_output(gv)
vm = relax.VirtualMachine(relax.vm.build(bb.get(), "llvm"), tvm.cpu())
np.testing.assert_allclose(vm["main"](tvm.nd.array(x)).numpy(), -x)
print("ok")
