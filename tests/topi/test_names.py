"""Names that published schedules pass to `get_block`, and those of loops."""

import pytest

from tilesmith import te, tir, topi

A = te.placeholder((4, 6), "float32", "A")


@pytest.mark.parametrize(
    "result, blocks",
    [
        (topi.sum(A, 1), ["A_red"]),
        (topi.max(A, 1), ["A_red"]),
        (topi.prod(A, None), ["A_red"]),
        (topi.sum(A, []), ["A_red"]),
        (topi.argmax(A, 1), ["A_red_value", "A_red_temp", "A_red"]),
        (topi.argmin(A, None), ["A_red_value", "A_red_temp", "A_red"]),
        (topi.mean(A, 1), ["A_red", "T_divide"]),
        (topi.variance(A, 1), ["A_red", "T_divide", "T_multiply_red", "T_divide_1"]),
        (topi.sum(topi.add(A, A), 1), ["T_add", "T_add_red"]),
        (topi.nn.layer_norm(A, None, None, -1), ["A_red_temp", "T_layer_norm"]),
        (
            topi.nn.softmax(A),
            ["T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum", "T_softmax_norm"],
        ),
    ],
)
def test_blocks_are_called_as_published_schedules_call_them(result, blocks):
    schedule = tir.Schedule(te.create_prim_func([A, result]))
    root = schedule.get_block("root")
    assert [schedule.get(block).name_hint for block in schedule.get_child_blocks(root)] == blocks


@pytest.mark.parametrize(
    "result, loops",
    [
        (topi.sum(A, 1), ["ax0", "k1"]),
        (topi.sum(A, 0), ["ax0", "k0"]),
        (topi.sum(A, 1, keepdims=True), ["ax0", "ax1", "k1"]),
        (topi.transpose(A), ["ax0", "ax1"]),
        (topi.exp(A), ["ax0", "ax1"]),
        (topi.unravel_index(topi.cast(A, "int32"), (3, 4)), ["ax0", "ax1", "ax2"]),
        (te.compute((4, 6), lambda i, j: A[i, j]), ["i", "j"]),
        (te.compute((4, 6), lambda *i: A(*i)), ["i0", "i1"]),
    ],
)
def test_loops_are_numbered_unless_the_user_names_them(result, loops):
    schedule = tir.Schedule(te.create_prim_func([A, result]))
    block = schedule.get_block(result.op.name)
    names = [schedule.get(loop).loop_var.name for loop in schedule.get_loops(block)]
    iterators = [iterator.var.name for iterator in schedule.get(block).iter_vars]
    assert (names, iterators) == (loops, ["v_" + loop for loop in loops])
