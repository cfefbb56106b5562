"""pass: tir.ThreadSync: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 315606030.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# race: thread (blockIdx.x=0, threadIdx.x=0) writes T2_local[0] (scope global), thread
# (blockIdx.x=0, threadIdx.x=1) reads it, and no barrier stands between
#   put T.tvm_storage_sync("shared") between the two, or run ThreadSync
ARGUMENTS = [[{'name': 'T0_1', 'shape': [2], 'dtype': 'float32', 'low': 0, 'high': 5},
  {'name': 'T2', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0_1: T.Buffer((2,), "float32"), T2: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T1 = T.alloc_buffer((2,), "int32")
    for i0 in range(2):
        with T.block("B1"):
            v0 = T.axis.spatial(2, i0)
            T.reads(T0_1[v0])
            T.writes(T1[v0])
            T1[v0] = T.Cast("int32", T.max(T.min(T0_1[v0], T.float32(20.0)), T.float32(0.0)))
    for i0 in range(2):
        with T.block("B2"):
            v0 = T.axis.reduce(2, i0)
            T.reads(T1[0])
            T.writes(T2[0])
            with T.init():
                T2[0] = -2147483648
            T2[0] = T.max(T2[0], T.min(T1[0], 3))


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    b1, b2 = sch.get_child_blocks(b0)
    (l3,) = sch.get_loops(b2)
    (l4,) = sch.get_loops(b2)
    l5 = sch.add_unit_loop(l4)
    sch.bind(l5, "blockIdx.x")
    l6, l7 = sch.split(l3, [None, 16])
    sch.bind(l7, "threadIdx.x")
    b8 = sch.get_block("root", func_name="main")
    b9, b10 = sch.get_child_blocks(b8)
    b11 = sch.cache_write(b10, 0, "local")
    sch.set_scope(b10, 0, "global")
    b12 = sch.get_block("root", func_name="main")
    b13, b14, b15 = sch.get_child_blocks(b12)
    (l16,) = sch.get_loops(b13)
    l17 = sch.add_unit_loop(l16)
    sch.bind(l17, "threadIdx.x")
    (l18,) = sch.get_loops(b15)
    l19 = sch.add_unit_loop(l18)
    sch.bind(l19, "threadIdx.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")
