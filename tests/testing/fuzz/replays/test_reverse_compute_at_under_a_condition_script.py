"""pass: tir.PlanAndUpdateBufferAllocationLocation: wrong result

Found by ``tilesmith fuzz tir``, seed 5266.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T0_1': 1 of 1 elements differ, first at [0]: 1515870810 instead of 0
ARGUMENTS = [[{'name': 'A1',
   'shape': [1],
   'dtype': 'int32',
   'low': 0,
   'high': 500,
   'distinct': True},
  {'name': 'T0', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T0_1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1,), "int32"), T0: T.Buffer((1,), "int32"), T0_1: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(1):
        with T.block("B0"):
            v0 = T.axis.reduce(1, i0)
            T.reads(A1[v0])
            T.writes(T0[0], T0_1[0])
            with T.init():
                T0[0] = -1
                T0_1[0] = -2147483648
            v_number: T.int32 = T.Select(T0_1[0] >= A1[v0], T0[0], v0)
            v_best: T.int32 = T.Select(T0_1[0] >= A1[v0], T0_1[0], A1[v0])
            T0[0] = v_number
            T0_1[0] = v_best


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.reindex_cache_read(b0, 0, "local", lambda i0: [i0])
    b2 = sch.get_block("A1_local", func_name="main")
    (l3,) = sch.get_loops(b2)
    l4, l5 = sch.split(l3, [1, 2])
    b6 = sch.get_block("A1_local", func_name="main")
    sch.transform_layout(b6, ("write", 0), lambda i0: [i0 // 3, i0 % 3])
    b7 = sch.get_block("B0", func_name="main")
    (b8,) = sch.get_producers(b7)
    l9, l10 = sch.get_loops(b8)
    sch.reverse_compute_at(b7, l10)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
