"""Kernels of bytes for Arm: their instructions, and their results in QEMU."""

import re

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.emulated import Program, needs
from tilesmith import te, topi
from tilesmith.ir import IRModule
from tilesmith.relax.transform.byte_products import in_words
from tilesmith.schedule_rules.default import default_schedule
from tilesmith.target import Target

TARGET = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm -num-cores=1"
RANDOM = np.random.default_rng(0)
STRIDES, PADDING, DILATION = [1, 1], [1, 1, 1, 1], [1, 1]


def product(dtype, products):
    """A product of odd sizes, with its weights packed for vectors of four."""
    data = te.placeholder((5, 19), dtype, "data")
    x, w = values((5, 19), dtype), values((19, 11), "int8")
    packed = tiles(w, products)
    words = te.placeholder(packed.shape, "int32", "words")
    made = topi.nn.matmul_words(data, words, 11, point(dtype, products), products)
    return (data, words, made), x, w, packed, x @ w


def convolution(dtype, products):
    """A convolution with two groups of six channels, for eight outputs each."""
    data = te.placeholder((1, 6, 5, 12), dtype, "data")
    x, w = values((1, 6, 5, 12), dtype), values((3, 3, 6, 16), "int8")
    packed = tiles(w, products)
    words = te.placeholder(packed.shape, "int32", "words")
    made = topi.nn.conv2d_nhwc_words(
        data, words, 16, STRIDES, PADDING, DILATION, point(dtype, products), 2, products
    )
    return (data, words, made), x, w, packed, convolved(x, w)


def convolved(x, w, moved=0, outside=0):
    """The sums of a convolution whose padding is ``outside``, of data that are ``moved`` more."""
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=outside) + moved
    found = np.zeros((1, 6, 5, 16), "int64")
    for group, y, z in np.ndindex(2, 3, 3):
        columns = slice(8 * group, 8 * group + 8)
        part = padded[:, y : y + 6, z : z + 5, 6 * group : 6 * group + 6]
        found[..., columns] += part @ w[y, z][:, columns]
    return found


def depthwise(dtype, products):
    data = te.placeholder((1, 6, 5, 12), dtype, "data")
    weight = te.placeholder((3, 3, 12), "int32", "weight")
    made = topi.nn.depthwise_conv2d_nhwc_bytes(data, weight, STRIDES, PADDING, DILATION, 3)
    x, w = values((1, 6, 5, 12), dtype), values((3, 3, 12), "int8")
    padded = np.pad(x - 3, [(0, 0), (1, 1), (1, 1), (0, 0)])
    found = sum(padded[:, y : y + 6, z : z + 5] * w[y, z] for y in range(3) for z in range(3))
    return (data, weight, made), x, w, w.astype("int32"), found


def point(dtype, products):
    """The zero point that becomes the byte 0, whichever sign the instruction wants; that of int16
    is subtracted.
    """
    if products == "i16i16":
        return 5
    return {("uint8", "i8i8"): 128, ("int8", "u8i8"): -128}.get((dtype, products), 0)


def values(shape, dtype):
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True)


def tiles(weights, products):
    """Weights (…, inputs, outputs) in tiles of four outputs."""
    words = in_words(weights, "int16" if products == "i16i16" else "int8")
    columns = -(-words.shape[-1] // 4) * 4
    wide = np.zeros((*words.shape[:-1], columns), "int32")
    wide[..., : words.shape[-1]] = words
    split = wide.reshape(*words.shape[:-1], -1, 4)
    return np.ascontiguousarray(np.moveaxis(split, -2, 0))


PROGRAMS = {
    "product_i8mm": (product, "uint8", "u8i8", r"\busdot\b"),
    "product_dotprod": (product, "int8", "i8i8", r"\bsdot\b"),
    "convolution_i8mm": (convolution, "uint8", "u8i8", r"\busdot\b"),
    "convolution_dotprod": (convolution, "int8", "i8i8", r"\bsdot\b"),
    "depthwise": (depthwise, "uint8", "u8i8", r"\b[su]?mlal?\b"),
}


@pytest.fixture(scope="module")
def module():
    found = {}
    for name, (make, dtype, products, _) in PROGRAMS.items():
        function = te.create_prim_func(list(make(dtype, products)[0]))
        function = function.with_attr("global_symbol", name)
        found[name] = default_schedule(function, Target(TARGET))
    return ts.build(IRModule(found), target=TARGET)


@pytest.mark.parametrize("name", PROGRAMS)
def test_instructions(module, name):
    text = module.get_source("asm")
    found = re.search(rf"(?ms)^{name}:.*?^\.Lfunc_end", text)[0]
    assert re.search(PROGRAMS[name][3] + r"\s+v\d", found), found


@needs("aarch64")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_in_qemu(module, tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp() / "packed_bytes"
    folder.mkdir(exist_ok=True)
    program = Program(folder, "aarch64", lambda: module, list(PROGRAMS))
    make, dtype, products, _ = PROGRAMS[name]
    args, x, _, weights, expected = make(dtype, products)
    result = np.full([int(size) for size in args[2].shape], 77, "int32")
    *_, got = program.run(name, (x.astype(dtype), weights, result))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("make", [product, convolution])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("products", ["u8i8", "i8i8", "i16i16"])
def test_results_here(make, dtype, products):
    """Data of the other sign is 128 more or less, which the caller makes up for; only int16 are
    without their zero point.
    """
    args, x, w, weights, expected = make(dtype, products)
    moved = {("int8", "u8i8"): 128, ("uint8", "i8i8"): -128}.get((dtype, products), 0)
    moved = -point(dtype, products) if products == "i16i16" else moved
    if make is product:
        expected = expected + moved * w.sum(0)
    elif moved:  # the padding stands for the zero point
        expected = convolved(x, w, moved, point(dtype, products))
    result = ts.nd.array(np.zeros([int(size) for size in args[2].shape], "int32"))
    function = te.create_prim_func(list(args)).with_attr("global_symbol", "main")
    compiled = ts.build(function, target="llvm -num-cores=1")
    compiled(ts.nd.array(x.astype(dtype)), ts.nd.array(weights), result)
    np.testing.assert_array_equal(result.numpy(), expected)
