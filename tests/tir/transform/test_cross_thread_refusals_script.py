"""LowerCrossThreadReduction refuses, as ValueError, what it cannot divide among threads."""

import pytest

from tests.tir.transform.harness import apply
from tilesmith.script import tir as T
from tilesmith.support.errors import ReductionError, UnsupportedError
from tilesmith.tir.transform import LowerCrossThreadReduction


def test_blocks_that_are_not_innermost():
    @T.prim_func
    def func(A: T.Buffer((16, 16, 8), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            for ko in T.thread_binding(16, "threadIdx.x"):
                with T.block("outer"):
                    vi, vk = T.axis.remap("SR", [i, ko])
                    with T.init():
                        B[vi] = T.float32(0)
                    for ki in range(8):
                        with T.block("inner"):
                            vki = T.axis.reduce(8, ki)
                            B[vi] = B[vi] + A[vi, vk, vki]

    refused(func, "'outer' .* other statements than stores")


@pytest.mark.parametrize("depth", [1, 2])
def test_reductions_over_blocks_of_threads(depth):
    @T.prim_func
    def alone(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            for k in T.thread_binding(16, "blockIdx.x"):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    @T.prim_func
    def with_threads(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32")):
        for ko in T.thread_binding(2, "blockIdx.x"):
            for i in range(16):
                for ki in T.thread_binding(8, "threadIdx.x"):
                    with T.block("sum"):
                        vi = T.axis.spatial(16, i)
                        vk = T.axis.reduce(16, ko * 8 + ki)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

    refused([alone, with_threads][depth - 1], "'sum' reduces over 'ko?', which is bound to block")


def program(init, update):
    """``B[...]`` from a first value, combined by ``update(old values, new value, index)``."""

    @T.prim_func
    def func(
        A: T.Buffer((16, 16), "int32"), B: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")
    ):
        for i in range(16):
            for k in T.thread_binding(16, "threadIdx.x"):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[init(vi)] = 0
                    B[vi] = update(B, vi, A[vi, vk])

    return func


REFUSED = {
    "other place of init": (lambda i: i + 16, lambda b, i, a: b[i] + a, "initialised in other pl"),
    "other old value": (lambda i: i, lambda b, i, a: b[i + 16] + a, "read in another place"),
    "difference": (lambda i: i, lambda b, i, a: b[i] - a, "does not combine in any order"),
    "bounded sum": (lambda i: i, lambda b, i, a: T.max(b[i] + a, 0), "not clear|something else"),
    "polynomial": (lambda i: i, lambda b, i, a: b[i] + b[i] * a, "combines with something else"),
    "only the new value": (lambda i: i, lambda b, i, a: a, "does not depend on the old one"),
}


@pytest.mark.parametrize("init, update, message", REFUSED.values(), ids=REFUSED)
def test_updates_that_cannot_be_divided(init, update, message):
    refused(program(init, update), message)


def test_results_that_depend_on_each_other():
    """The sum of ``exp(a - maximum)`` with a running maximum: partial sums need another formula."""

    @T.prim_func
    def func(
        A: T.Buffer((4, 16), "float32"), M: T.Buffer((4,), "float32"), S: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            for k in T.thread_binding(16, "threadIdx.x"):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        M[vi] = T.float32(-1e9)
                        S[vi] = T.float32(0)
                    m: T.float32 = T.max(M[vi], A[vi, vk])
                    s: T.float32 = S[vi] * T.exp(M[vi] - m) + T.exp(A[vi, vk] - m)
                    M[vi] = m
                    S[vi] = s

    refused(func, "'sum' cannot be reduced over threads")


def refused(func, message):
    with pytest.raises(ValueError, match=message) as caught:
        apply(func, LowerCrossThreadReduction())
    assert isinstance(caught.value, ReductionError) and isinstance(caught.value, UnsupportedError)


def test_serial_reduction_loops_with_other_statements():
    @T.prim_func
    def func(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8,), "float32")):
        S = T.alloc_buffer((8, 64), scope="shared")
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for ko in range(4):
                for kt in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("prefetch"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.spatial(64, ko * 16 + kt)
                        S[vi, vk] = A[vi, vk]
                for kt in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("sum"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(64, ko * 16 + kt)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + S[vi, vk]

    refused(func, "'sum' reduces over 'ko', but other statements")
