"""primitive: CacheRead: raises InternalError in ? (block _ of _ reads A_[v__o:v__o + _, _:_,
_:_], which it does not decl)

Found by ``tilesmith fuzz tir``, seed 140000749.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'B0_o' of 'main' reads A0[v0_o:v0_o + 1, 0:0, 0:1], which it does not
# declare
#   File "/work/wt/fuzz/tilesmith/tir/schedule/primitive.py", line 217, in carry_out
#     return self._finish(sch, given, known, result)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fuzz/tilesmith/tir/schedule/primitive.py", line 303, in _finish
#     verify_state(sch.state)
#   File "/work/wt/fuzz/tilesmith/tir/schedule/verify.py", line 43, in verify_state
#     _verify_regions(name, function_state)
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 2, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2, 1, 1), "float32"), T0: T.Buffer((1, 2, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(2, 1, 1):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[v0, v1 - 2, v1])
            T.writes(T0[v1, v0, v2])
            T0[v1, v0, v2] = T.Cast(
                "int32", T.if_then_else(0 <= v1 - 2, A0[v0, v1 - 2, v1], T.float32(0.0))
            )


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.get_block("B0", func_name="main")
    b2 = sch.blockize([b0, b1])
    b3 = sch.get_block("B0", func_name="main")
    sch.cache_read(b3, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
