"""Operators against onnxruntime: attributes at random, odd and symbolic sizes, optimised models."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.relax.frontend.onnx_reference import compare, imported, make_model, one_node, reference

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@st.composite
def windows(draw, rank=2):
    """Attributes of a convolution or pooling over `rank` axes."""
    numbers = st.integers(1, 3)
    attributes = {
        "kernel_shape": draw(st.lists(numbers, min_size=rank, max_size=rank)),
        "strides": draw(st.lists(numbers, min_size=rank, max_size=rank)),
        "dilations": draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank)),
    }
    mode = draw(st.sampled_from(AUTO_PADS))
    if mode == "NOTSET":
        limit = min(attributes["kernel_shape"]) - 1
        attributes["pads"] = draw(
            st.lists(st.integers(0, limit), min_size=2 * rank, max_size=2 * rank)
        )
    else:
        attributes["auto_pad"] = mode
        # onnxruntime pads dilated windows of SAME differently from the definition,
        attributes["dilations"] = [1] * rank
        # and refuses strides that skip elements.
        attributes["strides"] = [
            min(pair) for pair in zip(attributes["strides"], attributes["kernel_shape"])
        ]
    return attributes


@settings(max_examples=40)
@given(windows(), st.sampled_from([(1, 1), (1, 2), (2, 1), (4, 1)]), st.booleans(), st.booleans())
def test_convolution(attributes, channels, has_bias, symbolic):
    groups, per_group = channels
    x = floats(2, groups * per_group, 9, 7)
    constants = {"w": floats(groups * 2, per_group, *attributes["kernel_shape"])}
    if has_bias:
        constants["b"] = floats(groups * 2)
    shapes = {"x": ["n", *x.shape[1:]]} if symbolic else None
    model = one_node(
        "Conv", {"x": x}, constants=constants, shapes=shapes, group=groups, **attributes
    )
    compare(model, {"x": x})


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_convolution_over_one_and_three_axes(rank, operator):
    x, weight = floats(2, 4, *[6, 5, 4][:rank]), floats(4, 4, *[3] * rank)
    attributes = {"strides": [2] * rank, "pads": [1] * (2 * rank), "group": 1}
    compare(one_node(operator, {"x": x}, constants={"w": weight}, **attributes), {"x": x})


@settings(max_examples=25)
@given(windows(), st.integers(1, 2), st.integers(0, 1))
def test_transposed_convolution(attributes, groups, extra):
    assume(attributes.get("auto_pad") in (None, "VALID"))
    attributes["output_padding"] = [min(extra, s - 1) for s in attributes["strides"]]
    x = floats(2, 2 * groups, 4, 5)
    weight = floats(2 * groups, 3, *attributes["kernel_shape"])
    model = one_node("ConvTranspose", {"x": x}, constants={"w": weight}, group=groups, **attributes)
    reach = [(k - 1) * d for k, d in zip(attributes["kernel_shape"], attributes["dilations"])]
    pads = attributes.get("pads", [0] * 4)
    assume(all(pads[i] + pads[i + 2] <= reach[i] for i in range(2)))
    compare(model, {"x": x})


@settings(max_examples=40)
@given(windows(), st.booleans())
def test_max_pool(attributes, ceil):
    x = floats(2, 3, 9, 7)
    model = one_node("MaxPool", {"x": x}, ceil_mode=int(ceil), **attributes)
    compare(model, {"x": x})


@settings(max_examples=40)
@given(windows(), st.booleans(), st.booleans())
def test_average_pool(attributes, ceil, include):
    attributes.pop("dilations")
    x = floats(2, 3, 9, 7)
    model = one_node(
        "AveragePool", {"x": x}, ceil_mode=int(ceil), count_include_pad=int(include), **attributes
    )
    compare(model, {"x": x})


@settings(max_examples=20)
@given(windows())
def test_max_pool_with_indices(attributes):
    x = floats(2, 2, 6, 5)
    compare(one_node("MaxPool", {"x": x}, outputs=2, **attributes), {"x": x})


bounds = st.integers(-12, 12) | st.sampled_from([-(2**63), 2**63 - 1, 2**31 - 1])


@settings(max_examples=80)
@given(
    st.tuples(bounds, bounds),
    st.tuples(bounds, bounds),
    st.sampled_from([-3, -1, 1, 2]),
    st.booleans(),
)
def test_slice(starts, ends, step, symbolic):
    # Backwards to the largest integer onnxruntime goes to the front, numpy and ONNX nowhere.
    assume(step > 0 or ends[0] < 2**30)
    x = floats(5, 7, 2)
    constants = {
        "starts": np.array(starts), "ends": np.array(ends), "axes": np.array([1, -1]),
        "steps": np.array([step, 1]),
    }  # fmt: skip
    shapes = {"x": ["n", 7, 2]} if symbolic else None
    compare(one_node("Slice", {"x": x}, constants=constants, shapes=shapes), {"x": x})


@pytest.mark.parametrize(("start", "end"), [(0, 3), (1, 100), (-3, -1), (-100, 2), (2, 2)])
def test_slice_of_a_symbolic_axis(start, end):
    x = floats(6, 3)
    constants = {"starts": np.array([start]), "ends": np.array([end]), "axes": np.array([0])}
    model = one_node("Slice", {"x": x}, constants=constants, shapes={"x": ["n", 3]})
    compare(model, {"x": x})


def test_slice_backwards_by_the_largest_step():
    """Found by fuzzing: arithmetic with the step must not overflow."""
    x, low = floats(4, 6), np.iinfo("int64").min
    constants = {
        "starts": np.array([3, -1]), "ends": np.array([1, 0]), "axes": np.array([0, 1]),
        "steps": np.array([low, low]),
    }  # fmt: skip
    compare(one_node("Slice", {"x": x}, constants=constants), {"x": x})


def test_slice_by_data():
    x = floats(6, 5)
    feed = {"x": x, "starts": np.array([1, -2]), "ends": np.array([4, 5])}
    compare(one_node("Slice", feed), feed)


@settings(max_examples=40)
@given(st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 6, 12]), min_size=1, max_size=4), st.booleans())
def test_reshape(shape, symbolic):
    x = floats(4, 6)
    model = one_node(
        "Reshape", {"x": x}, constants={"s": np.array(shape)},
        shapes={"x": ["n", 6]} if symbolic else None,
    )  # fmt: skip
    try:
        expected = reference(model, {"x": x})
    except Exception:
        assume(False)
    assert np.array_equal(imported(model, {"x": x})[0], expected[0])


@settings(max_examples=30)
@given(
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]),
    st.sampled_from([(3, 4), (5, 5), (8, 14), (11, 6), (16, 21)]),
    st.sampled_from(["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"]),
)
def test_resize(mode, coordinates, size, rounding):
    assume(not (mode == "nearest" and coordinates == "pytorch_half_pixel"))
    x = floats(2, 3, 8, 7)
    constants = {"roi": np.array([], "float32"), "s": np.array([], "float32")}
    constants["sizes"] = np.array([2, 3, *size])
    model = one_node(
        "Resize", {"x": x}, constants=constants, opset=13, mode=mode, nearest_mode=rounding,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    if mode == "nearest":
        # Positions right between two elements: single precision decides in onnxruntime.
        actual, expected = imported(model, {"x": x})[0], reference(model, {"x": x})[0]
        assert (np.abs(actual - expected) > 1e-6).mean() < 0.35
    else:
        compare(model, {"x": x}, atol=1e-4)


@pytest.mark.parametrize("scale", [2.0, 3.0])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_symbolic_images(mode, scale):
    x = floats(1, 2, 5, 6)
    constants = {"roi": np.array([], "float32"), "s": np.array([1, 1, scale, scale], "float32")}
    model = one_node(
        "Resize", {"x": x}, constants=constants, opset=13, mode=mode, nearest_mode="floor",
        coordinate_transformation_mode="asymmetric", shapes={"x": ["n", 2, "h", "w"]},
    )  # fmt: skip
    compare(model, {"x": x})


@pytest.mark.parametrize("indices", [[0, 2, -1], [-4, 3], [[1, -2], [0, 0]]])
@pytest.mark.parametrize("as_constant", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_with_negative_indices(indices, as_constant, axis):
    x, places = floats(4, 5, 6), np.array(indices)
    feed = {"x": x} if as_constant else {"x": x, "i": places}
    constants = {"i": places} if as_constant else None
    model = one_node("Gather", feed, constants=constants, axis=axis, shapes={"x": [4, "n", 6]})
    compare(model, feed)


@pytest.mark.parametrize("exponent", [0.5, 1, 2, 3, -1, 2.5])
def test_power_with_constant_exponents(exponent):
    x = np.abs(floats(3, 5)) + 0.1
    compare(one_node("Pow", {"x": x}, constants={"e": np.array(exponent, "float32")}), {"x": x})


@pytest.mark.parametrize(("base", "exponent"), [("int64", "float32"), ("float32", "int64")])
def test_power_of_mixed_types(base, exponent):
    feed = {"x": np.array([1, 2, 3]).astype(base), "e": np.array([2, 3, 2]).astype(exponent)}
    compare(one_node("Pow", feed), feed)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent(operator, gates, direction):
    """All inputs: weights, biases, lengths, initial states; odd sizes."""
    count, hidden, steps, batch, inputs = 2 if direction == "bidirectional" else 1, 5, 4, 3, 7
    constants = {
        "w": floats(count, gates * hidden, inputs), "r": floats(count, gates * hidden, hidden),
        "b": floats(count, 2 * gates * hidden), "lengths": np.array([4, 0, 3], "int32"),
        "h": floats(count, batch, hidden),
    }  # fmt: skip
    outputs = 2
    if operator == "LSTM":
        constants |= {"c": floats(count, batch, hidden), "p": floats(count, 3 * hidden)}
        outputs = 3
    x = floats(steps, batch, inputs)
    model = one_node(
        operator, {"x": x}, outputs, constants, hidden_size=hidden, direction=direction
    )
    compare(model, {"x": x}, rtol=1e-3)


@pytest.mark.parametrize("before", [0, 1])
def test_gru_reset_after(before):
    constants = {"w": floats(1, 9, 4), "r": floats(1, 9, 3), "b": floats(1, 18)}
    x = floats(3, 2, 4)
    model = one_node("GRU", {"x": x}, 2, constants, hidden_size=3, linear_before_reset=before)
    compare(model, {"x": x}, rtol=1e-3)


@pytest.mark.parametrize(
    "equation",
    ["ij,jk->ik", "bij,bjk->bik", "...ij,...jk->...ik", "ij->ji", "ii->i", "ij,ij", "i,j->ij"],
)
def test_einsum(equation):
    terms = equation.partition("->")[0].split(",")
    feed = {}
    for number, term in enumerate(terms):
        sizes = [2, 3] if "..." in term else []
        feed[f"x{number}"] = floats(*sizes, *[4 for _ in term.replace("...", "")])
    compare(one_node("Einsum", feed, equation=equation), feed)


@pytest.mark.parametrize("padding", ["constant", "reflect", "edge"])
def test_pad(padding):
    x = floats(3, 4, 5)
    constants = {"p": np.array([0, 2, 1, 1, 0, 2])}
    compare(one_node("Pad", {"x": x}, constants=constants, mode=padding), {"x": x})


def test_quantised_linear_layer():
    """Quantise, multiply integers, dequantise: as quantised exports are written."""
    from onnx import helper

    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
        helper.make_node("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=1),
        helper.make_node("MatMul", ["dx", "dw"], ["y"]),
    ]
    constants = {
        "sx": np.array(0.05, "float32"), "zx": np.array(128, "uint8"),
        "w": RNG.integers(-128, 127, (7, 5)).astype("int8"), "sw": np.abs(floats(5)) * 0.01,
        "zw": np.zeros(5, "int8"),
    }  # fmt: skip
    x = floats(3, 7)
    model = make_model(nodes, {"x": ("float32", ["n", 7])}, ["y"], constants)
    compare(model, {"x": x})


# Operators that optimised models contain

MICROSOFT = "com.microsoft"


@pytest.mark.parametrize("operator", ["Gelu", "FastGelu", "QuickGelu"])
def test_gelu_of_optimised_models(operator):
    x = floats(3, 9)
    compare(one_node(operator, {"x": x}, domain=MICROSOFT), {"x": x}, atol=1e-4)


def test_bias_gelu():
    feed = {"x": floats(3, 9), "b": floats(9)}
    compare(one_node("BiasGelu", feed, domain=MICROSOFT), feed)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(a, b):
    feed = {
        "a": floats(2, 4, 3) if a else floats(2, 3, 4),
        "b": floats(2, 5, 4) if b else floats(2, 4, 5),
    }
    model = one_node("FusedMatMul", feed, domain=MICROSOFT, transA=a, transB=b, alpha=0.5)
    compare(model, feed)


@pytest.mark.parametrize("bias", [False, True])
def test_skip_layer_normalization(bias):
    feed = {"x": floats(2, 5, 8), "skip": floats(2, 5, 8)}
    constants = {"gamma": floats(8), "beta": floats(8)}
    if bias:
        constants["bias"] = floats(8)
    model = one_node("SkipLayerNormalization", feed, 1, constants, domain=MICROSOFT, epsilon=1e-5)
    compare(model, feed)


def test_embed_layer_normalization():
    feed = {"ids": RNG.integers(0, 20, (2, 5)).astype("int32"), "kinds": np.zeros((2, 5), "int32")}
    constants = {
        "words": floats(20, 8), "places": floats(9, 8), "segments": floats(2, 8),
        "gamma": floats(8), "beta": floats(8),
    }  # fmt: skip
    model = one_node("EmbedLayerNormalization", feed, 2, constants, domain=MICROSOFT)
    compare(model, feed)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_optimised_models(masked, causal):
    feed = {"x": floats(2, 5, 12)}
    constants = {"w": floats(12, 36), "b": floats(36)}
    if masked:
        constants["mask"] = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], "int32")
    model = one_node(
        "Attention", feed, 1, constants, domain=MICROSOFT, num_heads=3, unidirectional=causal
    )
    compare(model, feed, atol=1e-4, rtol=1e-3)


def test_multi_head_attention():
    feed = {"q": floats(2, 5, 12), "k": floats(2, 7, 12), "v": floats(2, 7, 12)}
    model = one_node("MultiHeadAttention", feed, 1, domain=MICROSOFT, num_heads=4)
    compare(model, feed, atol=1e-4)


def test_fused_convolution():
    feed = {"x": floats(1, 3, 6, 6)}
    constants = {"w": floats(4, 3, 3, 3), "b": floats(4)}
    model = one_node(
        "FusedConv", feed, 1, constants, domain=MICROSOFT, activation="Relu", pads=[1, 1, 1, 1]
    )
    compare(model, feed)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("has_zero", [False, True])
def test_product_with_weights_of_few_bits(has_zero, bits):
    inner, outer, block = 48, 5, 16
    packed = RNG.integers(0, 256, (outer, inner // block, block * bits // 8)).astype("uint8")
    constants = {"b": packed, "s": np.abs(floats(outer * (inner // block))) * 0.1}
    if has_zero:
        size = -(-(inner // block) * bits // 8)
        constants["z"] = RNG.integers(0, 256, outer * size).astype("uint8")
    feed = {"a": floats(3, inner)}
    model = one_node(
        "MatMulNBits", feed, 1, constants, domain=MICROSOFT, K=inner, N=outer, bits=bits,
        block_size=block,
    )  # fmt: skip
    compare(model, feed, rtol=1e-2, atol=0.1 if bits == 8 else 1e-2)


def test_weights_of_four_bits():
    """DequantizeLinear of int4 constants, by blocks."""
    import onnx
    from onnx import helper

    values = RNG.integers(-8, 8, (6, 4))
    weight = helper.make_tensor("w", onnx.TensorProto.INT4, values.shape, values.ravel())
    scale = np.abs(floats(3, 4)) + 0.1
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=2),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    model = make_model(nodes, {"x": ("float32", [2, 6])}, ["y"], {"s": scale}, opset=21)
    model.graph.initializer.append(weight)
    model.ir_version = 10
    x = floats(2, 6)
    expected = x @ (values * np.repeat(scale, 2, axis=0)).astype("float32")
    np.testing.assert_allclose(imported(model, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)
