"""rules: grouped convolution: raises ScheduleError in
tir/schedule/primitives/annotate.py:_check_independent

Found by ``tilesmith fuzz tir``, seed 7000.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# ScheduleError: bind: the binding of block 'T_erf' is not affine. Digits by (n0 + 2) // 3 * 1280
# of a loop over (n0 + 2) // 3 * 10: the divisor is positive where the loop has iterations, though
# it does not divide their number.
ARGUMENTS = [[{'name': 'A0',
   'dtype': 'bfloat16',
   'low': -2,
   'high': 3,
   'shape': [8, 2, 3, 3, 1, 16]},
  {'name': 'A1',
   'dtype': 'bfloat16',
   'low': -2,
   'high': 3,
   'shape': [2, 5, 9, 8]},
  {'name': 'T_erf',
   'near': 0.08,
   'dtype': 'bfloat16',
   'shape': [2, 2, 5, 256]}],
 [{'name': 'A0',
   'dtype': 'bfloat16',
   'low': -2,
   'high': 3,
   'shape': [8, 2, 3, 3, 1, 16]},
  {'name': 'A1',
   'dtype': 'bfloat16',
   'low': -2,
   'high': 3,
   'shape': [2, 3, 9, 8]},
  {'name': 'T_erf',
   'near': 0.08,
   'dtype': 'bfloat16',
   'shape': [2, 1, 5, 256]}]]  # fmt: skip


@T.prim_func
def main(A0: T.Buffer((8, 2, 3, 3, 1, 16), "bfloat16"), var_A1: T.handle, var_T_erf: T.handle):
    T.func_attr({"tir.noalias": True})
    n0 = T.int32(is_size_var=True)
    A1 = T.match_buffer(var_A1, (2, n0, 9, 8), "bfloat16")
    T_erf = T.match_buffer(var_T_erf, (2, (n0 + 2) // 3, 5, 256), "bfloat16")
    # with T.block("root"):
    pad_temp = T.alloc_buffer((2, n0 + 2, 12, 8), "bfloat16")
    grouped_conv2d_nhwc_packed = T.alloc_buffer((2, (n0 + 2) // 3, 5, 256))
    T_cast = T.alloc_buffer((2, (n0 + 2) // 3, 5, 256), "bfloat16")
    T_clip = T.alloc_buffer((2, (n0 + 2) // 3, 5, 256), "bfloat16")
    T_clip_1 = T.alloc_buffer((2, (n0 + 2) // 3, 5, 256), "bfloat16")
    for ax0, ax1, ax2, ax3 in T.grid(2, n0 + 2, 12, 8):
        with T.block("pad_temp"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(A1[v_ax0, v_ax1, v_ax2 - 2, v_ax3])
            T.writes(pad_temp[v_ax0, v_ax1, v_ax2, v_ax3])
            pad_temp[v_ax0, v_ax1, v_ax2, v_ax3] = T.if_then_else(
                v_ax1 < n0 and v_ax2 >= 2 and v_ax2 < 11,
                A1[v_ax0, v_ax1, v_ax2 - 2, v_ax3],
                T.bfloat16(0.0),
            )
    for n, y, x, o, ry, rx, rc in T.grid(2, (n0 + 2) // 3, 5, 256, 3, 3, 1):
        with T.block("grouped_conv2d_nhwc_packed"):
            v_n, v_y, v_x, v_o, v_ry, v_rx, v_rc = T.axis.remap("SSSSRRR", [n, y, x, o, ry, rx, rc])
            T.reads(
                pad_temp[v_n, v_y * 3 + v_ry, v_x * 2 + v_rx, v_o // 32 + v_rc],
                A0[v_o // 32, v_o % 32 // 16, v_ry, v_rx, v_rc, v_o % 32 % 16],
            )
            T.writes(grouped_conv2d_nhwc_packed[v_n, v_y, v_x, v_o])
            with T.init():
                grouped_conv2d_nhwc_packed[v_n, v_y, v_x, v_o] = T.float32(0.0)
            grouped_conv2d_nhwc_packed[v_n, v_y, v_x, v_o] = grouped_conv2d_nhwc_packed[
                v_n, v_y, v_x, v_o
            ] + T.Cast(
                "float32", pad_temp[v_n, v_y * 3 + v_ry, v_x * 2 + v_rx, v_o // 32 + v_rc]
            ) * T.Cast("float32", A0[v_o // 32, v_o % 32 // 16, v_ry, v_rx, v_rc, v_o % 32 % 16])
    for ax0, ax1, ax2, ax3 in T.grid(2, (n0 + 2) // 3, 5, 256):
        with T.block("T_cast"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(grouped_conv2d_nhwc_packed[v_ax0, v_ax1, v_ax2, v_ax3])
            T.writes(T_cast[v_ax0, v_ax1, v_ax2, v_ax3])
            T_cast[v_ax0, v_ax1, v_ax2, v_ax3] = T.Cast(
                "bfloat16", grouped_conv2d_nhwc_packed[v_ax0, v_ax1, v_ax2, v_ax3]
            )
    for ax0, ax1, ax2, ax3 in T.grid(2, (n0 + 2) // 3, 5, 256):
        with T.block("T_clip"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(T_cast[v_ax0, v_ax1, v_ax2, v_ax3])
            T.writes(T_clip[v_ax0, v_ax1, v_ax2, v_ax3])
            T_clip[v_ax0, v_ax1, v_ax2, v_ax3] = T.max(
                T.min(T_cast[v_ax0, v_ax1, v_ax2, v_ax3], T.bfloat16(6.0)), T.bfloat16(0.0)
            )
    for ax0, ax1, ax2, ax3 in T.grid(2, (n0 + 2) // 3, 5, 256):
        with T.block("T_clip_1"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(T_clip[v_ax0, v_ax1, v_ax2, v_ax3])
            T.writes(T_clip_1[v_ax0, v_ax1, v_ax2, v_ax3])
            T_clip_1[v_ax0, v_ax1, v_ax2, v_ax3] = T.max(
                T.min(T_clip[v_ax0, v_ax1, v_ax2, v_ax3], T.bfloat16(6.0)), T.bfloat16(0.0)
            )
    for ax0, ax1, ax2, ax3 in T.grid(2, (n0 + 2) // 3, 5, 256):
        with T.block("T_erf"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(T_clip_1[v_ax0, v_ax1, v_ax2, v_ax3])
            T.writes(T_erf[v_ax0, v_ax1, v_ax2, v_ax3])
            T_erf[v_ax0, v_ax1, v_ax2, v_ax3] = T.erf(T_clip_1[v_ax0, v_ax1, v_ax2, v_ax3])


def schedule(sch):
    pass


def test_replay():
    replay.check(
        main,
        schedule,
        ARGUMENTS,
        "rules",
        ["cuda -arch=sm_80"],
        device="cuda",
        target="cuda -arch=sm_80",
    )
