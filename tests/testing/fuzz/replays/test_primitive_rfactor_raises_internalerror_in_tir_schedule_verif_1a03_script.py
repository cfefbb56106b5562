"""primitive: RFactor: raises InternalError in tir/schedule/verify.py:_verify_regions (block
_ of _ reads index_var__[v_:v_ + T.int_(_)], which it does not d)

Found by ``tilesmith fuzz tir``, seed 8400793.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'B0' of 'main' reads index_var_0[v0:v0 + T.int64(1)], which it does not
# declare
#   File "/work/main/tilesmith/tir/schedule/primitive.py", line 217, in carry_out
#     return self._finish(sch, given, known, result)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/tir/schedule/primitive.py", line 303, in _finish
#     verify_state(sch.state)
#   File "/work/main/tilesmith/tir/schedule/verify.py", line 43, in verify_state
#     _verify_regions(name, function_state)
ARGUMENTS = [[{'name': 'T1', 'shape': [6], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((T.int64(6),), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((T.int64(6),), "int32")
    for i0, i1 in T.grid(T.int64(6), T.int64(1)):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads()
            T.writes(T0[v0])
            with T.init():
                T0[v0] = 2147483647
            T0[v0] = T.min(T0[v0], 4)
    for i0 in range(T.int64(6)):
        with T.block("B1"):
            v0 = T.axis.spatial(T.int64(6), i0)
            T.reads(T0[v0])
            T.writes(T1[v0])
            T1[v0] = T.Cast("int32", T.Cast("float32", T0[v0]))


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.transform_layout(b0, ("write", 0), lambda i0: [i0 // 3, i0 % 3], pad_value=0)
    b1 = sch.get_block("B0", func_name="main")
    b2, b3 = sch.cache_index(b1, "global", 2)
    b4 = sch.get_block("B0", func_name="main")
    l5, l6 = sch.get_loops(b4)
    sch.rfactor(l6, 1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
