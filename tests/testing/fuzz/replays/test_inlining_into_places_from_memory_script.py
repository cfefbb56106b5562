"""primitive: ReverseComputeInline: raises TypeMismatchError in ir/operators.py:_common_dtype

Found by ``tilesmith fuzz tir``, seed 9302251.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: no common dtype of int32 and handle
#   /work/wt/fz/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
#   File "/work/wt/fz/tilesmith/ir/operators.py", line 434, in greater_equal
#     return _compare(ir.GE, lambda x, y: x >= y, a, b)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fz/tilesmith/ir/operators.py", line 397, in _compare
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [2, 2, 2], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 1), "float32"), T0: T.Buffer((2, 2, 2), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2 in T.grid(2, 2, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(A0[0, 0])
            T.writes(T0[v1, v2, v0])
            T0[v1, v2, v0] = A0[0, 0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.reindex(b0, ("write", 0))
    b2 = sch.get_block("T0_reindex", func_name="main")
    sch.transform_layout(b2, ("read", 0), lambda i0, i1, i2: [i0 * 2 + i1, i2])
    b3 = sch.get_block("B0", func_name="main")
    (b4,) = sch.cache_index(b3, "global", 1)
    b5 = sch.get_block("T0_reindex", func_name="main")
    sch.reverse_compute_inline(b5)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
