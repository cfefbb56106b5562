"""pass: in lockstep: a undefined read

Found by ``tilesmith fuzz tir``, seed 2003887.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# thread (threadIdx=(0, 0, 0), blockIdx=(0, 0, 0)) reads T0[0] (shared), which was never written
# in main_kernel: `T4[threadIdx_x * 4:threadIdx_x * 4 + 4] = T.Select(T.Broadcast(threadIdx_x < 1,
# 4) and T.Broadcas...` in the loops again, v0_own
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 4], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T4', 'shape': [2, 4], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 4), "int32"), T4: T.Buffer((2, 4), "int32")):
    T.func_attr({"from_legacy_te_schedule": True, "tir.noalias": True})
    T0 = T.Buffer((1, 2), "int32", scope="shared")
    blockIdx_x = T.int32()
    T.attr(T.iter_var(blockIdx_x, None, "ThreadIndex", "blockIdx.x"), "thread_extent", 1)
    threadIdx_x = T.int32()
    T.attr(T.iter_var(threadIdx_x, None, "ThreadIndex", "threadIdx.x"), "thread_extent", 4)
    T.realize(T0[-1:2, 0:2], "")
    for v0, v1_own in T.grid(1, 1):
        if threadIdx_x + v1_own < 2:
            T0[v0, threadIdx_x + v1_own] = 0
            for v2 in T.unroll(4):
                T0[v0, threadIdx_x + v1_own] = T0[v0, threadIdx_x + v1_own] + A1[v0, v2]
    for _again, v0_own in T.grid(2, 1):
        if v0_own * 4 + threadIdx_x < 2:
            for v1 in T.vectorized(4):
                T4[v0_own * 4 + threadIdx_x, v1] = T.if_then_else(
                    v0_own * 4 + threadIdx_x < 1 and 2 <= v1,
                    T0[v0_own * 4 + threadIdx_x, v1 - 2],
                    0,
                )


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")
