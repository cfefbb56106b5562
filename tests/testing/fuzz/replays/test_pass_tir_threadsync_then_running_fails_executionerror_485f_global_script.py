"""pass: tir.ThreadSync: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 9102260.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# race: thread (blockIdx.x=0, threadIdx.x=0) reads T0[0] (scope global), thread (blockIdx.x=0,
# threadIdx.x=1) writes it, and no barrier stands between
#   put T.tvm_storage_sync("shared") between the two, or run ThreadSync
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [3, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 1), "int32"), T1: T.Buffer((3, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2,), "int32")
    for i0, i1 in T.grid(2, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A0[0, 0])
            T.writes(T0[v0])
            with T.init():
                T0[v0] = 2147483647
            T0[v0] = T.min(T0[v0], T.max(A0[0, 0], 2))
    for i0, i1 in T.grid(3, 1):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads()
            T.writes(T1[v0, v1])
            T1[v0, v1] = 0


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    b1, b2 = sch.get_child_blocks(b0)
    l3, l4 = sch.get_loops(b1)
    l5, l6, l7 = sch.split(l3, [None, 2, 4])
    sch.bind(l5, "blockIdx.x")
    sch.bind(l6, "vthread.x")
    sch.bind(l7, "threadIdx.x")
    b8 = sch.get_block("root", func_name="main")
    b9, b10 = sch.get_child_blocks(b8)
    l11, l12 = sch.get_loops(b10)
    l13 = sch.add_unit_loop(l11)
    sch.bind(l13, "threadIdx.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="opencl")
