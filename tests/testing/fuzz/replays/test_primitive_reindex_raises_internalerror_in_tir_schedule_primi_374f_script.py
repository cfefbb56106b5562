"""primitive: ReIndex: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions (block _ of _ reads A_[v_ % _:v_ % _ +
_, (v_ * _ - _) % _:(v_ * _ - _))

Found by ``tilesmith fuzz tir``, seed 4000669.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'T0_reindex' of 'main' reads A0[v0 % 2:v0 % 2 + 1, (v0 * 3 - 3) % 3:(v0 * 3
# - 3) % 3 + 1, 0:1], which it does not declare
#   File "/tmp/fz2/tilesmith/tir/schedule/buffer_methods.py", line 101, in reindex
#     self._record("ReIndex", [block], [(kind, index)], [copy])
#   File "/tmp/fz2/tilesmith/tir/schedule/base.py", line 241, in _record
#     primitives.verify_state(self.state)
#   File "/tmp/fz2/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/tmp/fz2/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 4], 'dtype': 'int32', 'low': -4, 'high': 4},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'},
  {'name': 'A0', 'shape': [2, 3, 4], 'dtype': 'int32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(
    T0: T.Buffer((1, 4), "int32"),
    T1: T.Buffer((1,), "int32"),
    A0: T.Buffer((2, 3, 4), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(1):
        with T.block("B1"):
            v0 = T.axis.reduce(1, i0)
            T.reads(T0[v0, 0:4], A0[v0 % 2, (v0 * 3 - 3) % 3, 0])
            T.writes(T1[0])
            with T.init():
                T1[0] = -2147483648
            T1[0] = T.max(T1[0], T0[v0, A0[v0 % 2, (v0 * 3 - 3) % 3, 0] % 4])


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    sch.reindex(b0, ("read", 0))


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
