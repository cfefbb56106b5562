"""pass: tir.VectorizeLoop: raises TypeError in tir/interpreter/values.py:<lambda>

Found by ``tilesmith fuzz tir``, seed 8005289.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeError: Cannot cast array data from dtype(uint4) to dtype(int4) according to the rule
# 'unsafe'
#   File "/tmp/fz6/tilesmith/tir/interpreter/statements.py", line 368, in store
#     stored = numpy.atleast_1d(value(env))
#                               ^^^^^^^^^^
#   File "/tmp/fz6/tilesmith/tir/interpreter/expressions.py", line 295, in <lambda>
#     return lambda env: function(a(env), b(env))
#                                 ^^^^^^
#   File "/tmp/fz6/tilesmith/tir/interpreter/expressions.py", line 429, in <lambda>
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 2], 'dtype': 'uint4', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [2, 2], 'dtype': 'int4'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((1, 2), "uint4"), T0: T.Buffer((2, 2), "int4")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(2, 2):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[0, v1])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.max(T.Cast("int4", A0[0, v1]), T.int4(0))


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    sch.vectorize(l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "pass", ["llvm"])
