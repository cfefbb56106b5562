"""primitive: TransformBlockLayout: raises UnsupportedError in tir/index_map.py:_affine

Found by ``tilesmith fuzz tir``, seed 1550.
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
# tilesmith.support.errors.UnsupportedError: the inverse of the index map lambda i0, i1: (i0, i1
# // 3, i1 % 3) cannot be found
#   /tmp/snap/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
#   give it: IndexMap.from_func(..., inverse_index_map=lambda ...)
ARGUMENTS = [[{'name': 'T0', 'shape': [1], 'dtype': 'int32'}],
 [{'name': 'T0', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(T0_handle: T.handle):
    T.func_attr({"tir.noalias": True})
    a = T.int32()
    T0 = T.match_buffer(T0_handle, (a,), "int32")
    # with T.block("root"):
    for i0, i1 in T.grid(a, a):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads()
            T.writes(T0[v1])
            with T.init():
                T0[v1] = 2147483647
            T0[v1] = T.min(T0[v1], -4)


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.transform_block_layout(b0, lambda i0, i1: [i0, i1 // 3, i1 % 3])


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
