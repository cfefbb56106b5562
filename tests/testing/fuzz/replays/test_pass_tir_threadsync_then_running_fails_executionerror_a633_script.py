"""pass: tir.ThreadSync: then running fails (ExecutionError)

Found by ``tilesmith fuzz tir``, seed 7802526.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# A0_shared[2] (scope shared) is read by thread (blockIdx.x=0, threadIdx.x=0) and was never
# written
ARGUMENTS = [[{'name': 'A0', 'shape': [3], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [3], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((3,), "int32"), T0: T.Buffer((3,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(3, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(A0[v0 % 3])
            T.writes(T0[v0])
            with T.init():
                T0[v0] = T.float32(340282346638528859811704183484516925440.0)
            T0[v0] = T.min(T0[v0], T.Cast("float32", A0[v0 % 3]))


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    l2, l3 = sch.get_loops(b1)
    l4, l5 = sch.split(l2, [None, 2])
    sch.bind(l4, "blockIdx.x")
    sch.bind(l5, "threadIdx.x")
    b6 = sch.get_block("root", func_name="main")
    (b7,) = sch.get_child_blocks(b6)
    l8, l9, l10 = sch.get_loops(b7)
    b11 = sch.cache_read(b7, 0, "shared")
    sch.compute_at(b11, l8)
    b12 = sch.get_block("root", func_name="main")
    b13, b14 = sch.get_child_blocks(b12)
    b15 = sch.cache_read(b14, 0, "shared")
    sch.set_scope(b15, 0, "shared")
    b16 = sch.get_block("root", func_name="main")
    b17, b18, b19 = sch.get_child_blocks(b16)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="opencl")
