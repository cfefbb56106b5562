"""Defines rules of packed calls whose arguments a pass (LowerTVMBuiltin) has put on a stack.

`T.call_packed_lowered(name, stack, begin, end)`: the arguments are the `TVMFFIAny`s from `begin` to
before `end`, the result is stored at `end`. Tensors on the stack are passed to registered functions
as reference-counted objects, because a callee may keep them; functions of the library get them as
they are.
"""

from __future__ import annotations

from tilesmith.codegen.llvm import packed
from tilesmith.codegen.llvm.packed import ANY_BYTES
from tilesmith.codegen.llvm.pointers_and_calls import text_argument
from tilesmith.codegen.llvm.rules import handles
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Call

_NAMES = ("tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "tvm_call_trace_packed_lowered")


@handles(*_NAMES)
def _call_lowered(emit: Values, call: Call) -> str:
    name = text_argument(emit, call.args[0])
    emit.exits.needs_status(f"calls the packed function '{name}'")
    stack = emit.value(call.args[1])
    begin, end = emit.index64(call.args[2]), emit.index64(call.args[3])
    arguments, result = _place(emit, stack, begin), _place(emit, stack, end)
    count = emit.define(f"sub i64 {end}, {begin}")
    count = emit.define(f"trunc i64 {count} to i32")
    emit.write(f"store {{ i64, i64 }} zeroinitializer, ptr {result}, align 8")
    if call.op.name == "tir.tvm_call_cpacked_lowered":
        symbol = name if name.startswith("__") else "__tvm_ffi_" + name
        target = emit.text.declare(symbol, "i32", ["ptr", "ptr", "i32", "ptr"])
        words = f"ptr null, ptr {arguments}, i32 {count}, ptr {result}"
        status = emit.define(f"call i32 {target}({words})")
    else:
        slot, text = emit.text.packed_function(name)
        helper = emit.text.helper("__tilesmith_call_packed_lowered")
        words = f"ptr {slot}, ptr {text}, ptr {arguments}, i32 {count}, ptr {result}"
        status = emit.define(f"call i32 {helper}({words})")
    emit.forget()
    emit.exits.check_status(status)
    if call.op.name != "tir.tvm_call_trace_packed_lowered":
        return packed.take_result(emit, result, call.dtype, name)
    # the traced value is the last argument
    emit.write(f"call void {emit.text.helper('__tilesmith_any_release')}(ptr {result})")
    before = emit.define(f"getelementptr i8, ptr {result}, i64 {-ANY_BYTES}")
    return packed.take_result(emit, before, call.dtype, name)


def _place(emit: Values, stack: str, number: str) -> str:
    offset = emit.define(f"mul i64 {number}, {ANY_BYTES}")
    return emit.define(f"getelementptr i8, ptr {stack}, i64 {offset}")
