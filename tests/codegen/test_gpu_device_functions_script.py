"""Functions that kernels call: functions of the device, in all texts, and in the interpreter."""

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.opencl_harness import needs_opencl
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.ir import IRModule
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.interpreter import run
from tilesmith.tir.transform import SeparateDeviceFunctions


@I.ir_module
class Turned:
    """The host calls ``doubled``, too; ``turned`` changes memory behind pointers."""

    @T.prim_func(private=True)
    def doubled(x: T.float32, k: T.int32) -> T.float32:
        return T.if_then_else(k > 2, x * T.float32(2), x + T.float32(1))

    @T.prim_func(private=True)
    def turned(S: T.handle("float32", "shared"), n: T.int32, B: T.handle("float32")):
        s = T.decl_buffer((64,), data=S, scope="shared")
        b = T.decl_buffer((128,), data=B)
        for i in range(4):
            if i < 3:
                b[n * 4 + i] = Turned.doubled(s[63 - n % 16 * 4 - i], i)
            else:
                b[n * 4 + i] = T.float32(0) - Turned.doubled(s[63 - n % 16 * 4 - i], n)

    @T.prim_func
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), n: T.int32):
        for bx in T.thread_binding(T.Cast("int32", Turned.doubled(T.float32(n), 3)), "blockIdx.x"):
            for tx in T.thread_binding(16, "threadIdx.x"):
                with T.block("all"):
                    S = T.alloc_buffer((64,), scope="shared")
                    for i in range(4):
                        S[tx * 4 + i] = A[bx * 64 + tx * 4 + i]
                    Turned.turned(S.data, bx * 16 + tx, B.data)


def arrays():
    return np.arange(128, dtype="float32"), np.zeros(128, "float32")


def expected():
    a, b = arrays()
    for place in range(128):
        n, i = divmod(place, 4)
        x = a[place // 64 * 64 + 63 - place % 64]
        b[place] = -(x * 2 if n > 2 else x + 1) if i == 3 else x + 1
    return b


def test_the_interpreter_runs_them():
    a, b = arrays()
    run(Turned, a, b, 1)
    np.testing.assert_array_equal(b, expected())


def test_they_become_functions_of_the_device():
    lowered = ts.lower(Turned)
    made = SeparateDeviceFunctions("cuda")(lowered)
    names = {variable.name_hint for variable in made.functions}
    assert names == {"doubled", "doubled_on_device", "turned", "main"}
    for name in ("doubled_on_device", "turned"):
        assert made[name].attrs["tir.is_device_function"] and "target" in made[name].attrs
        assert "global_symbol" not in made[name].attrs
    assert "tir.is_device_function" not in made["doubled"].attrs
    text = made.script()
    assert text.count("cls.doubled_on_device(") == 2 and text.count("cls.doubled(") == 1
    assert SeparateDeviceFunctions("cuda")(made).script() == text


def test_a_module_without_them_stays_the_same():
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for tx in T.thread_binding(4, "threadIdx.x"):
            A[tx] = T.float32(1)

    module = ts.lower(IRModule({"main": main}))
    assert SeparateDeviceFunctions("cuda")(module)["main"] is module["main"]


@pytest.mark.parametrize("kind, word", [
    ("cuda -arch=sm_80", "static __device__ float doubled_on_device(const float x, const int k)"),
    ("opencl", "static void turned(const __local float* S, const int n, __global float* B)"),
    ("nvptx -mcpu=sm_80", ".visible .entry main_kernel("),
])  # fmt: skip
def test_texts(kind, word):
    built = ts.build(Turned, target=Target(kind, host="llvm"))
    source = built.imported_modules[0].get_source()
    assert word in source
    if kind.startswith("cuda"):
        assert source.index("__syncthreads();") < source.index("turned(S, ")
        assert compile_source(source, "sm_80")


@needs_opencl
def test_on_opencl():
    device = ts.opencl(0)
    a, b = [ts.nd.array(one, device) for one in arrays()]
    ts.build(Turned, target=Target("opencl", host="llvm"))["main"](a, b, 1)
    np.testing.assert_array_equal(b.numpy(), expected())


# What cannot be one.


@I.ir_module
class Recursive:
    @T.prim_func(private=True)
    def first(x: T.float32) -> T.float32:
        return Recursive.second(x)

    @T.prim_func(private=True)
    def second(x: T.float32) -> T.float32:
        return T.if_then_else(x > T.float32(1), Recursive.first(x - T.float32(1)), x)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, "threadIdx.x"):
            A[tx] = Recursive.first(A[tx])


@I.ir_module
class OfItself:
    @T.prim_func(private=True)
    def again(x: T.float32) -> T.float32:
        return T.if_then_else(x > T.float32(1), OfItself.again(x - T.float32(1)), x)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, "threadIdx.x"):
            A[tx] = OfItself.again(A[tx])


@I.ir_module
class Shared:
    @T.prim_func(private=True)
    def exchanged(x: T.float32, tx: T.int32) -> T.float32:
        S = T.decl_buffer((8,), scope="shared")
        S[tx] = x
        T.tvm_storage_sync("shared")
        return S[7 - tx]

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, "threadIdx.x"):
            A[tx] = Shared.exchanged(A[tx], tx)


@I.ir_module
class Threads:
    @T.prim_func(private=True)
    def inner(A: T.handle("float32")):
        a = T.decl_buffer((8,), data=A)
        for tx in T.thread_binding(8, "threadIdx.x"):
            a[tx] = T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for _bx in T.thread_binding(1, "blockIdx.x"):
            with T.block("all"):
                Threads.inner(A.data)


@I.ir_module
class Grid:
    @T.prim_func(private=True)
    def waits(x: T.float32) -> T.float32:
        T.tvm_storage_sync("global")
        return x

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, "threadIdx.x"):
            A[tx] = Grid.waits(A[tx])


@I.ir_module
class WrongMemory:
    @T.prim_func(private=True)
    def inner(S: T.handle("float32"), tx: T.int32):
        s = T.decl_buffer((8,), data=S)
        s[tx] = T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, "threadIdx.x"):
            with T.block("all"):
                S = T.alloc_buffer((8,), scope="shared")
                WrongMemory.inner(S.data, tx)
                A[tx] = S[tx]


@pytest.mark.parametrize("module, error, text, line", [
    (Recursive, UnsupportedError, "'first', .* calls itself through second", "Recursive.first(x"),
    (OfItself, UnsupportedError, "'again', which .* calls itself\\n", "OfItself.again(x"),
    (Shared, UnsupportedError, "allocates shared memory", "S = T.decl_buffer"),
    (Threads, UnsupportedError, "'inner', which .* starts threads", "in T.thread_binding(8"),
    (Grid, UnsupportedError, "'waits', which a kernel calls, waits for all blocks", "def waits"),
    (WrongMemory, TypeMismatchError, "takes a pointer to global memory", "WrongMemory.inner(S"),
])  # fmt: skip
def test_refusals(module, error, text, line):
    with pytest.raises(error, match=text) as caught:
        ts.build(module, target=Target("cuda", host="llvm"))
    assert "test_gpu_device_functions_script.py" in str(caught.value)
    assert line in str(caught.value)
