"""VerifyKernelMemory: memory on the chip does not outlive its kernel."""

import pytest

import tilesmith
from tests.tir.transform.harness import apply, module
from tilesmith.ir import assert_structural_equal
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.transform import VerifyKernelMemory

TWO_KERNELS = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,), "float32", scope="{scope}")
    for i in T.thread_binding(4, "{tag}"):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + 1.0
    for i in T.thread_binding(4, "{tag}"):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = C[vi] * 2.0
"""


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.x"])
@pytest.mark.parametrize("scope", ["local", "shared", "shared.dyn", "warp"])
def test_two_kernels(scope, tag):
    program = from_source(TWO_KERNELS.format(scope=scope, tag=tag))
    with pytest.raises(UnsupportedError, match="lost when its kernel ends, but another") as error:
        tilesmith.build(program, target="nvptx")
    assert "reverse_compute_at" in str(error.value)
    assert f'T.thread_binding(4, "{tag}")' in str(error.value)  # the place


@pytest.mark.parametrize(("scope", "tag"), [("global", "threadIdx.x"), ("local", "vthread.x")])
def test_memory_that_stays(scope, tag):
    program = module(from_source(TWO_KERNELS.format(scope=scope, tag=tag)))
    assert_structural_equal(VerifyKernelMemory()(program), program)


def test_the_host_and_a_kernel():
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        C = T.alloc_buffer((4,), "float32", scope="local")
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi]
        for i in T.thread_binding(4, "threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = C[vi]

    with pytest.raises(UnsupportedError, match="but the host uses it too"):
        apply(main, VerifyKernelMemory())


def test_views_count_as_their_buffer():
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        C = T.alloc_buffer((4,), "float32", scope="local")
        for i in T.thread_binding(4, "threadIdx.x"):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                D = T.match_buffer(C[vi : vi + 1], (1,), scope="local", offset_factor=1)
                D[0] = A[vi]
        for i in T.thread_binding(4, "threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = C[vi]

    with pytest.raises(UnsupportedError, match="'C' is memory in scope 'local'"):
        apply(main, VerifyKernelMemory())


def test_several_loops_of_one_kernel():
    @T.prim_func
    def main(A: T.Buffer((2, 4), "float32"), B: T.Buffer((2, 4), "float32")):
        C = T.alloc_buffer((2, 4), "float32", scope="shared")
        for b in T.thread_binding(2, "blockIdx.x"):
            for i in T.thread_binding(4, "threadIdx.x"):
                with T.block("C"):
                    vb, vi = T.axis.remap("SS", [b, i])
                    C[vb, vi] = A[vb, vi]
            for i in T.thread_binding(4, "threadIdx.x"):
                with T.block("B"):
                    vb, vi = T.axis.remap("SS", [b, i])
                    B[vb, vi] = C[vb, 3 - vi]

    assert tilesmith.build(main, target="nvptx") is not None


def test_memory_of_threads_that_the_host_allocates():
    @T.prim_func(check_well_formed=False)
    def main(A: T.Buffer((32,), "float32")):
        S = T.allocate([32], "float32", "shared")
        s = T.decl_buffer((32,), data=S, scope="shared")
        tx = T.launch_thread("threadIdx.x", 32)
        s[tx] = A[tx]
        T.tvm_storage_sync("shared")
        A[tx] = s[31 - tx]

    with pytest.raises(UnsupportedError, match="allocated outside of the kernel") as error:
        apply(main, VerifyKernelMemory())
    assert "T.allocate([32]" in str(error.value) and "T.launch_thread" in str(error.value)
