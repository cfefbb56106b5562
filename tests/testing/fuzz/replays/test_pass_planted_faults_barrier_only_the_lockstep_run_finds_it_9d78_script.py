"""pass: planted faults: barrier: only the lockstep run finds it

Found by ``tilesmith fuzz tir``, seed 2006882.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# a barrier less (number 0): race: thread (threadIdx=(1, 0, 0), blockIdx=(0, 0, 0)) writes
# A1_shared[4] (shared), thread (threadIdx=(0, 0, 0)) reads it, and no barrier stands between
# # from tilesmith.script import tir as T
# @T.prim_func
# def main(A1: T.Buffer((3, 2), "int32"), T0: T.Buffer((3,), "int32")):
#     T.func_attr({"target": T.target({"kind": "cuda", "keys": ["cuda", "gpu"], "max_num_threads":
# 1024, "thread_warp_size": 32, "host": {"kind": "llvm", "keys": ["cpu"]}}), "tir.is_entry_func":
# True, "tir.noalias": True})
#     A1_1 = T.decl_buffer((6,), "int32", data=A1.data)
#     blockIdx_x = T.launch_thread("blockIdx.x", 1)
ARGUMENTS = [[{'name': 'A1', 'shape': [3, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [3], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((3, 2), "int32"), T0: T.Buffer((3,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(3):
        with T.block("B0"):
            v0 = T.axis.spatial(3, i0)
            T.reads(A1[v0:3, 0:2])
            T.writes(T0[v0])
            if v0 >= 126:
                T0[v0] = -1
            else:
                T0[v0] = A1[v0, A1[2, 0] % 2]


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    (l2,) = sch.get_loops(b1)
    l3, l4, l5 = sch.split(l2, [None, 4, 4])
    sch.bind(l3, "blockIdx.x")
    sch.bind(l4, "threadIdx.x")
    sch.vectorize(l5)
    b6 = sch.get_block("root", func_name="main")
    (b7,) = sch.get_child_blocks(b6)
    l8, l9, l10 = sch.get_loops(b7)
    b11 = sch.cache_read(b7, 0, "shared")
    sch.compute_at(b11, l10)
    b12 = sch.get_block("root", func_name="main")
    b13, b14 = sch.get_child_blocks(b12)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda", planted=True)
