"""codegen: opencl: raises CodegenError in codegen/gpu/expressions.py:_lane

Found by ``tilesmith fuzz tir --field gpu``, seed 131: a divisor that all lanes share is checked
under a condition of each lane.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

ARGUMENTS = [[{'name': 'A0', 'shape': [7], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [3, 3, 8], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((7,), "int32"), T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    a = T.int32()
    T0 = T.match_buffer(T0_handle, (a, a, 8), "int32")
    # with T.block("root"):
    for i0, i1, i2 in T.grid(a, a, 8):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[T.min((v2 + 2) // 5, v1 % 7) : T.max((v2 + 2) // 5, v1 % 7) + 1])
            T.writes(T0[v0, v1, v2])
            T0[v0, v1, v2] = T.bitwise_xor(T.Div(A0[(v2 + 2) // 5 % 7], 4), T.Div(A0[v1 % 7], 8))


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    l2, l3, l4 = sch.get_loops(b1)
    l5 = sch.fuse(l2, l3, l4)
    l6, l7, l8 = sch.split(l5, [None, 16, 16])
    sch.bind(l6, "blockIdx.x")
    sch.bind(l7, "threadIdx.x")
    sch.vectorize(l8)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"], device="cuda")
