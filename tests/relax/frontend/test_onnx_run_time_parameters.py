"""Parameters of operators that are inputs of the model: compiled once, called with several values,
against onnxruntime.
"""

import numpy as np
import pytest
from onnx import helper

from tests.relax.frontend.onnx_reference import make_model, reference
from tilesmith import compile as compile_model
from tilesmith.driver import onnx_backend

RANDOM = np.random.default_rng(12)


def f32(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def i64(*values):
    return np.array(values, "int64")


def model_of(operator, inputs, opset=18, outputs=1, **attributes):
    names = [name if not name.startswith("_") else "" for name in inputs]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    used = {name: value for name, value in inputs.items() if not name.startswith("_")}
    return make_model([node], used, results, opset=opset)


def check(model, *calls):
    executable = compile_model(model, cache=False)
    names = [item.name for item in model.graph.input]
    for given in calls:
        expected = reference(model, dict(zip(names, given)))
        found = executable(*given)
        found = found if isinstance(found, tuple) else (found,)
        for one, other in zip(found, expected, strict=True):
            assert one.numpy().shape == other.shape and one.numpy().dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), other, rtol=2e-5, atol=2e-6)


X3 = ("float32", ["n", 3, 4])
AXES = {"x": X3, "axes": ("int64", [2])}
REDUCTIONS = ("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_of_reductions(name):
    keep = REDUCTIONS.index(name) % 2
    model = model_of(f"Reduce{name}", AXES, keepdims=keep)
    check(model, [f32(2, 3, 4), i64(0, 2)], [f32(5, 3, 4), i64(-1, 1)], [f32(2, 3, 4), i64(1, 0)])


def test_all_axes_are_reduced():
    model = model_of("ReduceSum", {"x": ("float32", [2, "m"]), "axes": ("int64", [2])}, keepdims=0)
    check(model, [f32(2, 5), i64(1, 0)], [f32(2, 3), i64(0, -1)])


@pytest.mark.parametrize("axes", [(0, 2), (-1, 1)])
def test_axes_of_squeeze_and_unsqueeze(axes):
    check(model_of("Unsqueeze", {"x": ("float32", ["n", 3]), "a": ("int64", [2])}),
          [f32(2, 3), i64(*axes)], [f32(4, 3), i64(3, 0)])  # fmt: skip
    inputs = {"x": ("float32", [1, "n", 1, 2]), "a": ("int64", [2])}
    check(model_of("Squeeze", inputs), [f32(1, 3, 1, 2), i64(0, 2)], [f32(1, 5, 1, 2), i64(-2, 0)])


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1, "reverse": 1}])
def test_axis_of_sums(attributes):
    model = model_of("CumSum", {"x": X3, "axis": ("int64", [])}, **attributes)
    check(model, *[[f32(2, 3, 4), np.array(axis)] for axis in (0, 1, -1)])


def test_axes_and_steps_of_slices():
    inputs = {"x": X3} | {name: ("int64", [2]) for name in ("begin", "end", "axes", "steps")}
    check(model_of("Slice", inputs),
          [f32(5, 3, 4), i64(1, 0), i64(4, 9), i64(0, 2), i64(1, 2)],
          [f32(5, 3, 4), i64(-1, 0), i64(-9, 2), i64(2, 1), i64(-1, 1)])  # fmt: skip


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads(mode):
    inputs = {"x": X3, "pads": ("int64", [6])}
    pads = [i64(1, 0, 2, 1, 2, 0), i64(0, 1, 0, 0, 0, 3)]
    if mode == "constant":
        pads.append(i64(-1, 0, 2, 0, -1, 0))
    check(model_of("Pad", inputs, 19, mode=mode), *[[f32(3, 3, 4), each] for each in pads])


def test_pads_along_axes_with_a_value():
    inputs = {"x": X3, "p": ("int64", [4]), "v": ("float32", []), "axes": ("int64", [2])}
    check(
        model_of("Pad", inputs), [f32(2, 3, 4), i64(1, 2, 0, 1), np.array(7, "float32"), i64(2, 0)]
    )


def test_center_crop_pad():
    inputs = {"x": ("float32", [5, 8]), "shape": ("int64", [2])}
    check(model_of("CenterCropPad", inputs), [f32(5, 8), i64(8, 5)], [f32(5, 8), i64(2, 11)])


@pytest.mark.parametrize("largest", [0, 1])
def test_k_of_top_k(largest):
    inputs = {"x": ("float32", [3, "n"]), "k": ("int64", [1])}
    model = model_of("TopK", inputs, outputs=2, largest=largest)
    check(model, [f32(3, 5), i64(2)], [f32(3, 7), i64(7)], [f32(3, 4), i64(1)])


@pytest.mark.parametrize("axis", [-1, 0])
def test_depth_of_one_hot(axis):
    inputs = {"i": ("int64", [2, 2]), "depth": ("int64", [1]), "values": ("float32", [2])}
    values = np.array([0.5, 3], "float32")
    places = i64(0, 2, -1, 1).reshape(2, 2)
    check(model_of("OneHot", inputs, axis=axis),
          [places, i64(3), values], [places, i64(6), values])  # fmt: skip


SCALES = {"x": ("float32", [1, 2, "h", "w"]), "_roi": None, "scales": ("float32", [4])}
SIZES = {"x": ("float32", [1, 2, "h", "w"]), "_roi": None, "_s": None, "sizes": ("int64", [4])}
MODES = [
    {"mode": "nearest"},
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
]


@pytest.mark.parametrize("attributes", MODES, ids=lambda each: "-".join(map(str, each.values())))
def test_scales_and_sizes_of_resize(attributes):
    scales = [np.array(pair, "float32") for pair in ((1, 1, 2, 1.5), (1, 1, 0.6, 0.5))]
    check(model_of("Resize", SCALES, **attributes),
          [f32(1, 2, 4, 6), scales[0]], [f32(1, 2, 5, 4), scales[1]])  # fmt: skip
    if "antialias" not in attributes:
        check(model_of("Resize", SIZES, **attributes), [f32(1, 2, 4, 6), i64(1, 2, 7, 3)])


def test_a_region_of_resize():
    inputs = {
        "x": ("float32", [1, 1, 5, 5]), "roi": ("float32", [8]), "_s": None, "z": ("int64", [4]),
    }  # fmt: skip
    mode = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    region = np.array([0, 0, 0.2, 0.3, 1, 1, 0.9, 1.2], "float32")
    check(model_of("Resize", inputs, **mode), [f32(1, 1, 5, 5), region, i64(1, 1, 3, 4)])


def test_regions_of_pooling():
    inputs = {"x": ("float32", [2, 3, 7, 9]), "r": ("float32", ["n", 5])}
    model = model_of("MaxRoiPool", inputs, pooled_shape=[2, 3], spatial_scale=0.5)
    regions = np.array([[0, 1, 2, 12, 9], [1, 0, 0, 17, 13], [1, 8, 4, 8, 4]], "float32")
    check(model, [f32(2, 3, 7, 9), regions], [f32(2, 3, 7, 9), regions[:1]])


def test_drawing_by_probabilities():
    """Each class is drawn about as often as its probability says, the same ones each time."""
    model = model_of("Multinomial", {"x": ("float32", [2, 4])}, sample_size=2000, seed=3.0)
    shares = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.3, 0, 0]], "float32")
    executable = compile_model(model, cache=False)
    found = executable(np.log(shares + 1e-30)).numpy()
    for row, expected in zip(found, shares):
        np.testing.assert_allclose(np.bincount(row, minlength=4) / 2000, expected, atol=0.05)
    np.testing.assert_array_equal(executable(np.log(shares + 1e-30)).numpy(), found)


def test_a_parameter_that_decides_the_rank_of_nothing_known():
    """Where one program cannot serve all values, the backend compiles one for each of them."""
    inputs = {"x": ("float32", [1, 12, 1]), "step": ("int64", []), "_w": None, "n": ("int64", [])}
    model = model_of("STFT", inputs, 17)
    prepared = onnx_backend.prepare(model)
    x = f32(1, 12, 1)
    for step in (2, 4, 2):
        (found,) = prepared.run([x, np.array(step), np.array(4)])
        assert prepared.specialised == "values"
        expected = reference(model, {"x": x, "step": np.array(step), "n": np.array(4)})
        np.testing.assert_allclose(found, expected[0], rtol=1e-4, atol=1e-5)
