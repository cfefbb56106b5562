"""LoopPartition: what the parts of a loop look like, and that the meaning stays."""

import pytest

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import assert_structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.tir import transform


def check(before, after, *passes):
    """The passes make ``after`` of ``before``, and both compute the same."""
    got = apply(before, *passes)
    assert_structural_equal(got, after.with_attr(before.attrs))
    assert_same_results(before, got)


@T.prim_func
def with_tail(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main"})
    m = T.int32()
    A = T.match_buffer(a, (m,))
    B = T.match_buffer(b, (m,))
    for i in range((m + 7) // 8):
        for j in range(8):
            if T.likely(i * 8 + j < m):
                B[i * 8 + j] = A[i * 8 + j] * T.float32(2)


@pytest.mark.parametrize("size", [1, 7, 8, 21, 32])
def test_loop_partition_of_a_symbolic_loop(size):
    got = apply(with_tail, transform.LoopPartition(), transform.Simplify())
    assert_same_results(with_tail, got, {"m": size})
    without, rest = got.body.seq
    assert "if " not in without.script()
    assert "if " in rest.script()
    assert "likely" not in rest.script()  # nobody asks for it afterwards


def test_no_condition_is_likely_after_loop_partition():
    @T.prim_func
    def before(A: T.Buffer((9,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            if T.likely(i < 15):
                B[i] = T.if_then_else(T.likely(i < 9), A[i % 9], T.float32(0))
            else:
                B[i] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((9,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            if i < 15:
                B[i] = T.if_then_else(i < 9, A[i % 9], T.float32(0))
            else:
                B[i] = T.float32(1)

    check(before, expected, transform.LoopPartition())


def test_loop_partition_with_a_hint():
    @T.prim_func
    def before(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in T.serial(34, annotations={"pragma_loop_partition_hint": 1}):
            if 2 <= j and j < 32:
                B[j - 2] = A[31 - j]

    @T.prim_func
    def expected(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
        for j in range(30):
            B[j] = A[29 - j]

    check(before, expected, transform.LoopPartition(), transform.Simplify(), transform.RemoveNoOp())


@pytest.mark.parametrize(
    "condition",
    [
        'T.Cast("int16", i) - T.int16(-32766) >= T.int16(-16384)',
        'T.Cast("uint8", i) - T.uint8(2) < T.uint8(200)',
        'T.Cast("int8", i * 40) < T.int8(100)',
        'T.Cast("int16", i) * T.int16(16384) == T.int16(0)',
        "i <= 2147483647",
        "i >= -2147483648",
    ],
)
def test_conditions_that_wrap_around_keep_their_meaning(condition):
    func = from_source(
        f"""
@T.prim_func
def main(B: T.Buffer((8,), "int32")):
    T.func_attr({{"global_symbol": "main"}})
    for i in T.serial(8, annotations={{"pragma_loop_partition_hint": 1}}):
        B[i] = T.Select({condition}, 1, 2)
"""
    )
    assert_same_results(func, apply(func, transform.LoopPartition(), transform.Simplify()))


def test_a_hint_as_an_attribute_counts_for_the_loop_inside():
    @T.prim_func
    def before(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
        T.func_attr({"global_symbol": "main"})
        with T.attr(0, "pragma_loop_partition_hint", 1):
            with T.attr(0, "pragma_auto_unroll_max_step", 4):
                for j in range(34):
                    if 2 <= j and j < 32:
                        B[j - 2] = A[31 - j]

    got = apply(before, transform.LoopPartition(), transform.Simplify(), transform.RemoveNoOp())
    assert "if" not in got.script() and "range(30)" in got.script()
    assert_same_results(before, got)


def test_loop_partition_leaves_constant_loops_alone_unless_asked():
    @T.prim_func
    def func(A: T.Buffer((13,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(2):
            for j in range(8):
                if T.likely(i * 8 + j < 13):
                    A[i * 8 + j] = T.float32(1)

    whole = apply(func, transform.LoopPartition())
    assert (whole.script().count("for "), whole.script().count("if ")) == (1, 1)
    assert_same_results(func, whole)
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        got = apply(func, transform.LoopPartition())
    assert_same_results(func, got)

    @T.prim_func
    def expected(A: T.Buffer((13,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in range(8):
            A[j] = T.float32(1)
        for j in range(5):
            A[j + 8] = T.float32(1)

    assert_structural_equal(apply(got, transform.Simplify(), transform.RemoveNoOp()), expected)


PARTS = """
@T.prim_func
def main(A: T.Buffer((80,), "float32"), B: T.Buffer((80,), "float32")):
    T.func_attr({{"global_symbol": "main"}})
{}
"""


@pytest.mark.parametrize(
    "loop, parts",
    [
        (  # each condition decides a border; the parts count from zero
            """
    for i in range(20):
        if T.likely(15 > i):
            B[i] = A[i]
        if T.likely(i > 3):
            B[i + 20] = A[i]
""",
            """
    for i in range(4):
        if T.bool(True):
            B[i] = A[i]
        if T.bool(False):
            B[i + 20] = A[i]
    for i in range(11):
        if T.bool(True):
            B[i + 4] = A[i + 4]
        if T.bool(True):
            B[i + 4 + 20] = A[i + 4]
    for i in range(5):
        if T.bool(False):
            B[i + 15] = A[i + 15]
        if T.bool(True):
            B[i + 15 + 20] = A[i + 15]
""",
        ),
        (  # an equation holds in one iteration, which is no loop
            """
    for i in range(20):
        if T.likely(i == 0):
            B[i] = A[i]
        else:
            B[i] = A[1]
""",
            """
    if T.bool(True):
        B[0] = A[0]
    else:
        B[0] = A[1]
    for i in range(19):
        if i + 1 == 0:
            B[i + 1] = A[i + 1]
        else:
            B[i + 1] = A[1]
""",
        ),
        (  # a condition that fails in the middle
            """
    for i in range(1, 6):
        B[i] = T.Select(T.likely(i // 2 != 1), A[i], T.float32(0))
    for i in T.parallel(20):
        if T.likely(i // 4 < 2):
            B[i] = A[i]
""",
            """
    for i in range(1, 6):
        B[i] = T.Select(i // 2 != 1, A[i], T.float32(0))
    for i in T.parallel(8):
        if T.bool(True):
            B[i] = A[i]
    for i in T.parallel(12):
        if T.bool(False):
            B[i + 8] = A[i + 8]
""",
        ),
        (  # the blocks of a grid that need no condition
            """
    bx = T.launch_thread("blockIdx.x", 5)
    tx = T.launch_thread("threadIdx.x", 18)
    if T.likely(bx * 18 + tx < 80):
        B[bx * 18 + tx] = A[bx * 18 + tx]
""",
            """
    bx = T.launch_thread("blockIdx.x", 5)
    tx = T.launch_thread("threadIdx.x", 18)
    if bx < 4:
        if T.bool(True):
            B[bx * 18 + tx] = A[bx * 18 + tx]
    else:
        if bx * 18 + tx < 80:
            B[bx * 18 + tx] = A[bx * 18 + tx]
""",
        ),
    ],
)
def test_parts_of_constant_loops(loop, parts):
    before = from_source(PARTS.format(loop))
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        got = apply(before, transform.LoopPartition())
    assert_structural_equal(got, from_source(PARTS.format(parts)))
    assert_same_results(before, got)


def test_conditions_that_wrap_around_divide_no_loop():
    func = from_source(
        PARTS.format("""
    for i in range(80):
        if T.Cast("int8", i) + T.int8(125) < T.int8(-64):
            B[i] = A[i]
"""),
        {"T": T},
    )
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        got = apply(func, transform.LoopPartition())
    assert got.script().count("for ") == 1
    assert_same_results(func, got)


PLAIN = {
    "either": """
    for i in range(80):
        if i < 50:
            B[i] = A[i]
        else:
            B[i] = T.float32(0)
""",
    "exclusive": """
    for i in range(80):
        if i == 0:
            B[i] = A[i]
        if i > 0 and i < 79:
            B[i] = A[i] * T.float32(2)
        if i == 79:
            B[i] = T.float32(0)
""",
    "chain": """
    for i in range(80):
        if i < 10:
            B[i] = A[i]
        elif i < 30:
            B[i] = A[i] * T.float32(2)
        else:
            B[i] = T.float32(0)
""",
    "outside": """
    for i in range(80):
        B[i] = T.if_then_else(i < 1 or i >= 60, T.float32(0), A[i - 1])
""",
}


@pytest.mark.parametrize("case, loops", [(name, 2 + (name != "either")) for name in PLAIN])
def test_constant_loops_are_divided_at_any_condition(case, loops):
    func = from_source(PARTS.format(PLAIN[case]), {"T": T})
    config = {"partition_const_loop": True, "no_unroll_loop_with_extent_one": True}
    with PassContext(config={"tir.LoopPartition": config}):
        got = apply(func, transform.LoopPartition())
    assert_same_results(func, got)
    plain = apply(got, transform.Simplify(), transform.RemoveNoOp()).script()
    assert plain.count("for ") == loops and " if " not in plain


@pytest.mark.parametrize("source, loops", [("S[3 - tx]", 1), ("S[tx]", 1), ("A[i * 4 + tx]", 2)])
@pytest.mark.parametrize("bound", ["tx", "more"])
def test_threads_that_exchange_values_stay_in_one_iteration(source, loops, bound):
    """Found by fuzzing: each thread left the first part of the loop at another iteration."""
    func = from_source(
        PARTS.format(f"""
    tx = T.launch_thread("threadIdx.x", 4)
    S = T.decl_buffer((4,), "float32", scope="shared")
    more: T.int32 = tx * 2
    for i in range(20):
        S[tx] = A[i * 4 + tx]
        if i + {bound} < 17:
            B[i * 4 + tx] = {source}
"""),
        {"T": T},
    )
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        got = apply(func, transform.LoopPartition())
    assert got.script().count("for ") == loops
    assert_same_results(func, apply(got, transform.ThreadSync("shared")))


@T.prim_func
def with_tile(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main"})
    m = T.int64(is_size_var=True)
    A = T.match_buffer(a, (m,))
    B = T.match_buffer(b, (m,))
    for i in T.serial(
        (m + T.int64(3)) // T.int64(4),
        annotations={"pragma_loop_partition_hint": True, "pragma_loop_partition_tails": 4},
    ):
        for j in T.serial(T.int64(4), annotations={"pragma_loop_partition_hint": True}):
            if i * T.int64(4) + j < m:
                B[i * T.int64(4) + j] = A[i * T.int64(4) + j] * T.float32(2)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 6, 9])
def test_a_last_tile_has_code_for_each_size(size):
    got = apply(with_tile, transform.LoopPartition(), transform.Simplify())
    assert_same_results(with_tile, got, {"m": size})
    text = got.script()
    assert "pragma_loop_partition" not in text
    assert [f"m % T.int64(4) == T.int64({rest})" in text for rest in (1, 2, 3, 4)] == [
        True, True, True, False,
    ]  # fmt: skip
    assert "< m" not in text


@T.prim_func
def with_effect(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main"})
    m = T.int64(is_size_var=True)
    A = T.match_buffer(a, (m,))
    B = T.match_buffer(b, (m,))
    C = T.alloc_buffer((1,))
    C[0] = T.float32(0)
    for i in T.serial(
        (m + T.int64(3)) // T.int64(4),
        annotations={"pragma_loop_partition_hint": True, "pragma_loop_partition_tails": 4},
    ):
        C[0] = C[0] + T.float32(1)
        for j in range(T.int64(4)):
            if i * T.int64(4) + j < m:
                B[i * T.int64(4) + j] = A[i * T.int64(4) + j] + C[0]


@pytest.mark.parametrize("size", [1, 4, 7])
def test_what_no_condition_guards_stays_in_a_loop(size):
    got = apply(with_effect, transform.LoopPartition(), transform.Simplify())
    assert_same_results(with_effect, got, {"m": size})
    assert "==" not in got.script()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 9])
@pytest.mark.parametrize("condition", ["i >= 4", "i < n - 4", "i < 4", "4 <= i and i < n - 2"])
def test_parts_of_a_loop_that_is_too_short_for_them(condition, size):
    """A part begins and ends inside the loop, also where the condition would place it beyond."""
    source = f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        if T.likely({condition}):
            B[i] = A[i] * T.float32(2)
        else:
            B[i] = A[i]
"""
    before = from_source(source)
    got = apply(before, transform.LoopPartition(), transform.Simplify())
    assert len(got.body.seq) > 1
    assert_same_results(before, got, {"n": size})
