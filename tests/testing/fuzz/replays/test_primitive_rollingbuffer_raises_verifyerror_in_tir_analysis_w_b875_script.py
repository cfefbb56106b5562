"""primitive: RollingBuffer: raises VerifyError in tir/analysis/well_formed.py:fail (the
variable _ is used; it is bound nowhere)

Found by ``tilesmith fuzz tir``, seed 8004110.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'at' is used; it is bound nowhere
#   make it a parameter, or bind it by a loop, an axis or a value
#   in the function 'main'
#   the program:
#   (...)
#       # with T.block("root"):
#   File "/tmp/fz6/tilesmith/tir/analysis/variables.py", line 56, in walk
#     self.use(node)
ARGUMENTS = [[{'value': 1}, {'name': 'T1', 'shape': [2, 1], 'dtype': 'int32'},
  {'name': 'A1', 'shape': [2], 'dtype': 'int32', 'low': -4, 'high': 5}],
 [{'value': 1}, {'name': 'T1', 'shape': [2, 1], 'dtype': 'int32'},
  {'name': 'A1', 'shape': [2], 'dtype': 'int32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(d: T.int32, T1: T.Buffer((2, 1), "int32"), A1_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    A1 = T.match_buffer(A1_handle, (d + 1,), "int32")
    # with T.block("root"):
    T0 = T.alloc_buffer((1, d), "int32")
    for i0, i1, i2 in T.grid(1, d, 2):
        with T.block("B0"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[0])
            T.writes(T0[v0, v1])
            with T.init():
                T0[v0, v1] = 0
            T0[v0, v1] = T0[v0, v1] + A1[0]
    for i0, i1 in T.grid(2, 1):
        at: T.int32 = i0
        with T.block("B1"):
            v0 = T.axis.spatial(2, at)
            v1 = T.axis.spatial(1, i1)
            T.reads(T0[0, T.min(0, T.Div(v0 - 3, 3) % d) : T.max(d, T.Div(v0 - 3, 3) % d + 1)])
            T.writes(T1[v0, v1])
            T1[v0, v1] = T.Div(T0[0, T0[0, T.Div(v0 - 3, 3) % d] % d], 7)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    (b1,) = sch.get_consumers(b0)
    l2, l3 = sch.get_loops(b1)
    sch.compute_at(b0, l2)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
