"""primitive: Split: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions

Found by ``tilesmith fuzz tir``, seed 2214.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#   File "/tmp/snap/tilesmith/testing/fuzz/steps.py", line 50, in call
#     result = getattr(self.sch, method)(*given, **named)
#              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/schedule/schedule.py", line 122, in split
#     self._record(
#   File "/tmp/snap/tilesmith/tir/schedule/base.py", line 226, in _record
#     primitives.verify_state(self.state)
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
#     raise InternalError(
# tilesmith.support.errors.InternalError: block 'B3_o' of 'main' reads A2[0:3, 0:1], which it does
# not declare
ARGUMENTS = [[{'name': 'A2', 'shape': [3, 2], 'dtype': 'bool', 'low': 0, 'high': 1},
  {'name': 'T2', 'shape': [1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [3], 'dtype': 'float32'},
  {'name': 'T3', 'shape': [2], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A2: T.Buffer((3, 2), "bool"),
    T2: T.Buffer((1,), "int32"),
    T1: T.Buffer((3,), "float32"),
    T3: T.Buffer((2,), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((3, 3), "float32")
    for i0, i1, i2 in T.grid(3, 3, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads()
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.float32(0)
            T0[v0, v1] = T0[v0, v1]
    for i0 in range(3):
        with T.block("B1"):
            v0 = T.axis.spatial(3, i0)
            T.reads()
            T.writes(T1[v0])
            T1[v0] = T.Max(T.float32(0), T.float32(0))
    for i0 in range(2):
        with T.block("B3"):
            v0 = T.axis.spatial(2, i0)
            T.reads(T0[0, 0], T2[0], A2[v0 // 5 % 3, 0])
            T.writes(T3[v0])
            T3[v0] = T.min(
                T.max(T.Cast("int32", T0[0, 0]), T2[0]) % 2, T.Cast("int32", A2[v0 // 5 % 3, 0])
            )


def schedule(sch):
    b0 = sch.get_block("B3", func_name="main")
    (l1,) = sch.get_loops(b0)
    b2 = sch.blockize(l1, preserve_unit_iters=False)
    b3 = sch.get_block("B3", func_name="main")
    (l4,) = sch.get_loops(b3)
    sch.split(l4, [1, 2])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
