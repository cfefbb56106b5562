"""relay.frontend.from_keras: layers and models, against Keras' own results (on torch)."""

import os
import sys

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers as L

import tilesmith as ts
from tilesmith import relay
from tilesmith.contrib import graph_executor
from tilesmith.ir import IRModule
from tilesmith.relax import interpreter
from tilesmith.relay.frontend.activations import ACTIVATIONS
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import (
    ConfigError,
    MissingDependencyError,
    OpNotImplemented,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

RNG = np.random.default_rng(7)


def interpreted(mod, params, *inputs):
    """What a module computes, by the interpreter, as a list."""
    main = mod["main"]
    values = [params[one.name_hint].numpy() for one in main.params[len(inputs) :]]
    found = interpreter.run(relay.to_relax(mod), "main", *inputs, *values)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def first(x):
    """Move the channels of an image to axis 1."""
    return np.moveaxis(x, -1, 1) if x.ndim == 4 else x


def filled(model):
    """Give all weights values that tell them apart, variances positive ones."""
    for variable in model.variables:
        if "seed" in variable.path:
            continue
        low = 0.5 if "variance" in variable.path else -0.5
        variable.assign(RNG.uniform(low, low + 1, variable.shape).astype(variable.dtype))
    return model


def check(model, inputs, layout="NHWC", tolerance=1e-4):
    """Compare an imported model with Keras' own results; return the module and the weights."""
    filled(model)
    moved = first if layout == "NCHW" else lambda x: x
    given = [moved(x) for x in inputs]
    shapes = {one.name: x.shape for one, x in zip(model.inputs, given)}
    mod, params = relay.frontend.from_keras(model, shapes, layout)
    wanted = model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)
    wanted = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    found = interpreted(mod, params, *given)
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted):
        want = moved(keras.ops.convert_to_numpy(want))
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)
    return mod, params


def values(*shape, dtype="float32"):
    if dtype.startswith("int"):
        return RNG.integers(0, 7, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def model_of(layer, x):
    start = keras.Input(batch_shape=x.shape, dtype=str(x.dtype))
    return keras.Model(start, layer(start))


LINE, IMAGE, SPACE = (2, 9, 3), (2, 9, 7, 4), (1, 5, 6, 4, 2)

LAYERS = {
    "dense": (lambda: L.Dense(5, activation="tanh"), (3, 7)),
    "dense of images": (lambda: L.Dense(5, use_bias=False), IMAGE),
    "einsum": (lambda: L.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), LINE),
    "einsum of dots": (lambda: L.EinsumDense("...x,xyz->...yz", (9, 2, 4)), LINE),
    "conv1d": (lambda: L.Conv1D(5, 3, 2, "same", activation="relu"), LINE),
    "conv1d causal": (lambda: L.Conv1D(5, 3, padding="causal", dilation_rate=2), LINE),
    "conv2d": (lambda: L.Conv2D(5, (3, 2), (2, 3), "same"), IMAGE),
    "conv2d softmax": (lambda: L.Conv2D(5, 3, activation="softmax"), IMAGE),
    "conv2d groups": (lambda: L.Conv2D(6, 3, groups=2, dilation_rate=2), IMAGE),
    "conv3d": (lambda: L.Conv3D(3, (2, 3, 2), padding="same"), SPACE),
    "depthwise1d": (lambda: L.DepthwiseConv1D(3, depth_multiplier=2), LINE),
    "depthwise2d": (lambda: L.DepthwiseConv2D(3, 2, "same", depth_multiplier=2), IMAGE),
    "separable1d": (lambda: L.SeparableConv1D(5, 3, 2, "same"), LINE),
    "separable2d": (lambda: L.SeparableConv2D(5, 3, depth_multiplier=2, activation="elu"), IMAGE),
    "transposed1d": (lambda: L.Conv1DTranspose(5, 3, 2, "same"), LINE),
    "transposed2d": (lambda: L.Conv2DTranspose(5, (3, 2), 2), IMAGE),
    "transposed2d same": (lambda: L.Conv2DTranspose(5, 3, 2, "same", activation="relu"), IMAGE),
    "transposed2d even": (lambda: L.Conv2DTranspose(3, 4, 2, "same"), IMAGE),
    "transposed2d small": (lambda: L.Conv2DTranspose(3, 2, 3, "same"), IMAGE),
    "transposed2d more": (lambda: L.Conv2DTranspose(3, 3, 2, "same", output_padding=1), IMAGE),
    "transposed2d dilated": (lambda: L.Conv2DTranspose(3, 3, 1, dilation_rate=2), IMAGE),
    "transposed3d": (lambda: L.Conv3DTranspose(3, 3, 2, "same"), SPACE),
    "max1d": (lambda: L.MaxPooling1D(2), LINE),
    "max2d": (lambda: L.MaxPooling2D(3, 2, "same"), IMAGE),
    "max3d": (lambda: L.MaxPooling3D(2), SPACE),
    "average1d": (lambda: L.AveragePooling1D(3, 2, "same"), LINE),
    "average2d": (lambda: L.AveragePooling2D((3, 5), 1, "same"), IMAGE),
    "average3d": (lambda: L.AveragePooling3D(2), SPACE),
    "global max1d": (L.GlobalMaxPooling1D, LINE),
    "global max2d": (lambda: L.GlobalMaxPooling2D(keepdims=True), IMAGE),
    "global average2d": (L.GlobalAveragePooling2D, IMAGE),
    "global average3d": (lambda: L.GlobalAveragePooling3D(keepdims=True), SPACE),
    "adaptive average": (lambda: L.AdaptiveAveragePooling2D((2, 3)), IMAGE),
    "adaptive max": (lambda: L.AdaptiveMaxPooling1D(4), LINE),
    "padding1d": (lambda: L.ZeroPadding1D((1, 2)), LINE),
    "padding2d": (lambda: L.ZeroPadding2D(((1, 0), (2, 3))), IMAGE),
    "padding3d": (lambda: L.ZeroPadding3D(1), SPACE),
    "cropping1d": (lambda: L.Cropping1D((1, 2)), LINE),
    "cropping2d": (lambda: L.Cropping2D(((1, 0), (2, 3))), IMAGE),
    "cropping3d": (lambda: L.Cropping3D(1), SPACE),
    "upsampling1d": (lambda: L.UpSampling1D(3), LINE),
    "upsampling2d": (lambda: L.UpSampling2D((2, 3)), IMAGE),
    "upsampling2d bilinear": (lambda: L.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    "upsampling3d": (lambda: L.UpSampling3D((1, 2, 2)), SPACE),
    "center crop": (lambda: L.CenterCrop(4, 5), IMAGE),
    "batch norm": (L.BatchNormalization, IMAGE),
    "batch norm axis": (lambda: L.BatchNormalization(axis=1, scale=False, center=False), IMAGE),
    "layer norm": (L.LayerNormalization, LINE),
    "layer norm axes": (lambda: L.LayerNormalization(axis=[1, 3], center=False), IMAGE),
    "group norm": (lambda: L.GroupNormalization(2), IMAGE),
    "instance norm": (lambda: L.GroupNormalization(-1, epsilon=1e-5), IMAGE),
    "rms norm": (L.RMSNormalization, LINE),
    "unit norm": (lambda: L.UnitNormalization(axis=-1), LINE),
    "normalization": (lambda: L.Normalization(mean=[1.0, 2, 3], variance=[1.0, 4, 9]), LINE),
    "rescaling": (lambda: L.Rescaling(1 / 127.5, offset=-1.0), IMAGE),
    "relu layer": (lambda: L.ReLU(max_value=1.5, negative_slope=0.25, threshold=0.5), IMAGE),
    "leaky relu layer": (lambda: L.LeakyReLU(negative_slope=0.1), IMAGE),
    "elu layer": (lambda: L.ELU(alpha=0.5), LINE),
    "prelu": (lambda: L.PReLU(shared_axes=[1, 2]), IMAGE),
    "softmax layer": (lambda: L.Softmax(axis=1), LINE),
    "softmax of images": (L.Softmax, IMAGE),
    "flatten": (L.Flatten, IMAGE),
    "reshape": (lambda: L.Reshape((-1, 14)), IMAGE),
    "permute": (lambda: L.Permute((3, 1, 2)), IMAGE),
    "repeat": (lambda: L.RepeatVector(3), (2, 5)),
    "dropout": (lambda: L.Dropout(0.5), LINE),
    "spatial dropout": (lambda: L.SpatialDropout2D(0.5), IMAGE),
    "noise": (lambda: L.GaussianNoise(0.5), LINE),
    "spectral norm": (lambda: L.SpectralNormalization(L.Conv2D(3, 3)), IMAGE),
    "simple rnn": (lambda: L.SimpleRNN(5), LINE),
    "lstm": (lambda: L.LSTM(5), LINE),
    "lstm sequences": (lambda: L.LSTM(5, return_sequences=True, go_backwards=True), LINE),
    "lstm states": (lambda: L.LSTM(5, return_state=True, use_bias=False), LINE),
    "gru": (lambda: L.GRU(5, return_sequences=True), LINE),
    "gru before": (lambda: L.GRU(5, reset_after=False, activation="relu"), LINE),
    "stacked": (lambda: L.RNN([L.LSTMCell(4), L.GRUCell(3)], return_sequences=True), LINE),
    "bidirectional": (lambda: L.Bidirectional(L.LSTM(4, return_sequences=True)), LINE),
    "bidirectional sum": (lambda: L.Bidirectional(L.GRU(4), merge_mode="sum"), LINE),
    "time distributed": (lambda: L.TimeDistributed(L.Conv2D(3, 2)), SPACE),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_agrees_with_keras(name):
    make, shape = LAYERS[name]
    x = values(*shape)
    check(model_of(make(), x), [x])
    if len(shape) == 4:
        check(model_of(make(), x), [x], "NCHW")


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - {"threshold"}))
def test_activations_agree_with_keras(name):
    x = values(3, 6) * 3
    check(model_of(L.Activation(name), x), [x])


MERGES = {
    "add": (lambda: L.Add(), [(2, 5, 3), (2, 5, 1)]),
    "add images": (lambda: L.Add(), [IMAGE, IMAGE, IMAGE]),
    "subtract": (lambda: L.Subtract(), [IMAGE, IMAGE]),
    "multiply": (lambda: L.Multiply(), [(2, 5, 3), (2, 3)]),
    "average": (lambda: L.Average(), [IMAGE, IMAGE, IMAGE]),
    "maximum": (lambda: L.Maximum(), [(2, 5), (2, 5)]),
    "minimum": (lambda: L.Minimum(), [(2, 5), (2, 5)]),
    "concatenate": (lambda: L.Concatenate(), [IMAGE, (2, 9, 7, 3)]),
    "concatenate rows": (lambda: L.Concatenate(axis=1), [IMAGE, (2, 3, 7, 4)]),
    "dot": (lambda: L.Dot(axes=1), [(2, 5), (2, 5)]),
    "dot of matrices": (lambda: L.Dot(axes=(2, 1)), [(2, 4, 5), (2, 5, 3)]),
    "cosine": (lambda: L.Dot(axes=-1, normalize=True), [(2, 4, 5), (2, 3, 5)]),
    "attention": (lambda: L.Attention(use_scale=True), [(2, 4, 5), (2, 3, 5)]),
    "attention concat": (lambda: L.Attention(score_mode="concat"), [(2, 4, 5), (2, 3, 5)]),
    "additive attention": (lambda: L.AdditiveAttention(), [(2, 4, 5), (2, 3, 5), (2, 3, 5)]),
}


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_agrees_with_keras(name):
    make, shapes = MERGES[name]
    inputs = [values(*shape) for shape in shapes]
    for layout in ("NHWC", "NCHW"):
        starts = [keras.Input(batch_shape=x.shape) for x in inputs]
        check(keras.Model(starts, make()(starts)), inputs, layout)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_several_heads(causal):
    query, value = values(2, 5, 6), values(2, 5, 7)
    a, b = keras.Input((5, 6)), keras.Input((5, 7))
    heads = L.MultiHeadAttention(3, 4, value_dim=2)
    found, scores = heads(a, b, use_causal_mask=causal, return_attention_scores=True)
    check(keras.Model([a, b], [found, scores]), [query, value])
    groups = L.GroupQueryAttention(4, 4, 2)
    check(keras.Model(a, groups(a, a)), [query])


def test_recurrent_layers_take_states():
    x, h, c = values(2, 4, 3), values(2, 5), values(2, 5)
    starts = [keras.Input((4, 3)), keras.Input((5,)), keras.Input((5,))]
    states = L.LSTM(5, return_state=True)(starts[0], initial_state=starts[1:])
    check(keras.Model(starts, list(states)), [x, h, c])


def residual():
    """A convolutional model with a branch, a nested model and operations between layers."""
    start = keras.Input((9, 7, 3), name="image")
    x = L.Conv2D(4, 3, 2, "same", use_bias=False)(start)
    x = L.ReLU()(L.BatchNormalization()(x))
    inner = keras.Sequential([L.DepthwiseConv2D(3, padding="same"), L.Conv2D(4, 1)])
    y = inner(x)
    x = keras.ops.relu(x + inner(y)) * 0.5
    x = L.Concatenate()([x, y])
    return keras.Model(start, L.Dense(5, activation="softmax")(L.Flatten()(x)))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_models_nest_and_run_as_native_code(layout):
    model, x = residual(), values(2, 9, 7, 3)
    mod, params = check(model, [x], layout)
    if layout == "NHWC":  # the interpreter has run it
        return
    lib = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.run(image=first(x))
    wanted = keras.ops.convert_to_numpy(model(x, training=False))
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_channels_stay_at_axis_1_through_a_network():
    mod, _ = relay.frontend.from_keras(residual(), {"image": (1, 3, 9, 7)})
    names = [one.op.name for one in post_order(mod["main"].body) if isinstance(one, relay.Call)
             and hasattr(one.op, "name")]  # fmt: skip
    assert names.count("transpose") == 1  # before the elements are put in a row


def test_a_text_model():
    """One layer of a transformer on embedded words."""
    ids = keras.Input((6,), dtype="int32")
    x = L.Embedding(11, 8)(ids) + L.Embedding(6, 8)(np.arange(6))
    x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x))
    x = L.LayerNormalization()(x + L.Dense(8)(L.Dense(16, activation="gelu")(x)))
    model = keras.Model(ids, keras.ops.mean(x, axis=1))
    check(model, [values(3, 6, dtype="int32")])


OPERATIONS = {
    "slices": lambda x: x[:, 1:-1, None, ::2],
    "a number": lambda x: x[:, -1],
    "reshape": lambda x: keras.ops.reshape(x, (-1, 21)),
    "transpose": lambda x: keras.ops.transpose(x, (0, 2, 1)),
    "swap": lambda x: keras.ops.swapaxes(x, 1, 2),
    "expand": lambda x: keras.ops.squeeze(keras.ops.expand_dims(x, 1), 1),
    "sums": lambda x: keras.ops.sum(x, axis=(1, -1), keepdims=True) - keras.ops.max(x),
    "spread": lambda x: keras.ops.std(x, axis=1) + keras.ops.var(x, axis=1),
    "where": lambda x: keras.ops.where(x > 0.5, x, 2.0) + keras.ops.clip(x, -1, 1),
    "argmax": lambda x: keras.ops.argmax(x, axis=-1),
    "matmul": lambda x: keras.ops.matmul(x, keras.ops.transpose(x, (0, 2, 1))),
    "einsum": lambda x: keras.ops.einsum("bij,bkj->bik", x, x),
    "pieces": lambda x: keras.ops.concatenate(keras.ops.split(x, 3, axis=2)[::-1], axis=1),
    "stack": lambda x: keras.ops.stack([x, keras.ops.flip(x, axis=1)], axis=2),
    "repeat": lambda x: keras.ops.tile(keras.ops.repeat(x, 2, axis=1), (1, 2, 1)),
    "numbers": lambda x: (1 - x) / 2 + x**2 - keras.ops.exp(-x) + keras.ops.log1p(x * x),
    "takes": lambda x: keras.ops.take(x, np.array([2, 0]), axis=1),
    "cast": lambda x: keras.ops.cast(x > 0, "float32") + keras.ops.cumsum(x, axis=1),
    "threshold": lambda x: keras.ops.threshold(x, 0.3, 7.0) + keras.ops.elu(x, alpha=0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_between_layers(name):
    start = keras.Input(batch_shape=(2, 7, 3))
    check(keras.Model(start, OPERATIONS[name](start)), [values(2, 7, 3)])


def test_a_model_with_its_channels_first():
    start = keras.Input((3, 8, 8))
    x = L.Conv2D(4, 3, data_format="channels_first")(start)
    model = keras.Model(start, L.Flatten(data_format="channels_first")(x))
    x = values(1, 3, 8, 8)
    filled(model)
    mod, params = relay.frontend.from_keras(model)
    expected = keras.ops.convert_to_numpy(model(x, training=False))
    np.testing.assert_allclose(interpreted(mod, params, x)[0], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UnsupportedError, match="channels first"):
        relay.frontend.from_keras(model, layout="NHWC")


def test_uneven_padding_does_not_count_in_a_mean():
    """As TensorFlow and JAX compute it; the torch backend repeats the edge instead."""
    start = keras.Input((3, 1))
    model = keras.Model(start, L.AveragePooling1D(2, 2, "same")(start))
    mod, params = relay.frontend.from_keras(model)
    x = np.array([[[1.0], [2], [5]]], "float32")
    np.testing.assert_array_equal(interpreted(mod, params, x)[0].ravel(), [1.5, 5])


def test_a_long_sequence_is_no_deep_recursion():
    start = keras.Input((60, 2))
    model = keras.Model(start, L.GRU(2)(L.LSTM(2, return_sequences=True)(start)))
    mod, _ = relay.frontend.from_keras(model)
    assert list(mod["main"].checked_type.ret_type.concrete_shape) == [1, 2]


def test_half_precision_layers():
    start = keras.Input((6,))
    model = keras.Model(start, L.Dense(3, dtype="float16")(start))
    check(model, [values(2, 6)], tolerance=1e-2)


# Mistakes


class Own(L.Layer):
    def call(self, x):
        return x


def test_all_layers_that_cannot_be_imported_are_named():
    start = keras.Input((6,), dtype="int32")
    x = L.Embedding(9, 4, mask_zero=True, name="words")(start)
    x = L.Masking(name="masked")(x)
    model = keras.Model(start, Own(name="mine")(L.ConvLSTM1D(2, 1, name="deep")(x[:, None])))
    with pytest.raises(OpNotImplemented) as caught:
        relay.frontend.from_keras(model)
    for part in ("'words'", "mask_zero", "Masking ('masked')", "Own ('mine')", "'deep'"):
        assert part in caught.value.message
    assert "format='onnx'" in caught.value.notes[0]


def test_an_activation_of_ones_own_is_named():
    model = keras.Sequential([keras.Input((3,)), L.Dense(2, activation=lambda x: x, name="d")])
    with pytest.raises(OpNotImplemented, match="layer 'd'"):
        relay.frontend.from_keras(model)


def test_masks_are_refused():
    start, mask = keras.Input((5, 3)), keras.Input((5,), dtype="bool")
    model = keras.Model([start, mask], L.LSTM(2, name="rnn")(start, mask=mask))
    with pytest.raises(UnsupportedError, match="'rnn' is called with a mask"):
        relay.frontend.from_keras(model)


def test_mistakes_say_what_to_do(monkeypatch):
    model = keras.Sequential([keras.Input((None, 3), name="x"), L.Dense(2)])
    with pytest.raises(ShapeError, match="'x' is open"):
        relay.frontend.from_keras(model)
    with pytest.raises(ShapeError, match="has 3 axes"):
        relay.frontend.from_keras(model, {"x": (1, 3)})
    with pytest.raises(UnknownNameError, match="no input 'y'"):
        relay.frontend.from_keras(model, {"y": (1, 2, 3)})
    with pytest.raises(ConfigError, match="no layout"):
        relay.frontend.from_keras(model, layout="NCWH")
    with pytest.raises(TypeMismatchError, match="load_model"):
        relay.frontend.from_keras("model.keras")
    with pytest.raises(UnsupportedError, match="know its inputs"):
        relay.frontend.from_keras(keras.Sequential([L.Dense(2)]))
    mod, params = relay.frontend.from_keras(model, {"x": (1, 4, 3)})
    assert isinstance(mod, IRModule) and {name.split("/")[-1] for name in params} == {
        "kernel",
        "bias",
    }
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(MissingDependencyError, match="keras"):
        relay.frontend.from_keras(model)
