"""Hand-written LLVM code in the shape that the code generator gives it, as object files."""

import numpy as np
import pytest

from tilesmith.runtime.executable import Executable
from tilesmith.runtime.interface import interface_symbol

THREADS_IR = r"""
@__tilesmith_gomp = global [3 x ptr] zeroinitializer
@__tilesmith_num_threads = global i32 1
@__tilesmith_max_threads = global i32 MAX_THREADS
@__tilesmith_parallel_launch = global ptr @__tilesmith_launch_serial

define void @__tilesmith_launch_serial(ptr %body, ptr %data) {
  call void %body(i32 0, i32 1, ptr %data)
  ret void
}
define void @__tilesmith_launch_pool(ptr %body, ptr %data) {
  call void %body(i32 0, i32 1, ptr %data)
  %second = getelementptr i32, ptr %data, i64 7
  store i32 77, ptr %second
  ret void
}
define internal void @gomp_entry(ptr %pair) {
  %body = load ptr, ptr %pair
  %data.address = getelementptr ptr, ptr %pair, i64 1
  %data = load ptr, ptr %data.address
  %get.task = getelementptr [3 x ptr], ptr @__tilesmith_gomp, i64 0, i64 1
  %get.count = getelementptr [3 x ptr], ptr @__tilesmith_gomp, i64 0, i64 2
  %task.function = load ptr, ptr %get.task
  %count.function = load ptr, ptr %get.count
  %task = call i32 %task.function()
  %count = call i32 %count.function()
  call void %body(i32 %task, i32 %count, ptr %data)
  ret void
}
define void @__tilesmith_launch_gomp(ptr %body, ptr %data) {
  %pair = alloca [2 x ptr]
  store ptr %body, ptr %pair
  %second = getelementptr ptr, ptr %pair, i64 1
  store ptr %data, ptr %second
  %count = load i32, ptr @__tilesmith_num_threads
  %parallel = load ptr, ptr @__tilesmith_gomp
  call void %parallel(ptr @gomp_entry, ptr %pair, i32 %count, i32 0)
  ret void
}
define internal void @note_count(i32 %task, i32 %count, ptr %data) {
  %index = sext i32 %task to i64
  %place = getelementptr i32, ptr %data, i64 %index
  store i32 %count, ptr %place
  ret void
}
define i32 @__tvm_ffi_count_threads(ptr %self, ptr %args, i32 %n, ptr %result) {
  %data = call ptr @data_of(ptr %args, i64 0)
  %launch = load ptr, ptr @__tilesmith_parallel_launch
  call void %launch(ptr @note_count, ptr %data)
  ret i32 0
}
"""

COMMON_IR = r"""
@kind = private constant [11 x i8] c"ShapeError\00"
@message = private constant [15 x i8] c"does not fit!!\00"
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
declare float @expf(float)

; address of argument i's value
define internal ptr @value_of(ptr %args, i64 %i) {
  %offset = mul i64 %i, 16
  %start = getelementptr i8, ptr %args, i64 %offset
  %value = getelementptr i8, ptr %start, i64 8
  ret ptr %value
}
; the DLTensor of argument i: behind the object's header, or pointed to
define internal ptr @tensor_of(ptr %args, i64 %i) {
  %value = call ptr @value_of(ptr %args, i64 %i)
  %object = load ptr, ptr %value
  %offset = mul i64 %i, 16
  %any = getelementptr i8, ptr %args, i64 %offset
  %tag = load i32, ptr %any
  %is_view = icmp eq i32 %tag, 7
  %inside = getelementptr i8, ptr %object, i64 24
  %tensor = select i1 %is_view, ptr %object, ptr %inside
  ret ptr %tensor
}
define internal ptr @data_of(ptr %args, i64 %i) {
  %tensor = call ptr @tensor_of(ptr %args, i64 %i)
  %data = load ptr, ptr %tensor
  ret ptr %data
}
define internal i64 @extent_of(ptr %args, i64 %i, i64 %axis) {
  %tensor = call ptr @tensor_of(ptr %args, i64 %i)
  %shape.address = getelementptr i8, ptr %tensor, i64 24
  %shape = load ptr, ptr %shape.address
  %place = getelementptr i64, ptr %shape, i64 %axis
  %extent = load i64, ptr %place
  ret i64 %extent
}
define internal i64 @int_of(ptr %args, i64 %i) {
  %value = call ptr @value_of(ptr %args, i64 %i)
  %number = load i64, ptr %value
  ret i64 %number
}
define i32 @__tvm_ffi_nothing(ptr %self, ptr %args, i32 %n, ptr %result) {
  ret i32 0
}
define i32 @__tvm_ffi_refuse(ptr %self, ptr %args, i32 %n, ptr %result) {
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr @message)
  ret i32 -1
}
define float @plain_exp(float %x) {
  %y = call float @expf(float %x)
  ret float %y
}
"""

# result[i] = x[i] * scale[i % 3] + 1, through the workspace; x: float32[2, 3]
MODEL_IR = r"""
define i32 @__tvm_ffi_main(ptr %self, ptr %args, i32 %n, ptr %result) {
entry:
  %x = call ptr @data_of(ptr %args, i64 0)
  %out = call ptr @data_of(ptr %args, i64 1)
  %constants.int = call i64 @int_of(ptr %args, i64 2)
  %workspace.int = call i64 @int_of(ptr %args, i64 3)
  %constants = inttoptr i64 %constants.int to ptr
  %workspace = inttoptr i64 %workspace.int to ptr
  %scale = load ptr, ptr %constants
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %j = urem i64 %i, 3
  %x.place = getelementptr float, ptr %x, i64 %i
  %s.place = getelementptr float, ptr %scale, i64 %j
  %w.place = getelementptr float, ptr %workspace, i64 %i
  %o.place = getelementptr float, ptr %out, i64 %i
  %a = load float, ptr %x.place
  %b = load float, ptr %s.place
  %p = fmul float %a, %b
  store volatile float %p, ptr %w.place
  %q = load volatile float, ptr %w.place
  %r = fadd float %q, 1.0
  store float %r, ptr %o.place
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 6
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
; doubled(x: float32[n], k: int64) -> (float32[n * 2] = x twice times k, shape(n), int64 = n)
define i32 @__tvm_ffi_doubled_shapes(ptr %self, ptr %args, i32 %n, ptr %result) {
  %extent = call i64 @extent_of(ptr %args, i64 0, i64 0)
  %buffer = call ptr @data_of(ptr %args, i64 2)
  %twice = mul i64 %extent, 2
  store i64 %twice, ptr %buffer
  %second = getelementptr i64, ptr %buffer, i64 1
  store i64 %extent, ptr %second
  %third = getelementptr i64, ptr %buffer, i64 2
  %bytes = mul i64 %extent, 4
  store i64 %bytes, ptr %third
  ret i32 0
}
define i32 @__tvm_ffi_doubled(ptr %self, ptr %args, i32 %n, ptr %result) {
entry:
  %x = call ptr @data_of(ptr %args, i64 0)
  %extent = call i64 @extent_of(ptr %args, i64 0, i64 0)
  %k = call i64 @int_of(ptr %args, i64 1)
  %out = call ptr @data_of(ptr %args, i64 2)
  %number = call ptr @data_of(ptr %args, i64 3)
  store i64 %extent, ptr %number
  %factor = sitofp i64 %k to float
  %count = mul i64 %extent, 2
  br label %test
test:
  %i = phi i64 [0, %entry], [%next, %loop]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %loop, label %done
loop:
  %j = urem i64 %i, %extent
  %x.place = getelementptr float, ptr %x, i64 %j
  %a = load float, ptr %x.place
  %p = fmul float %a, %factor
  %o.place = getelementptr float, ptr %out, i64 %i
  store float %p, ptr %o.place
  %next = add i64 %i, 1
  br label %test
done:
  ret i32 0
}
"""

MODEL_METADATA = {
    "functions": {
        "main": {
            "params": [{"name": "x", "kind": "tensor", "shape": [2, 3], "dtype": "float32"}],
            "result": {"kind": "tensor", "shape": [2, 3], "dtype": "float32"},
            "symbols": [],
            "workspace_bytes": 24,
        },
        "doubled": {
            "params": [
                {"name": "x", "kind": "tensor", "shape": ["n"], "dtype": "float32"},
                {"name": "k", "kind": "prim", "dtype": "int64"},
            ],
            "result": {
                "kind": "tuple",
                "fields": [
                    {"kind": "tensor", "shape": ["n * 2"], "dtype": "float32"},
                    {"kind": "shape", "shape": ["n"]},
                    {"kind": "prim", "dtype": "int64"},
                ],
            },
            "symbols": ["n"],
            "workspace_bytes": "dynamic",
            "shapes_function": "doubled_shapes",
        },
    },
    "constants": ["scale"],
    "target": "llvm",
}


SCALE = np.array([2, 3, 4], "float32")


def interface_ir(functions, constants):
    """The function whose name ties the code of a model to its metadata."""
    symbol = interface_symbol(functions, constants)
    return (
        f"define i32 @__tvm_ffi_{symbol}(ptr %self, ptr %args, i32 %n, ptr %result)"
        " {\n  ret i32 0\n}\n"
    )


def compile_ir(text: str) -> bytes:
    """LLVM text as an object file for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="pic", codemodel="default"
    )
    module = llvm.parse_assembly(text)
    module.verify()
    return machine.emit_object(module)


@pytest.fixture(scope="session")
def emit():
    """`emit(llvm_text, ...)` gives an object file; the common helpers are put in front."""
    return lambda *parts: compile_ir(COMMON_IR + "".join(parts))


@pytest.fixture(scope="session")
def threads_object(emit):
    return emit(THREADS_IR.replace("MAX_THREADS", "0"))


@pytest.fixture(scope="session")
def bounded_object(emit):
    return emit(THREADS_IR.replace("MAX_THREADS", "2"))


@pytest.fixture(scope="session")
def model_object(emit):
    return emit(MODEL_IR, interface_ir(MODEL_METADATA["functions"], {"scale": SCALE}))


@pytest.fixture
def executable(model_object):
    return Executable(MODEL_METADATA, [model_object], {"scale": SCALE}, {"ll": lambda: MODEL_IR})
