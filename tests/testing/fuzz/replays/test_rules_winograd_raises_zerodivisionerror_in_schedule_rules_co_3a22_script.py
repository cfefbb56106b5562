"""rules: winograd: raises ZeroDivisionError in schedule_rules/contractions/tiles.py:_cost

Found by ``tilesmith fuzz tir``, seed 20264569.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# ZeroDivisionError: integer division or modulo by zero
#   File "/work/main/tilesmith/schedule_rules/contractions/transformed_contraction.py", line 267,
# in _tile_products
#     rows = best_rows(extent, plan.width // lanes, machine)
#            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/schedule_rules/contractions/tiles.py", line 145, in best_rows
#     ranked = ranked_tiles(extent, vectors * lanes, lanes, [vectors], machine)
#              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/schedule_rules/contractions/tiles.py", line 115, in ranked_tiles
ARGUMENTS = [[{'name': 'A0',
   'dtype': 'float32',
   'low': -2,
   'high': 3,
   'shape': [1, 16, 1, 4]},
  {'name': 'A1',
   'dtype': 'float32',
   'low': -2,
   'high': 3,
   'shape': [1, 3, 3, 1]},
  {'name': 'conv2d_nhwc_winograd',
   'near': 0.003,
   'dtype': 'float32',
   'shape': [1, 1, 1, 1]}]]  # fmt: skip


@T.prim_func
def main(
    A0: T.Buffer((T.int64(1), T.int64(16), T.int64(1), T.int64(4)), "float32"),
    A1: T.Buffer((T.int64(1), T.int64(3), T.int64(3), T.int64(1)), "float32"),
    conv2d_nhwc_winograd: T.Buffer((T.int64(1), T.int64(1), T.int64(1), T.int64(1)), "float32"),
):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    compute = T.alloc_buffer((T.int64(1), T.int64(3), T.int64(3), T.int64(1)))
    pad_temp = T.alloc_buffer((T.int64(1), T.int64(6), T.int64(4), T.int64(1)))
    data_across = T.alloc_buffer(
        (T.int64(1), T.int64(1), T.int64(4), T.int64(4), T.int64(2), T.int64(1))
    )
    data_points = T.alloc_buffer(
        (T.int64(1), T.int64(1), T.int64(4), T.int64(4), T.int64(2), T.int64(1))
    )
    products = T.alloc_buffer(
        (T.int64(1), T.int64(1), T.int64(4), T.int64(4), T.int64(2), T.int64(4))
    )
    product_sums = T.alloc_buffer(
        (T.int64(1), T.int64(1), T.int64(4), T.int64(2), T.int64(2), T.int64(4))
    )
    for ax0, ax1, ax2, ax3 in T.grid(T.int64(1), T.int64(3), T.int64(3), T.int64(1)):
        with T.block("compute"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(A1[v_ax0, v_ax1, v_ax2, v_ax3])
            T.writes(compute[v_ax0, v_ax1, v_ax2, v_ax3])
            compute[v_ax0, v_ax1, v_ax2, v_ax3] = T.max(
                A1[v_ax0, v_ax1, v_ax2, v_ax3], T.float32(0.0)
            )
    for ax0, ax1, ax2, ax3 in T.grid(T.int64(1), T.int64(6), T.int64(4), T.int64(1)):
        with T.block("pad_temp"):
            v_ax0, v_ax1, v_ax2, v_ax3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            T.reads(compute[v_ax0, v_ax1, v_ax2, v_ax3])
            T.writes(pad_temp[v_ax0, v_ax1, v_ax2, v_ax3])
            pad_temp[v_ax0, v_ax1, v_ax2, v_ax3] = T.if_then_else(
                v_ax1 < T.int64(3) and v_ax2 < T.int64(3),
                compute[v_ax0, v_ax1, v_ax2, v_ax3],
                T.float32(0.0),
            )
    for n, s, i, b, t, c in T.grid(
        T.int64(1), T.int64(1), T.int64(4), T.int64(4), T.int64(2), T.int64(1)
    ):
        with T.block("data_across"):
            v_n, v_s, v_i, v_b, v_t, v_c = T.axis.remap("SSSSSS", [n, s, i, b, t, c])
            T.reads(
                pad_temp[
                    v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(0) : T.int64(4), v_c
                ]
            )
            T.writes(data_across[v_n, v_s, v_i, v_b, v_t, v_c])
            data_across[v_n, v_s, v_i, v_b, v_t, v_c] = T.Select(
                v_b == T.int64(0),
                pad_temp[v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(2), v_c]
                - pad_temp[v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(0), v_c],
                T.Select(
                    v_b == T.int64(1),
                    pad_temp[v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(1), v_c]
                    + pad_temp[v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(2), v_c],
                    T.Select(
                        v_b == T.int64(2),
                        pad_temp[v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(2), v_c]
                        - pad_temp[
                            v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(1), v_c
                        ],
                        pad_temp[v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(3), v_c]
                        - pad_temp[
                            v_n, (v_s * T.int64(2) + v_t) * T.int64(2) + v_i, T.int64(1), v_c
                        ],
                    ),
                ),
            )
    for n, s, a, b, t, c in T.grid(
        T.int64(1), T.int64(1), T.int64(4), T.int64(4), T.int64(2), T.int64(1)
    ):
        with T.block("data_points"):
            v_n, v_s, v_a, v_b, v_t, v_c = T.axis.remap("SSSSSS", [n, s, a, b, t, c])
            T.reads(data_across[v_n, v_s, T.int64(0) : T.int64(4), v_b, v_t, v_c])
            T.writes(data_points[v_n, v_s, v_a, v_b, v_t, v_c])
            data_points[v_n, v_s, v_a, v_b, v_t, v_c] = T.Select(
                v_a == T.int64(0),
                data_across[v_n, v_s, T.int64(2), v_b, v_t, v_c]
                - data_across[v_n, v_s, T.int64(0), v_b, v_t, v_c],
                T.Select(
                    v_a == T.int64(1),
                    data_across[v_n, v_s, T.int64(1), v_b, v_t, v_c]
                    + data_across[v_n, v_s, T.int64(2), v_b, v_t, v_c],
                    T.Select(
                        v_a == T.int64(2),
                        data_across[v_n, v_s, T.int64(2), v_b, v_t, v_c]
                        - data_across[v_n, v_s, T.int64(1), v_b, v_t, v_c],
                        data_across[v_n, v_s, T.int64(3), v_b, v_t, v_c]
                        - data_across[v_n, v_s, T.int64(1), v_b, v_t, v_c],
                    ),
                ),
            )
    for n, s, a, b, t, o, rc in T.grid(
        T.int64(1), T.int64(1), T.int64(4), T.int64(4), T.int64(2), T.int64(4), T.int64(1)
    ):
        with T.block("products"):
            v_n, v_s, v_a, v_b, v_t, v_o, v_rc = T.axis.remap("SSSSSSR", [n, s, a, b, t, o, rc])
            T.reads(
                data_points[v_n, v_s, v_a, v_b, v_t, v_rc],
                A0[v_o // T.int64(4), v_a * T.int64(4) + v_b, v_rc, v_o % T.int64(4)],
            )
            T.writes(products[v_n, v_s, v_a, v_b, v_t, v_o])
            with T.init():
                products[v_n, v_s, v_a, v_b, v_t, v_o] = T.float32(0.0)
            products[v_n, v_s, v_a, v_b, v_t, v_o] = (
                products[v_n, v_s, v_a, v_b, v_t, v_o]
                + data_points[v_n, v_s, v_a, v_b, v_t, v_rc]
                * A0[v_o // T.int64(4), v_a * T.int64(4) + v_b, v_rc, v_o % T.int64(4)]
            )
    for n, s, a, x, t, o in T.grid(
        T.int64(1), T.int64(1), T.int64(4), T.int64(2), T.int64(2), T.int64(4)
    ):
        with T.block("product_sums"):
            v_n, v_s, v_a, v_x, v_t, v_o = T.axis.remap("SSSSSS", [n, s, a, x, t, o])
            T.reads(products[v_n, v_s, v_a, T.int64(0) : T.int64(4), v_t, v_o])
            T.writes(product_sums[v_n, v_s, v_a, v_x, v_t, v_o])
            product_sums[v_n, v_s, v_a, v_x, v_t, v_o] = T.Select(
                v_x == T.int64(0),
                products[v_n, v_s, v_a, T.int64(0), v_t, v_o]
                + products[v_n, v_s, v_a, T.int64(1), v_t, v_o]
                + products[v_n, v_s, v_a, T.int64(2), v_t, v_o],
                products[v_n, v_s, v_a, T.int64(1), v_t, v_o]
                + products[v_n, v_s, v_a, T.int64(3), v_t, v_o]
                - products[v_n, v_s, v_a, T.int64(2), v_t, v_o],
            )
    for n, y, x, o in T.grid(T.int64(1), T.int64(1), T.int64(1), T.int64(1)):
        with T.block("conv2d_nhwc_winograd"):
            v_n, v_y, v_x, v_o = T.axis.remap("SSSS", [n, y, x, o])
            T.reads(
                product_sums[
                    v_n,
                    v_y // T.int64(4),
                    T.int64(0) : T.int64(4),
                    v_x % T.int64(2),
                    v_y // T.int64(2) % T.int64(2) + v_x // T.int64(2),
                    v_o,
                ]
            )
            T.writes(conv2d_nhwc_winograd[v_n, v_y, v_x, v_o])
            conv2d_nhwc_winograd[v_n, v_y, v_x, v_o] = T.Select(
                v_y % T.int64(2) == T.int64(0),
                product_sums[
                    v_n,
                    v_y // T.int64(4),
                    T.int64(0),
                    v_x % T.int64(2),
                    v_y // T.int64(2) % T.int64(2) + v_x // T.int64(2),
                    v_o,
                ]
                + product_sums[
                    v_n,
                    v_y // T.int64(4),
                    T.int64(1),
                    v_x % T.int64(2),
                    v_y // T.int64(2) % T.int64(2) + v_x // T.int64(2),
                    v_o,
                ]
                + product_sums[
                    v_n,
                    v_y // T.int64(4),
                    T.int64(2),
                    v_x % T.int64(2),
                    v_y // T.int64(2) % T.int64(2) + v_x // T.int64(2),
                    v_o,
                ],
                product_sums[
                    v_n,
                    v_y // T.int64(4),
                    T.int64(1),
                    v_x % T.int64(2),
                    v_y // T.int64(2) % T.int64(2) + v_x // T.int64(2),
                    v_o,
                ]
                + product_sums[
                    v_n,
                    v_y // T.int64(4),
                    T.int64(3),
                    v_x % T.int64(2),
                    v_y // T.int64(2) % T.int64(2) + v_x // T.int64(2),
                    v_o,
                ]
                - product_sums[
                    v_n,
                    v_y // T.int64(4),
                    T.int64(2),
                    v_x % T.int64(2),
                    v_y // T.int64(2) % T.int64(2) + v_x // T.int64(2),
                    v_o,
                ],
            )


def schedule(sch):
    pass


def test_replay():
    replay.check(main, schedule, ARGUMENTS, "rules", ["llvm"], target="llvm")
