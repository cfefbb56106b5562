"""A block with an init whose axes are all spatial."""

from tilesmith.script import tir as T


@T.prim_func
def sums(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32")):
    for i, k in T.grid(16, 16):
        with T.block("sum"):
            vi, vk = T.axis.remap("SS", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
