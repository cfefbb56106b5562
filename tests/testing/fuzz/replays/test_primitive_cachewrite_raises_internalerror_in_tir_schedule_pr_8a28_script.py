"""primitive: CacheWrite: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions (block _ of _ reads
T__local[T.int_(_):T.int_(_), T.int_(_):T.int_(_)],)

Found by ``tilesmith fuzz tir``, seed 60240.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'B1' of 'main' reads T0_local[T.int64(0):T.int64(1),
# T.int64(0):T.int64(1)], which it does not declare
#   File "/tmp/snap/tilesmith/tir/schedule/buffer_methods.py", line 48, in cache_write
#     self._record(
#   File "/tmp/snap/tilesmith/tir/schedule/base.py", line 241, in _record
#     primitives.verify_state(self.state)
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/tmp/snap/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((T.int64(1), T.int64(1)), "int32"),
    T1: T.Buffer((T.int64(1), T.int64(1)), "int32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((T.int64(1), T.int64(1)), "int32")
    for i0, i1 in T.grid(T.int64(1), T.int64(1)):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[T.int64(0), T.int64(0)])
            T.writes(T0[v0, v1])
            T0[v0, v1] = A0[T.int64(0), T.int64(0)] // 3
    for i0 in range(T.int64(1)):
        with T.block("B1"):
            v0 = T.axis.spatial(T.int64(1), i0)
            T.reads(T0[T.int64(0), T.int64(0)], T1[v0, T.int64(0)])
            T.writes(T1[v0, T.int64(0)])
            with T.block("B1_steps"):
                T.reads(T0[T.int64(0), T.int64(0)], T1[v0, T.int64(0)])
                T.writes(T1[v0, T.int64(0)])
                B1_count = T.alloc_buffer((1,), "int64", scope="local")
                B1_count[T.int64(0)] = T.int64(0)
                while B1_count[T.int64(0)] < T.int64(1):
                    with T.LetStmt(B1_count[T.int64(0)], T.int64) as v1:
                        if v1 == T.int64(0):
                            T1[v0, v1] = T0[T.int64(0), T.int64(0)]
                        else:
                            T1[v0, v1] = T1[v0, v1 - T.int64(1)] + T0[T.int64(0), T.int64(0)]
                    B1_count[T.int64(0)] = B1_count[T.int64(0)] + T.int64(1)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.blockize(l1)
    b4 = sch.get_block("B0_o", func_name="main")
    b5 = sch.get_block("B1_steps", func_name="main")
    sch.cache_write(b4, 0, "local", consumer_blocks=[b5])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
