"""pass: tir.CompactBufferAllocation: raises IndexError in
tir/transform/blocks/compact_buffer_allocation.py:visit_Block

Found by ``tilesmith fuzz tir``, seed 4000126.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# IndexError: tuple index out of range
#   File "/tmp/fz2/tilesmith/ir/visitor.py", line 63, in visit_default
#     node.for_each_child(self.visit)
#   File "<tilesmith.tir.stmt.BlockRealize.for_each_child>", line 4, in for_each_child
#     f(self.block)
#   File "/tmp/fz2/tilesmith/ir/visitor.py", line 38, in visit
#     return method(self, node)
#            ^^^^^^^^^^^^^^^^^^
ARGUMENTS = [[{'name': 'A1', 'shape': [13, 4], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T1_1', 'shape': [13], 'dtype': 'float32', 'low': 0, 'high': 5},
  {'name': 'T2', 'shape': [1], 'dtype': 'uint8'},
  {'name': 'A0', 'shape': [5, 8, 4], 'dtype': 'int64', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(
    A1: T.Buffer((13, 4), "float32"),
    T1_1: T.Buffer((13,), "float32"),
    T2: T.Buffer((1,), "uint8"),
    A0: T.Buffer((5, 8, 4), "int64"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((13, 13), "int64")
    for i0, i1, i2 in T.grid(13, 13, 4):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[T.min(v0, v1) : T.max(v0, v1) + 1, v2])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = T.int64(0)
            T0[v0, v1] = T0[v0, v1] + T.Cast("int64", A1[v0, v2]) * T.Cast("int64", A1[v1, v2])
    for i0 in range(13):
        with T.block("B2"):
            v0 = T.axis.reduce(13, i0)
            T.reads(
                T1_1[v0],
                A1[v0, 0:4],
                A0[v0 % 5, v0 % 8, T.truncdiv(v0 + 1, 3) % 4],
                T0[v0, 12 - v0],
            )
            T.writes(T2[0])
            with T.init():
                T2[0] = T.uint8(0)
            T2[0] = T2[0] + T.Select(
                T1_1[v0]
                < A1[v0, T.Cast("int32", A0[v0 % 5, v0 % 8, T.truncdiv(v0 + 1, 3) % 4]) % 4],
                T.bitwise_xor(
                    T.Cast("uint8", v0),
                    T.Cast("uint8", T.max(T.min(T1_1[v0], T.float32(20)), T.float32(0))),
                ),
                T.Cast("uint8", T0[v0, 12 - v0]),
            )


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.storage_align(b0, 0, 1, 4, 1)
    b1 = sch.get_block("B0", func_name="main")
    sch.unsafe_hide_buffer_access(b1, "write", [0])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
