"""Holds functions that generated code calls, as LLVM text: errors, packed calls, tensors,
powers.
"""

from __future__ import annotations

from tilesmith.tir.struct_fields import OTHER_TYPE, TYPE_NAMES

__all__ = ["HELPERS", "HELPER_CALLS", "POWER"]


def _type_name_text() -> str:
    """Return the function from a type index to the name of the type."""
    name = "__tilesmith_type_name"
    texts, cases, blocks = [], [], []
    for number, (index, word) in enumerate([*TYPE_NAMES.items(), (-1, OTHER_TYPE)]):
        constant = f"@{name}.{number}"
        texts.append(
            f'{constant} = private unnamed_addr constant [{len(word) + 1} x i8] c"{word}\\00"'
        )
        label = f"is.{number}" if index >= 0 else "other"
        blocks.append(f"{label}:\n  ret ptr {constant}")
        if index >= 0:
            cases.append(f"    i64 {index}, label %{label}")
    head = f"define internal ptr @{name}(i64 %index) noinline cold {{"
    switch = "\n".join(["  switch i64 %index, label %other [", *cases, "  ]"])
    return "\n".join(["", *texts, head, switch, *blocks, "}", ""])


HELPERS: dict[str, str] = {
    "__tilesmith_raise": """
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
define internal void @__tilesmith_raise(
    ptr %kind, ptr %text, ptr %values, i64 %size) noinline cold {
  %message = alloca i8, i64 %size, align 16
  %digits = alloca [24 x i8], align 8
  br label %next
next:
  %source = phi ptr [ %text, %0 ], [ %source.next, %copied ], [ %source.next, %written ]
  %target = phi ptr [ %message, %0 ], [ %target.next, %copied ], [ %to, %written ]
  %value = phi ptr [ %values, %0 ], [ %value, %copied ], [ %value.next, %written ]
  %character = load i8, ptr %source, align 1
  %source.next = getelementptr i8, ptr %source, i64 1
  %is_number = icmp ule i8 %character, 2
  %is_end = icmp eq i8 %character, 0
  %is_plain = xor i1 %is_number, true
  %is_copied = or i1 %is_plain, %is_end
  br i1 %is_copied, label %plain, label %number
plain:
  store i8 %character, ptr %target, align 1
  %target.next = getelementptr i8, ptr %target, i64 1
  br i1 %is_end, label %done, label %copied
copied:
  br label %next
number:
  %amount = load i64, ptr %value, align 8
  %value.next = getelementptr i8, ptr %value, i64 8
  %is_type = icmp eq i8 %character, 2
  br i1 %is_type, label %type, label %amount.text
type:
  %name = call ptr @__tilesmith_type_name(i64 %amount)
  br label %written.text
amount.text:
  %decimal = call ptr @__tilesmith_decimal(i64 %amount, ptr %digits)
  br label %written.text
written.text:
  %shown = phi ptr [ %name, %type ], [ %decimal, %amount.text ]
  br label %digit
digit:
  %from = phi ptr [ %shown, %written.text ], [ %from.next, %more ]
  %to = phi ptr [ %target, %written.text ], [ %to.next, %more ]
  %figure = load i8, ptr %from, align 1
  %is_last = icmp eq i8 %figure, 0
  br i1 %is_last, label %written, label %more
more:
  store i8 %figure, ptr %to, align 1
  %from.next = getelementptr i8, ptr %from, i64 1
  %to.next = getelementptr i8, ptr %to, i64 1
  br label %digit
written:
  br label %next
done:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %message)
  ret void
}
""",
    "__tilesmith_type_name": _type_name_text(),
    "__tilesmith_decimal": """
define internal ptr @__tilesmith_decimal(i64 %value, ptr %space) noinline cold {
  %end = getelementptr i8, ptr %space, i64 23
  store i8 0, ptr %end, align 1
  %is_negative = icmp slt i64 %value, 0
  %opposite = sub i64 0, %value
  %magnitude = select i1 %is_negative, i64 %opposite, i64 %value
  br label %next
next:
  %rest = phi i64 [ %magnitude, %0 ], [ %quotient, %next ]
  %place = phi ptr [ %end, %0 ], [ %here, %next ]
  %here = getelementptr i8, ptr %place, i64 -1
  %quotient = udiv i64 %rest, 10
  %product = mul i64 %quotient, 10
  %digit = sub i64 %rest, %product
  %small = trunc i64 %digit to i8
  %character = add i8 %small, 48
  store i8 %character, ptr %here, align 1
  %has_more = icmp ne i64 %quotient, 0
  br i1 %has_more, label %next, label %finish
finish:
  %before = getelementptr i8, ptr %here, i64 -1
  br i1 %is_negative, label %sign, label %done
sign:
  store i8 45, ptr %before, align 1
  br label %done
done:
  %start = phi ptr [ %here, %finish ], [ %before, %sign ]
  ret ptr %start
}
""",
    "__tilesmith_call_packed": """
declare i32 @TVMFFIFunctionGetGlobal(ptr, ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare void @TVMFFIErrorSetRaisedFromCStrParts(ptr, ptr, i32)
@__tilesmith_unknown_kind = private unnamed_addr constant [21 x i8] c"UnknownFunctionError\\00"
@__tilesmith_unknown_text = private unnamed_addr constant [62 x i8]
  c"generated code calls a function that nobody has registered: '\\00"
@__tilesmith_unknown_end = private unnamed_addr constant [2 x i8] c"'\\00"
define internal i32 @__tilesmith_call_packed(
    ptr %slot, ptr %name, ptr %args, i32 %count, ptr %result) noinline {
  %known = load atomic ptr, ptr %slot acquire, align 8
  %is_known = icmp ne ptr %known, null
  br i1 %is_known, label %call, label %find
find:
  %found_place = alloca ptr, align 8
  store ptr null, ptr %found_place, align 8
  %status = call i32 @TVMFFIFunctionGetGlobal(ptr %name, ptr %found_place)
  %is_right = icmp eq i32 %status, 0
  br i1 %is_right, label %look, label %fail
fail:
  ret i32 %status
look:
  %found = load ptr, ptr %found_place, align 8
  %exists = icmp ne ptr %found, null
  br i1 %exists, label %keep, label %unknown
keep:
  store atomic ptr %found, ptr %slot release, align 8
  br label %call
unknown:
  %parts = alloca [3 x ptr], align 8
  %text = load ptr, ptr %name, align 8
  store ptr @__tilesmith_unknown_text, ptr %parts, align 8
  %second = getelementptr ptr, ptr %parts, i64 1
  store ptr %text, ptr %second, align 8
  %third = getelementptr ptr, ptr %parts, i64 2
  store ptr @__tilesmith_unknown_end, ptr %third, align 8
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @__tilesmith_unknown_kind, ptr %parts, i32 3)
  ret i32 -1
call:
  %function = phi ptr [ %known, %0 ], [ %found, %keep ]
  %returned = call i32 @TVMFFIFunctionCall(ptr %function, ptr %args, i32 %count, ptr %result)
  ret i32 %returned
}
""",
    "__tilesmith_any_release": """
declare i32 @TVMFFIObjectDecRef(ptr)
define internal void @__tilesmith_any_release(ptr %any) noinline {
  %index = load i32, ptr %any, align 8
  %is_object = icmp sge i32 %index, 64
  br i1 %is_object, label %drop, label %done
drop:
  %place = getelementptr i8, ptr %any, i64 8
  %object = load ptr, ptr %place, align 8
  %ignored = call i32 @TVMFFIObjectDecRef(ptr %object)
  br label %done
done:
  ret void
}
""",
    "__tilesmith_any_int": """
define internal i64 @__tilesmith_any_int(ptr %any) noinline {
  %index = load i32, ptr %any, align 8
  %place = getelementptr i8, ptr %any, i64 8
  %value = load i64, ptr %place, align 8
  switch i32 %index, label %other [ i32 1, label %plain
                                    i32 2, label %plain
                                    i32 3, label %float ]
plain:
  ret i64 %value
float:
  %number = bitcast i64 %value to double
  %whole = call i64 @llvm.fptosi.sat.i64.f64(double %number)
  ret i64 %whole
other:
  call void @__tilesmith_any_release(ptr %any)
  ret i64 0
}
""",
    "__tilesmith_any_float": """
define internal double @__tilesmith_any_float(ptr %any) noinline {
  %index = load i32, ptr %any, align 8
  %is_float = icmp eq i32 %index, 3
  br i1 %is_float, label %float, label %other
float:
  %place = getelementptr i8, ptr %any, i64 8
  %value = load double, ptr %place, align 8
  ret double %value
other:
  %whole = call i64 @__tilesmith_any_int(ptr %any)
  %number = sitofp i64 %whole to double
  ret double %number
}
""",
    "__tilesmith_make_tensor": """
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @TVMFFITensorFromDLPack(ptr, i32, i32, ptr)
define internal i32 @__tilesmith_make_tensor(ptr %tensor, ptr %any) noinline {
  %ndim_place = getelementptr i8, ptr %tensor, i64 16
  %ndim = load i32, ptr %ndim_place, align 4
  %dims = sext i32 %ndim to i64
  %row = mul i64 %dims, 8
  %rows = mul i64 %dims, 16
  %size = add i64 %rows, 64
  %managed = call ptr @malloc(i64 %size)
  %has_memory = icmp ne ptr %managed, null
  br i1 %has_memory, label %fill, label %fail
fail:
  ret i32 -1
fill:
  call void @llvm.memcpy.p0.p0.i64(ptr %managed, ptr %tensor, i64 48, i1 false)
  %context = getelementptr i8, ptr %managed, i64 48
  store ptr null, ptr %context, align 8
  %deleter = getelementptr i8, ptr %managed, i64 56
  ; not a function of this library: a callee may keep the tensor longer than the code is loaded
  store ptr @free, ptr %deleter, align 8
  %shape = getelementptr i8, ptr %managed, i64 64
  %given_place = getelementptr i8, ptr %tensor, i64 24
  %given = load ptr, ptr %given_place, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %shape, ptr %given, i64 %row, i1 false)
  %shape_place = getelementptr i8, ptr %managed, i64 24
  store ptr %shape, ptr %shape_place, align 8
  %strides = getelementptr i8, ptr %shape, i64 %row
  %strides_place = getelementptr i8, ptr %managed, i64 32
  store ptr %strides, ptr %strides_place, align 8
  %given_strides_place = getelementptr i8, ptr %tensor, i64 32
  %given_strides = load ptr, ptr %given_strides_place, align 8
  %has_strides = icmp ne ptr %given_strides, null
  br i1 %has_strides, label %copy, label %compute
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %strides, ptr %given_strides, i64 %row, i1 false)
  br label %make
compute:
  %start = sub i64 %dims, 1
  br label %next
next:
  %axis = phi i64 [ %start, %compute ], [ %lower, %one ]
  %stride = phi i64 [ 1, %compute ], [ %grown, %one ]
  %inside = icmp sge i64 %axis, 0
  br i1 %inside, label %one, label %make
one:
  %here = getelementptr i64, ptr %strides, i64 %axis
  store i64 %stride, ptr %here, align 8
  %extent_place = getelementptr i64, ptr %shape, i64 %axis
  %extent = load i64, ptr %extent_place, align 8
  %grown = mul i64 %stride, %extent
  %lower = sub i64 %axis, 1
  br label %next
make:
  %object_place = getelementptr i8, ptr %any, i64 8
  store i64 70, ptr %any, align 8
  %status = call i32 @TVMFFITensorFromDLPack(ptr %managed, i32 0, i32 0, ptr %object_place)
  ret i32 %status
}
""",
    "__tilesmith_call_packed_lowered": """
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
""",
    "__tilesmith_keep_error": """
declare void @TVMFFIErrorMoveFromRaised(ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
define internal void @__tilesmith_keep_error(ptr %place, ptr %code, i32 %status) noinline {
  %error_place = alloca ptr, align 8
  store ptr null, ptr %error_place, align 8
  call void @TVMFFIErrorMoveFromRaised(ptr %error_place)
  %error = load ptr, ptr %error_place, align 8
  %first = cmpxchg ptr %code, i32 0, i32 %status acq_rel monotonic
  %is_first = extractvalue { i32, i1 } %first, 1
  br i1 %is_first, label %keep, label %late
keep:
  store ptr %error, ptr %place, align 8
  ret void
late:
  %exists = icmp ne ptr %error, null
  br i1 %exists, label %drop, label %done
drop:
  %ignored = call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %done
done:
  ret void
}
""",
    "__tilesmith_name_operator": """
declare void @TVMFFIErrorMoveFromRaised(ptr)
declare void @TVMFFIErrorSetRaisedFromCStrParts(ptr, ptr, i32)
declare i32 @TVMFFIObjectDecRef(ptr)
define internal void @__tilesmith_name_operator(ptr %operator) noinline cold {
  %place = alloca ptr, align 8
  %parts = alloca [2 x ptr], align 8
  store ptr null, ptr %place, align 8
  call void @TVMFFIErrorMoveFromRaised(ptr %place)
  %error = load ptr, ptr %place, align 8
  %exists = icmp ne ptr %error, null
  br i1 %exists, label %raise, label %done
raise:
  %kind_place = getelementptr i8, ptr %error, i64 24
  %kind = load ptr, ptr %kind_place, align 8
  %message_place = getelementptr i8, ptr %error, i64 40
  %message = load ptr, ptr %message_place, align 8
  store ptr %message, ptr %parts, align 8
  %second = getelementptr i8, ptr %parts, i64 8
  store ptr %operator, ptr %second, align 8
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr %kind, ptr %parts, i32 2)
  %ignored = call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %done
done:
  ret void
}
""",
    "__tilesmith_raise_again": """
declare void @TVMFFIErrorSetRaised(ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
define internal void @__tilesmith_raise_again(ptr %place) noinline {
  %error = load ptr, ptr %place, align 8
  %exists = icmp ne ptr %error, null
  br i1 %exists, label %raise, label %done
raise:
  call void @TVMFFIErrorSetRaised(ptr %error)
  %ignored = call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %done
done:
  ret void
}
""",
}
"""Functions by name. `__tilesmith_keep_error` and `__tilesmith_raise_again` carry an error from the
thread of a task to the thread of the launch; `__tilesmith_name_operator` appends a text to the
message of the raised error, which begins after the header of tvm-ffi's objects (24 bytes) and the
kind (pointer and size)."""

HELPER_CALLS = {
    "__tilesmith_raise": ("__tilesmith_decimal", "__tilesmith_type_name"),
    "__tilesmith_any_int": ("__tilesmith_any_release",),
    "__tilesmith_any_float": ("__tilesmith_any_int",),
    "__tilesmith_call_packed_lowered": (
        "__tilesmith_make_tensor", "__tilesmith_call_packed", "__tilesmith_any_release",
    ),
}  # fmt: skip
"""Which helpers call which: those are added with them."""

POWER = """
define internal {kind} @{name}({kind} %base, {kind} %exponent) {{
entry:
  %is_negative = icmp {negative} {kind} %exponent, 0
  br i1 %is_negative, label %fraction, label %next
fraction:
  %is_one = icmp eq {kind} %base, 1
  %is_minus = icmp eq {kind} %base, -1
  %last = and {kind} %exponent, 1
  %is_odd_power = icmp ne {kind} %last, 0
  %sign = select i1 %is_odd_power, {kind} -1, {kind} 1
  %of_minus = select i1 %is_minus, {kind} %sign, {kind} 0
  %result.f = select i1 %is_one, {kind} 1, {kind} %of_minus
  ret {kind} %result.f
next:
  %rest = phi {kind} [ %exponent, %entry ], [ %half, %more ]
  %square = phi {kind} [ %base, %entry ], [ %squared, %more ]
  %result = phi {kind} [ 1, %entry ], [ %grown, %more ]
  %is_done = icmp eq {kind} %rest, 0
  br i1 %is_done, label %done, label %more
more:
  %bit = and {kind} %rest, 1
  %is_odd = icmp ne {kind} %bit, 0
  %multiplied = mul {kind} %result, %square
  %grown = select i1 %is_odd, {kind} %multiplied, {kind} %result
  %squared = mul {kind} %square, %square
  %half = lshr {kind} %rest, 1
  br label %next
done:
  ret {kind} %result
}}
"""
"""Powers of integers, to be filled in with the name, the type and the comparison of its numbers."""
