"""primitive: CacheRead: raises TypeMismatchError in tir/stmt.py:__init__

Found by ``tilesmith fuzz tir``, seed 6001366.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# TypeMismatchError: 'B3_A1' lies in scope 'global', 'A1_shared' in 'shared'
#   /tmp/fz4/tilesmith/testing/fuzz/worker.py:44:12
#           return run_case(case), []
#                  ^^^^^^^^^^^^^^
#   File "/tmp/fz4/tilesmith/tir/schedule/primitives/cache.py", line 123, in <listcomp>
#     matches = tuple([self._match(match) for match in block.match_buffers])
#                      ^^^^^^^^^^^^^^^^^^
#   File "/tmp/fz4/tilesmith/tir/schedule/primitives/cache.py", line 150, in _match
ARGUMENTS = [[{'name': 'A0', 'shape': [1, 1], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'A1', 'shape': [1, 2], 'dtype': 'float32', 'low': -4, 'high': 5},
  {'name': 'T1', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T2', 'shape': [1], 'dtype': 'int32'},
  {'name': 'T3', 'shape': [1, 1], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((1, 1), "float32"),
    A1: T.Buffer((1, 2), "float32"),
    T1: T.Buffer((1,), "int32"),
    T2: T.Buffer((1,), "int32"),
    T3: T.Buffer((1, 1), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T0 = T.alloc_buffer((1, 1))
    for i0, i1 in T.grid(1, 1):
        with T.block("B0"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A0[v0, v1])
            T.writes(T0[v0, v1])
            T0[v0, v1] = T.fabs(A0[v0, v1])
    for i0 in range(1):
        with T.block("B1"):
            v0 = T.axis.spatial(1, i0)
            T.reads(T1[v0], T0[0, v0])
            T.writes(T1[v0])
            B1_count = T.alloc_buffer((1,), "int32", scope="local")
            T1[v0] = 0
            B1_count[0] = 0
            while B1_count[0] < v0 % 5:
                T1[v0] = T1[v0] + T.Cast("int32", T0[0, v0])
                B1_count[0] = B1_count[0] + 1
    with T.block("B2"):
        T.reads(T2[-1])
        T.writes(T2[0])
        for v0 in range(1):
            if v0 == 0:
                T2[v0] = 0
            else:
                T2[v0] = T2[v0 - 1]
    for i0, i1 in T.grid(1, 1):
        with T.block("B3"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A1[v0, 0:2])
            T.writes(T3[v0, v1])
            for j2 in range(2):
                with T.block("B3_inner"):
                    v2 = T.axis.reduce(2, j2)
                    T.reads(A1[v0, 0:2])
                    T.writes(T3[v0, v1])
                    B3_A1 = T.match_buffer(
                        A1[v0, 0:2], (1, 2), strides=("B3_A1_s0", "B3_A1_s1"), offset_factor=1
                    )
                    B3_T3 = T.match_buffer(
                        T3[v0, v1], (1, 1), strides=("B3_T3_s0", "B3_T3_s1"), offset_factor=1
                    )
                    with T.init():
                        B3_T3[0, 0] = T.float32(0.0)
                    B3_T3[0, 0] = B3_T3[0, 0] + B3_A1[0, v2]


def schedule(sch):
    b0 = sch.get_block("B3_inner", func_name="main")
    sch.cache_read(b0, 0, "shared")


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "primitive", ["llvm"])
