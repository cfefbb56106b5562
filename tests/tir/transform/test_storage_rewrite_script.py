"""StorageRewrite: which allocations share memory, and that back ends agree with the interpreter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.lowering import build
from tilesmith.runtime import nd
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.tir import Allocate, DeclBuffer, ForKind, transform
from tilesmith.tir.functor import post_order_visit

HEAD = """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.func_attr({"global_symbol": "main"})
"""


def chain(*buffers):
    """Each buffer is computed of the one before, element by element: (size, dtype) of each. What
    no element was computed for is not read."""
    lines = [
        f'    C{number} = T.decl_buffer(({size},), "{dtype}")'
        for number, (size, dtype) in enumerate(buffers)
    ]
    last, written = "A", 128
    for name, size, dtype in [
        *[(f"C{number}", size, dtype) for number, (size, dtype) in enumerate(buffers)],
        ("B", 128, "float32"),
    ]:
        written = min(size, written)
        lines.append(f"    for i in range({written}):")
        lines.append(f'        {name}[i] = T.Cast("{dtype}", {last}[i])')
        last = name
    return from_source(HEAD + "\n".join(lines) + "\n")


def allocations(func):
    found = []

    def look(node):
        if isinstance(node, Allocate):
            found.append((node.extents[0].value, str(node.dtype)))

    post_order_visit(func.body, look)
    return sorted(found)


@pytest.mark.parametrize(
    "buffers, left",
    [
        # element by element: all in one place
        ([(128, "float32")] * 3, [(128, "float32")]),
        ([(1, "float32")] * 3, [(1, "float32")]),
        # smaller memory grows for the same dtype
        ([(64, "float32"), (128, "float32"), (100, "float32")],
         [(100, "float32"), (128, "float32")]),
        # larger memory serves any dtype, smaller memory only its own
        ([(128, "float32"), (128, "int8"), (128, "float16")], [(128, "float32"), (128, "int8")]),
        ([(128, "float16"), (128, "int32"), (128, "float32")],
         [(128, "float16"), (128, "float32"), (128, "int32")]),
        ([(128, "float64"), (128, "float32"), (128, "int64")],
         [(128, "float32"), (128, "float64")]),
        # not for what is 16 times smaller
        ([(128, "float64"), (128, "int8"), (4, "int16"), (4, "int8")],
         [(4, "int16"), (128, "float64"), (128, "int8")]),
        # in memory each int4 has a byte of its own (found by fuzzing: 10 of them in 4 halves)
        ([(40, "float16"), (16, "int16"), (40, "int4")], [(16, "int16"), (40, "float16")]),
        ([(16, "float16"), (16, "int16"), (40, "int4")],
         [(16, "float16"), (16, "int16"), (40, "int4")]),
    ],
)  # fmt: skip
def test_which_allocations_share_memory(buffers, left):
    func = chain(*buffers)
    got = apply(func, transform.StorageRewrite())
    assert allocations(got) == left
    assert_same_results(func, got)


@pytest.mark.parametrize(
    "loops",
    [
        "for i in range(8):\n        D[i] = C[7 - i]",  # another element
        "for i in range(8):\n        D[i] = C[i] + C[0]",
        "for i, j in T.grid(8, 2):\n        D[i] = C[i] + T.float32(j)",  # each element twice
        "for i in range(8):\n        D[i] = T.float32(0)\n        D[i] = C[i]",  # two stores
        "for i in range(8):\n        D[i] = C[i]\n        B[i + 8] = C[i]",  # read elsewhere
        "for i in range(8):\n        if C[0] > T.float32(0):\n            D[i] = C[i]",
        "for i in range(8):\n        D[i // 2] = C[i // 2]",
    ],
)
def test_what_is_not_in_place(loops):
    func = from_source(
        HEAD
        + f"""
    C = T.decl_buffer((8,), "float32")
    D = T.decl_buffer((8,), "float32")
    for i in range(8):
        C[i] = A[i]
    {loops}
    for i in range(4):
        B[i] = D[i]
"""
    )
    got = apply(func, transform.StorageRewrite())
    assert len(allocations(got)) == 2
    assert_same_results(func, got)


_BUFFERS = st.lists(
    st.tuples(
        st.sampled_from([1, 3, 8, 17, 64, 128]),
        st.sampled_from(["int8", "int32", "int64", "float32", "float64"]),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=8, deadline=None)
@given(_BUFFERS)
def test_back_ends_read_shared_memory_as_it_is_meant(buffers):
    func = chain(*buffers)
    values = np.random.default_rng(1).integers(-100, 100, 128).astype("float32")
    count = min([size for size, _ in buffers])  # behind that nothing has been written
    for target in ("llvm", "c"):
        result = np.zeros(128, "float32")
        build(func, target=target)["main"](values, result)
        np.testing.assert_array_equal(result[:count], values[:count])


@pytest.mark.parametrize(
    "loop",
    [
        "for i in T.parallel(4):",
        "for i in T.vectorized(4):",
        'with T.launch_thread("vthread", 4) as i:',
    ],
    ids=["parallel", "vectorized", "virtual thread"],
)
def test_memory_stays_inside_of_iterations_that_run_at_the_same_time(loop):
    func = from_source(
        HEAD
        + f"""
    {loop}
        C = T.decl_buffer((1,), "float32")
        C[0] = A[i]
        D = T.decl_buffer((1,), "float32")
        D[0] = C[0] * T.float32(2)
        B[i] = D[0]
"""
    )
    got = apply(func, transform.StorageRewrite())
    outermost = got.body
    while isinstance(outermost, DeclBuffer):
        outermost = outermost.body
    assert not isinstance(outermost, Allocate)
    assert_same_results(func, got)


def test_memory_that_nobody_uses_goes_with_its_buffers():
    func = from_source(
        HEAD
        + """    C_data = T.allocate([16], "float32", "global")
    C = T.decl_buffer((16,), data=C_data)
    D = T.decl_buffer((4, 4), data=C_data)
    E = T.decl_buffer((128,))
    for i in range(128):
        E[i] = A[i]
    for i in range(128):
        B[i] = E[127 - i]
"""
    )
    got = apply(func, transform.StorageRewrite())
    assert allocations(got) == [(128, "float32")]
    assert got.script().count("decl_buffer") == 1
    assert_same_results(func, got)


@T.prim_func
def rows_of_open_length(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main"})
    m = T.int32(is_size_var=True)
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (m, n))
    B = T.match_buffer(b, (m, n))
    for i in range(m):
        own = T.decl_buffer((n,))
        short = T.decl_buffer((i + 1,))
        short[i] = T.float32(i)
        for j in range(n):
            own[j] = A[i, j] * T.float32(2)
        for j in range(n):
            B[i, j] = own[n - 1 - j] + short[i]


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL])
def test_memory_of_open_size_leaves_serial_loops(kind):
    """Not what the loop itself sizes, nor what threads would share."""
    loop = rows_of_open_length.body
    before = rows_of_open_length.with_body(loop.with_fields(kind=kind))
    got = apply(before, transform.StorageRewrite())
    assert_same_results(rows_of_open_length, got, {"m": 4, "n": 5})
    outside = got.script().split("for i ")[0]
    assert ("T.allocate([n]" in outside) == (kind is ForKind.SERIAL)
    assert got.script().count("[i + 1]") + got.script().count("(i + 1,)") == 1


@pytest.mark.parametrize("length, wanted", [("n - 1", "T.max(n - 1, 0)"), ("8 // n", None)])
def test_loops_that_never_run_need_no_memory(length, wanted):
    """Of a negative size there is none, and a size may not even be defined."""
    source = f"""
@T.prim_func
def func(b: T.handle, n: T.int32):
    T.func_attr({{"global_symbol": "main"}})
    B = T.match_buffer(b, (8,))
    for i in range(n):
        own = T.decl_buffer(({length},))
        own[0] = T.float32(3)
        B[i] = own[0]
"""
    func = from_source(source, {"T": T})
    outside = apply(func, transform.StorageRewrite()).script().split("for i ")[0]
    assert ("T.allocate(" in outside) == (wanted is not None) and (wanted or "") in outside
    built = build(func, target="llvm")
    for runs in (0, 4):
        got = nd.array(np.zeros(8, "float32"))
        built["main"](got, runs)
        np.testing.assert_array_equal(got.numpy(), [3] * runs + [0] * (8 - runs))
