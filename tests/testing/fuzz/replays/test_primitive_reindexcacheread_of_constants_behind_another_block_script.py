"""primitive: ReindexCacheRead: raises VerifyError in tir/analysis/well_formed.py:fail (the
buffer _ is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 300109.
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
#   File "/work/wt/draws10/tilesmith/tir/analysis/variables.py", line 40, in walk
#     self.use(node)
ARGUMENTS = [[{'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'},
  {'name': 'T4', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


metadata = I.metadata(
    {
        "tir.AllocateConst": [
            I.array("float32", (3,), "AABAwAAAoEAAAEDA"),
        ],
    }
)


@T.prim_func
def main(T0: T.Buffer((1, 1), "int32"), T4: T.Buffer((1, 1), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads()
            T.writes(T0[v0, v1])
            T0[v0, v1] = 2
    table0 = T.allocate_const(metadata["tir.AllocateConst"][0], "float32", [3])
    table0_1 = T.decl_buffer((3,), data=table0)
    for i0, i1 in T.grid(1, 1):
        with T.block("B4"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(table0_1[v1 % 3])
            T.writes(T4[v0, v1])
            T4[v0, v1] = table0_1[v1 % 3]


def schedule(sch):
    b0 = sch.get_block("B4", func_name="main")
    sch.reindex_cache_read(b0, 0, "global", lambda i0, i1: [i0])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
