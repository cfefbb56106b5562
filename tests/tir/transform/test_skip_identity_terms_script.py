"""SkipIdentityTerms: conditions around the terms of a reduction that its padding leaves."""

import pytest

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.tir.transform import SkipIdentityTerms


@T.prim_func
def sums(A: T.Buffer((8,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi + vk - 1], W[vk])
            T.writes(C[vi])
            T.block_attr({"skip_identity_terms": True})
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = (
                C[vi]
                + T.if_then_else(1 <= vi + vk and vi + vk < 9, A[vi + vk - 1], T.float32(0)) * W[vk]
            )


def test_sums_leave_out_the_zeros_of_a_padding():
    @T.prim_func
    def expected(
        A: T.Buffer((8,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((8,), "float32")
    ):
        for i, k in T.grid(8, 3):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi + vk - 1], W[vk])
                T.writes(C[vi])
                with T.init():
                    C[vi] = T.float32(0)
                if 1 <= vi + vk:
                    if vi + vk < 9:
                        C[vi] = C[vi] + A[vi + vk - 1] * W[vk]

    got = apply(sums, SkipIdentityTerms())
    assert_structural_equal(got, expected.with_attr(sums.attrs))
    assert_same_results(sums, got)


def test_maxima_leave_out_the_least_value():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 3):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi + vk - 1])
                T.writes(C[vi])
                T.block_attr({"skip_identity_terms": True})
                with T.init():
                    C[vi] = T.min_value("float32")
                C[vi] = T.max(
                    C[vi],
                    T.if_then_else(
                        1 <= vi + vk and vi + vk < 9, A[vi + vk - 1], T.min_value("float32")
                    ),
                )

    got = apply(before, SkipIdentityTerms())
    assert "if_then_else" not in got.script() and got.script().count("if ") == 2
    assert_same_results(before, got)


@pytest.mark.parametrize("other, annotation", [(1.0, True), (0.0, False)])
def test_other_terms_stay(other, annotation):
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 3):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi + vk - 1])
                T.writes(C[vi])
                T.block_attr({"skip_identity_terms" if annotation else "note": True})
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + T.if_then_else(
                    1 <= vi + vk and vi + vk < 9, A[vi + vk - 1], T.float32(other)
                )

    assert "if_then_else" in apply(before, SkipIdentityTerms()).script()


def test_a_sum_over_another_element_keeps_its_terms():
    """Its first value would never be written."""

    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), C: T.Buffer((9,), "float32")):
        C[0] = T.float32(0)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.opaque(8, i)
                T.reads(A[vi], C[vi])
                T.writes(C[vi + 1])
                T.block_attr({"skip_identity_terms": True})
                C[vi + 1] = C[vi] + T.if_then_else(vi < 5, A[vi], T.float32(0))

    got = apply(before, SkipIdentityTerms())
    assert "if_then_else" in got.script()
    assert_same_results(before, got)
