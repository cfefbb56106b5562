"""What schedules of tiles on threads lower to: barriers, versions, registers."""

import numpy as np
import pytest

import tilesmith as ts
from tests.tir.transform.harness import apply
from tilesmith.ir import PointerType, PrimType, Ramp, Var, const
from tilesmith.script import tir as T
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import (
    InjectSoftwarePipeline,
    ManifestSharedMemoryLocalStage,
    PlanAndUpdateBufferAllocationLocation,
    ThreadSync,
)
from tilesmith.tir.transform.threads.thread_conflicts import access_of

CHECKED = Options(check_races=True, check_undefined=True)


@pytest.mark.parametrize("stride, barriers", [(8, 0), (4, 0), (3, 1)])
def test_vectors_of_elements_that_lie_apart(stride, barriers):
    """Threads store columns of a tile: with a stride of 3 a lane is where another thread's is."""

    @T.prim_func
    def func(A: T.Buffer((2, 16), "int32"), B: T.Buffer((2, 16), "int32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 4)
        S = T.decl_buffer((32,), "int32", scope="shared")
        for k in range(2):
            S[T.Ramp(tx, stride, 4)] = A[k, T.Ramp(tx * 4, 1, 4)]
        for k in range(2):
            B[k, T.Ramp(tx * 4, 1, 4)] = S[T.Ramp(tx, stride, 4)]

    after = apply(func, ThreadSync("shared"))
    assert ("storage_sync" in str(after)) == bool(barriers)
    if not barriers:
        a, b = np.arange(32, dtype="int32").reshape(2, 16), np.zeros((2, 16), "int32")
        run(after, a, b, options=CHECKED)
        np.testing.assert_array_equal(b[0], a[1])


def test_a_vector_with_a_stride_is_a_loop_over_its_lanes():
    pointer = Var("S", PointerType(PrimType("float32"), "shared"))
    place = Var("tx", "int32")
    apart = access_of(pointer, (Ramp(place, const(132), 4),), "float32", True)
    assert apart.lanes == 1 and len(apart.loops) == 1
    assert access_of(pointer, (Ramp(place, const(1), 4),), "float32", True).lanes == 4


def staged():
    @T.prim_func
    def func(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
        T.func_attr({"global_symbol": "main"})
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            for k in T.serial(
                8,
                annotations={
                    "software_pipeline_stage": [0, 0, 1],
                    "software_pipeline_order": [0, 2, 1],
                },
            ):
                with T.block("step"):
                    T.reads(A[k, 0:16])
                    T.writes(B[k, 0:16])
                    S = T.alloc_buffer((16,), scope="shared")
                    with T.block("load"):
                        T.reads(A[k, tx])
                        T.writes(S[tx])
                        T.block_attr(
                            {
                                "tir.manifest_shared_memory_local_stage": 1,
                                "double_buffer_scope": 0,
                            }
                        )
                        S[tx] = A[k, tx]
                    with T.block("use"):
                        T.reads(S[15 - tx])
                        T.writes(B[k, tx])
                        B[k, tx] = S[15 - tx]

    return func


def test_copies_through_registers_have_one_version():
    """Two versions are meant for the shared buffer; a register has no index but a constant."""
    text = str(apply(staged(), ManifestSharedMemoryLocalStage(), InjectSoftwarePipeline()))
    assert 'S = T.alloc_buffer((2, 16), scope="shared")' in text
    assert 'S_local = T.alloc_buffer((1,), scope="local")' in text


def test_the_pipeline_of_lowering_stages_copies():
    """From a schedule's annotations to one barrier a turn; the product waits for no load."""
    module = ts.lower(staged())
    synced = ThreadSync("shared")(module)
    text = synced["main"].script()
    assert text.count("storage_sync") == 2  # in the loop, and before the last turn
    a, b = np.random.default_rng(0).random((8, 16), "float32"), np.zeros((8, 16), "float32")
    run(synced["main"], a, b, options=CHECKED)
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_tiles_that_an_instruction_only_reads_live_within_a_step():
    """A matched buffer of a reduction is written only if the block says so."""

    @T.prim_func
    def func(A: T.Buffer((4, 8), "float32"), C: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        with T.block("root"):
            W = T.alloc_buffer((4, 8))
            for k in range(4):
                for i in range(8):
                    with T.block("copy"):
                        vk, vi = T.axis.remap("SS", [k, i])
                        W[vk, vi] = A[vk, vi]
                with T.block("sum"):
                    vk = T.axis.reduce(4, k)
                    T.reads(C[0:8], W[vk, 0:8])
                    T.writes(C[0:8])
                    M = T.match_buffer(W[vk, 0:8], (8,), offset_factor=1)
                    for i in range(8):
                        C[i] = C[i] + M[i]

    text = str(apply(func, PlanAndUpdateBufferAllocationLocation()))
    assert text.index("for k in") < text.index("W = T.alloc_buffer")


@pytest.mark.parametrize("extent, barriers", [(16, 1), (8, 0)])
def test_pointers_say_how_far_they_go(extent, barriers):
    """Loads through ``tvm_access_ptr`` touch what its extent says, so halves are apart."""

    @T.prim_func
    def func(A: T.Buffer((8,), "float16")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((16,), "float16", scope="shared")
        S[8 + tx] = A[tx]
        T.evaluate(
            T.call_extern(
                "int32",
                "use",
                T.tvm_access_ptr(T.type_annotation("float16"), S.data, 0, extent, 1),
            )  # fmt: skip
        )

    assert str(apply(func, ThreadSync("shared"))).count("storage_sync") == barriers
