"""rules: parts: raises ScheduleError in
tir/schedule/primitives/annotate.py:_check_independent

Found by ``tilesmith fuzz tir``, seed 2004839.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# ScheduleError: bind: the binding of block 'T_concat' is not affine
#   File "/work/wt/fuzzrun/tilesmith/tir/schedule/primitive.py", line 244, in _raise
#     raise shown.with_traceback(error.__traceback__) from None
#   File "/work/wt/fuzzrun/tilesmith/tir/schedule/primitive.py", line 212, in carry_out
#     result = self.function(*known.values()) if self._is_plain else self._call(known)
#              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fuzzrun/tilesmith/tir/schedule/primitives/annotate.py", line 231, in bind
#     _check_independent(loop, thread_axis)
ARGUMENTS = [[{'name': 'A0',
   'dtype': 'float64',
   'low': -2,
   'high': 3,
   'shape': [1, 48, 4, 1]},
  {'name': 'A1',
   'dtype': 'float64',
   'low': -2,
   'high': 3,
   'shape': [2, 48, 4, 1]},
  {'name': 'T_concat', 'dtype': 'float64', 'shape': [4, 48, 4, 1]}]]  # fmt: skip


@T.prim_func
def main(var_A0: T.handle, var_A1: T.handle, var_T_concat: T.handle):
    T.func_attr({"tir.noalias": True})
    n0 = T.int64(is_size_var=True)
    A0 = T.match_buffer(var_A0, (T.int64(1), T.int64(48), T.int64(4), n0), "float64")
    A1 = T.match_buffer(var_A1, (T.int64(2), T.int64(48), T.int64(4), n0), "float64")
    T_concat = T.match_buffer(var_T_concat, (T.int64(4), T.int64(48), T.int64(4), n0), "float64")
    # with T.block("root"):
    for ax0, ax1, ax2, ax3 in T.grid(T.int64(4), T.int64(48), T.int64(4), n0):
        with T.block("T_concat"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(
                A0[v_ax0 - T.int64(3) : v_ax0 - T.int64(3) + T.int64(4), v_ax1, v_ax2, v_ax3],
                A1[v_ax0 - T.int64(1), v_ax1, v_ax2, v_ax3],
            )
            T.writes(T_concat[v_ax0, v_ax1, v_ax2, v_ax3])
            T_concat[v_ax0, v_ax1, v_ax2, v_ax3] = T.if_then_else(
                T.int64(3) <= v_ax0,
                A0[v_ax0 - T.int64(3), v_ax1, v_ax2, v_ax3],
                T.if_then_else(
                    T.int64(1) <= v_ax0,
                    A1[v_ax0 - T.int64(1), v_ax1, v_ax2, v_ax3],
                    A0[v_ax0, v_ax1, v_ax2, v_ax3],
                ),
            )


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "rules", ["opencl"], device="opencl", target="opencl")
