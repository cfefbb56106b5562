"""A product with an activation, scheduled by hand."""

# ruff: noqa: F821 - written as people wrote in 2022

import numpy as np
import tvm
from tvm import te
from tvm.script import tir as T


@tvm.script.ir_module
class Module:
    @T.prim_func
    def mm_relu(
        A: T.Buffer[(32, 32), "float32"],
        B: T.Buffer[(32, 32), "float32"],
        C: T.Buffer[(32, 32), "float32"],
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((32, 32), dtype="float32")
        for i, j, k in T.grid(32, 32, 32):
            with T.block("Y"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.spatial(32, j)
                vk = T.axis.reduce(32, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 32):
            with T.block("C"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.spatial(32, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def transform(mod, jfactor):
    sch = tvm.tir.Schedule(mod)
    block_Y = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, jfactor])
    sch.reorder(j0, k, j1)
    block_C = sch.get_block("C", "mm_relu")
    sch.reverse_compute_at(block_C, j0)
    sch.decompose_reduction(block_Y, k)
    return sch.mod


def check(lib, name="mm_relu"):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((32, 32)).astype("float32") for _ in range(2))
    a_nd, b_nd = tvm.nd.array(a), tvm.nd.array(b)
    c_nd = tvm.nd.empty((32, 32), dtype="float32")
    lib[name](a_nd, b_nd, c_nd)
    np.testing.assert_allclose(c_nd.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)
    assert lib.time_evaluator(name, tvm.cpu())(a_nd, b_nd, c_nd).mean > 0


check(tvm.build(Module, target="llvm"))
changed = transform(Module, jfactor=8)
assert "Y_init" in changed.script()
check(tvm.build(changed, target="llvm"))

A = te.placeholder((32, 32), "float32", name="A")
B = te.placeholder((32, 32), "float32", name="B")
k = te.reduce_axis((0, 32), "k")
Y = te.compute((32, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="Y")
C = te.compute((32, 32), lambda i, j: te.max(Y[i, j], 0), name="C")
func = te.create_prim_func([A, B, C]).with_attr({"global_symbol": "mm_relu"})
mod = tvm.IRModule({"mm_relu": func})
check(tvm.build(transform(mod, 4), target="llvm"))

sch = tvm.tir.Schedule(Module)
block = sch.get_block("Y", "mm_relu")
i, j, k = sch.get_loops(block)
i0, i1 = sch.split(i, [None, 8])
j0, j1 = sch.split(j, [None, 8])
k0, k1 = sch.split(k, [None, 4])
sch.reorder(i0, j0, k0, i1, j1, k1)
sch.blockize(loop=i1)
check(tvm.build(sch.mod, target="llvm"))
print("ok")
