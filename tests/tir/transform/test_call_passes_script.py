"""Packed calls, contexts, private functions, constants, marks for profiling, places in the text."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same_results, module, outputs
from tilesmith.ir import IRModule, Span, post_order_visit
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import AllocateConst, DeclBuffer, PrimFunc, Stmt, decl_buffer, transform
from tilesmith.tir.interpreter import run
from tilesmith.tir.stmt import BufferStore

CONTEXT = "tir.tvm_context_id"


@T.prim_func
def calling(A: T.Buffer((4, 3), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "main"})
    for i in range(2):
        T.evaluate(
            T.call_packed(
                "note",
                T.tvm_stack_make_array(
                    A.data,
                    T.tvm_stack_make_shape(4, 3),
                    0,
                    2,
                    T.float32(0),
                    0,
                ),
                n + i,
                "text",
                T.float32(0.5),
            )
        )
    for p in T.parallel(2):
        T.evaluate(T.call_packed("note", p))


def calls_of(func, arrays):
    """What a function hands to the packed function "note"."""
    found = []

    def note(*values):
        found.append([np.array(v) if isinstance(v, np.ndarray) else v for v in values])
        return 0

    run(func, *arrays, externs={"note": note})
    return found


def same_calls(got, want):
    assert len(got) == len(want)
    for one, other in zip(got, want):
        assert len(one) == len(other)
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)


def test_packed_calls_with_stacks():
    got = apply(calling, transform.LowerTVMBuiltin())
    text = got.script()
    assert text.count('T.tvm_stack_alloca("tvm_ffi_any", 5)') == 1
    assert text.count('T.tvm_stack_alloca("tvm_ffi_any", 2)') == 1  # of the parallel loop
    assert text.count('T.tvm_stack_alloca("array", 1)') == 1
    assert "call_packed_lowered" in text and "T.call_packed(" not in text
    arrays = arrays_for(calling, {"n": 7})
    same_calls(calls_of(got, arrays), calls_of(calling, arrays))


def test_a_packed_call_that_may_not_happen_is_refused():
    @T.prim_func
    def func(A: T.Buffer((4,), "int32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        A[0] = T.if_then_else(n > 0, T.call_packed("note", n), 0)

    with pytest.raises(UnsupportedError, match="if_then_else"):
        apply(func, transform.LowerTVMBuiltin())


def test_large_allocations_of_devices_are_workspaces():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main", "target": Target("cuda")})
        X = T.allocate([64], "float32", "global")
        Y = T.allocate([4096], "float32", "global")
        T.evaluate(X)
        T.evaluate(Y)

    text = apply(func, transform.LowerTVMBuiltin()).script()
    assert text.count("TVMBackendAllocWorkspace") == 1
    assert text.count("TVMBackendFreeWorkspace") == 1
    assert 'T.allocate([64], "float32"' in text
    host = func.without_attr("target")
    assert "Workspace" not in apply(host, transform.LowerTVMBuiltin()).script()


def test_packed_functions_get_tensors():
    @T.prim_func
    def func(A: T.Buffer((4, 3), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        T.evaluate(T.call_packed("note", A.data, n))

    got = apply(func, transform.LegalizePackedCalls())
    assert "tvm_stack_make_array" in got.script()
    arrays = arrays_for(func, {"n": 2})
    same_calls(calls_of(got, arrays), [[arrays[0], 2]])
    lowered = apply(got, transform.LowerTVMBuiltin())
    same_calls(calls_of(lowered, arrays), [[arrays[0], 2]])


def test_contexts_are_asked_for_once():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            T.evaluate(T.call_extern("int32", "f", T.call_intrin("handle", CONTEXT), i))
        for i in T.parallel(4):
            for j in range(2):
                T.evaluate(T.call_extern("int32", "f", T.call_intrin("handle", CONTEXT), i * j))

    got = apply(func, transform.CombineContextCall())
    assert got.script().count("tvm_context_id") == 2
    assert type(got.body).__name__ == "LetStmt"
    assert type(got.body.body.seq[1].body).__name__ == "LetStmt"


# Private functions.


@I.ir_module
class Calling:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            Calling.scaled(A.data, B.data, i + 0, T.float32(2))

    @T.prim_func(private=True)
    def scaled(a: T.handle("float32"), b: T.handle("float32"), i: T.int32, factor: T.float32):
        A = T.decl_buffer((16,), data=a)
        B = T.decl_buffer((16,), data=b)
        for _k in range(1):
            B[i] = A[i] * factor


def test_private_functions_are_inlined():
    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            A1 = T.decl_buffer((16,), data=A.data)
            B1 = T.decl_buffer((16,), data=B.data)
            for _k in range(1):
                B1[i] = A1[i] * T.float32(2)

    got = transform.InlinePrivateFunctions()(Calling)
    assert [v.name_hint for v in got.functions] == ["main"]
    assert_structural_equal(got["main"], expected)
    arrays = arrays_for(expected)
    first = outputs(got["main"], arrays)
    second = [array.copy() for array in arrays]
    run(Calling, *second)
    np.testing.assert_array_equal(first[1], second[1])
    np.testing.assert_allclose(first[1], arrays[0] * 2)


def test_public_and_recursive_functions_stay():
    @I.ir_module
    class Recursive:
        @T.prim_func
        def main(n: T.int32):
            T.func_attr({"global_symbol": "main"})
            Recursive.down(n)

        @T.prim_func(private=True)
        def down(n: T.int32):
            if n > 0:
                Recursive.down(n - 1)

    got = transform.InlinePrivateFunctions()(Recursive)
    assert got["main"] is Recursive["main"] and "down" in got


# Constants.


def test_constants_are_collected_in_the_module():
    def function(name, data):
        target = decl_buffer((4,), "float32", "B")
        source = decl_buffer((4,), "float32", "C")
        body = DeclBuffer(source, BufferStore(target, source[1] + source[3], [0]))
        return PrimFunc(
            [target],
            AllocateConst(source.data, "float32", (4,), data, body),
            attrs={"global_symbol": name},
        )

    array, other = np.arange(4, dtype="float32"), np.ones(4, "float32")
    mod = IRModule(
        {"one": function("one", array), "two": function("two", array.copy()),
         "three": function("three", other)}
    )  # fmt: skip
    got = transform.ExtractPrimFuncConstants()(mod)
    assert [got[name].body.data_or_idx for name in ("one", "two", "three")] == [0, 0, 1]
    assert len(got.attrs["constants"]) == 2
    np.testing.assert_array_equal(got.attrs["constants"][1], other)


# Marks and places.


@T.prim_func
def loops(A: T.Buffer((4, 4), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(4):
        for j in range(4):
            A[i, j] = T.float32(1)
        for j in range(4):
            A[i, j] = A[i, j] + T.float32(i)


@pytest.mark.parametrize(
    ("options", "marks"),
    [
        ({}, 0),
        ({"tir.instrument_lwp": True}, 3),
        ({"tir.instrument_lwp": True, "tir.lwp_disable_func_prof": True}, 2),
        ({"tir.instrument_lwp": True, "tir.instr_siblings": False}, 4),
        ({"tir.instrument_lwp": True, "tir.instr_siblings": False, "tir.lwp_max_depth": 1}, 2),
        ({"tir.instrument_lwp": True, "tir.instr_siblings": False, "tir.lwp_min_height": 2}, 2),
    ],
)
def test_marks_for_profiling(options, marks):
    with PassContext(config={"tir.reset_start_id": True, **options}):
        got = apply(loops, transform.InstrumentProfileIntrinsics())
    text = got.script()
    assert text.count("start_profile_intrinsic") == text.count("end_profile_intrinsic") == marks
    assert_same_results(loops, got)


def test_numbers_of_marks_go_on_unless_reset():
    with PassContext(config={"tir.instrument_lwp": True}):
        first = apply(loops, transform.InstrumentProfileIntrinsics()).body.seq[0].value.args[0]
        second = apply(loops, transform.InstrumentProfileIntrinsics()).body.seq[0].value.args[0]
    assert second.value == first.value + 3


def test_statements_point_at_their_lines():
    got = apply(loops, transform.InstallDebugSpans())
    lines = got.script().splitlines()
    seen = 0

    def look(node):
        nonlocal seen
        if isinstance(node, Stmt) and type(node).__name__ in ("For", "BufferStore"):
            assert isinstance(node.span, Span) and node.span.source_name == "main.tir"
            line = lines[node.span.line - 1]
            word = "for " if type(node).__name__ == "For" else "A["
            assert line.strip().startswith(word)
            seen += 1

    post_order_visit(got.body, look)
    assert seen == 5


def test_modules_of_functions_only():
    mod = module(loops)
    assert transform.InlinePrivateFunctions()(mod)["main"] is loops
