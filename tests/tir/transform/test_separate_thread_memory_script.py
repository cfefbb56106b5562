"""Global memory that is allocated inside of loops over threads, and around kernels."""

import pytest

from tests.tir.transform.harness import arrays_for, assert_same, module
from tilesmith.ir.queries import nodes
from tilesmith.lowering.pipelines import device_passes, lower_passes
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.stmt import Allocate

CHECKED = Options(check_races=True, check_undefined=True)


@T.prim_func
def one_for_each_block(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    T.func_attr({"global_symbol": "main"})
    for bx in T.thread_binding(4, "blockIdx.x"):
        with T.block("block"):
            v = T.axis.spatial(4, bx)
            M = T.alloc_buffer((8,))
            for tx in T.thread_binding(8, "threadIdx.x"):
                with T.block("make"):
                    i = T.axis.spatial(8, tx)
                    M[i] = A[v, i] * 2.0
            for tx in T.thread_binding(8, "threadIdx.x"):
                with T.block("use"):
                    i = T.axis.spatial(8, tx)
                    B[v, i] = M[7 - i]


@T.prim_func
def one_for_each_thread(A: T.Buffer((4, 8, 3), "float32"), B: T.Buffer((4, 8, 3), "float32")):
    T.func_attr({"global_symbol": "main"})
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(8, "threadIdx.x"):
            with T.block("thread"):
                v, w = T.axis.remap("SS", [bx, tx])
                M = T.alloc_buffer((3,))
                for k in range(3):
                    with T.block("make"):
                        i = T.axis.spatial(3, k)
                        M[i] = A[v, w, i] * 2.0
                for k in range(3):
                    with T.block("use"):
                        i = T.axis.spatial(3, k)
                        B[v, w, i] = M[2 - i]


@T.prim_func
def one_for_all(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    T.func_attr({"global_symbol": "main"})
    M = T.alloc_buffer((32,))
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(8, "threadIdx.x"):
            with T.block("make"):
                i = T.axis.spatial(32, bx * 8 + tx)
                M[i] = A[i] * 2.0
        for tx in T.thread_binding(8, "threadIdx.x"):
            with T.block("use"):
                i = T.axis.spatial(32, bx * 8 + tx)
                B[i] = M[i // 8 * 8 + 7 - i % 8]


CASES = {
    "block": (one_for_each_block, [32]),
    "thread": (one_for_each_thread, []),
    "all": (one_for_all, [32]),
}


@pytest.mark.parametrize("func, sizes", CASES.values(), ids=CASES)
@pytest.mark.parametrize("storage_rewrite", [True, False])
def test_threads_keep_their_memory(func, sizes, storage_rewrite):
    arrays = arrays_for(func)
    want = [array.copy() for array in arrays]
    run(func, *want)
    mod = module(func)
    barriers = 0
    for step in [*lower_passes(on_threads=True), *device_passes(Target("cuda", host="llvm"))]:
        name = step.info.name
        if name == "tir.MakePackedAPI":
            break
        if name == "tir.StorageRewrite" and not storage_rewrite:
            continue
        mod = step(mod)
        barriers += name == "tir.ThreadSync"
        got = [array.copy() for array in arrays]
        run(mod, *got, entry="main", options=CHECKED if barriers == 3 else Options())
        assert_same(got, want, f"after {name}")
    kernel = mod["main_kernel"]
    assert not [one for one in nodes(kernel.body, Allocate) if one.buffer_var.storage_scope == ""]
    found = [one.extents for one in nodes(mod["main"].body, Allocate)]
    assert [int(size) for (size,) in found] == sizes


def test_sizes_that_only_a_thread_knows_are_refused():
    @T.prim_func
    def func(A: T.Buffer((4, 8), "float32"), N: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for bx in T.thread_binding(4, "blockIdx.x"):
            for k in range(3):
                with T.block("block"):
                    v, n = T.axis.remap("SS", [bx, k])
                    M = T.alloc_buffer((n + 1,))
                    for tx in T.thread_binding(8, "threadIdx.x"):
                        with T.block("make"):
                            i = T.axis.spatial(8, tx)
                            M[n] = A[v, i] * 2.0
                            A[v, i] = M[n]

    mod = module(func)
    with pytest.raises(UnsupportedError, match="a size that only the thread knows"):
        for step in lower_passes(on_threads=True):
            mod = step(mod)
