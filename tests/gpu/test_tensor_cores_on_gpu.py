"""Tensor cores, copies in the background, exchanges and atomics on a real CUDA device.

    python -m pytest tests/gpu/test_tensor_cores_on_gpu.py -q

Each kernel is built for the device and gives what the interpreter gives, products what numpy gives.
"""

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.gpu_classic_products import classic_product
from tests.codegen.gpu_instructions_script import CUDA, EVERYWHERE, OF_NUMPY, arrays_for
from tests.codegen.gpu_products import arrays_of, mma_product, product_of_m16n8k8, wmma_product
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.operators import rounded_to_tf32

TARGET = "cuda -arch=sm_90"

pytestmark = pytest.mark.skipif(
    not ts.cuda(0).exist, reason="needs a CUDA device: tilesmith.cuda(0).exist is false"
)


def on_device(module, arrays, options=None):
    """Build a function for the device and run it; return its last array."""
    config = {f"tir.{name}": value for name, value in (options or {}).items()}
    with ts.transform.PassContext(config=config):
        built = ts.build(module, target=ts.target.Target(TARGET, host="llvm"))
    device = ts.cuda(0)
    tensors = [ts.nd.array(array, device) for array in arrays]
    built["main"](*tensors)
    device.sync()
    return tensors[-1].numpy()


INSTRUCTIONS = {
    "_".join(name.split()): make(*arguments)
    for name, (make, arguments) in {**CUDA, **EVERYWHERE}.items()
}


@pytest.fixture(scope="module")
def instructions():
    """All kernels of one instruction, built together: one call of the compiler."""
    functions = {name: one.with_attr("global_symbol", name) for name, one in INSTRUCTIONS.items()}
    return ts.build(ts.IRModule(functions), target=ts.target.Target(TARGET, host="llvm"))


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instruction(instructions, name):
    arrays = arrays_for(INSTRUCTIONS[name])
    expected = [array.copy() for array in arrays]
    run(INSTRUCTIONS[name], *expected)
    device = ts.cuda(0)
    tensors = [ts.nd.array(array, device) for array in arrays]
    instructions[name](*tensors)
    device.sync()
    for got, want in zip(tensors, expected):
        np.testing.assert_array_equal(got.numpy().astype("float64"), want.astype("float64"))


@pytest.mark.parametrize("name", OF_NUMPY)
def test_instruction_that_is_not_interpreted(name):
    function, (arrays, expected) = OF_NUMPY[name]
    got = on_device(ts.IRModule({"main": function}), arrays)
    np.testing.assert_array_equal(got.astype("float64"), expected)


PRODUCTS = {
    "mma": (mma_product, ("float16", "float32", False, 256), {}),
    "mma transposed": (mma_product, ("float16", "float16", True, 128), {}),
    "mma tf32": (mma_product, ("float32", "float32", False, 256), {}),
    "mma tf32 transposed": (mma_product, ("float32", "float32", True, 128), {}),
    "wmma tf32": (wmma_product, ("float32", "float32", False, 256), {}),
    "wmma tf32 transposed": (wmma_product, ("float32", "float32", True, 128), {}),
    "mma bytes": (mma_product, ("int8", "int32", False, 128), {}),
    "mma bytes transposed": (mma_product, ("int8", "int32", True, 128), {}),
    "mma with loops that store": (mma_product, ("float16", "float32", True, 128, True), {}),
    "m16n8k8": (product_of_m16n8k8, ("float32", 128), {}),
    "m16n8k8 f16": (product_of_m16n8k8, ("float16", 128), {}),
    "wmma": (wmma_product, ("float16", "float32", False, 256), {}),
    "wmma transposed": (wmma_product, ("float16", "float16", True, 128), {}),
    "wmma bytes": (wmma_product, ("int8", "int32", False, 128), {}),
    "mma pipeline": (
        mma_product, ("float16", "float32", False, 256, False, 2), {"use_async_copy": True}
    ),
    "mma pipeline of bytes": (
        mma_product, ("int8", "int32", True, 128, False, 2), {"use_async_copy": True}
    ),
    "mma pipeline with permuted rows": (
        mma_product, ("float16", "float32", False, 256, False, 3, True), {"use_async_copy": True}
    ),
    "pipeline of two": (
        wmma_product, ("float16", "float32", False, 256, 2), {"use_async_copy": True}
    ),
    "pipeline of three": (
        wmma_product, ("float16", "float32", True, 256, 3, "shared.dyn"), {"use_async_copy": True}
    ),
    "pipeline of four": (
        wmma_product, ("int8", "int32", True, 128, 4, "shared.dyn"), {"use_async_copy": True}
    ),
    "pipeline without copies in the background": (
        wmma_product, ("float16", "float32", False, 128, 3), {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name):
    make, arguments, options = PRODUCTS[name]
    program, sch = make(*arguments)
    arrays = arrays_of(program)
    a, b = [array.astype("float64") for array in arrays[:2]]
    expected = a @ (b.T if len(arguments) > 2 and arguments[2] is True else b)
    got = on_device(sch.mod, arrays, options)
    assert DataType(str(got.dtype)) == program.buffer_map[program.params[2]].dtype
    np.testing.assert_array_equal(got.astype("float64"), expected)


@pytest.mark.parametrize("make", [mma_product, wmma_product])
def test_operands_of_float32_are_rounded(make):
    program, sch = make("float32", "float32", False, 128)
    random = np.random.default_rng(0)
    a, b, c = [random.standard_normal(one.shape).astype("float32") for one in arrays_of(program)]
    got = on_device(sch.mod, [a, b, c])
    expected = rounded_to_tf32(a).astype("float64") @ rounded_to_tf32(b)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


def test_a_classic_schedule():
    schedule, tensors = classic_product(8, 8, 16)
    random = np.random.default_rng(0)
    a = random.integers(-2, 3, (8, 16, 16, 16)).astype("float16")
    b = random.integers(-2, 3, (16, 8, 16, 16)).astype("float16")
    built = ts.build(schedule, tensors, ts.target.Target(TARGET, host="llvm"), name="main")
    device = ts.cuda(0)
    given = [ts.nd.array(array, device) for array in (a, b, np.zeros((8, 8, 16, 16), "float32"))]
    built["main"](*given)
    expected = np.einsum("ikab,kjbc->ijac", a, b, dtype="float32")
    np.testing.assert_array_equal(given[2].numpy(), expected)
