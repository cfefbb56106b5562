"""primitive: TransformLayout: raises VerifyError in tir/analysis/well_formed.py:fail (the
variable _ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 84.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'table0' is used; it is bound nowhere
#   'table0' in sight here is another variable of the same name
#   in the block 'B0'
#   in the function 'main'
#   the program:
#   (...)
#   File "/work/wt/fuzzdraws/tilesmith/tir/analysis/variables.py", line 95, in _define_buffer
#     self.use(buffer.data)
ARGUMENTS = [[{'name': 'T0', 'shape': [4, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((4, 1), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0 in range(4):
        with T.block("B0"):
            v0 = T.axis.spatial(4, i0)
            T.reads(T0[v0, 0])
            T.writes(T0[v0, 0])
            table0 = T.allocate_const([2, -2], "int32", [2])
            table0_1 = T.decl_buffer((2,), "int32", data=table0)
            with T.block("B0_steps"):
                T.reads(table0_1[0:2], T0[v0, 0])
                T.writes(T0[v0, 0])
                B0_count = T.alloc_buffer((1,), "int32", scope="local")
                B0_count[0] = 0
                while B0_count[0] < 1:
                    with T.LetStmt(B0_count[0]) as v1:
                        if v1 == 0:
                            T0[v0, v1] = T.Div(table0_1[v1 // 3 % 2], -4)
                        else:
                            T0[v0, v1] = T0[v0, v1 - 1] + T.Div(table0_1[v1 // 3 % 2], -4)
                    B0_count[0] = B0_count[0] + 1


def schedule(sch):
    b0 = sch.get_block("B0_steps", func_name="main")
    sch.transform_layout(b0, ("read", 0), lambda i0: [i0 // 2, i0 % 2])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
