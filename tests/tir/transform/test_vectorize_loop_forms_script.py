"""VectorizeLoop as a pass by itself: the form of what runs lane by lane, predicates, refusals."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import assert_structural_equal
from tilesmith.ir.queries import nodes
from tilesmith.ir.transform import PassContext
from tilesmith.lowering import build
from tilesmith.script import from_source
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import For, transform
from tilesmith.tir.transform.loops.vectorize_loop import vectorize_loop

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), n: T.int32):
    T.func_attr({{"global_symbol": "main"}})
{}
"""


def program(body):
    return from_source(PROGRAM.format(body))


@pytest.mark.parametrize(
    "before, expected",
    [
        (  # a choice between lanes runs lane by lane, what stands beside it does not
            """
    for j in T.vectorized(8):
        B[j] = A[j]
        if j < n:
            B[j + 8] = A[j]
        else:
            B[j + 8] = T.float32(0)
        B[j + 16] = T.if_then_else(j < 4, A[j], T.float32(1))
""",
            """
    B[0:8] = A[0:8]
    for j in range(8):
        if j < n:
            B[j + 8] = A[j]
        else:
            B[j + 8] = T.float32(0)
    for j in range(8):
        B[j + 16] = T.if_then_else(j < 4, A[j], T.float32(1))
""",
        ),
        (  # a buffer has one shape: not that of a lane
            """
    for j in T.vectorized(8):
        width: T.int32 = j % 3 + 1
        view = T.decl_buffer((2 * width,), data=A.data)
        B[j] = view[width]
""",
            """
    for j in range(8):
        width: T.int32 = j % 3 + 1
        view = T.decl_buffer((2 * width,), data=A.data)
        B[j] = view[width]
""",
        ),
        (  # a choice for all lanes stays one
            """
    for i in range(8):
        for j in T.vectorized(16):
            if i > 3:
                B[i * 16 + j] = A[i * 16 + 15 - j]
            else:
                B[i * 16 + j] = T.if_then_else(n < 3, A[0], T.Cast("float32", j))
""",
            """
    for i in range(8):
        if i > 3:
            B[T.Ramp(i * 16, 1, 16)] = A[T.Ramp(i * 16 + 15, -1, 16)]
        else:
            B[T.Ramp(i * 16, 1, 16)] = T.if_then_else(
                n < 3, T.Broadcast(A[0], 16), T.Cast("float32x16", T.Ramp(0, 1, 16)))
""",
        ),
        (  # as long as it is; products with what may be negative are no ramps
            """
    for j in T.vectorized(128):
        B[j] = A[127 - j] * T.Cast("float32", j * n) + T.Cast("float32", j + j)
""",
            """
    B[0:128] = A[T.Ramp(127, -1, 128)] * T.Cast(
        "float32x128", T.Ramp(0, 1, 128) * T.Broadcast(n, 128)
    ) + T.Cast("float32x128", T.Ramp(0, 1, 128) + T.Ramp(0, 1, 128))
""",
        ),
    ],
)
def test_forms(before, expected):
    before = program(before)
    got = apply(before, transform.VectorizeLoop())
    assert_structural_equal(got, program(expected))
    assert_same_results(before, got, {"n": 3})


@pytest.mark.parametrize(
    "body, index, limit",
    [
        ("if i * 8 + j < n:\n                B[i * 8 + j] = A[i * 8 + j]", "i * 8", "n"),
        ("if j < 5:\n                B[j] = A[j]", "0", "5"),
    ],
)
def test_predicates_on_request(body, index, limit):
    before = program(f"""
    for i in range(16):
        for j in T.vectorized(8):
            {body}
""")
    mask = f'T.get_active_lane_mask("uint1x8", {index}, {limit})'
    expected = program(f"""
    for i in range(16):
        B.vstore([T.Ramp({index}, 1, 8)], A.vload([T.Ramp({index}, 1, 8)], predicate={mask}),
                 predicate={mask})
""")
    with PassContext(config={"tir.enable_buffer_level_predication": True}):
        got = apply(before, transform.VectorizeLoop())
    assert_structural_equal(got, expected)
    assert_same_results(before, got, {"n": 100})


@pytest.mark.parametrize(
    "body",
    [
        "if j <= n:\n            B[j] = A[j]",
        "if j < n:\n            B[j] = A[j + 1]",
        "if j < n:\n            B[j] = A[0]",
        "if T.likely(j < n):\n            B[j] = A[j]",
        "if j < n:\n            B[j] = A[j]\n        else:\n            B[j] = T.float32(0)",
        "if j * 2 < n:\n            B[j] = A[j]",
    ],
)
def test_other_conditions_get_no_predicates(body):
    before = program(f"    for j in T.vectorized(8):\n        {body}\n")
    with PassContext(config={"tir.enable_buffer_level_predication": True}):
        got = apply(before, transform.VectorizeLoop())
    assert_structural_equal(got, program(f"    for j in range(8):\n        {body}\n"))
    assert_same_results(before, got, {"n": 5})


def test_refusals():
    unknown = program("    for j in T.vectorized(n):\n        B[j] = A[j]\n")
    with pytest.raises(UnsupportedError, match="Failed to vectorize loop with extent n"):
        apply(unknown, transform.VectorizeLoop())
    assert_same_results(unknown, apply(unknown, transform.VectorizeLoop(freely=True)), {"n": 5})
    loop = program("""
    for j in T.vectorized(8):
        while B[j] < T.float32(3):
            B[j] = B[j] + T.float32(1)
""")
    with pytest.raises(UnsupportedError, match="while loop inside a vectorized loop"):
        apply(loop, transform.VectorizeLoop())
    assert_same_results(loop, apply(loop, transform.VectorizeLoop(freely=True)), {"n": 1})


@pytest.mark.parametrize(
    "value",
    [
        'T.Cast("int8", i * 64) // T.int8(4)',
        '(T.Cast("uint8", i) + T.uint8(254)) % T.uint8(10)',
        '(T.Cast("uint8", i) + T.uint8(254)) // T.uint8(10)',
        '(T.Cast("uint16", i) * T.uint16(16384) + T.uint16(32768)) // T.uint16(8)',
        'T.Cast("int32", T.Cast("int8", i) + T.int8(126))',
        'A[T.Cast("uint8", i) + T.uint8(254)]',
        'T.if_then_else(i < 3, A[T.Cast("uint8", i) + T.uint8(254)], 3)',
        'A[T.Cast("uint8", i) + T.uint8(25)]',
    ],
)
def test_lanes_of_narrow_integers_wrap_around(value):
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((256,), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({{"global_symbol": "main"}})
    for i in T.vectorized(4):
        B[i] = T.Cast("int32", {value})
"""
    )
    got = vectorize_loop(func)
    assert not list(nodes(got.body, For))
    assert_same_results(func, got)


@pytest.mark.parametrize(
    "first, lines", [("25", "A[T.uint8(25):T.uint8(29)]"), ("254", "A[T.Cast(")]
)
def test_an_index_that_may_wrap_around_is_gathered(first, lines):
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((256,), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({{"global_symbol": "main"}})
    for i in T.vectorized(4):
        B[i] = A[T.Cast("uint8", i) + T.uint8({first})]
"""
    )
    got = vectorize_loop(func)
    assert lines in got.script()
    given, result = np.arange(256, dtype="int32"), np.zeros(4, "int32")
    for target in ("llvm", "c"):
        build(got, target=target)["main"](given, result)
        assert list(result) == [(int(first) + lane) % 256 for lane in range(4)]
