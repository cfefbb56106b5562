"""primitive: TransformLayout: raises TypeMismatchError in tir/stmt.py:__init__

Found by ``tilesmith fuzz tir``, seed 4000024.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: a store to buffer 'T0' needs a value of int32, got int64
#   /tmp/fz2/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
#   File "/tmp/fz2/tilesmith/tir/schedule/primitives/layout_padding.py", line 176, in
# write_padding_too
#     body=guarded(block.body),
#          ^^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz2/tilesmith/tir/schedule/primitives/layout_padding.py", line 169, in guarded
ARGUMENTS = [[{'name': 'A0', 'shape': [4], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((T.int64(4),), "int32"), T1: T.Buffer((T.int64(1),), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((T.int64(4),), "int32")
    for i0 in range(T.int64(4)):
        with T.block("B0"):
            v0 = T.axis.spatial(T.int64(4), i0)
            T.reads(A0[v0])
            T.writes(T0[v0])
            T0[v0] = T.Max(A0[v0], A0[v0])
    for i0 in range(T.int64(4)):
        with T.block("B1"):
            v0 = T.axis.reduce(T.int64(4), i0)
            T.reads(T0[v0])
            T.writes(T1[T.int64(0)])
            with T.init():
                T1[T.int64(0)] = -2147483648
            T1[T.int64(0)] = T.max(T1[T.int64(0)], T0[v0])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.transform_layout(b0, ("write", 0), lambda i0: [i0 // 3, i0 % 3], pad_value=1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
