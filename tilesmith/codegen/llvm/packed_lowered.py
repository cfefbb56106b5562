"""Packed calls whose arguments a pass (LowerTVMBuiltin) has already put on a stack.

`T.call_packed_lowered(name, stack, begin, end)`: the arguments are the `TVMFFIAny`s from `begin`
to before `end`, the result takes the place `end`. Tensors on the stack are passed to registered
functions as counted objects, because a callee may keep them; functions of the library get them as
they are.
"""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.llvm import packed
from tilesmith.codegen.llvm.intrinsics import handles
from tilesmith.codegen.llvm.packed import ANY_BYTES
from tilesmith.codegen.llvm.pointers_and_calls import text_argument
from tilesmith.ir import Call

_NAMES = ("tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "tvm_call_trace_packed_lowered")


@handles(*_NAMES)
def _call_lowered(emit: Any, call: Call) -> str:
    name = text_argument(emit, call.args[0])
    emit.needs_status(f"calls the packed function '{name}'")
    stack = emit.value(call.args[1])
    begin, end = emit.index64(call.args[2]), emit.index64(call.args[3])
    arguments, result = _place(emit, stack, begin), _place(emit, stack, end)
    count = emit.define(f"sub i64 {end}, {begin}")
    count = emit.define(f"trunc i64 {count} to i32")
    emit.write(f"store {{ i64, i64 }} zeroinitializer, ptr {result}, align 8")
    if call.op.name == "tir.tvm_call_cpacked_lowered":
        symbol = name if name.startswith("__") else "__tvm_ffi_" + name
        target = emit.module.declare(symbol, "i32", ["ptr", "ptr", "i32", "ptr"])
        words = f"ptr null, ptr {arguments}, i32 {count}, ptr {result}"
        status = emit.define(f"call i32 {target}({words})")
    else:
        slot, text = emit.module.packed_function(name)
        helper = emit.module.helper("__tilesmith_call_packed_lowered")
        words = f"ptr {slot}, ptr {text}, ptr {arguments}, i32 {count}, ptr {result}"
        status = emit.define(f"call i32 {helper}({words})")
    emit.forget()
    emit.check_status(status)
    if call.op.name != "tir.tvm_call_trace_packed_lowered":
        return packed.take_result(emit, result, call.dtype, name)
    # what is traced is the last argument
    emit.write(f"call void {emit.module.helper('__tilesmith_any_release')}(ptr {result})")
    before = emit.define(f"getelementptr i8, ptr {result}, i64 {-ANY_BYTES}")
    return packed.take_result(emit, before, call.dtype, name)


def _place(emit: Any, stack: str, number: str) -> str:
    offset = emit.define(f"mul i64 {number}, {ANY_BYTES}")
    return emit.define(f"getelementptr i8, ptr {stack}, i64 {offset}")


packed.HELPERS["__tilesmith_call_packed_lowered"] = """
define internal i32 @__tilesmith_call_packed_lowered(
    ptr %slot, ptr %name, ptr %args, i32 %count, ptr %result) noinline {
  %total = zext i32 %count to i64
  %own = alloca { i64, i64 }, i64 %total, align 16
  br label %look
look:
  %number = phi i64 [ 0, %0 ], [ %next, %stored ]
  %more = icmp ult i64 %number, %total
  br i1 %more, label %one, label %call
one:
  %from = getelementptr { i64, i64 }, ptr %args, i64 %number
  %to = getelementptr { i64, i64 }, ptr %own, i64 %number
  %index = load i32, ptr %from, align 8
  %is_tensor = icmp eq i32 %index, 7
  br i1 %is_tensor, label %tensor, label %plain
plain:
  %value = load { i64, i64 }, ptr %from, align 8
  store { i64, i64 } %value, ptr %to, align 8
  br label %stored
tensor:
  %place = getelementptr i8, ptr %from, i64 8
  %described = load ptr, ptr %place, align 8
  %made = call i32 @__tilesmith_make_tensor(ptr %described, ptr %to)
  %good = icmp eq i32 %made, 0
  br i1 %good, label %stored, label %release
stored:
  %next = add i64 %number, 1
  br label %look
call:
  %called = call i32 @__tilesmith_call_packed(
      ptr %slot, ptr %name, ptr %own, i32 %count, ptr %result)
  br label %release
release:
  %status = phi i32 [ %made, %tensor ], [ %called, %call ]
  %left = phi i64 [ %number, %tensor ], [ %total, %call ]
  br label %drop
drop:
  %rest = phi i64 [ %left, %release ], [ %last, %dropped ]
  %some = icmp ne i64 %rest, 0
  br i1 %some, label %check, label %done
check:
  %last = sub i64 %rest, 1
  %given = getelementptr { i64, i64 }, ptr %args, i64 %last
  %kind = load i32, ptr %given, align 8
  %was_made = icmp eq i32 %kind, 7
  br i1 %was_made, label %free, label %dropped
free:
  %object = getelementptr { i64, i64 }, ptr %own, i64 %last
  call void @__tilesmith_any_release(ptr %object)
  br label %dropped
dropped:
  br label %drop
done:
  ret i32 %status
}
"""
packed.HELPER_CALLS["__tilesmith_call_packed_lowered"] = (
    "__tilesmith_make_tensor", "__tilesmith_call_packed", "__tilesmith_any_release",
)  # fmt: skip
