"""codegen: llvm: wrong result

Found by ``tilesmith fuzz tir``, seed 7807123.
"""

from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# argument 'T1': 1 of 3 elements differ, first at [2, 0]: -1.623382317461619e-09 instead of -1.0;
# at most 2.45425e+08 ULP, allowed 0
ARGUMENTS = [[{'name': 'T1', 'shape': [3, 1], 'dtype': 'float32'}],
 [{'name': 'T1', 'shape': [3, 1], 'dtype': 'float32'}]]  # fmt: skip


metadata = I.metadata(
    {
        "tir.AllocateConst": [
            I.array("float32", (1,), "AACAvw=="),
        ],
    }
)


@T.prim_func
def main(T1_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    b = T.int32()
    T1 = T.match_buffer(T1_handle, (3, b))
    # with T.block("root"):
    T1_1 = T.alloc_buffer((3, b))
    for i0 in range(3):
        for i1 in range(b):
            with T.block("B1_row"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads()
                T.writes(T1_1[v0, v1])
                table0 = T.allocate_const(metadata["tir.AllocateConst"][0], "float32", [1])
                table0_1 = T.decl_buffer((1,), data=table0)
                T1_1[v0, v1] = table0_1[0]
        for i1 in range(b):
            with T.block("B1"):
                v0 = T.axis.opaque(3, i0)
                v1 = T.axis.spatial(b, i1)
                T.reads(T1_1[v0 - 1 : v0 - 1 + 2, v1])
                T.writes(T1[v0, v1])
                T1[v0, v1] = T.max(
                    T1_1[v0, v1], T.if_then_else(2 <= v0, T1_1[v0 - 1, v1], T.float32(0.0))
                )


def schedule(sch):
    b0 = sch.get_block("B1", func_name="main")
    l1, l2 = sch.get_loops(b0)
    b3 = sch.read_at(l2, b0, 0, "global")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"])
