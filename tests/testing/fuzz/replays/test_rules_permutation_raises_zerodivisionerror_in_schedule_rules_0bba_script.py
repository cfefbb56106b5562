"""rules: permutation: raises ZeroDivisionError in
schedule_rules/elementwise/permutation.py:_shares

Found by ``tilesmith fuzz tir``, seed 61923.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# ZeroDivisionError: division by zero
#   File "/work/main/tilesmith/schedule_rules/default.py", line 132, in _each
#     sch = _attempt(sch, block, change)
#           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/schedule_rules/default.py", line 111, in _attempt
#     change(trial)
#   File "/work/main/tilesmith/schedule_rules/elementwise/permutation.py", line 339, in
# schedule_permutation
#     shared, tiles = _shares(sch, outer, tiles, is_uneven, threads if is_parallel else 1)
ARGUMENTS = [[{'name': 'A0',
   'dtype': 'float64',
   'low': -2,
   'high': 3,
   'shape': [1, 0, 1, 2, 1]},
  {'name': 'T_transpose', 'dtype': 'float64', 'shape': [1, 0, 1, 1, 2]}]]  # fmt: skip


@T.prim_func
def main(var_A0: T.handle, var_T_transpose: T.handle):
    T.func_attr({"tir.noalias": True})
    n0 = T.int64(is_size_var=True)
    A0 = T.match_buffer(var_A0, (T.int64(1), T.int64(0), T.int64(1), T.int64(2), n0), "float64")
    T_transpose = T.match_buffer(
        var_T_transpose, (T.int64(1), T.int64(0), T.int64(1), n0, T.int64(2)), "float64"
    )
    # with T.block("root"):
    compute = T.alloc_buffer((T.int64(1), T.int64(0), T.int64(1), T.int64(2), n0), "float64")
    for ax0, ax1, ax2, ax3, ax4 in T.grid(T.int64(1), T.int64(0), T.int64(1), T.int64(2), n0):
        with T.block("compute"):
            v_ax0, v_ax1, v_ax2, v_ax3, v_ax4 = T.axis.remap("SSSSS", [ax0, ax1, ax2, ax3, ax4])
            T.reads(A0[v_ax0, v_ax1, v_ax2, v_ax3, v_ax4])
            T.writes(compute[v_ax0, v_ax1, v_ax2, v_ax3, v_ax4])
            compute[v_ax0, v_ax1, v_ax2, v_ax3, v_ax4] = T.max(
                A0[v_ax0, v_ax1, v_ax2, v_ax3, v_ax4], T.float64(0.0)
            )
    for ax0, ax1, ax2, ax3, ax4 in T.grid(T.int64(1), T.int64(0), T.int64(1), n0, T.int64(2)):
        with T.block("T_transpose"):
            v_ax0, v_ax1, v_ax2, v_ax3, v_ax4 = T.axis.remap("SSSSS", [ax0, ax1, ax2, ax3, ax4])
            T.reads(compute[v_ax0, v_ax1, v_ax2, v_ax4, v_ax3])
            T.writes(T_transpose[v_ax0, v_ax1, v_ax2, v_ax3, v_ax4])
            T_transpose[v_ax0, v_ax1, v_ax2, v_ax3, v_ax4] = compute[
                v_ax0, v_ax1, v_ax2, v_ax4, v_ax3
            ]


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "rules", ["llvm"], target="llvm")
