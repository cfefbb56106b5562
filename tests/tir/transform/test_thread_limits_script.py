"""verify_gpu_code: each limit is checked, at both levels of programs."""

import pytest

from tests.tir.transform.harness import apply, module
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, VerifyError
from tilesmith.tir.analysis.verify_gpu_code import gpu_code_violations, verify_gpu_code
from tilesmith.tir.transform import FlattenBuffer, LowerOpaqueBlock, VerifyGPUCode


@T.prim_func
def kernel(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for _ in T.thread_binding(2, thread="blockIdx.x"):
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("root"):
                    T.reads(A[0:1024])
                    T.writes(B[0:1024])
                    S = T.alloc_buffer((256,), scope="shared")
                    x = T.alloc_buffer((4,), scope="local")
                    for v in T.vectorized(4):
                        x[v] = A[ty * 128 + tx * 4 + v]
                    S[ty * 32 + tx] = x[0]
                    B[ty * 32 + tx] = S[ty * 32 + tx]


LIMITS = {
    "max_threads_per_block": (128, "threads of a block: 128"),
    "max_thread_x": (32, "threadIdx.x has the extent 32"),
    "max_thread_y": (4, "threadIdx.y has the extent 4"),
    "max_shared_memory_per_block": (1024, "bytes of shared memory: 1024"),
    "max_local_memory_per_block": (16, "bytes of local memory: 16"),
    "max_vector_bytes": (16, "bytes of a vector access: 16"),
    "max_kernels": (1, "kernels: 1"),
}


@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize("name", LIMITS)
def test_limits(name, lowered):
    func = apply(kernel, LowerOpaqueBlock(), FlattenBuffer()) if lowered else kernel
    limit, text = LIMITS[name]
    assert verify_gpu_code(func, {name: limit})
    assert not verify_gpu_code(func, {name: limit - 1})
    (found,) = gpu_code_violations(func, {name: limit - 1})
    assert text in found and f"{name} is {limit - 1}" in found


def test_virtual_threads_multiply_memory():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        vx = T.env_thread("vthread.x")
        with T.attr(vx, "virtual_thread", 4):
            x = T.decl_buffer((2,), scope="local")
            x[0] = A[tx]
            A[tx] = x[0]

    assert verify_gpu_code(func, {"max_local_memory_per_block": 32, "max_vthread": 4})
    assert not verify_gpu_code(func, {"max_local_memory_per_block": 31})
    assert not verify_gpu_code(func, {"max_vthread": 3})


def test_unknown_limits_and_the_pass():
    with pytest.raises(ConfigError, match="'max_warps' is not a limit of a GPU"):
        verify_gpu_code(kernel, {"max_warps": 1})
    VerifyGPUCode({"max_thread_x": 32})(module(kernel))
    with pytest.raises(VerifyError, match="(?s)does not fit.*max_thread_x is 16"):
        VerifyGPUCode({"max_thread_x": 16})(module(kernel))
