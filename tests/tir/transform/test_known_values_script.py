"""Simplify with ``propagate_knowns_...``: what is known of buffers decides conditions and replaces
loads."""

import pytest

from tests.tir.transform.drawn_programs import Drawn, program
from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.tir import transform

CONDITIONS = "propagate_knowns_to_prove_conditional"
EXPRESSIONS = "propagate_knowns_to_simplify_expressions"


def simplified(func, *options):
    with PassContext(config={"tir.Simplify": dict.fromkeys(options, True)}):
        return apply(func, transform.Simplify())


ALL = "for i in range(16):\n    "
CASES = {
    "over a loop": (
        f"{ALL}A[i] = 5\n{ALL}if A[i] == 5:\n        B[i] = A[i] + 1",
        f"{ALL}A[i] = 5\n{ALL}B[i] = 6",
    ),
    "per index": (
        f"{ALL}A[i] = i * 2\n{ALL}if A[i] < 32:\n        B[15 - i] = A[15 - i]",
        f"{ALL}A[i] = i * 2\n{ALL}B[15 - i] = 30 - i * 2",
    ),
    "through a copy": (
        f"{ALL}A[i] = i\n{ALL}B[i] = A[i]\n{ALL}if B[i] == i:\n        A[i] = 0",
        f"{ALL}A[i] = i\n{ALL}B[i] = i\n{ALL}A[i] = 0",
    ),
    "through both cases": (
        f"{ALL}if i < 14:\n        A[i] = 1\n    else:\n        A[i] = 2\n"
        f"{ALL}if i < 14:\n        B[i] = A[i]\n    else:\n        B[i] = A[i]",
        f"{ALL}if i < 14:\n        A[i] = 1\n    else:\n        A[i] = 2\n"
        f"{ALL}if i < 14:\n        B[i] = 1\n    else:\n        B[i] = 2",
    ),
    "under a condition": (
        f"if n < 3:\n    for i in range(16):\n        A[i] = 4\n"
        f"{ALL}if n < 3:\n        B[i] = A[i]\n    else:\n        B[i] = A[i]",
        f"if n < 3:\n    for i in range(16):\n        A[i] = 4\n"
        f"{ALL}if n < 3:\n        B[i] = 4\n    else:\n        B[i] = A[i]",
    ),
    "until overwritten": (
        f"{ALL}A[i] = 5\nA[n] = 3\n{ALL}if i != n:\n        B[i] = A[i]\n    else:\n"
        "        B[i] = A[i]",
        f"{ALL}A[i] = 5\nA[n] = 3\n{ALL}if i != n:\n        B[i] = 5\n    else:\n        B[i] = 3",
    ),
    "not yet overwritten": (
        f"{ALL}A[i] = 5\n{ALL}if A[i] == 5:\n        A[i] = i",
        f"{ALL}A[i] = 5\n{ALL}A[i] = i",
    ),
    "of parts": (
        "for i in range(4):\n    for j in range(4):\n        A[i * 4 + j] = j\n"
        f"{ALL}if A[i] == i % 4:\n        B[i] = A[i]",
        f"for i in range(4):\n    for j in range(4):\n        A[i * 4 + j] = j\n{ALL}B[i] = i % 4",
    ),
    "of vectors": (
        "for i in range(4):\n    A[i * 4:i * 4 + 4] = T.Ramp(i * 4, 1, 4)\n"
        f"{ALL}if A[i] == i:\n        B[i] = 1\nB[0:4] = A[4:8]",
        "for i in range(4):\n    A[i * 4:i * 4 + 4] = T.Ramp(i * 4, 1, 4)\n"
        f"{ALL}B[i] = 1\nB[0:4] = T.Ramp(4, 1, 4)",
    ),
    "in a branch on memory": (
        f"{ALL}if A[i] == 7:\n        B[i] = A[i]",
        f"{ALL}if A[i] == 7:\n        B[i] = 7",
    ),
    "by blocks": (
        "for i in range(16):\n    with T.block('a'):\n        v = T.axis.spatial(16, i)\n"
        "        A[v] = v\nfor i in range(16):\n    with T.block('b'):\n"
        "        v = T.axis.spatial(16, i)\n        if A[v] == v:\n            B[v] = 1",
        "for i in range(16):\n    with T.block('a'):\n        v = T.axis.spatial(16, i)\n"
        "        A[v] = v\nfor i in range(16):\n    with T.block('b'):\n"
        "        v = T.axis.spatial(16, i)\n        T.reads(A[v])\n        B[v] = 1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_known_values(case):
    before, after = (program(text) for text in CASES[case])
    got = simplified(before, CONDITIONS, EXPRESSIONS)
    assert_structural_equal(got, after)
    for n in (2, 9):
        assert_same_results(before, got, {"n": n})


def test_assumptions():
    assume = f"{ALL}T.assume(i < 14 or A[i] == 0)\n"
    before = program(f"{assume}{ALL}B[i] = T.if_then_else(i < 14, A[i] + 1, A[i] + 2)")
    after = program(f"{assume}{ALL}B[i] = T.if_then_else(i < 14, A[i] + 1, 2)")
    assert_structural_equal(simplified(before, EXPRESSIONS), after)


def test_conditions_only():
    before = program(f"{ALL}A[i] = i\n{ALL}if A[i] < 16:\n        B[i] = A[i]")
    after = program(f"{ALL}A[i] = i\n{ALL}B[i] = A[i]")
    assert_structural_equal(simplified(before, CONDITIONS), after)
    assert_structural_equal(simplified(before), before)


CALL = 'T.call_extern("int32", "f", A.data)'
KEPT = {
    "a later iteration overwrites": f"{ALL}A[i // 2] = i\n{ALL}B[i] = A[i // 2]",
    "lanes": "for i in T.vectorized(16):\n    A[i] = 5\n    A[15 - i] = 3\n    B[i] = A[i]",
    "threads": "for i in T.parallel(16):\n    A[i] = 5\n    B[i] = A[15 - i]",
    "maybe no iteration": "for i in range(n):\n    A[0] = 5\nB[0] = A[0]",
    "another condition": f"if n < 3:\n    A[0] = 4\n{ALL}B[i] = A[0]",
    "a call": 'A[0] = 5\nT.evaluate(T.call_extern("int32", "f", A.data))\nB[0] = A[0]',
    "a call in the next iteration": (
        f'{ALL}T.evaluate(T.call_extern("int32", "f", A.data))\n    A[i] = 5\n{ALL}B[i] = A[i]'
    ),
    "a call that is stored": f"A[0] = 5\nB[1] = {CALL}\nB[0] = A[0]",
    "a call as condition": f"A[0] = 5\nif 0 < {CALL}:\n    B[0] = A[0]\nB[1] = A[0]",
    "a call as extent": f"A[0] = 5\nfor i in range({CALL}):\n    B[i] = A[0]",
    "a call in a let": f"A[0] = 5\nwith T.LetStmt({CALL}) as x:\n    B[x] = A[0]",
    "a call in a check": f"A[0] = 5\nassert 0 < {CALL}, 'wrong'\nB[0] = A[0]",
    "another name": (
        "A[0] = 5\nV = T.Buffer((4, 4), 'int32', data=A.data)\nV[0, 0] = 3\nB[0] = A[0]"
    ),
    "memory decides": f"{ALL}if B[i] == 0:\n        A[i] = 5\n{ALL}B[i] = A[i]",
    "while": "A[0] = 0\nwhile A[0] < 3:\n    A[0] = A[0] + 1\nB[0] = A[0]",
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_not_known(case):
    func = program(KEPT[case])
    assert_structural_equal(simplified(func, CONDITIONS, EXPRESSIONS), func)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    text = Drawn(seed).block(3, [], 0) + Drawn(seed + 1000).block(3, [], 0)
    func = program(text)
    for options in ((CONDITIONS, EXPRESSIONS), (CONDITIONS,)):
        got = simplified(func, *options)
        for n in (0, 7):
            assert_same_results(func, got, {"n": n})
