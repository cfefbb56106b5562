"""StorageRewrite of memory that threads share, of a device's memory, and of memory of vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.transform.harness import apply, arrays_for, assert_same, assert_same_results, outputs
from tilesmith.ir import make_node
from tilesmith.lowering import build
from tilesmith.runtime.registry import register_func, remove_global_func
from tilesmith.script import from_source
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import Allocate, transform
from tilesmith.tir.functor import post_order_visit
from tilesmith.tir.interpreter import Options, run

HEAD = """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.func_attr({"global_symbol": "main"})
"""


def allocations(func):
    found = []

    def look(node):
        if isinstance(node, Allocate):
            found.append((node.extents[0].value, str(node.dtype)))

    post_order_visit(func.body, look)
    return sorted(found)


def kernel(*stages):
    """A kernel of 32 threads whose stages each write shared memory and read what the one before
    wrote: (dtype, how the one before is read, what stands around the store)."""
    lines = ['    with T.launch_thread("threadIdx.x", 32) as tx:', "        for o in range(2):"]
    last = "A[o * 32 + {}]"
    for number, (dtype, read, around) in enumerate(stages):
        name = f"S{number}"
        lines.append(f'            {name} = T.decl_buffer((32,), "{dtype}", scope="shared")')
        store = f'{name}[tx] = T.Cast("{dtype}", {last.format(read)})'
        if around:
            lines += [f"            {around}:", f"                {store}"]
        else:
            lines.append(f"            {store}")
        last = name + "[{}]"
    lines.append(f'            B[o * 32 + tx] = T.Cast("float32", {last.format("31 - tx")})')
    return from_source(HEAD + "\n".join(lines) + "\n")


def checked(func, got):
    """Two kernels compute the same, the second one behind barriers and without races."""
    got = apply(got, transform.ThreadSync("shared"))
    arrays = arrays_for(func)
    arrays[0] = np.arange(128, dtype="float32")
    found = [array.copy() for array in arrays]
    run(got, *found, options=Options(check_races=True, check_undefined=False))
    assert_same(found, outputs(func, arrays))


@pytest.mark.parametrize(
    "dtypes, left",
    [
        (["float32"] * 3, [(32, "float32")] * 2),
        (["float32", "float32", "int32"], [(32, "float32")] * 2),
        (["int32", "float32", "int8"], [(32, "float32"), (32, "int32")]),
        (["int8", "float32", "int32"], [(32, "float32"), (32, "int32"), (32, "int8")]),
    ],
)
def test_shared_memory_of_a_kernel_is_used_again(dtypes, left):
    func = kernel(*[(dtype, "31 - tx", "") for dtype in dtypes])
    got = apply(func, transform.StorageRewrite())
    assert allocations(got) == left
    checked(func, got)


def test_shared_memory_keeps_its_dtype_for_vulkan():
    func = kernel(*[(dtype, "31 - tx", "") for dtype in ("float32", "float32", "int32")])
    for made in (func.with_attr("target", Target("vulkan")), func):
        with Target("vulkan"):
            got = apply(made, transform.StorageRewrite())
        assert allocations(got) == [(32, "float32"), (32, "float32"), (32, "int32")]
    func = kernel(*[("float32", "31 - tx", "")] * 3)
    with Target("vulkan"):
        assert len(allocations(apply(func, transform.StorageRewrite()))) == 2


_STAGES = st.lists(
    st.tuples(
        st.sampled_from(["float32", "int32", "int8", "float16"]),
        st.sampled_from(["tx", "31 - tx", "(tx + 1) % 32", "o"]),
        st.sampled_from(["", "", "if tx < 32", "for r in range(2)", "for r in range(tx + 1)"]),
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=40, deadline=None)
@given(_STAGES)
def test_threads_wait_for_each_other_where_they_share_memory(stages):
    func = kernel(*stages)
    checked(func, apply(func, transform.StorageRewrite()))


def test_memory_that_is_used_where_not_all_threads_come_is_left_alone():
    func = from_source(
        HEAD
        + """
    with T.launch_thread("threadIdx.x", 32) as tx:
        if tx < 16:
            S = T.decl_buffer((32,), "float32", scope="shared")
            S[tx] = A[tx]
            U = T.decl_buffer((32,), "int32", scope="shared")
            U[tx] = T.Cast("int32", S[tx])
            V = T.decl_buffer((32,), "int32", scope="shared")
            V[15 - tx] = U[tx]
            B[tx] = T.Cast("float32", V[15 - tx])
"""
    )
    got = apply(func, transform.StorageRewrite())
    assert len(allocations(got)) == 3  # a barrier inside of the branch would never be passed
    checked(func, got)


def test_a_pointer_keeps_memory_alive():
    func = from_source(
        HEAD
        + """
    C_data = T.allocate([64], "float32", "global")
    C = T.decl_buffer((64,), data=C_data)
    for i in range(64):
        C[i] = A[i]
    p: T.handle("float32", "global") = T.address_of(C[32])
    D = T.decl_buffer((64,))
    for i in range(64):
        D[i] = A[i + 64]
    E = T.decl_buffer((32,), data=p)
    for i in range(32):
        B[i] = E[i] + D[i]
"""
    )
    got = apply(func, transform.StorageRewrite())
    assert allocations(got) == [(64, "float32"), (64, "float32")]
    assert_same_results(func, got)


# The memory of a device.


@pytest.fixture
def scratchpad():
    """Describe the scope "local.L0A"; give the description's fields, which tests change."""
    fields = {"unit_bits": 8, "max_simd_bits": 32, "max_num_bits": 1 << 20, "head_address": None}
    name = "tvm.info.mem.local.L0A"
    register_func(name, lambda: make_node("MemoryInfo", **fields), override=True)
    yield fields
    remove_global_func(name)


def tiles(*dtypes, size=30, scope="local.L0A"):
    """Buffers that live at the same time, inside of a loop; B becomes the sum of them."""
    lines = ["    for o in range(2):"]
    lines += [
        f'        S{number} = T.decl_buffer(({size},), "{dtype}", scope="{scope}")'
        for number, dtype in enumerate(dtypes)
    ]
    lines.append(f"        for i in range({size}):")
    lines += [
        f'            S{number}[i] = T.Cast("{dtype}", A[i + {number}])'
        for number, dtype in enumerate(dtypes)
    ]
    total = " + ".join([f'T.Cast("float32", S{number}[i])' for number in range(len(dtypes))])
    lines += [f"        for i in range({size}):", f"            B[i + o] = {total}"]
    return from_source(HEAD + "\n".join(lines) + "\n")


_DTYPES = ["int8", "float16", "int32", "float64", "bool"]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(_DTYPES), min_size=1, max_size=4),
    st.sampled_from([None, 8, 64, 256]),
    st.sampled_from([1, 7, 32]),
)
def test_memory_of_a_device_is_one_allocation(dtypes, simd_bits, size):
    name = "tvm.info.mem.local.L0B"
    if simd_bits is not None:
        info = {"max_simd_bits": simd_bits, "max_num_bits": 1 << 20}
        register_func(name, lambda: info, override=True)
    func = tiles(*dtypes, size=size, scope="local.L0B")
    got = apply(func, transform.StorageRewrite())
    assert isinstance(got.body, Allocate) and len(allocations(got)) == 1
    assert got.body.dtype == dtypes[0]
    assert_same_results(func, got)
    for target in ("llvm", "c"):
        arrays = arrays_for(func)
        want = outputs(func, arrays)
        build(func, target=target)["main"](*arrays)
        assert_same(arrays, want)
    if simd_bits is not None:
        remove_global_func(name)


def test_allocations_of_a_device_begin_where_its_vectors_may(scratchpad):
    scratchpad["max_simd_bits"] = 128
    got = apply(tiles("int8", "float16"), transform.StorageRewrite())
    # 30 bytes, up to the next 16, then 60 bytes
    assert allocations(got) == [(32 + 60, "int8")]
    assert "[i + 16]" in got.script()


def test_free_memory_of_a_device_is_used_again(scratchpad):
    func = from_source(
        HEAD
        + """
    C = T.decl_buffer((128,), "float32", scope="local.L0A")
    for i in range(128):
        C[i] = A[i]
    for i in range(128):
        B[i] = C[127 - i]
    D = T.decl_buffer((100,), "int32", scope="local.L0A")
    for i in range(100):
        D[i] = T.Cast("int32", A[i])
    for i in range(100):
        B[i] = B[i] + T.Cast("float32", D[99 - i])
"""
    )
    got = apply(func, transform.StorageRewrite())
    assert allocations(got) == [(128, "float32")]
    assert_same_results(func, got)


def test_what_the_memory_of_a_device_does_not_hold_is_refused(scratchpad):
    scratchpad["max_num_bits"] = 30 * (32 + 16)
    func = tiles("int32", "float16")
    assert len(allocations(apply(func, transform.StorageRewrite()))) == 1
    scratchpad["max_num_bits"] -= 1
    with pytest.raises(UnsupportedError, match="'S0', 'S1' need 1440 bits .* which has 1439"):
        apply(func, transform.StorageRewrite())


def test_addresses_of_a_devices_memory_stay(scratchpad):
    func = from_source(
        HEAD
        + """
    C = T.decl_buffer((16,), scope="local.L0A")
    D = T.decl_buffer((16,), scope="local.L0A")
    E = T.decl_buffer((16,), scope="local.L0A")
    T.evaluate(T.call_extern("int32", "fill", C.access_ptr("w"), A.data))
    for i in range(16):
        D[i] = C[i]
        E[i] = C[15 - i]
    for i in range(16):
        B[i] = D[i] + E[i]
"""
    )
    got = apply(func, transform.StorageRewrite())
    assert allocations(got) == [(16, "float32"), (32, "float32")]
    scratchpad["max_num_bits"] = 48 * 32 - 1
    with pytest.raises(UnsupportedError, match="need 1536 bits"):
        apply(func, transform.StorageRewrite())


def test_a_description_of_memory_has_fields():
    name = "tvm.info.mem.local.L0C"
    register_func(name, lambda: 3, override=True)
    with pytest.raises(TypeMismatchError, match=f"'{name}' returned int, not a description"):
        apply(tiles("int32", scope="local.L0C"), transform.StorageRewrite())
    remove_global_func(name)


# Memory of vectors.


def rows(lanes, dtype="float32", last=None):
    last = lanes if last is None else last
    return from_source(
        HEAD
        + f"""
    C = T.decl_buffer((128,), "{dtype}")
    for i in range({128 // lanes}):
        C[i * {lanes}:i * {lanes} + {lanes}] = T.Cast("{dtype}x{lanes}", A[i * {lanes}:i * {lanes} + {lanes}])
    for i in range({128 // last}):
        B[i * {last}:i * {last} + {last}] = T.Cast("float32x{last}", C[i * {last}:i * {last} + {last}])
"""  # noqa: E501
    )


@pytest.mark.parametrize(
    "program, left",
    [
        (rows(4), (32, "float32x4")),
        (rows(16, "float16"), (8, "float16x16")),
        (rows(4, last=8), (128, "float32")),  # vectors of two lengths
        (rows(3), (128, "float32")),  # which would occupy four elements
        (rows(4, "bool"), (128, "bool")),
    ],
)
def test_memory_of_vectors(program, left):
    got = apply(program, transform.StorageRewrite())
    assert allocations(got) == [left]
    assert_same_results(program, got)
    (kept,) = allocations(apply(program, transform.StorageRewrite(vector_elements=False)))
    assert kept[0] == 128
