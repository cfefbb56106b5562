"""pass: tir.Simplify: then running fails (OutOfBoundsError)

Found by ``tilesmith fuzz tir``, seed 7103743.
"""

from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# the load of table0[-24] is outside of the buffer of shape (5)
ARGUMENTS = [[{'name': 'T1', 'shape': [1, 2], 'dtype': 'float32'}]]  # fmt: skip


metadata = I.metadata(
    {
        "tir.AllocateConst": [
            I.array("float32", (5,), "AAAAwAAAAAAAAIDAAAAAQAAAoEA="),
        ],
    }
)


@T.prim_func
def main(T1: T.Buffer((1, 2), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(1):
        for i1 in range(5, 7):
            with T.block("B1"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads()
                T.writes(T1[v0, v1 - 5])
                table0 = T.allocate_const(metadata["tir.AllocateConst"][0], "float32", [5])
                table0_1 = T.decl_buffer((5,), data=table0)
                T1[v0, v1 - 5] = table0_1[(v1 - 5 - 1) * 1073741824 // 357913941 % 5]


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
