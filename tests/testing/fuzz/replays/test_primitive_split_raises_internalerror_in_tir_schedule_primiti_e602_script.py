"""primitive: Split: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions (block _ of _ reads T_[_:_, _:_], which
it does not declare)

Found by ``tilesmith fuzz tir``, seed 5011367.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'B1_o' of 'main' reads T0[0:4, 0:1], which it does not declare
#   File "/tmp/fz3/tilesmith/tir/schedule/schedule.py", line 125, in split
#     self._record(
#   File "/tmp/fz3/tilesmith/tir/schedule/base.py", line 241, in _record
#     primitives.verify_state(self.state)
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
ARGUMENTS = [[{'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T1: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((5, 1), "int32")
    for i0, i1 in T.grid(5, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads()
            T.writes(T0[v0, v1])
            T0[v0, v1] = 5
    for i0 in range(3):
        with T.block("B1"):
            v0 = T.axis.reduce(3, i0)
            T.reads(T0[v0 % 5, 0])
            T.writes(T1[0])
            with T.init():
                T1[0] = -2147483648
            T1[0] = T.max(T1[0], T0[v0 % 5, 0])


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    (l1,) = sch.get_loops(b0)
    b2 = sch.blockize(l1)
    b3 = sch.get_block("B1", func_name="main")
    (l4,) = sch.get_loops(b3)
    sch.split(l4, [None, 2])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
