"""primitive: RFactor: raises StopIteration in
tir/schedule/primitives/reduction.py:_iterator_of

Found by ``tilesmith fuzz tir``, seed 5000792.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# StopIteration:
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/reduction.py", line 219, in rfactor
#     return _Rfactor(state, sref, loop_sref, combiner, factor_axis).apply(loops, scope)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/reduction.py", line 446, in apply
#     factored = self.factored(loops)
#                ^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/reduction.py", line 303, in factored
ARGUMENTS = [[{'value': 1}, {'name': 'T0', 'shape': [1], 'dtype': 'float32'},
  {'name': 'A0', 'shape': [1, 4], 'dtype': 'float32', 'low': -4, 'high': 5}],
 [{'value': 1}, {'name': 'T0', 'shape': [1], 'dtype': 'float32'},
  {'name': 'A0', 'shape': [1, 4], 'dtype': 'float32', 'low': -4, 'high': 5}]]  # fmt: skip


@T.prim_func
def main(b: T.int32, T0: T.Buffer((1,), "float32"), A0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    A0 = T.match_buffer(A0_handle, (b, 4), "float32")
    # with T.block("root"):
    for i0, i1 in T.grid(b, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A0[0, 0])
            T.writes(T0[v1])
            with T.init():
                T0[v1] = T.float32(-3.4028234663852886e38)
            T0[v1] = T.max(T0[v1], A0[0, 0])


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    l1, l2 = sch.get_loops(b0)
    l3, l4 = sch.split(l1, [2, None])
    b5 = sch.get_block("B0", func_name="main")
    l6, l7, l8 = sch.get_loops(b5)
    sch.rfactor(l7, 1)


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
