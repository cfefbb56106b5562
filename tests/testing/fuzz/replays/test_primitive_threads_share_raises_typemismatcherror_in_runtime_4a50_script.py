"""primitive: threads: share: raises TypeMismatchError in runtime/dtype.py:_need_integer

Found by ``tilesmith fuzz tir``, seed 8300383.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: 'float32' is not an integer type
#   File "/work/main/tilesmith/arith/normalizer.py", line 212, in _cast
#     if self._fits(form, target):
#        ^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/arith/normalizer.py", line 229, in _fits
#     limits = target.min_value, target.max_value
#              ^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/runtime/dtype.py", line 219, in min_value
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 1), "float32"), T0: T.Buffer((1,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A0[0, 0])
            T.writes(T0[v1])
            with T.init():
                T0[v1] = T.float32(0.0)
            T0[v1] = T0[v1] + T.if_then_else(
                T.Cast("float32", v0) != T.float32(0.0), T.Cast("float32", v0), A0[0, 0]
            )


def schedule(sch):
    b0 = sch.get_block("root", func_name="main")
    (b1,) = sch.get_child_blocks(b0)
    l2, l3 = sch.get_loops(b1)
    l4, l5 = sch.split(l3, [None, 1])
    sch.bind(l4, "blockIdx.x")
    sch.bind(l5, "threadIdx.x")
    b6 = sch.get_block("root", func_name="main")
    (b7,) = sch.get_child_blocks(b6)
    l8, l9, l10 = sch.get_loops(b7)
    b11 = sch.cache_read(b7, 0, "shared")
    sch.compute_at(b11, l9)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"], device="cuda")
