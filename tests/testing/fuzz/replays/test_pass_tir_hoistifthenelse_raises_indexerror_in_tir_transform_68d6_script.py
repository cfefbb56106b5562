"""pass: tir.HoistIfThenElse: raises IndexError in
tir/transform/loops/hoist_expression.py:visit_Call

Found by ``tilesmith fuzz tir``, seed 100060.
"""

from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# IndexError: tuple index out of range
#   File "/work/wt/draws10/tilesmith/ir/node.py", line 170, in <listcomp>
#     new = [function(item) for item in items]
#            ^^^^^^^^^^^^^^
#   File "/work/wt/draws10/tilesmith/tir/transform/loops/hoist_expression.py", line 188, in visit
#     return super().visit(node)
#            ^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/draws10/tilesmith/ir/visitor.py", line 38, in visit
ARGUMENTS = [[{'name': 'T0', 'shape': [2, 1], 'dtype': 'int32'}]]  # fmt: skip


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def B0_handed(
        T0_data: T.handle("int32", "global"),
        B0_handed_data: T.handle("int32", "local"),
        v0: T.int32,
        v1: T.int32,
    ):
        B0_handed_1 = T.decl_buffer((1,), "int32", data=B0_handed_data)
        T0 = T.decl_buffer((2, 1), "int32", data=T0_data)
        T0[v0, v1] = B0_handed_1[0]

    @T.prim_func
    def main(T0: T.Buffer((2, 1), "int32")):
        T.func_attr({"tir.noalias": True})
        # with T.block("root"):
        for i1_0, i1_1, i0 in T.grid(1, 2, 2):
            with T.block("B0"):
                v0 = T.axis.spatial(2, i0)
                v1 = T.axis.spatial(1, i1_0 * 2 + i1_1)
                T.where(i1_0 * 2 + i1_1 < 1)
                T.reads()
                T.writes(T0[v0, v1])
                B0_handed_1 = T.alloc_buffer((1,), "int32", scope="local")
                B0_handed_1[0] = 3
                cls.B0_handed(
                    T.tvm_access_ptr(T.type_annotation("int32"), T0.data, 0, 2, 3),
                    T.tvm_access_ptr(T.type_annotation("int32"), B0_handed_1.data, 0, 1, 3),
                    v0,
                    v1,
                )


def schedule(sch):
    pass


def test_replay():
    replay.check(Module, schedule, ARGUMENTS, "pass", ["llvm"])
