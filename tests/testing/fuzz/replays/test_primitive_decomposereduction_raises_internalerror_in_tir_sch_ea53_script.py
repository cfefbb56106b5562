"""primitive: DecomposeReduction: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions

Found by ``tilesmith fuzz tir``, seed 20434.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#   File "/tmp/snap/tilesmith/testing/fuzz/steps.py", line 50, in call
#     result = getattr(self.sch, method)(*given, **named)
#              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/schedule/schedule.py", line 293, in decompose_reduction
#     self._record("DecomposeReduction", [block, loop], [], [init])
#   File "/tmp/snap/tilesmith/tir/schedule/base.py", line 226, in _record
#     primitives.verify_state(self.state)
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
#     raise InternalError(
# tilesmith.support.errors.InternalError: block 'B0_o' of 'main' reads T0[0:4, v1_o:v1_o + 1],
# which it does not declare
ARGUMENTS = [[{'name': 'T0', 'shape': [4, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((4, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(4, 1, 3):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads()
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.blockize(l1, preserve_unit_iters=False)
    b5 = sch.get_block("B0", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    sch.decompose_reduction(b5, l8)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
