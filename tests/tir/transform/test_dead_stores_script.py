"""RemoveNoOp with ``use_dataflow_analysis``: stores without effect vanish."""

import pytest

from tests.tir.transform.drawn_programs import Drawn, program
from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.tir import transform


def cleaned(func):
    with PassContext(config={"tir.RemoveNoOp": {"use_dataflow_analysis": True}}):
        return apply(func, transform.RemoveNoOp())


ALL = "for i in range(16):\n    "
CALL = 'T.call_extern("int32", "f")'
CASES = {
    "overwritten": (f"{ALL}A[i] = 100\n    A[i] = 42", f"{ALL}A[i] = 42"),
    "a part of a loop": (
        f"for i in range(4, 12):\n    A[i] = 100\n{ALL}A[i] = 42",
        f"{ALL}A[i] = 42",
    ),
    "other loops": (
        f"for i, j in T.grid(4, 4):\n    A[i * 4 + j] = 1\n{ALL}A[i] = 2",
        f"{ALL}A[i] = 2",
    ),
    "vectors": (
        f"A[0:8] = T.Broadcast(1, 8)\n{ALL}A[i] = 2\nB[0] = 1\nB[0:8] = T.Broadcast(1, 8)",
        f"{ALL}A[i] = 2\nB[0:8] = T.Broadcast(1, 8)",
    ),
    "an implied condition": (
        f"{ALL}if i < 10:\n        A[i] = 1\n{ALL}if i < 12:\n        A[i] = 2",
        f"{ALL}if i < 12:\n        A[i] = 2",
    ),
    "a condition on a size": (
        "if n < 3:\n    A[0] = 1\nif n < 4:\n    A[0] = 2",
        "if n < 4:\n    A[0] = 2",
    ),
    "both cases": (
        "A[0] = 1\nif n < 3:\n    A[0] = 2\nelse:\n    A[0] = 3",
        "if n < 3:\n    A[0] = 2\nelse:\n    A[0] = 3",
    ),
    "stores between": (
        f"{ALL}A[i] = 1\n{ALL}B[i] = 0\n{ALL}A[i] = 2",
        f"{ALL}B[i] = 0\n{ALL}A[i] = 2",
    ),
    "reads of other elements between": (
        "A[1] = 1\nfor i in range(2, 16):\n    B[i] = A[i]\nA[1] = 2",
        "for i in range(2, 16):\n    B[i] = A[i]\nA[1] = 2",
    ),
    "reads in what goes": ("A[0] = 1\nB[0] = A[0]\nA[0] = 2\nB[0] = 3", "A[0] = 2\nB[0] = 3"),
    "effects stay": (f"{ALL}A[i] = {CALL}\n    A[i] = 4", f"{ALL}T.evaluate({CALL})\n    A[i] = 4"),
    "under a let": (
        f"{ALL}with T.LetStmt(i + 1) as j:\n        A[i] = A[j - 1]\n        B[i] = j",
        f"{ALL}with T.LetStmt(i + 1) as j:\n        B[i] = j",
    ),
    "the same element by its condition": (
        f"{ALL}if i != 0:\n        A[i] = A[i - 1]\n    else:\n        A[i] = A[0]",
        f"{ALL}if i != 0:\n        A[i] = A[i - 1]",
    ),
    "a known value": (f"{ALL}A[i] = i\nA[4] = 4", f"{ALL}A[i] = i"),
    "a repeated loop": (f"{ALL}A[i] = i\n{ALL}A[i] = i", f"{ALL}A[i] = i"),
    "no iterations": ("if n <= 0:\n    for i in range(n):\n        A[i] = 1\nB[0] = 1", "B[0] = 1"),
    "memory that nobody reads": (
        f'C = T.decl_buffer((16,), "int32")\n{ALL}C[A[i]] = i\nB[0] = 1',
        "B[0] = 1",
    ),
    "memory that ends": (
        'C = T.decl_buffer((1,), "int32")\nC[0] = 1\nB[0] = C[0]\nC[0] = 2',
        'C = T.decl_buffer((1,), "int32")\nC[0] = 1\nB[0] = C[0]',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_stores_without_effect_vanish(case):
    before, expected = (program(text) for text in CASES[case])
    got = cleaned(before)
    assert_structural_equal(got, expected)
    if CALL not in CASES[case][0]:
        for n in (-1, 2, 3, 16):
            assert_same_results(before, got, {"n": n})


KEPT = {
    "read before": f"{ALL}A[i] = 100\n    A[i] = A[i] + 1",
    "a part": f"{ALL}A[i] = 1\n{ALL}if i < 12:\n        A[i] = 2",
    "another condition": "if n < 4:\n    A[0] = 1\nif n < 3:\n    A[0] = 2",
    "maybe no iteration": "A[0] = 1\nfor i in range(n):\n    A[0] = 2",
    "read by a later iteration": (
        f"for i in range(15):\n    B[i] = A[0]\n    A[0] = i\n{ALL}A[i] = 2"
    ),
    "read by an earlier iteration": (
        "A[3] = 1\nfor i in range(15):\n    B[i] = A[i + 1]\n    A[i] = 0"
    ),
    "memory decides": "A[0] = 1\nif B[0] == 0:\n    A[0] = 2",
    "read as a condition": "A[0] = 1\nif A[0] == B[0]:\n    B[0] = 2\nA[0] = 2",
    "a call": 'A[0] = 1\nT.evaluate(T.call_extern("int32", "f", A.data))\nA[0] = 2',
    "a call in the next iteration": (
        f'{ALL}T.evaluate(T.call_extern("int32", "f", A.data))\n    A[i] = 1\nA[3] = 2'
    ),
    "another name": (
        "V = T.Buffer((4, 4), 'int32', data=A.data)\nA[0] = 1\nB[0] = V[0, 0]\nA[0] = 2"
    ),
    "a neighbour": "for i in range(15):\n    A[i] = A[i + 1]",
    "another value": f"{ALL}A[i] = i\nA[4] = 5",
    "zeros of other signs": (
        "C = T.decl_buffer((1,), 'float32')\nC[0] = T.float32(0)\nB[0] = T.Cast('int32', C[0])\n"
        "C[0] = T.float32(-0.0)\nB[1] = T.Cast('int32', C[0])"
    ),
    "volatile": (
        'with T.attr(A.data, "volatile_scope", 1):\n    A[0] = 1\n    A[0] = 2\nB[0] = 1\nB[1] = 2'
    ),
    "another thread reads": (
        "for i in T.parallel(16):\n    A[i] = 1\n    B[i] = A[15 - i]\n    A[i] = 2"
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_stores_with_an_effect_stay(case):
    func = program(KEPT[case])
    assert_structural_equal(cleaned(func), func)


def test_parameters_may_be_the_same_memory():
    between = program("A[0] = 1\nB[1] = B[0]\nA[0] = 2")
    assert len(cleaned(between).body.seq) == 2
    overlapping = between.without_attr("tir.noalias")
    assert_structural_equal(cleaned(overlapping), overlapping)


def test_lanes_of_a_warp_read_what_others_stored():
    func = program(
        """
C_data = T.allocate([32], "int32", "warp")
C = T.decl_buffer((32,), "int32", data=C_data, scope="warp")
with T.launch_thread("threadIdx.x", 32) as lane:
    C[lane] = A[0]
    B[lane] = C[lane ^ 1]
    C[lane] = A[1]
    B[lane] = B[lane] + C[lane ^ 2]
"""
    )
    assert_structural_equal(cleaned(func), func)


@pytest.mark.parametrize("seed", range(80))
def test_random_programs(seed):
    text = Drawn(seed).block(3, [], 0) + Drawn(seed + 1000).block(3, [], 0)
    func = program(text)
    got = cleaned(func)
    for n in (0, 7):
        assert_same_results(func, got, {"n": n})
