"""pass: tir.LoopPartition: raises TypeMismatchError in tir/functor.py:substitute

Found by ``tilesmith fuzz tir``, seed 8000593.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: variable 'i0_1' is int32, its value is int64
#   in the function 'main'
#   in the pass 'tir.LoopPartition'
#   File "/tmp/fz6/tilesmith/tir/transform/loops/loop_partition.py", line 176, in visit_For
#     divided = self.divided(loop, not hinted)
#               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz6/tilesmith/tir/transform/loops/loop_partition.py", line 202, in divided
#     self.part(loop, end, stop, renew_defs(body)),  # type: ignore[arg-type]
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T4', 'shape': [1], 'dtype': 'uint4'},
  {'name': 'T3', 'shape': [1, 4], 'dtype': 'float32'}],
 [{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T4', 'shape': [1], 'dtype': 'uint4'},
  {'name': 'T3', 'shape': [1, 4], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A0_handle: T.handle, T4_handle: T.handle, T3: T.Buffer((T.int64(1), T.int64(4)), "float32")
):
    T.func_attr({"tir.noalias": True})
    c = T.int64()
    A0 = T.match_buffer(A0_handle, (c, T.int64(1)))
    T4 = T.match_buffer(T4_handle, (c,), "uint4")
    # with T.block("root"):
    T0 = T.alloc_buffer((T.int64(2), T.int64(1)))
    T1 = T.alloc_buffer((T.int64(1), T.int64(1)))
    T2 = T.alloc_buffer((T.int64(3), T.int64(4)))
    for i0, i1 in T.grid(T.int64(2), T.int64(1)):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[T.int64(0), T.int64(0)])
            T.writes(T0[v0, v1])
            T0[v0, v1] = A0[T.int64(0), T.int64(0)]
    for i0, i1, i2 in T.grid(T.int64(1), T.int64(1), T.int64(2)):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T0[T.int64(0), v1])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = T.float32(-340282346638528859811704183484516925440.0)
            T1[v0, v1] = T.max(T1[v0, v1], T0[T.int64(0), v1])
    for i0, i1 in T.grid(T.int64(3), T.int64(4)):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(T1[T.int64(0), T.int64(0)])
            T.writes(T2[v0, v1])
            T2[v0, v1] = T1[T.int64(0), T.int64(0)]
    for i0, i1, i2 in T.grid(T.int64(1), T.int64(4), T.int64(3)):
        with T.block("B3"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T2[T.int64(0), v1])
            T.writes(T3[v0, v1])
            with T.init():
                T3[v0, v1] = T.float32(-340282346638528859811704183484516925440.0)
            T3[v0, v1] = T.max(T3[v0, v1], T2[T.int64(0), v1])
    for i0_0, i0_1, i1 in T.grid((c + T.int64(1)) // T.int64(2), T.int64(2), T.int64(2)):
        with T.block("B4"):
            v0 = T.axis.spatial(c, i0_0 * T.int64(2) + i0_1)
            v1 = T.axis.reduce(T.int64(2), i1)
            T.where(i0_0 * T.int64(2) + i0_1 < c)
            T.reads()
            T.writes(T4[v0])
            with T.init():
                T4[v0] = T.uint4(0)
            T4[v0] = T4[v0] + T.Cast("uint4", T.Cast("float32", v0))


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    sch.compute_inline(b0)
    b1 = sch.get_block("B4", func_name="main")
    l2, l3, l4 = sch.get_loops(b1)
    sch.annotate(l3, "pragma_loop_partition_hint", 1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
