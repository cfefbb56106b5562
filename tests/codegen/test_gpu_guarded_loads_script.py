"""Choices around loads: vectors stay vectors, and choices within choices keep their own names."""

import re

import numpy as np
import pytest

import tilesmith
from tests.codegen.opencl_harness import needs_opencl
from tests.codegen.test_gpu_kernels_script import kernels_of
from tilesmith.codegen.gpu import emit_source
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir import Schedule

TARGETS = {"cuda": Target("cuda -arch=sm_80"), "opencl": Target("opencl")}


def padded_rows():
    """Rows of 8 with two rows of zeros around, in pieces of 4; then those of another padding."""

    @T.prim_func
    def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((12, 8), "float32")):
        for i, j in T.grid(12, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(
                    vi < 9,
                    T.if_then_else(2 <= vi and vi < 8, A[vi - 2, vj], T.float32(0)), T.float32(0),
                )  # fmt: skip

    sch = Schedule(main)
    i, j = sch.get_loops(sch.get_block("B"))
    sch.bind(i, "threadIdx.x")
    sch.vectorize(sch.split(j, [None, 4])[1])
    return sch


@pytest.mark.parametrize("dialect", TARGETS)
def test_guarded_vectors_are_loaded_whole(dialect):
    sch = padded_rows()
    text = emit_source(kernels_of({"main": sch.mod["main"]}, TARGETS[dialect]), TARGETS[dialect])
    assert len(re.findall(r"A_value\w* = \*\(const \w*\s?float4\*\)", text)) == 1
    assert "&&" in text and "chosen" not in text


def chosen_twice():
    """A choice within the second arm of a choice, both around loads."""

    @T.prim_func
    def main(
        A: T.Buffer((16,), "float32"), N: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")
    ):
        for i in T.thread_binding(16, "threadIdx.x"):
            B[i] = T.if_then_else(
                N[i] < 0, T.float32(1),
                T.if_then_else(N[i] < 8, A[T.floormod(N[i] * 3 + i, 16)], A[i]),
            )  # fmt: skip

    return main


@needs_opencl
@pytest.mark.parametrize("make", [lambda: padded_rows().mod["main"], chosen_twice])
def test_choices_on_a_device(make):
    from tilesmith.tir.interpreter import run

    func = make()
    rng = np.random.default_rng(0)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [int(size) for size in buffer.shape]
        arrays.append(rng.integers(-4, 12, shape).astype(buffer.dtype.numpy()))
    wanted = [array.copy() for array in arrays]
    run(func, *wanted)
    device = tilesmith.opencl(0)
    built = tilesmith.build(func, target="opencl")
    placed = [tilesmith.nd.array(array, device) for array in arrays]
    built(*placed)
    np.testing.assert_array_equal(placed[-1].numpy(), wanted[-1])
