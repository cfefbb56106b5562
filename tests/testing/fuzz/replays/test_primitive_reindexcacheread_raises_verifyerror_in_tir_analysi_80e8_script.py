"""primitive: ReindexCacheRead: raises VerifyError in tir/analysis/well_formed.py:fail (the
buffer _ is neither a parameter nor allocated here)

Found by ``tilesmith fuzz tir``, seed 7803973.
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
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1, 1], 'dtype': 'int32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [1, 1], 'dtype': 'int32'},
  {'name': 'T1', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


metadata = I.metadata(
    {
        "tir.AllocateConst": [
            I.array("float32", (1,), "AACAPw=="),
        ],
    }
)


@T.prim_func
def main(
    A0: T.Buffer((1, 1, 1), "int32"), T0: T.Buffer((1, 1), "int32"), T1: T.Buffer((1,), "float32")
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[0, 0, 0])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.Div(A0[0, 0, 0], -2) // 7
    table0 = T.allocate_const(metadata["tir.AllocateConst"][0], "float32", [1])
    table0_1 = T.decl_buffer((1,), data=table0)
    for i0, i1 in T.grid(1, 1):
        with T.block("B1"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(table0_1[0])
            T.writes(T1[v1])
            with T.init():
                T1[v1] = T.float32(0.0)
            T1[v1] = T1[v1] + table0_1[0]


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    sch.reindex_cache_read(b0, 0, "global", lambda i0, i1: [i0])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
