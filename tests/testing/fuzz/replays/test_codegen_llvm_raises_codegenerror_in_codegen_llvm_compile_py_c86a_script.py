"""codegen: llvm: raises CodegenError in codegen/llvm/compile.py:compile_formats

Found by ``tilesmith fuzz tir``, seed 5005716.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# CodegenError: LLVM refused the generated text at line 23: <string>:23:32: error: expected value
# token
#        21:   call void @llvm.masked.store(<2 x float> %v.17, ptr align 16 %T0.3, <2 x i1> %v.6)
#        22:   %v.18 = icmp slt <2 x i32> <i32 0, i32 1>, splat (i32 1)
#   >    23:   %v.19 = getelementptr float, ptr %T0.3, <2 x i32> <i32 0, i32 3>
#        24:   %v.20 = call <2 x float> @llvm.masked.gather(<2 x ptr> align 4 %v.19, <2 x i1>
# %v.18, <2 x float> zeroinitializer)
#   File "/tmp/fz3/tilesmith/testing/fuzz/checks.py", line 290, in check_code
#     module = generate_code(lowered, target, None)
#              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'bool', 'low': 0, 'high': 1},
  {'name': 'T2', 'shape': [1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 1), "bool"), T2: T.Buffer((1,), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1,), "float32")
    T1 = T.alloc_buffer((1,), "bool")
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads()
            T.writes(T0[v0])
            with T.init():
                T0[v0] = T.float32(0)
            T0[v0] = T0[v0] + T.max(
                T.max(T.Cast("float32", v0), T.Cast("float32", v1)), T.Cast("float32", v0)
            )
    for i0 in range(1):
        with T.block("B1"):
            v0 = T.axis.spatial(1, i0)
            T.reads(T0[v0], A0[v0, 0])
            T.writes(T1[v0])
            T1[v0] = T.Select(T0[v0] != T.float32(0), T.bool(True), A0[v0, 0])
    for i0 in range(1):
        with T.block("B2"):
            v0 = T.axis.reduce(1, i0)
            T.reads(T1[v0])
            T.writes(T2[0])
            with T.init():
                T2[0] = T.float32(0)
            T2[0] = T2[0] + T.Cast("float32", T1[v0])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    (b1,) = sch.get_consumers(b0)
    (l2,) = sch.get_loops(b1)
    sch.compute_at(b0, l2)
    v3 = sch.sample_categorical([2, 3, 4], [0.25, 0.25, 0.5])
    b4 = sch.get_block("B0", func_name="main")
    (l5,) = sch.get_loops(b4)
    l6, l7 = sch.split(l5, [None, v3])
    b8 = sch.get_block("B1", func_name="main")
    l9, l10 = sch.get_loops(b8)
    sch.vectorize(l10)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "codegen", ["llvm"])
