"""primitive: CacheWrite: raises TypeMismatchError in tir/stmt.py:__init__

Found by ``tilesmith fuzz tir``, seed 6000704.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: 'B0_T0' lies in scope 'global', 'T0_local' in 'local'
#   /tmp/fz4/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
#   File "/tmp/fz4/tilesmith/tir/schedule/primitives/cache.py", line 123, in <listcomp>
#     matches = tuple([self._match(match) for match in block.match_buffers])
#                      ^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz4/tilesmith/tir/schedule/primitives/cache.py", line 150, in _match
ARGUMENTS = [[{'name': 'A1', 'shape': [1, 1, 1], 'dtype': 'int32', 'low': 0, 'high': 5},
  {'name': 'T0', 'shape': [1], 'dtype': 'int32'}]]  # fmt: skip


@T.prim_func
def main(A1: T.Buffer((1, 1, 1), "int32"), T0: T.Buffer((1,), "int32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("RS", [i0, i1])
            T.reads(A1[0, 0, 0])
            T.writes(T0[v1])
            B0_A1 = T.match_buffer(
                A1[0, 0, 0],
                (1, 1, 1),
                "int32",
                strides=("B0_A1_s0", "B0_A1_s1", "B0_A1_s2"),
                offset_factor=1,
            )
            B0_T0 = T.match_buffer(T0[v1], (1,), "int32", strides=("B0_T0_s0",), offset_factor=1)
            with T.init():
                B0_T0[0] = 0
            B0_T0[0] = B0_T0[0] + B0_A1[0, v0, v0] % 7


def schedule(sch):
    b0 = sch.get_block("B0", func_name="main")
    sch.cache_write(b0, 0, "local")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
