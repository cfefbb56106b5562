"""pass: tir.ThreadSync: raises TypeMismatchError in ir/expr.py:__init__

Found by ``tilesmith fuzz tir``, seed 8707768.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: Mul needs operands of one dtype, got int32 and int64
#   <tilesmith.tir.stmt.DeclBuffer.map_children>:2:12
#           body = f(self.body)
#                  ^^^^^^^^^^^^
#   in the function 'main'
#   in the pass 'tir.ThreadSync'
#   File "/work/wt/old/tilesmith/arith/normalizer.py", line 106, in normal
#     form = self._opaque(expr) if rule is None else rule(self, expr)
ARGUMENTS = [[{'name': 'A0', 'shape': [4, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [4, 1], 'dtype': 'int32'}],
 [{'name': 'A0', 'shape': [4, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [4, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0_handle: T.handle, T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    c = T.int64()
    A0 = T.match_buffer(A0_handle, (T.int64(4), c), "int32")
    T0 = T.match_buffer(T0_handle, (T.int64(4), c), "int32")
    # with T.block("root"):
    for i0 in range(T.int64(4)):
        with T.block("B0"):
            v0 = T.axis.spatial(T.int64(4), i0)
            T.reads(
                A0[
                    T.max(v0 - T.int64(1), T.int64(0)) : T.max(v0 - T.int64(1), T.int64(0))
                    + (T.min(v0, T.int64(1)) + T.int64(1)),
                    T.int64(0) : c,
                ]
            )
            T.writes(T0[v0, T.int64(0) : c])
            for v1 in range(c):
                if A0[T.max(T.min(v0 - T.int64(1), T.int64(4)), T.int64(0)), v1] < A0[v0, v1]:
                    T0[v0, v1] = A0[v0, v1]
                else:
                    T0[v0, v1] = 0


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    (l2,) = sch.get_loops(b1)
    l3, l4 = sch.split(l2, [None, 3])
    sch.bind(l3, "blockIdx.x")
    sch.bind(l4, "threadIdx.x")
    b5 = sch.get_block("root", func_name="main")
    (b6,) = sch.get_child_blocks(b5)
    l7, l8 = sch.get_loops(b6)
    b9 = sch.cache_read(b6, 0, "shared.dyn")
    sch.compute_at(b9, l7)
    l10, l11, l12 = sch.get_loops(b9)
    l13 = sch.fuse(l11, l12)
    l14, l15 = sch.split(l13, [None, 3])
    b16 = sch.get_block("root", func_name="main")
    b17, b18 = sch.get_child_blocks(b16)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"], device="cuda")
