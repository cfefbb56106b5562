"""CompactBufferAllocation: conditions, vectors, threads, declared buffers, and growth."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import from_source, tir
from tilesmith.tir import Allocate, Block, transform
from tilesmith.tir.queries import statements

HEAD = """x = T.int32()
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"),
         K: T.Buffer((16,), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
"""
TILE = """for i in range(4):
    with T.block("tile"):
        C = T.alloc_buffer((16, 16))
"""


def program(body):
    lines = [f"    {line}\n" for line in body.strip("\n").split("\n")]
    return from_source(HEAD + "".join(lines), {"T": tir})


def in_tile(text):
    return program(TILE + "".join(f"        {line}\n" for line in text.split("\n")))


def shape_of(func):
    """The shape of the only buffer that is allocated."""
    for stmt in statements(func.body):
        if isinstance(stmt, Block) and stmt.alloc_buffers:
            return [size.value for size in stmt.alloc_buffers[0].shape]
        if isinstance(stmt, Allocate):
            return [size.value for size in stmt.extents]
    raise AssertionError("nothing is allocated")


READ = "for k in range({0}):\n    B[i, k] = C[i, k]"
CASES = {
    "the other case": (
        "for j in range(16):\n    if j < 4:\n        B[i, j] = A[i, j]\n    else:\n"
        "        C[i, j] = A[i, j]\n        B[i, j] = C[i, j]",
        [1, 12],
    ),
    "no choice": (
        "for j in range(16):\n    if not (3 <= j and j < 9):\n        B[i, j] = A[i, j]\n"
        "    else:\n        C[i, j] = A[i, j]\n        B[i, j] = C[i, j]",
        [1, 6],
    ),
    "from one on": (
        "for j in range(1, 16):\n    C[i, j] = A[i, j]\n    B[i, j] = C[i, j]", [1, 15],
    ),
    "one index": (
        "for j in range(16):\n    if j == 3:\n        C[i, j] = A[i, j]\n        B[i, j] = C[i, j]",
        [1, 1],
    ),
    "a split loop": (
        "for j, k in T.grid(5, 3):\n    with T.block('c'):\n        T.where(j * 3 + k < 10)\n"
        f"        C[i, j * 3 + k] = A[i, j * 3 + k]\n{READ.format(10)}",
        [1, 10],
    ),
    "a split loop from an outer loop on": (
        "for j, k in T.grid(3, 3):\n    if i + j * 3 + k < i + 7:\n"
        "        C[0, i + j * 3 + k] = A[0, i + j * 3 + k]\n        B[i, j] = C[0, i + j * 3 + k]",
        [1, 7],
    ),
    "an integer": (
        "for j in range(16):\n    if j % 2:\n        B[i, j] = A[i, j]\n    else:\n"
        "        C[i, j] = A[i, j]\n        B[i, j] = C[i, j]",
        [1, 16],
    ),
    "vectors": (
        "for j in range(2):\n    C[i, j * 4:j * 4 + 4] = A[i, j * 4:j * 4 + 4]\n"
        f"{READ.format(8)}",
        [1, 8],
    ),
    "a cast that cuts bits off": (
        "for j in range(3):\n    C[i, (T.Cast('int32', T.Cast('int8', j * 130)) + 126) // 10] = "
        "A[i, j]\nfor j in range(3):\n    B[i, j] = "
        "C[i, (T.Cast('int32', T.Cast('int8', j * 130)) + 126) // 10]",
        [1, 16],
    ),
    "a cast that does not": (
        "for j in range(3):\n    C[i, T.Cast('int32', T.Cast('int8', j * 5))] = A[i, j]\n"
        "    B[i, j] = C[i, T.Cast('int32', T.Cast('int8', j * 5))]",
        [1, 11],
    ),
    "products of 8 bits": (
        "for j in range(T.int8(4)):\n    C[i, (T.Cast('int32', j * T.int8(90)) + 76) // 12] = "
        "A[i, j]\n    B[i, j] = C[i, (T.Cast('int32', j * T.int8(90)) + 76) // 12]",
        [1, 16],
    ),
    "data that stays": (
        "C[i, K[i]] = A[i, 0]\nC[i, K[i] + 1] = A[i, 1]\nB[i, 0] = C[i, K[i]] + C[i, K[i] + 1]",
        [1, 2],
    ),
    "a let in an index": (
        "for j in range(8):\n    C[0, j] = A[0, j]\nfor j in range(8):\n"
        "    B[0, j] = T.Let(C[0, x], where={x: j})",
        [1, 16],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_live(case):
    text, shape = CASES[case]
    func = in_tile(text)
    got = apply(func, transform.CompactBufferAllocation())
    assert shape_of(got) == shape
    assert_same_results(func, got, {"n": 3})


def test_data_that_changes_is_no_point():
    func = in_tile("C[i, K[i]] = A[i, 0]\nK[i] = K[i] + 1\nC[i, K[i]] = A[i, 1]")
    got = apply(func, transform.CompactBufferAllocation())
    assert shape_of(got) == [1, 16]


def test_declared_buffers_shrink_as_those_of_blocks_do():
    func = in_tile(f"for j in range(8):\n    C[i, j] = A[i, j]\n{READ.format(8)}")
    early = apply(func, transform.CompactBufferAllocation(), transform.LowerOpaqueBlock())
    late = apply(func, transform.LowerOpaqueBlock(), transform.CompactBufferAllocation())
    assert_structural_equal(late, early)
    assert shape_of(late) == [1, 8]
    assert_same_results(func, late, {"n": 3})


DECLARED = """
for i in range(16):
    C_data = T.allocate([{size}], "float32", "global")
    D_data = T.allocate([16], "float32", "global")
    C = T.decl_buffer((16, 16), data=C_data)
    D = T.decl_buffer((16,), data=D_data)
    for j in range(16):
        C[i, j] = A[i, j]
    D[0] = C[i, 3]
    {between}
    B[i, 0] = D[0]
"""


@pytest.mark.parametrize(
    ("size", "between", "left"),
    [
        ("256", "B[i, 1] = C[i, 4]", 16),
        ("512", "B[i, 1] = C[i, 4]", 512),  # larger than the buffer: for what nobody can tell
        ("256", 'E = T.decl_buffer((256,), data=C_data)\n    B[i, 1] = E[i * 16]', 256),
        ("256", 'T.evaluate(T.call_pure_extern("int32", "f", C_data))', 256),
        ("256", 'T.evaluate(T.call_pure_extern("int32", "f", T.address_of(C[i, 0])))', 256),
        ("256", 'T.call_intrin("float32", "tir.atomic_add", T.address_of(C[i, 9]), C[i, 1])', 16),
    ],
)  # fmt: skip
def test_declared_buffers_that_are_the_whole_allocation_shrink(size, between, left):
    func = program(DECLARED.format(size=size, between=between))
    got = apply(func, transform.CompactBufferAllocation())
    assert shape_of(got) == [left]
    if "extern" not in between:
        assert_same_results(func, got, {"n": 3})


def test_threads_that_are_launched_further_inside_share_memory():
    func = program(
        """
with T.block("b"):
    C = T.alloc_buffer((16, 16), scope="shared")
    with T.launch_thread("threadIdx.x", 16) as tx:
        for j in range(8):
            C[tx, j] = A[tx, j]
        T.tvm_storage_sync("shared")
        B[tx, 0] = C[15 - tx, 0]
"""
    )
    assert shape_of(apply(func, transform.CompactBufferAllocation())) == [16, 8]


def test_buffers_grow_only_if_they_may():
    func = in_tile("for j in range(20):\n    C[i, j] = A[i, 0]")
    assert shape_of(apply(func, transform.CompactBufferAllocation())) == [1, 16]
    assert shape_of(apply(func, transform.CompactBufferAllocation(is_strict=False))) == [1, 20]


numbers = st.integers(1, 4)


@settings(max_examples=60, deadline=None)
@given(
    numbers, numbers, st.integers(0, 12), st.integers(1, 3),
    st.sampled_from(["<", "<=", ">", ">=", "=="]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_guarded_accesses_stay_inside(rows, columns, limit, factor, sign, negated, vector):
    """The interpreter refuses accesses outside of what is left."""
    index = f"j * {factor} + k"
    guard = f"{index} {sign} {limit}"
    guard = f"not ({guard})" if negated else guard
    lanes = (":" + index + " + 2") if vector else ""
    func = in_tile(
        f"for j, k in T.grid({rows}, {columns}):\n    if {guard}:\n"
        f"        C[i, {index}{lanes}] = A[i, {index}{lanes}]\n"
        f"        B[i, {index}{lanes}] = C[i, {index}{lanes}]"
    )
    assert_same_results(func, apply(func, transform.CompactBufferAllocation()), {"n": 3})
