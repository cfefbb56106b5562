"""primitive: TransformLayout: raises InternalError in tir/schedule/verify.py:_verify_regions
(block _ of _ reads A_[_:_, _:_, _:_], which it does not declare)

Found by ``tilesmith fuzz tir``, seed 8600515.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'B1_o' of 'main' reads A0[0:1, 0:1, 0:3], which it does not declare
#   File "/work/wt/old/tilesmith/tir/schedule/primitive.py", line 217, in carry_out
#     return self._finish(sch, given, known, result)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/old/tilesmith/tir/schedule/primitive.py", line 303, in _finish
#     verify_state(sch.state)
#   File "/work/wt/old/tilesmith/tir/schedule/verify.py", line 43, in verify_state
#     _verify_regions(name, function_state)
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1, 4], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'A1', 'shape': [2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [2], 'dtype': 'int32'},
  {'name': 'T1', 'shape': [2], 'dtype': 'int32'},
  {'name': 'T2', 'shape': [1, 4, 2], 'dtype': 'int32'},
  {'name': 'A2', 'shape': [2, 2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T3', 'shape': [2, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1, 4), "int32"),
    A1: T.Buffer((2,), "int32"),
    T0: T.Buffer((2,), "int32"),
    T1: T.Buffer((2,), "int32"),
    T2: T.Buffer((1, 4, 2), "int32"),
    A2: T.Buffer((2, 2), "int32"),
    T3: T.Buffer((2, 1), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(2):
        with T.block("B0"):
            v0 = T.axis.spatial(2, i0)
            T.reads(A1[v0])
            T.writes(T0[v0])
            T0[v0] = A1[v0]
    for i0 in range(2):
        with T.block("B1"):
            v0 = T.axis.spatial(2, i0)
            T.reads(A0[0, 0, v0 % 4])
            T.writes(T1[v0])
            T1[v0] = A0[0, 0, v0 % 4] % 2
    for i0, i1, i2 in T.grid(1, 4, 2):
        with T.block("B2"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[v0, v0, v1])
            T.writes(T2[v0, v1, v2])
            T2[v0, v1, v2] = T.Div(A0[v0, v0, v1], 2)
    for i0, i1, i2 in T.grid(2, 1, 2):
        with T.block("B3"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A2[v0, v2])
            T.writes(T3[v0, v1])
            with T.init():
                T3[v0, v1] = 0
            T3[v0, v1] = T3[v0, v1] + A2[v0, v2]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (l1,) = sch.get_loops(b0)
    b2 = sch.blockize(l1, preserve_unit_iters=False)
    b3 = sch.get_block("B1", func_name="main")
    b4 = sch.cache_write(b3, 0, "global")
    b5 = sch.get_block("B1", func_name="main")
    sch.transform_layout(b5, ("write", 0), lambda i0: [i0 // 3, i0 % 3], pad_value=0)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
