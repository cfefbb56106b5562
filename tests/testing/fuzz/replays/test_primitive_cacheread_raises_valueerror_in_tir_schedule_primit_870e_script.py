"""primitive: CacheRead: raises ValueError in
tir/schedule/primitives/copies.py:statement_number

Found by ``tilesmith fuzz tir``, seed 20731.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#     place = _place_between(state, "cache_read", scope, writers, wanted, buffer)
#             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/cache.py", line 227, in _place_between
#     early = [r for r in readers if statement_number(state, place, r) <= last]
#             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/cache.py", line 227, in <listcomp>
#     early = [r for r in readers if statement_number(state, place, r) <= last]
#                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/copies.py", line 46, in statement_number
#     return state.child_srefs(place).index(top)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
# ValueError: StmtSRef(gone) is not in list
ARGUMENTS = [[{'name': 'A0', 'shape': [1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1,), "float32"), T2: T.Buffer((1, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1,), "float32")
    T1 = T.alloc_buffer((1,), "float32")
    for i0 in range(1):
        with T.block("B0"):
            v0 = T.axis.reduce(1, i0)
            T.reads(A0[v0])
            T.writes(T0[0])
            with T.init():
                T0[0] = T.float32(0)
            T0[0] = T0[0] + T.Min(A0[v0], A0[v0])
    for i0 in range(1):
        with T.block("B1"):
            v0 = T.axis.reduce(1, i0)
            T.reads(T0[0])
            T.writes(T1[0])
            with T.init():
                T1[0] = T.float32(-3.4028234663852886e38)
            T1[0] = T.max(T1[0], T0[0])
    for i0 in range(1):
        with T.block("B2"):
            v0 = T.axis.spatial(1, i0)
            T.reads(T1[0], T2[v0, 0])
            T.writes(T2[v0, 0])
            with T.block("B2_steps"):
                T.reads(T1[0], T2[v0, 0])
                T.writes(T2[v0, 0])
                B2_count = T.alloc_buffer((1,), "int32", scope="local")
                B2_count[0] = 0
                while B2_count[0] < 1:
                    with T.LetStmt(B2_count[0], T.int32) as v1:
                        if v1 == 0:
                            T2[v0, v1] = T.Cast("int32", T1[0])
                        else:
                            T2[v0, v1] = T2[v0, v1 - 1] + T.Cast("int32", T1[0])
                    B2_count[0] = B2_count[0] + 1


def schedule(sch):
    b0 = sch.get_block("B2_steps", func_name="main")
    b1 = sch.get_block("B2", func_name="main")
    sch.cache_read(b0, 1, "local", consumer_blocks=[b1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
