"""primitive: CacheRead: raises VerifyError in tir/analysis/well_formed.py:fail (the buffer _
is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 9801861.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the buffer 'table0' is neither a parameter nor allocated here
#   make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)
#   in the block 'table0_global'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/main/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'T0', 'shape': [4], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    assert T.bool(True), "a size is too small"
    table0 = T.allocate_const([0], "int32", [1])
    table0_1 = T.decl_buffer((1,), "int32", data=table0)
    for i0 in range(4):
        with T.block("B0"):
            v0 = T.axis.spatial(4, i0)
            T.reads(T0[v0], table0_1[0])
            T.writes(T0[v0])
            B0_count = T.alloc_buffer((1,), "int32", scope="local")
            T0[v0] = 0
            B0_count[0] = 0
            while B0_count[0] < v0 % 5:
                T0[v0] = T0[v0] + table0_1[0]
                B0_count[0] = B0_count[0] + 1


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.cache_read(b0, 1, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
