"""primitive: Split: raises InternalError in
tir/schedule/primitives/verify.py:_verify_regions (block _ of _ reads
A_[T.int_(_):T.int_(_), (v__o + T.int_(_)) // T.int)

Found by ``tilesmith fuzz tir``, seed 5006913.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# InternalError: block 'B2_o' of 'main' reads A0[T.int64(0):T.int64(3), (v1_o + T.int64(1)) //
# T.int64(5):(v1_o + T.int64(1)) // T.int64(5) + T.int64(1)], which it does not declare
#   File "/tmp/fz3/tilesmith/tir/schedule/schedule.py", line 125, in split
#     self._record(
#   File "/tmp/fz3/tilesmith/tir/schedule/base.py", line 241, in _record
#     primitives.verify_state(self.state)
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/verify.py", line 42, in verify_state
#     _verify_regions(name, function_state)
#   File "/tmp/fz3/tilesmith/tir/schedule/primitives/verify.py", line 89, in _verify_regions
ARGUMENTS = [[{'name': 'A0', 'shape': [4, 4], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A1', 'shape': [1, 2], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T0', 'shape': [4], 'dtype': 'float32'},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'float32'},
  {'name': 'T2', 'shape': [7, 5, 2], 'dtype': 'float32', 'ulp': 4}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((T.int64(4), T.int64(4)), "float32"),
    A1: T.Buffer((T.int64(1), T.int64(2)), "float32"),
    T0: T.Buffer((T.int64(4),), "float32"),
    T1: T.Buffer((T.int64(1), T.int64(1)), "float32"),
    T2: T.Buffer((T.int64(7), T.int64(5), T.int64(2)), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(T.int64(4), T.int64(4)):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads()
            T.writes(T0[v1])
            with T.init():
                T0[v1] = T.float32(0)
            T0[v1] = T0[v1] + T.Cast("float32", T.Cast("int32", v0))
    for i0, i1, i2 in T.grid(T.int64(1), T.int64(1), T.int64(2)):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A1[v0, v2])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = T.float32(0)
            T1[v0, v1] = T1[v0, v1] + A1[v0, v2]
    for i0, i1, i2 in T.grid(T.int64(7), T.int64(5), T.int64(2)):
        with T.block("B2"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(
                A0[
                    (v2 + T.int64(2)) // T.int64(3) % T.int64(4),
                    T.truncdiv(v1 + T.int64(1), T.int64(5)) % T.int64(4),
                ]
            )
            T.writes(T2[v0, v1, v2])
            T2[v0, v1, v2] = T.max(
                T.sin(
                    T.max(
                        T.min(
                            A0[
                                (v2 + T.int64(2)) // T.int64(3) % T.int64(4),
                                T.truncdiv(v1 + T.int64(1), T.int64(5)) % T.int64(4),
                            ],
                            T.float32(6),
                        ),
                        T.float32(-6),
                    )
                ),
                T.float32(-1),
            )


def schedule(sch):
    b0 = sch.get_block("B2", func_name="main")
    l1, l2, l3 = sch.get_loops(b0)
    b4 = sch.blockize(l3, preserve_unit_iters=False)
    b5 = sch.get_block("B2", func_name="main")
    (l6,) = sch.get_loops(b5)
    sch.split(l6, [None, 2, 3])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
