"""The law of the script at each stage of lowering: what a pass leaves can be read and parsed."""

import pytest

from tilesmith import lowering, tir
from tilesmith.ir.transform import PassContext
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.script.instrument import RoundTrip
from tilesmith.support.errors import VerifyError


@I.ir_module
class Matmul:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 17), "float32")
        B = T.match_buffer(b, (17, 33), "float32")
        C = T.match_buffer(c, (n, 33), "float32")
        Y = T.alloc_buffer((n, 33))
        for i, j, k in T.grid(n, 33, 17):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = 0.0
                Y[vi, vj] += A[vi, vk] * B[vk, vj]
        for i in T.parallel(n):
            for j in T.vectorized(33):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.max(Y[vi, vj], 0.0) + T.exp(Y[vi, vj])


@I.ir_module
class Unrolled:
    @T.prim_func
    def main(A: T.Buffer((64,), "int64"), B: T.Buffer((64,), "int64")):
        for i in range(16):
            for j in T.unroll(4):
                with T.block("B"):
                    vi = T.axis.spatial(64, i * 4 + j)
                    if vi % 3 == 0:
                        B[vi] = A[vi] // T.int64(3)
                    else:
                        B[vi] = T.if_then_else(vi < 60, A[vi + 4], T.int64(0))


@I.ir_module
class Packed:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "float16", strides=(16, 1)), x: T.float32):
        S = T.alloc_buffer((8,), "float16", scope="local")
        for i in range(8):
            with T.block("S"):
                vi = T.axis.spatial(8, i)
                S[vi] = T.Cast("float16", T.Cast("float32", A[vi, 0]) * x)
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + S[vi]


@pytest.mark.parametrize("module", [Matmul, Unrolled, Packed], ids=["matmul", "unrolled", "packed"])
def test_every_stage_parses_back(module):
    round_trip = RoundTrip()
    with PassContext(instruments=[round_trip]):
        lowering.build(module, target="llvm")
    assert len(round_trip.passes) > 15


def test_a_broken_law_names_the_pass():
    free = tir.Var("free", "int32")

    @tir.transform.prim_func_pass(opt_level=0, name="Breaks")
    def breaks(func, mod, context):
        return func.with_body(tir.Evaluate(free))

    with PassContext(instruments=[RoundTrip()]):
        with pytest.raises(VerifyError, match="after Breaks does not parse back"):
            breaks(Unrolled)
