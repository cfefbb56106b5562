"""Products of bfloat16: weights packed in pairs for dot product instructions, and the same sums."""

import ml_dtypes
import numpy
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.relax import interpreter
from tilesmith.relax.transform import NarrowWeights, PackForVectors
from tilesmith.relax.transform.pair_products import in_pairs
from tilesmith.script import relax as R
from tilesmith.support.fallbacks import collect_fallbacks

RANDOM = numpy.random.default_rng(0)
AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
WITH, WITHOUT = AVX512 + "cooperlake", AVX512 + "cascadelake"


def convolution(shape, kernel, stride=1, padding=1, dtype="bfloat16", out="float32", groups=1):
    """Return a module of one convolution with a constant weight."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(shape, dtype))
    weight = RANDOM.standard_normal(kernel).astype(ts.DataType(dtype).numpy())
    with builder.function("main", [x]):
        made = relax.op.nn.conv2d(
            x, relax.const(weight), strides=(stride, stride), padding=(padding, padding),
            out_dtype=out, groups=groups,
        )  # fmt: skip
        builder.emit_func_output(builder.emit(made))
    return builder.get()


def product(rows, inputs, columns, dtype="bfloat16", out="float32"):
    """Return a module of one matrix product with a constant weight."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((rows, inputs), dtype))
    weight = RANDOM.standard_normal((inputs, columns)).astype(ts.DataType(dtype).numpy())
    with builder.function("main", [x]):
        made = relax.op.matmul(x, relax.const(weight), out_dtype=out)
        builder.emit_func_output(builder.emit(made))
    return builder.get()


CASES = [
    convolution((1, 8, 6, 6), (16, 8, 3, 3)),
    convolution((2, 5, 7, 6), (19, 5, 3, 3), 2),
    convolution((1, 4, 5, 5), (16, 4, 1, 1), 1, 0, out="bfloat16"),
    product(5, 16, 24),
    product(3, 7, 9),
    product(1, 33, 17, out="bfloat16"),
]


@pytest.mark.parametrize(
    ("mod", "target"),
    [
        *[(mod, "llvm") for mod in CASES],
        *[(mod, target) for mod in (CASES[1], CASES[4]) for target in ("llvm -mcpu=haswell", "c")],
    ],
)
def test_the_same_sums(mod, target):
    if "-mcpu" in target and not ts.target.Target("llvm").features.is_x86:
        pytest.skip("x86 only")
    (param,) = mod["main"].params
    shape = [int(size) for size in param.struct_info.shape.values]
    x = RANDOM.standard_normal(shape).astype(ml_dtypes.bfloat16)
    found = relax.build(mod, target)(x).numpy()
    expected = interpreter.run(mod, "main", x)
    assert found.dtype == expected.dtype
    tolerance = 1e-5 if found.dtype == "float32" else 1e-2
    numpy.testing.assert_allclose(
        found.astype("float32"), expected.astype("float32"), rtol=tolerance, atol=tolerance
    )


def transposed(dtype):
    """Return a module of a transposed convolution whose sums stay float32."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((1, 8, 5, 5), dtype))
    weight = RANDOM.standard_normal((8, 16, 3, 3)).astype(ts.DataType(dtype).numpy())
    with builder.function("main", [x]):
        made = relax.op.nn.conv2d_transpose(
            x, relax.const(weight), strides=(2, 2), out_dtype="float32"
        )
        builder.emit_func_output(builder.emit(made))
    return builder.get()


@pytest.mark.parametrize(
    "mod",
    [
        convolution((1, 16, 5, 6), (16, 1, 3, 3), groups=16),
        convolution((1, 8, 5, 6), (16, 4, 3, 3), groups=2),
        transposed("bfloat16"),
        transposed("float16"),
    ],
)
def test_other_convolutions_keep_their_sums_of_float32(mod):
    """Their kernels give what they take; rounding the sums would be seen."""
    (param,) = mod["main"].params
    shape = [int(size) for size in param.struct_info.shape.values]
    x = RANDOM.standard_normal(shape).astype(param.struct_info.dtype.numpy())
    found, expected = relax.build(mod, "llvm")(x).numpy(), interpreter.run(mod, "main", x)
    assert found.dtype == expected.dtype == "float32"
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mod", CASES)
def test_dot_products_where_results_are_float32_or_the_target_has_them(mod):
    is_wide = str(mod["main"].ret_struct_info.dtype) == "float32"
    assert "T.dot_bf16bf16" in PackForVectors(WITH)(mod).script()
    assert ("T.dot_bf16bf16" in PackForVectors(WITHOUT)(mod).script()) == is_wide


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        (WITH, "vdpbf16ps"), (AVX512 + "sapphirerapids", "vdpbf16ps"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1", "bfdot"),
    ],
)  # fmt: skip
def test_instructions(target, instruction):
    code = relax.build(product(4, 32, 32), target).get_source("asm")
    assert instruction in code


def test_weights_in_pairs():
    weights = RANDOM.standard_normal((3, 5, 2)).astype(ml_dtypes.bfloat16)
    words = in_pairs(weights)
    assert words.shape == (3, 3, 2)
    back = words.view(ml_dtypes.bfloat16).reshape(3, 3, 2, 2).transpose(0, 1, 3, 2)
    back = back.reshape(3, 6, 2)
    numpy.testing.assert_array_equal(back[:, :5], weights)
    assert not back[:, 5:].any()


def test_narrow_weights_change_what_is_packed_and_nothing_else():
    product_ = product(4, 8, 16, "float32")
    text = NarrowWeights("bfloat16")(product_).script()
    assert 'R.astype(x, dtype="bfloat16")' in text and 'out_dtype="float32"' in text
    text = NarrowWeights("float16")(product_).script()
    assert "R.astype(x" not in text and 'dtype="float32")' in text
    for kept in (
        convolution((1, 8, 6, 6), (8, 1, 3, 3), dtype="float32", groups=8),  # by channel
        product(4, 8, 3, "float32"),  # few columns
        product(4, 8, 16, "float64", "float64"),
    ):
        with collect_fallbacks() as report:
            assert "astype" not in NarrowWeights("bfloat16")(kept).script()
        kinds = [one.kind for one, _ in report.rows()]
        is_float32 = kept["main"].params[0].struct_info.dtype == "float32"
        assert kinds == (["precision"] if is_float32 else [])  # nothing is kept in silence


@pytest.mark.parametrize(
    "mod",
    [product(5, 7, 19, "float32"), convolution((1, 5, 6, 6), (9, 5, 3, 3), 2, dtype="float32")],
)
def test_weights_of_float16_are_packed_as_such(mod):
    narrow = NarrowWeights("float16")(mod)
    assert '"float16"' in PackForVectors("llvm")(narrow).script()
    (param,) = mod["main"].params
    shape = [int(size) for size in param.struct_info.shape.values]
    x = RANDOM.standard_normal(shape).astype("float32")
    expected = interpreter.run(narrow, "main", x)
    found = relax.build(narrow, "llvm")(x).numpy()
    numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    exact = interpreter.run(mod, "main", x)
    assert 0 < abs(expected - exact).max() < 1e-2
