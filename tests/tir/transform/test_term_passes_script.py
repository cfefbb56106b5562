"""Common terms, hoisting, digits of indices, one definition per variable, narrow indices."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, assert_same_results, outputs
from tilesmith.ir import IRModule, Let, Var
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError
from tilesmith.tir import For, ForKind, PrimFunc, SeqStmt, decl_buffer, transform
from tilesmith.tir.analysis import verify_ssa
from tilesmith.tir.stmt import BufferStore


def check(before, after, *passes, sizes=None):
    """The passes make ``after`` of ``before``, and both compute the same."""
    got = apply(before, *passes)
    assert_structural_equal(got, after.with_attr(before.attrs))
    assert_same_results(before, got, sizes)


# Common terms.


def test_common_terms_are_named_where_all_their_uses_are():
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(8, 8):
            B[i * 8 + j] = A[i * 8 + j] + (i * 8 + j)
        for i in range(8):
            if i * 3 + 1 < 16:
                A[i] = i * 3 + 1
                B[i] = i * 5

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        for i, j in T.grid(8, 8):
            cse_var_1: T.int32 = i * 8 + j
            B[cse_var_1] = A[cse_var_1] + cse_var_1
        for i in range(8):
            cse_var_2: T.int32 = i * 3 + 1
            if cse_var_2 < 16:
                A[i] = cse_var_2
                B[i] = i * 5

    check(before, expected, transform.CommonSubexprElimTIR())


def test_terms_inside_of_larger_ones_are_named_before_them():
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), x: T.int32, y: T.int32):
        T.func_attr({"global_symbol": "main"})
        A[0] = (x + y) * 3
        A[1] = (x + y) * 3
        A[2] = x + y

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32"), x: T.int32, y: T.int32):
        cse_var_1: T.int32 = x + y
        cse_var_2: T.int32 = cse_var_1 * 3
        A[0] = cse_var_2
        A[1] = cse_var_2
        A[2] = cse_var_1

    check(before, expected, transform.CommonSubexprElimTIR(), sizes={"x": 4, "y": 7})


def test_loads_calls_and_divisions_by_variables_are_not_named():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            B[i] = A[i] * T.exp(A[i]) + T.exp(A[i])
            if n != 0:
                A[i] = T.Cast("float32", T.if_then_else(n > 1, i // n, i // n + 1))

    got = apply(func, transform.CommonSubexprElimTIR())
    assert got is func
    assert_same_results(func, got, {"n": 0})


def test_variables_of_lets_inside_of_expressions_do_not_leave_them():
    x = Var("x", "int32")
    a = decl_buffer((8,), "int32", "A")
    i = Var("i", "int32")
    value = Let(x, i + 1, (x * 3 + 1) * (x * 3 + 1))
    body = For(i, 0, 8, ForKind.SERIAL, BufferStore(a, value, [i]))
    func = PrimFunc([a], body, attrs={"global_symbol": "main"})
    got = apply(func, transform.CommonSubexprElimTIR())
    assert_same_results(func, got)
    assert got is func


def test_equivalent_terms_are_common_only_if_asked():
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        T.func_attr({"global_symbol": "main"})
        A[0] = x * (y + z)
        A[1] = x * y + x * z

    assert apply(func, transform.CommonSubexprElimTIR()) is func
    found = [apply(func, transform.CommonSubexprElimTIR(identify_equiv_terms=True))]
    with PassContext(config={"tir.enable_equiv_terms_in_cse_tir": True}):
        found.append(apply(func, transform.CommonSubexprElimTIR()))
    for got in found:
        assert got.script().count("cse_var_1") == 3
        assert_same_results(func, got, {"x": 2, "y": 3, "z": 5})


@pytest.mark.parametrize("way", ["argument", "option"])
def test_naming_common_terms_can_be_switched_off(way):
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), x: T.int32):
        T.func_attr({"global_symbol": "main"})
        A[x + 1] = x + 1

    with PassContext(config={"tir.disable_cse_tir": way == "option"}):
        assert apply(func, transform.CommonSubexprElimTIR(way != "argument")) is func


# Hoisting.


def test_hoist_if_then_else_with_both_cases():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            if n > 3:
                A[i] = T.float32(1)
            else:
                A[i] = T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), n: T.int32):
        if n > 3:
            for i in range(8):
                A[i] = T.float32(1)
        else:
            for i in range(8):
                A[i] = T.float32(2)

    check(before, expected, transform.HoistIfThenElse(), sizes={"n": 2})


@T.prim_func
def on_threads(A: T.Buffer((4, 8), "float32")):
    T.func_attr({"global_symbol": "main"})
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for i in range(8):
            if b < 3:
                A[b, i] = T.float32(1)


def test_conditions_on_threads_leave_loops_only_if_asked():
    lowered = apply(on_threads, transform.LowerOpaqueBlock())
    assert apply(lowered, transform.HoistIfThenElse()) is lowered
    config = {"tir.HoistIfThenElse": {"support_block_scope_hosting": True}}
    with PassContext(config=config):
        option = apply(lowered, transform.HoistIfThenElse())
    assert type(option.body.body).__name__ == "IfThenElse"
    with PassContext(config=config):  # the variant does not ask the option
        assert apply(lowered, transform.HoistIfThenElse("basic")) is lowered
    assert apply(lowered, transform.HoistExpression()) is lowered
    flags = transform.HoistedConditionals.All
    config = {"tir.HoistExpression": transform.HoistExpressionConfig(hoisted_conditionals=flags)}
    with PassContext(config=config):
        got = apply(lowered, transform.HoistExpression())
    assert_structural_equal(got, option)
    assert_same_results(on_threads, option)


SCOPES = {
    "memory": """
    for i in range(8):
        C_data = T.allocate([8], "float32", "global")
        C = T.Buffer((8,), "float32", data=C_data)
        for j in range(8):
            if n > 3:
                C[j] = T.float32(2)
                A[i, j] = C[j]
""",
    "launches": """
    for k in range(2):
        b = T.launch_thread("blockIdx.x", 8)
        t = T.launch_thread("threadIdx.x", 8)
        C = T.decl_buffer((8,), scope="local")
        for j in range(8):
            if n > 3:
                if b < 5:
                    C[j] = T.float32(3)
                    A[b, t] = C[j]
""",
    "attributes": """
    for i in range(8):
        with T.attr(A.data, "storage_alignment", 32):
            for j in range(8):
                if n > 3:
                    A[i, j] = T.float32(1)
""",
}


@pytest.mark.parametrize("case", SCOPES)
def test_conditions_leave_scopes_if_asked(case):
    head = "@T.prim_func\ndef main(A: T.Buffer((8, 8), 'float32'), n: T.int32):\n"
    head += "    T.func_attr({'global_symbol': 'main'})"
    func = from_source(head + SCOPES[case], {"T": T})
    with PassContext(config={"tir.HoistIfThenElse": {"support_block_scope_hosting": True}}):
        got = apply(func, transform.HoistIfThenElse())
    assert type(got.body).__name__ == "IfThenElse" and got.script().count("n > 3") == 1
    for n in (1, 5):
        assert_same_results(func, got, {"n": n})


def test_unknown_variants_of_hoisting_are_refused():
    with pytest.raises(ConfigError, match="variant"):
        transform.HoistIfThenElse("fancy")


@T.prim_func
def choices(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        x: T.int32 = n * 2
        B[i] = T.if_then_else(n > 3 and i < 4, A[i], T.float32(x))
        if i > n:
            A[i] = T.if_then_else(n > 5, T.float32(1), T.float32(2))


@pytest.mark.parametrize("n", [1, 4, 6])
def test_hoist_expression(n):
    @T.prim_func
    def conditions_only(A: T.Buffer((8,), "float32"), n: T.int32):
        if n > 3:
            for i in range(8):
                A[i] = T.if_then_else(i < 4, T.float32(1), T.float32(2))
        else:
            for i in range(8):
                A[i] = T.float32(2)

    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            A[i] = T.if_then_else(n > 3 and i < 4, T.float32(1), T.float32(2))

    check(before, conditions_only, transform.HoistExpression(), sizes={"n": n})
    got = apply(choices, transform.HoistExpression())
    assert type(got.body).__name__ == "LetStmt"
    assert_same_results(choices, got, {"n": n})


@pytest.mark.parametrize(
    ("conditionals", "lets", "first", "choices_left"),
    [(0, 0, "For", 2), (0, 2, "LetStmt", 2), (2, 0, "For", 2), (7, 7, "LetStmt", 2)],
)
def test_flags_say_what_is_hoisted(conditionals, lets, first, choices_left):
    config = {"hoisted_conditionals": conditionals, "hoisted_let_bindings": lets}
    with PassContext(config={"tir.HoistExpression": config}):
        got = apply(choices, transform.HoistExpression())
    assert type(got.body).__name__ == first
    assert_same_results(choices, got, {"n": 4})


RISING = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int32, m: T.int32):
    T.func_attr({{"global_symbol": "main"}})
{}
"""


@pytest.mark.parametrize("hoist", [transform.HoistIfThenElse, transform.HoistExpression])
@pytest.mark.parametrize(
    "before, expected",
    [
        (  # past a condition that stays
            """
    for i, j in T.grid(8, 8):
        if j < m:
            if i < n:
                A[i * 8 + j] = T.float32(1)
""",
            """
    for i in range(8):
        if i < n:
            for j in range(8):
                if j < m:
                    A[i * 8 + j] = T.float32(1)
""",
        ),
        (  # loops on threads are loops as well
            """
    for i in T.thread_binding(8, thread="threadIdx.x"):
        for j in range(8):
            if T.likely(i < n):
                A[i * 8 + j] = T.float32(1)
""",
            """
    for i in T.thread_binding(8, thread="threadIdx.x"):
        if T.likely(i < n):
            for j in range(8):
                A[i * 8 + j] = T.float32(1)
""",
        ),
        (  # attributes in between stay with the loop
            """
    for i in range(8):
        with T.attr(0, "pragma_y", 1):
            if n < 3:
                A[i] = T.float32(1)
""",
            """
    if n < 3:
        for i in range(8):
            with T.attr(0, "pragma_y", 1):
                A[i] = T.float32(1)
""",
        ),
        (  # one statement of several does not decide for the others
            """
    for i in range(8):
        if n < 3:
            A[i] = T.float32(1)
        A[i + 8] = T.float32(2)
""",
            """
    for i in range(8):
        if n < 3:
            A[i] = T.float32(1)
        A[i + 8] = T.float32(2)
""",
        ),
    ],
)
def test_how_conditions_rise(hoist, before, expected):
    before, expected = from_source(RISING.format(before)), from_source(RISING.format(expected))
    got = apply(before, hoist())
    assert_structural_equal(got, expected)
    for n in (0, 2, 5):
        assert_same_results(before, got, {"n": n, "m": 4})


def test_parts_of_conditions_rise_through_all_loops():
    before, expected = [
        from_source(RISING.format(text))
        for text in (
            """
    for i, j in T.grid(8, 8):
        if j < m and i < n and n < 3:
            A[i * 8 + j] = T.float32(1)
""",
            """
    if n < 3:
        for i in range(8):
            if i < n:
                for j in range(8):
                    if j < m:
                        A[i * 8 + j] = T.float32(1)
""",
        )
    ]
    parts = int(transform.HoistedConditionals.BooleanExpression)
    with PassContext(config={"tir.HoistExpression": {"hoisted_conditionals": parts}}):
        got = apply(before, transform.HoistExpression())
    assert_structural_equal(got, expected)
    assert_same_results(before, got, {"n": 2, "m": 4})


def test_conditions_that_read_memory_or_may_divide_by_zero_stay():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            if A[0] < 4:
                A[0] = A[0] + 1
            if n != 0 or i < 0:
                if 8 // n > 2:
                    A[i] = 3

    with PassContext(config={"tir.HoistExpression": {"hoisted_conditionals": 1}}):
        got = apply(func, transform.HoistExpression())
    assert_same_results(func, got, {"n": 0})


# Digits of indices.


def test_renormalize_split_pattern():
    @T.prim_func
    def before(A: T.Buffer((512,), "int32"), x: T.int32, y: T.int32):
        T.func_attr({"global_symbol": "main"})
        A[x % 64 // 8] = y
        A[(y * 16 + x % 64) // 8] = x

    @T.prim_func
    def expected(A: T.Buffer((512,), "int32"), x: T.int32, y: T.int32):
        A[x // 8 % 8] = y
        A[y * 2 + x // 8 % 8] = x

    for x in (0, 77, 130):
        sizes = {"x": x, "y": 5}
        check(before, expected, transform.RenormalizeSplitPattern(), sizes=sizes)


def test_loops_begin_at_zero():
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(3, 8):
            for j in range(n, i):
                A[i] = A[i] + j

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(5):
            for j in range(i + 3 - n):
                A[i + 3] = A[i + 3] + (j + n)

    check(before, expected, transform.CanonicalizeLoop(), sizes={"n": 2})


# One definition for each variable.


def test_convert_ssa():
    a = decl_buffer((4,), "int32", "A")
    i = Var("i", "int32")
    loop = For(i, 0, 4, ForKind.SERIAL, BufferStore(a, a[i] + i, [i]))
    inner = For(i, 0, 4, ForKind.SERIAL, SeqStmt((loop, BufferStore(a, i, [i]))))
    func = PrimFunc([a], SeqStmt((loop, inner, loop)), attrs={"global_symbol": "main"})
    assert not verify_ssa(func)
    got = apply(func, transform.ConvertSSA())
    assert verify_ssa(got)
    assert got.body.seq[0] is loop or got.body.seq[0].loop_var is i
    assert apply(got, transform.ConvertSSA()) is got
    # the interpreter takes one definition for granted, so the result is worked out here
    array, want = np.arange(4, dtype="int32"), np.arange(4, dtype="int32")
    want += np.arange(4, dtype="int32")
    for number in range(4):
        want += np.arange(4, dtype="int32")
        want[number] = number
    want += np.arange(4, dtype="int32")
    (result,) = outputs(got, [array])
    np.testing.assert_array_equal(result, want)


def test_convert_ssa_between_functions():
    @T.prim_func
    def one(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "one"})
        for i in range(4):
            A[i] = T.float32(i)

    mod = IRModule({"one": one, "two": one.with_attr("global_symbol", "two")})
    got = transform.ConvertSSA()(mod)
    assert got["one"] is mod["one"]
    assert got["one"].body.loop_var is not got["two"].body.loop_var
    assert got["one"].params[0] is not got["two"].params[0]
    assert_same_results(one, got["two"])


def test_verify_ssa_pass():
    a = decl_buffer((4,), "int32", "A")
    i = Var("i", "int32")
    loop = For(i, 0, 4, ForKind.SERIAL, BufferStore(a, i, [i]))
    func = PrimFunc([a], SeqStmt((loop, loop)), attrs={"global_symbol": "main"})
    with pytest.raises(RuntimeError, match="more than one place"):
        apply(func, transform.VerifySSA())


# Narrow indices.


def test_force_narrow_index_to_int32():
    @T.prim_func
    def before(a: T.handle, n: T.int64):
        T.func_attr({"global_symbol": "main"})
        m = T.int64()
        A = T.match_buffer(a, (m,), "float32")
        X = T.alloc_buffer((T.int64(4),), "int64")
        for i in range(m):
            X[i % T.int64(4)] = i * n
            A[i] = T.Cast("float32", X[i % T.int64(4)])

    @T.prim_func
    def expected(a: T.handle, n: T.int32):
        m = T.int32()
        A = T.match_buffer(a, (m,), "float32")
        X = T.alloc_buffer((4,), "int32")
        for i in range(m):
            X[i % 4] = i * n
            A[i] = T.Cast("float32", X[i % 4])

    check(before, expected, transform.ForceNarrowIndexToInt32(), sizes={"m": 9, "n": 3})


def test_tensors_of_int64_and_large_constants_are_not_narrowed():
    @T.prim_func
    def tensors(A: T.Buffer((4,), "int64")):
        T.func_attr({"global_symbol": "main"})
        A[0] = T.int64(1)

    @T.prim_func
    def constants(A: T.Buffer((4,), "float32"), n: T.int64):
        T.func_attr({"global_symbol": "main"})
        if n < T.int64(4000000000):
            A[0] = T.float32(1)

    with pytest.raises(TypeMismatchError, match="int64"):
        apply(tensors, transform.ForceNarrowIndexToInt32())
    with pytest.raises(UnsupportedError, match="4000000000"):
        apply(constants, transform.ForceNarrowIndexToInt32())


# Attributes.


def test_lift_attr_scope():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.attr(0, "pragma_task", n):
                A[i] = T.float32(1)
            with T.attr(0, "pragma_task", n):
                A[i] = A[i] + T.float32(i)
        for i in range(8):
            with T.attr(0, "pragma_task", i):
                A[i] = A[i] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), n: T.int32):
        with T.attr(0, "pragma_task", n):
            for i in range(8):
                A[i] = T.float32(1)
                A[i] = A[i] + T.float32(i)
        for i in range(8):
            with T.attr(0, "pragma_task", i):
                A[i] = A[i] * T.float32(2)

    check(before, expected, transform.LiftAttrScope("pragma_task"), sizes={"n": 1})


def test_remap_thread_axis():
    got = apply(
        apply(on_threads, transform.LowerOpaqueBlock()),
        transform.RemapThreadAxis({"blockIdx.x": "blockIdx.y"}),
    )
    assert got.body.node.thread_tag == "blockIdx.y"
    assert_same_results(on_threads, got)
