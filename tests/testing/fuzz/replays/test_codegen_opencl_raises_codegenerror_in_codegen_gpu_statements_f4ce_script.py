"""codegen: opencl: raises CodegenError in codegen/gpu/statements.py:visit_For

Found by ``tilesmith fuzz tir``, seed 2005894.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# CodegenError: kernel 'main_kernel_1': loop 'row' is of kind PARALLEL inside a kernel
#   bind it to threads (sch.bind), or leave it serial
#   File "/work/wt/fuzzrun/tilesmith/ir/visitor.py", line 38, in visit
#     result: Result = method(self, node)
#                      ^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fuzzrun/tilesmith/codegen/gpu/statements.py", line 102, in visit_AttrStmt
#     self.visit(stmt.body)
#   File "/work/wt/fuzzrun/tilesmith/ir/visitor.py", line 38, in visit
ARGUMENTS = [[{'name': 'A0', 'dtype': 'float32', 'low': -2, 'high': 3, 'shape': [1, 1]},
  {'name': 'cumsum_v0', 'dtype': 'float32', 'shape': [1, 1]}]]  # fmt: skip


@T.prim_func
def main(var_A0: T.handle, var_cumsum_v0: T.handle):
    T.func_attr({"tir.noalias": True})
    n0 = T.int64(is_size_var=True)
    A0 = T.match_buffer(var_A0, (n0, T.int64(1)))
    cumsum_v0 = T.match_buffer(var_cumsum_v0, (n0, T.int64(1)))
    # with T.block("root"):
    compute = T.alloc_buffer((n0, T.int64(1)))
    cumsum_v1 = T.alloc_buffer((n0,))
    for ax0, ax1 in T.grid(n0, T.int64(1)):
        with T.block("compute"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(A0[v_ax0, v_ax1])
            T.writes(compute[v_ax0, v_ax1])
            compute[v_ax0, v_ax1] = T.max(A0[v_ax0, v_ax1], T.float32(0.0))
    with T.block("cumsum"):
        T.reads(compute[T.int64(0) : n0, T.int64(0)])
        T.writes(cumsum_v0[T.int64(0) : n0, T.int64(0)], cumsum_v1[T.int64(0) : n0])
        compute_1 = T.match_buffer(compute[T.int64(0) : n0, T.int64(0)], (n0, 1))
        cumsum = T.match_buffer(cumsum_v0[T.int64(0) : n0, T.int64(0)], (n0, 1))
        cumsum_1 = T.match_buffer(cumsum_v1[T.int64(0) : n0], (n0,))
        for row in T.parallel(n0):
            cumsum_1[row] = T.float32(0.0)
            for k in range(T.int64(1)):
                cumsum_1[row] = cumsum_1[row] + compute_1[row, k]
                cumsum[row, k] = cumsum_1[row]


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["opencl"], device="opencl", target="opencl")
