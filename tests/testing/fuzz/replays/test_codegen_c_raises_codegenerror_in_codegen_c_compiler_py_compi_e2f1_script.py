"""codegen: c: raises CodegenError in codegen/c_compiler.py:compile_source

Found by ``tilesmith fuzz tir``, seed 80733.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# CodegenError: the C compiler refused the source
#   during GIMPLE pass: isel
#   /tmp/tilesmith-c-8e302hj9/code.c: In function ‘main_’:
#   /tmp/tilesmith-c-8e302hj9/code.c:44:9: internal compiler error: in
# gimple_expand_vec_cond_expr, at gimple-isel.cc:281
#      44 | int32_t main_(float* restrict T0, double* restrict T2) {
#         |         ^~~~~
#   File "/tmp/snap/tilesmith/testing/fuzz/checks.py", line 268, in check_code
#     module = generate_code(lowered, target, None)
ARGUMENTS = [[{'name': 'T0', 'shape': [4, 2], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T2', 'shape': [4], 'dtype': 'float64'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((4, 2), "float32"), T2: T.Buffer((4,), "float64")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(4, 2):
        with T.block("B2"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(T0[v0, v1])
            T.writes(T2[v0])
            with T.init():
                T2[v0] = T.float64(1.7976931348623157e308)
            T2[v0] = T.min(
                T2[v0], T.Select(T.float32(0) == T0[v0, v1], T.Cast("float64", v1), T.float64(-3))
            )


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm", "c"])
