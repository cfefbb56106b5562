"""Packed calls in all forms, plain and lowered by LowerTVMBuiltin, in LLVM code and in C."""

import numpy as np
import pytest

from tests.codegen.harness import HOST, Compiled, kernel
from tests.codegen.test_parallel_and_packed import packed_main
from tilesmith import runtime
from tilesmith.codegen.c import find_compiler
from tilesmith.ir import Call, IRModule, StringImm, Var, const
from tilesmith.target import Target
from tilesmith.tir import (
    Allocate,
    AssertStmt,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    call_packed,
    decl_buffer,
    stmt_seq,
)
from tilesmith.tir.transform import LegalizePackedCalls, LowerTVMBuiltin

FORMS = [
    pytest.param(target, lowered, id=f"{target}-{'lowered' if lowered else 'plain'}",
                 marks=pytest.mark.skipif(target == "c" and find_compiler() is None,
                                          reason="no C compiler here"))
    for target in ("llvm", "c") for lowered in (False, True)
]  # fmt: skip
forms = pytest.mark.parametrize("target, lowered", FORMS)


def call_main(body, target, lowered, *more):
    """Compile and call a function with a body, maybe after LowerTVMBuiltin."""
    functions = {f.attrs["global_symbol"]: f for f in more}
    functions["__tvm_ffi_main"] = packed_main(body)
    module = IRModule(functions)
    if lowered:
        module = LowerTVMBuiltin()(LegalizePackedCalls()(module))
    compiled = Compiled(module, HOST if target == "llvm" else Target(target))
    return compiled.module["main"]()


def registered(name, function):
    runtime.register_func("test.packed." + name, function, override=True)
    return "test.packed." + name


def call(dtype, name, *args, kind="packed"):
    return Call(dtype, f"tir.tvm_call_{kind}", (StringImm(name), *args))


@forms
def test_numbers_texts_and_pointers(target, lowered):
    seen = []
    name = registered("see", lambda *args: seen.append(args))
    made = call_packed(name, 3, -2.5, "a \"text\" \\", const(True, "bool"), const(1 << 40, "int64"),
                       const(200, "uint8"), const(1.5, "float16"))  # fmt: skip
    call_main(stmt_seq(Evaluate(made), Evaluate(made)), target, lowered)
    assert seen == [(3, -2.5, 'a "text" \\', True, 1 << 40, 200, 1.5)] * 2


@forms
def test_results(target, lowered):
    seen = []
    keep = registered("keep", lambda *args: seen.extend(args))
    half = call("float32", registered("half", lambda x: x / 2), const(5.0, "float32"))
    following = call("int64", registered("next", lambda x: x + 1), const(5, "int64"))
    traced = call("int32", keep, const(8, "int32"), const(9, "int32"), kind="trace_packed")
    none = call("void", registered("none", lambda: "an object"))
    call_main(stmt_seq(Evaluate(none), Evaluate(call_packed(keep, half, following, traced))),
              target, lowered)  # fmt: skip
    assert sorted(seen) == [2.5, 6, 8, 9, 9]


@forms
def test_tensors(target, lowered):
    seen = []

    def change(array, strided):
        seen.append((array, strided.numpy().copy()))
        array.copyfrom(array.numpy() + 1)

    name = registered("change", change)
    a = decl_buffer((6,), "int32", "a")
    view = decl_buffer((2, 2), "int32", "view", data=a.data, strides=(2, 1), elem_offset=1)
    whole = decl_buffer((2, 3), "int32", "whole", data=a.data)
    i = Var("i", "int32")
    body = stmt_seq(
        For(i, 0, 6, ForKind.SERIAL, BufferStore(a, i, [i])),
        Evaluate(call_packed(name, whole, view)),
        Evaluate(call_packed(name, whole, view)),
        AssertStmt(BufferLoad(a, [5]).equal(7), StringImm("the change is not seen"), Evaluate(0)),
    )
    call_main(Allocate(a.data, "int32", [6], const(True, "bool"), body), target, lowered)
    np.testing.assert_array_equal(seen[0][1], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(seen[1][1], [[2, 3], [4, 5]])
    assert all(array.shape == (2, 3) for array, _ in seen)  # kept, though the call is over


@forms
def test_errors_come_back(target, lowered):
    def fail(_):
        raise ValueError("not today")

    a = decl_buffer((6,), "float32", "a")
    body = Evaluate(call_packed(registered("fail", fail), a))
    body = Allocate(a.data, "float32", [6], const(True, "bool"), body)
    with pytest.raises(ValueError, match="not today"):
        call_main(body, target, lowered)
    with pytest.raises(RuntimeError, match="nobody has registered: 'test.packed.unknown'"):
        call_main(Evaluate(call_packed("test.packed.unknown", 1)), target, lowered)


@forms
def test_functions_of_the_library(target, lowered):
    """`call_cpacked` goes to a symbol with the calling convention, without the registry."""
    seen = []
    inner = packed_main(Evaluate(call_packed(registered("inner", lambda: seen.append(1)))), "other")
    body = Evaluate(call("int32", "other", const(1, "int32"), kind="cpacked"))
    call_main(body, target, lowered, inner)
    assert seen == [1]


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_checked_calls_and_the_last_error(target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    answer = kernel([Var("x", "int32")], Evaluate(Call("int32", "tir.ret", (const(7, "int32"),))),
                    "answer")  # fmt: skip
    module = IRModule({"answer": answer})
    nested = Call("int32", module.get_global_var("answer"), (const(0, "int32"),))
    for expected, status in ((7, 0), (8, -5)):
        checked = Call("int32", "tir.tvm_check_return",
                       (const(expected, "int32"), const(-5, "int32"), nested))  # fmt: skip
        main = kernel([], Evaluate(checked), "main_function")
        compiled = Compiled(IRModule({"answer": answer, "main_function": main}),
                            HOST if target == "llvm" else Target(target))  # fmt: skip
        assert compiled(name="main_function") == status
    thrown = kernel([], Evaluate(Call("handle", "tir.tvm_throw_last_error", ())), "thrown")
    assert Compiled(thrown, HOST if target == "llvm" else Target(target))() == -1
