"""primitive: SamplePerfectTile: raises IndexError in
tir/schedule/primitives/sampling.py:sample_perfect_tile

Found by ``tilesmith fuzz tir``, seed 8114416.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# IndexError: Cannot choose from an empty sequence
#   File "/work/main/tilesmith/tir/schedule/primitive.py", line 212, in carry_out
#     result = self.function(*known.values()) if self._is_plain else self._call(known)
#                                                                    ^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/tir/schedule/primitive.py", line 230, in _call
#     return self.function(*positional, **named)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/tir/schedule/primitives/sampling.py", line 115, in
# sample_perfect_tile
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 4], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1), "int32"), T0: T.Buffer((1, 4), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 4):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A1[0, 2])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.if_then_else(v0 + 2 < 1, A1[0, 2], 0)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "global")
    b2 = sch.get_block("A1_global", func_name="main")
    l3, l4 = sch.get_loops(b2)
    sch.sample_perfect_tile(l4, 2, 4)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
