"""pass: tir.CompactBufferAllocation: raises IndexError in
tir/transform/blocks/compact_buffer_allocation.py:visit_Block

Found by ``tilesmith fuzz tir``, seed 310007.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# IndexError: tuple index out of range
#   File "/tmp/fzme/tilesmith/tir/transform/blocks/compact_buffer_allocation.py", line 259, in
# visit_BlockRealize
#     self.visit_under(realize.predicate, realize.block)
#   File "/tmp/fzme/tilesmith/tir/transform/blocks/compact_buffer_allocation.py", line 265, in
# visit_under
#     self.visit(node)
#   File "/tmp/fzme/tilesmith/ir/visitor.py", line 38, in visit
#     return method(self, node)
#            ^^^^^^^^^^^^^^^^^^
ARGUMENTS = [[{'name': 'A0', 'shape': [2], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2,), "float32"), T0: T.Buffer((1,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(2):
        with T.block("B0"):
            v0 = T.axis.reduce(2, i0)
            T.reads(A0[v0 % 2])
            T.writes(T0[0])
            with T.init():
                T0[0] = T.float32(0.0)
            T0[0] = T0[0] + A0[v0 % 2]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    b1 = sch.cache_read(b0, 0, "shared")
    b2 = sch.get_block("root", func_name="main")
    b3, b4 = sch.get_child_blocks(b2)
    (l5,) = sch.get_loops(b3)
    (l6,) = sch.get_loops(b4)
    l7 = sch.merge(l5, l6)
    b8 = sch.get_block("A0_shared", func_name="main")
    (l9,) = sch.get_loops(b8)
    b10 = sch.write_at(l9, b8, 0, "shared")
    b11 = sch.get_block("A0_shared_shared", func_name="main")
    sch.storage_align(b11, 0, -1, 16, 2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
