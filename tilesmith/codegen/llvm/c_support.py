"""Makes the object file that code without tvm-ffi's library is linked with.

    void m_set_threads(int32_t count);        parallel loops use the pool of `threads`
    const char* m_last_error(void);           "ShapeError: …" of this thread
    const unsigned char m_embedded[];         the parameters, where they are embedded

It defines the functions of tvm-ffi's library that code without packed calls needs: one keeps an
error, others carry it from the thread of a task to the one that launched it. The symbols are weak:
several models may be linked into one program.
"""

from __future__ import annotations

from tilesmith.codegen.llvm.compile import compile_text
from tilesmith.codegen.llvm.dtypes import bytes_constant
from tilesmith.target import Target

__all__ = ["c_support"]

_BYTES = 512

_TEXT = """
@{m}_error = internal thread_local global [{size} x i8] zeroinitializer
@{m}_colon = internal constant [3 x i8] c": \\00"
@__tilesmith_parallel_launch = external global ptr
@__tilesmith_num_threads = external global i32
declare void @__tilesmith_launch_serial(ptr, ptr)
declare void @__tilesmith_launch_pool(ptr, ptr)

; copies a text to a place of the error, as far as there is room; returns the place of its end
define internal i32 @{m}_append(i32 %first, ptr %text) {{
entry:
  br label %next
next:
  %place = phi i32 [ %first, %entry ], [ %place1, %copy ]
  %number = phi i32 [ 0, %entry ], [ %number1, %copy ]
  %from = getelementptr i8, ptr %text, i32 %number
  %letter = load i8, ptr %from, align 1
  %more = icmp ne i8 %letter, 0
  %fits = icmp ult i32 %place, {last}
  %both = and i1 %more, %fits
  %to = getelementptr i8, ptr @{m}_error, i32 %place
  br i1 %both, label %copy, label %end
copy:
  store i8 %letter, ptr %to, align 1
  %place1 = add i32 %place, 1
  %number1 = add i32 %number, 1
  br label %next
end:
  store i8 0, ptr %to, align 1
  ret i32 %place
}}

define weak void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %message) {{
  %a = call i32 @{m}_append(i32 0, ptr %kind)
  %b = call i32 @{m}_append(i32 %a, ptr @{m}_colon)
  %c = call i32 @{m}_append(i32 %b, ptr %message)
  ret void
}}

; The error of a task goes to the thread that launched it: until then it stays where it is.
define weak void @TVMFFIErrorMoveFromRaised(ptr %place) {{
  store ptr @{m}_error, ptr %place, align 8
  ret void
}}
define weak void @TVMFFIErrorSetRaised(ptr %error) {{
  %is_own = icmp eq ptr %error, @{m}_error
  br i1 %is_own, label %done, label %copy
copy:
  %end = call i32 @{m}_append(i32 0, ptr %error)
  br label %done
done:
  ret void
}}
define weak i32 @TVMFFIObjectDecRef(ptr %error) {{
  ret i32 0
}}

define ptr @{m}_last_error() {{
  ret ptr @{m}_error
}}

define void @{m}_set_threads(i32 %count) {{
  %several = icmp sgt i32 %count, 1
  %launch = select i1 %several, ptr @__tilesmith_launch_pool, ptr @__tilesmith_launch_serial
  %least = call i32 @llvm.smax.i32(i32 %count, i32 1)
  store i32 %least, ptr @__tilesmith_num_threads, align 4
  store ptr %launch, ptr @__tilesmith_parallel_launch, align 8
  ret void
}}
declare i32 @llvm.smax.i32(i32, i32)
"""


def c_support(prefix: str, weights: bytes, target: Target) -> bytes:
    """Return the object file for a model whose names begin with ``prefix``; ``weights`` are
    embedded if there are any.
    """
    text = _TEXT.format(m=prefix, size=_BYTES, last=_BYTES - 1)
    if weights:
        content = f"[{len(weights)} x i8] {bytes_constant(weights)}"
        text += f"\n@{prefix}_embedded = constant {content}, align 64\n"
    return compile_text(text, target)
