"""rules: two reductions: raises IndexError in schedule_rules/gpu/matmul.py:<listcomp>

Found by ``tilesmith fuzz tir``, seed 2005291.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# IndexError: tuple index out of range
#   File "/work/wt/fuzzrun/tilesmith/schedule_rules/gpu/rules.py", line 36, in schedule_by_rules
#     if (found := rule(sch.copy(), target)) is not None:
#                  ^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fuzzrun/tilesmith/schedule_rules/gpu/matmul.py", line 85, in matmul
#     found = _recognised(sch.get(main[0]))
#             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fuzzrun/tilesmith/schedule_rules/gpu/matmul.py", line 115, in _recognised
ARGUMENTS = [[{'name': 'A0', 'dtype': 'float32', 'low': -2, 'high': 3, 'shape': [1]},
  {'name': 'A1', 'dtype': 'float32', 'low': -2, 'high': 3, 'shape': [1]},
  {'name': 'weighted', 'dtype': 'float32', 'shape': []}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((T.int64(1),), "float32"),
    A1: T.Buffer((T.int64(1),), "float32"),
    weighted: T.Buffer((), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    compute = T.alloc_buffer((T.int64(1),))
    for ax0 in range(T.int64(1)):
        with T.block("compute"):
            v_ax0 = T.axis.spatial(T.int64(1), ax0)
            T.reads(A0[v_ax0])
            T.writes(compute[v_ax0])
            compute[v_ax0] = T.max(A0[v_ax0], T.float32(0.0))
    for k in range(T.int64(1)):
        with T.block("weighted"):
            v_k = T.axis.reduce(T.int64(1), k)
            T.reads(compute[v_k], A1[v_k])
            T.writes(weighted[()])
            with T.init():
                weighted[()] = T.float32(0.0)
            weighted[()] = weighted[()] + compute[v_k] * A1[v_k]


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "rules", ["opencl"], device="opencl", target="opencl")
