"""primitive: SetScope: raises TypeMismatchError in tir/stmt.py:__init__

Found by ``tilesmith fuzz tir``, seed 6000679.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: 'B1_T0' lies in scope 'global', 'T0' in 'shared'
#   /tmp/fz4/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
#   File "/tmp/fz4/tilesmith/tir/schedule/primitives/cache.py", line 123, in <listcomp>
#     matches = tuple([self._match(match) for match in block.match_buffers])
#                      ^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz4/tilesmith/tir/schedule/primitives/cache.py", line 150, in _match
ARGUMENTS = [[{'name': 'A0', 'shape': [2], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((2,), "int32"), T1: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((2,), "int32")
    for i0 in range(2):
        with T.block("B0"):
            v0 = T.axis.spatial(2, i0)
            T.reads(A0[v0])
            T.writes(T0[v0])
            T0[v0] = A0[v0]
    for i0, i1 in T.grid(1, 1):
        with T.block("B1"):
            v0, v1 = T.axis.remap("SR", [i0, i1])
            T.reads(T0[0:2])
            T.writes(T1[v0])
            B1_T0 = T.match_buffer(T0[0:2], (2,), "int32", strides=("B1_T0_s0",), offset_factor=1)
            B1_T1 = T.match_buffer(T1[v0], (1,), "int32", strides=("B1_T1_s0",), offset_factor=1)
            with T.init():
                B1_T1[0] = 0
            B1_T1[0] = B1_T1[0] + B1_T0[0]


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.set_scope(b0, 0, "shared")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
