"""primitive: CacheRead: raises VerifyError in tir/analysis/well_formed.py:fail (the buffer _
is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 9911677.
"""

from tilesmith.script import ir as I
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
ARGUMENTS = [[{'name': 'T0', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T2', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


metadata = I.metadata(
    {
        "tir.AllocateConst": [
            I.array("float32", (1,), "AACAwA=="),
        ],
    }
)


@T.prim_func
def main(T0: T.Buffer((1,), "int32"), T2: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(1):
        with T.block("B0"):
            v0 = T.axis.spatial(1, i0)
            T.reads()
            T.writes(T0[v0])
            T0[v0] = 0
    table0 = T.allocate_const(metadata["tir.AllocateConst"][0], "float32", [1])
    table0_1 = T.decl_buffer((1,), data=table0)
    for i0 in range(1):
        with T.block("B2"):
            v0 = T.axis.spatial(1, i0)
            T.reads(table0_1[0])
            T.writes(T2[v0])
            T2[v0] = T.Cast("int32", table0_1[0]) // 7


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    sch.cache_read(b0, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
