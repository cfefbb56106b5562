"""Positions and targets that come from data: NaN, infinities, classes that do not exist, paddings
wider than an axis. Nothing outside of a tensor is read."""

import numpy as np
import pytest

import tilesmith
from tests.relax.frontend.onnx_reference import imported, one_node, reference
from tilesmith.support.errors import (
    FrontendError,
    OutOfBoundsError,
    OutOfMemoryError,
    ShapeError,
)

IMAGE = np.arange(1, 26, dtype="float32").reshape(1, 1, 5, 5)
NONE = np.zeros(0, "float32")


def run(model, *inputs):
    return tilesmith.compile(model)(*inputs).numpy()


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample(mode, padding):
    grid = np.full((1, 1, 7, 2), 0.2, "float32")
    grid[0, 0, :, 0] = [np.nan, -1, np.inf, -np.inf, 1e30, -1e30, 0.1]
    model = one_node(
        "GridSample", {"x": IMAGE, "grid": grid}, opset=20, mode=mode, padding_mode=padding
    )
    # the many steps of the cubic one take long to compile with all checks
    (found,) = imported(model, {"x": IMAGE, "grid": grid}) if mode == "cubic" else (
        run(model, IMAGE, grid),
    )  # fmt: skip
    found = found.ravel()
    # NaN counts as -1 (in torch's documentation, and in onnxruntime)
    expected = reference(model, {"x": IMAGE, "grid": grid})[0].ravel()
    np.testing.assert_allclose(found[[0, 1, 6]], expected[[0, 1, 6]], rtol=1e-5)
    far = {"zeros": [0, 0, 0, 0], "border": [found[4], found[1], found[4], found[1]]}
    if padding in far:
        if padding == "border" and mode != "cubic":
            edge = {"linear": 17.5, "nearest": 15}[mode]
            assert found[4] == edge
        np.testing.assert_allclose(found[2:6], far[padding], atol=0.1)
    else:
        assert IMAGE.min() <= found.min() and found.max() <= IMAGE.max()


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode):
    regions = np.array([[0.5, 0.5, 3.5, 3.5]] * 13, "float32")
    for row, value in enumerate((np.nan, np.inf, -np.inf)):
        for corner in range(4):
            regions[1 + 4 * row + corner, corner] = value
    images = np.zeros(13, "int64")
    settings = {"output_height": 2, "output_width": 2, "sampling_ratio": 1, "mode": mode}
    model = one_node("RoiAlign", {"x": IMAGE, "r": regions, "b": images}, opset=16, **settings)
    executable = tilesmith.compile(model)
    found = executable(IMAGE, regions, images).numpy()
    plain = one_node(
        "RoiAlign", {"x": IMAGE, "r": regions[:1], "b": images[:1]}, opset=16, **settings
    )
    wanted = reference(plain, {"x": IMAGE, "r": regions[:1], "b": images[:1]})[0]
    np.testing.assert_allclose(found[:1], wanted, rtol=1e-5)
    np.testing.assert_array_equal(found[1:], 0)  # onnxruntime refuses them
    for wrong in (-1, 1, 2**40):
        with pytest.raises(OutOfBoundsError, match=f"the index {wrong} is outside"):
            executable(IMAGE, regions, np.full(13, wrong))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 0.3])
def test_deformed_convolution(value):
    offset = np.zeros((1, 8, 4, 4), "float32")
    offset[0, 0, 1, 1] = offset[0, 3, 2, 2] = value
    feed = {"x": IMAGE, "w": np.ones((1, 1, 2, 2), "float32"), "o": offset}
    model = one_node("DeformConv", feed, opset=19, kernel_shape=[2, 2])
    np.testing.assert_allclose(run(model, *feed.values()), reference(model, feed)[0], rtol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_of_nothing(mode):
    sizes = {"": NONE, "s": NONE, "n": np.array([1, 1, 3, 3])}
    empty = np.zeros((1, 1, 0, 4), "float32")
    symbolic = one_node(
        "Resize", {"x": empty}, constants=sizes, shapes={"x": [1, 1, "h", "w"]}, mode=mode
    )
    with pytest.raises(OutOfBoundsError, match="resize: there is nothing to read"):
        run(symbolic, empty)
    assert run(symbolic, IMAGE).shape == (1, 1, 3, 3)
    with pytest.raises(FrontendError, match="an axis of the size 0 cannot get the size 3"):
        run(one_node("Resize", {"x": empty}, constants=sizes, mode=mode), empty)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("value", [1e30, -1e30, 2.5, np.nan, np.inf])
def test_resize_of_regions(value, mode):
    region = np.array([0, 0, 0.1, 0.1, 1, 1, value, 0.9], "float32")
    constants = {"roi": region, "s": NONE, "n": np.array([1, 1, 3, 3])}
    model = one_node(
        "Resize", {"x": IMAGE}, constants=constants, mode=mode, extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    if not np.isfinite(value):
        with pytest.raises(FrontendError, match="not finite numbers"):
            tilesmith.compile(model)
        return
    found, wanted = run(model, IMAGE), reference(model, {"x": IMAGE})[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e38, float(2**31), np.inf, np.nan])
def test_scales_that_are_no_scales(scale):
    constants = {"": NONE, "s": np.array([1, 1, scale, 1], "float32")}
    for shapes in (None, {"x": [1, 1, "h", "w"]}):
        model = one_node("Resize", {"x": IMAGE}, constants=constants, shapes=shapes)
        with pytest.raises(FrontendError, match="are not all positive numbers"):
            tilesmith.compile(model)


def pad(mode, widths, rows, is_symbolic, columns=4):
    x = np.arange(rows * columns, dtype="float32").reshape(rows, columns)
    shapes = {"x": ["h", columns]} if is_symbolic else None
    constants = {"p": np.array(widths)}
    model = one_node("Pad", {"x": x}, constants=constants, shapes=shapes, opset=19, mode=mode)
    return model, x


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (2, 2), (3, 7), (3, 2), (5, 4)])
def test_mirrors_wider_than_an_axis(rows, width, is_symbolic):
    model, x = pad("reflect", [width, 0, width, 0], rows, is_symbolic)
    if width < rows:
        np.testing.assert_array_equal(run(model, x), reference(model, {"x": x})[0])
        return
    with pytest.raises(ShapeError, match=f"a padding of {width} does not fit an axis of size"):
        run(model, x)


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
@pytest.mark.parametrize("widths", [[-1, 0, 1, 0], [1, 0, -1, 0], [0, 2, 0, -1]])
def test_cut_before_it_is_padded(widths, mode, is_symbolic):
    model, x = pad(mode, widths, 3, is_symbolic)
    np.testing.assert_array_equal(run(model, x), reference(model, {"x": x})[0])


def test_more_cut_off_than_there_is():
    model, x = pad("constant", [-2, 0, -2, 0], 3, True)
    with pytest.raises(ShapeError, match="cannot have the shape"):
        run(model, x)


@pytest.mark.parametrize("stop", [2**62, 2**40])
def test_ranges_beyond_all_memory(stop):
    feed = {name: np.int64(value) for name, value in (("a", 0), ("b", stop), ("c", 1))}
    with pytest.raises((ShapeError, OutOfMemoryError), match="memory"):
        run(one_node("Range", feed), *feed.values())
