"""pass: tir.ConvertBlocksToOpaque: wrong result

Found by ``tilesmith fuzz tir``, seed 8801172.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 1 elements differ, first at [0]: 2 instead of 0
ARGUMENTS = [[{'name': 'A1',
   'shape': [3],
   'dtype': 'float32',
   'low': 0,
   'high': 500,
   'distinct': True},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T1_1', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A1: T.Buffer((3,), "float32"), T1: T.Buffer((1,), "int32"), T1_1: T.Buffer((1,), "float32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(3):
        at: T.int32 = i0
        with T.block("B1"):
            v0 = T.axis.reduce(3, at)
            T.reads(A1[v0])
            T.writes(T1[0], T1_1[0])
            with T.init():
                T1[0] = -1
                T1_1[0] = T.float32(-340282346638528859811704183484516925440.0)
            v_number: T.int32 = T.Select(T1_1[0] >= A1[v0], T1[0], v0)
            v_best: T.float32 = T.Select(T1_1[0] >= A1[v0], T1_1[0], A1[v0])
            T1[0] = v_number
            T1_1[0] = v_best


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (l1,) = sch.get_loops(b0)
    sch.bind(l1, "threadIdx.x")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
