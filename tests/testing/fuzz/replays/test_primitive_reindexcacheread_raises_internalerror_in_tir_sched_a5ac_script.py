"""primitive: ReindexCacheRead: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions (block _ of _ reads A_[(v_ * _ - _) %
_:(v_ * _ - _) % _ + _, _ - v_:_)

Found by ``tilesmith fuzz tir``, seed 5448.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'T1_global' of 'main' reads A0[(v0 * 2 - 1) % 2:(v0 * 2 - 1) % 2 + 1, 1 -
# v0:1 - v0 + 1], which it does not declare
#   File "/work/main/tilesmith/tir/schedule/buffer_methods.py", line 84, in _reindex_cache
#     self._record(name, [block], [index, storage_scope, mapping], [copy])
#   File "/work/main/tilesmith/tir/schedule/base.py", line 241, in _record
#     primitives.verify_state(self.state)
#   File "/work/main/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/work/main/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
ARGUMENTS = [[{'name': 'A0', 'shape': [2, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [2, 2], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [2, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((2, 2), "int32"),
    T1: T.Buffer((2, 2), "int32"),
    T2: T.Buffer((2, 1), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(2, 1):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T1[0:2, 0], A0[(v0 * 2 - 1) % 2, 1 - v0])
            T.writes(T2[v0, v1])
            x = T.float32()
            T2[v0, v1] = T.Let(
                T.max(x, T.Cast("float32", T1[A0[(v0 * 2 - 1) % 2, 1 - v0] % 2, 0])),
                where={x: T.Cast("float32", v1)},
            )


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    sch.reindex_cache_read(b0, 0, "global", lambda i0, i1: [i0, i1])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
