"""primitive: TransformLayout: raises UnsupportedError in tir/index_map.py:_affine

Found by ``tilesmith fuzz tir``, seed 1459.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

#     values = self._values(sizes, outputs)
#              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/index_map.py", line 286, in _values
#     found = self._affine(sizes, outputs)
#             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/tmp/snap/tilesmith/tir/index_map.py", line 339, in _affine
#     raise UnsupportedError(
# tilesmith.support.errors.UnsupportedError: the inverse of the index map lambda i0, i1, i2: (i0,
# i1 // 3, i2, i1 % 3) cannot be found
#   /tmp/snap/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
#   give it: IndexMap.from_func(..., inverse_index_map=lambda ...)
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'}],
 [{'name': 'A1', 'shape': [1, 1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1, 1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1_handle: T.handle, T1_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    a = T.int32()
    A1 = T.match_buffer(A1_handle, (1, a, 1), "float32")
    T1 = T.match_buffer(T1_handle, (1, a), "int32")
    # with T.block("root"):
    T0 = T.alloc_buffer((1, a, 1), "float32")
    for i0, i1, i2, i3 in T.grid(1, a, 1, 1):
        with T.block("B0"):
            v0, v1, v2, v3 = T.axis.remap("SSSR", [i0, i1, i2, i3])
            T.reads(A1[v0, v1, v3])
            T.writes(T0[v0, v1, v2])
            with T.init():
                T0[v0, v1, v2] = T.float32(0)
            T0[v0, v1, v2] = T0[v0, v1, v2] + A1[v0, v1, v3]
    for i0, i1, i2 in T.grid(1, a, 1):
        with T.block("B1"):
            v0, v1, v2 = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(T0[v0, v1, 0])
            T.writes(T1[v0, v1])
            with T.init():
                T1[v0, v1] = 0
            T1[v0, v1] = T1[v0, v1] + T.Cast(
                "int32", T.max(T.min(T0[v0, v1, 0], T.float32(20)), T.float32(0))
            )


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.transform_layout(b0, ("write", 0), lambda i0, i1, i2: [i0, i1 // 3, i2, i1 % 3])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
