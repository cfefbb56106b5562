"""Regions of images against the references of `topi.testing` and onnxruntime."""

import numpy as np
import pytest

import tilesmith as ts
from tests.topi.harness import Case, check, real
from tilesmith import te, topi
from tilesmith.support.errors import OutOfBoundsError, ShapeError, UnsupportedError
from tilesmith.topi import testing

IMAGE = real(2, 3, 7, 6)
ROIS = np.array(
    [[0, 1, 2, 9, 11], [1, -3, 0.5, 4, 30], [1, 5, 5, 5, 5], [0, 40, 40, 50, 60]], "float32"
)

CASES = [
    *[
        Case(
            f"roi_align_{layout}_{mode}_{ratio}",
            lambda x, r, f=function, m=mode, k=ratio: f(x, r, (2, 3), 0.5, m, k),
            lambda x, r, w=reference, m=mode, k=ratio: w(x, r, (2, 3), 0.5, k, m),
            (IMAGE, ROIS),
            1e-3,
        )
        for layout, function, reference in (
            ("nchw", topi.vision.roi_align_nchw, testing.roi_align_nchw_python),
            ("nhwc", topi.vision.roi_align_nhwc, testing.roi_align_nhwc_python),
        )
        for mode in ("avg", b"max")
        for ratio in (2, -1)
    ],
    Case(
        "roi_pool",
        lambda x, r: topi.vision.roi_pool_nchw(x, r, (2, 3), 0.5),
        lambda x, r: testing.roi_pool_nchw_python(x, r, (2, 3), 0.5),
        (IMAGE, ROIS),
    ),
    Case(
        "reorg",
        lambda x: topi.vision.reorg(x, 2),
        lambda x: testing.reorg_python(x, 2),
        (real(2, 8, 4, 6),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_against_the_references(case):
    check(case)


def aligned(rois, mode, image=IMAGE[:1, :1], pooled=(1, 1)):
    x, r = te.placeholder(image.shape, name="x"), te.placeholder(rois.shape, name="r")
    made = topi.vision.roi_align_nchw(x, r, pooled, 1.0, mode, 0)
    library = ts.build(te.create_prim_func([x, r, made]), target="llvm")
    out = ts.nd.array(np.zeros((len(rois), image.shape[1], *pooled), "float32"))
    library(ts.nd.array(image), ts.nd.array(rois), out)
    return out.numpy()


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_far_larger_than_the_image(mode):
    """Only samples in the image are visited; the others count as 0."""
    rois = np.float32(
        [[0, 0, -9000, 6, 9000], [0, -20, -30, 40, 50], [0, 300, 1, 900, 5], [0, -50, -50, 1, 1]]
    )
    image = IMAGE[:1, :1] - 3  # without samples outside, the largest is negative
    for pooled in ((1, 1), (2, 3)):
        want = testing.roi_align_nchw_python(image, rois, pooled, 1.0, 0, mode)
        got = aligned(rois, mode, image, pooled)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_absurd_regions_end():
    """A loop over all samples of the last one would run for days."""
    far = 3.0e38
    corners = [[far] * 4, [-far, 0, -far, 4], [2, far, 4, -far], [-8e6, -8e6, 8e6, 8e6]]
    rois = np.float32([[0, *one] for one in corners])
    got = aligned(rois, "avg")
    np.testing.assert_allclose(got[:, 0, 0, 0], 0, atol=1e-6)


@pytest.mark.parametrize(
    "roi",
    [[-9e7, 0, 9e7, 4], [0, 0, 4, np.inf], [0, np.nan, 4, 4], [0, 0, np.nan, 4], [np.inf] * 4],
)
def test_regions_without_a_number_of_samples_are_an_error(roi):
    with pytest.raises(OutOfBoundsError, match="roi_align: the region 1 has more than 16777216"):
        aligned(np.float32([[0, 0, 0, 3, 3], [0, *roi]]), "avg")


def run_onnx(operator, inputs, **attributes):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    named = {f"x{k}": value for k, value in enumerate(inputs)}
    values = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in named.items()
    ]
    node = onnx.helper.make_node(operator, list(named), ["y"], **attributes)
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "regions", values, [out])
    opsets = [onnx.helper.make_opsetid("", 16)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, named)[0]


@pytest.mark.parametrize("ratio", [2, 0])
def test_the_reference_of_samples_agrees_with_onnxruntime(ratio):
    images = ROIS[:, 0].astype("int64")
    want = run_onnx(
        "RoiAlign", [IMAGE, ROIS[:, 1:].copy(), images], output_height=2, output_width=3,
        sampling_ratio=ratio, spatial_scale=0.5, coordinate_transformation_mode="output_half_pixel",
    )  # fmt: skip
    got = testing.roi_align_nchw_python(IMAGE, ROIS, (2, 3), 0.5, ratio)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_the_reference_of_the_largest_pixels_agrees_with_onnxruntime():
    want = run_onnx("MaxRoiPool", [IMAGE, ROIS[:3]], pooled_shape=[2, 3], spatial_scale=0.5)
    got = testing.roi_pool_nchw_python(IMAGE, ROIS[:3], (2, 3), 0.5)
    np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("name", ["roi_align", "roi_pool"])
def test_an_image_that_is_not_there_is_an_error(name):
    x, r = te.placeholder(IMAGE.shape, name="x"), te.placeholder((1, 5), name="r")
    if name == "roi_align":
        made = topi.vision.roi_align_nchw(x, r, 2, 1.0, "avg", 2)
    else:
        made = topi.vision.roi_pool_nchw(x, r, 2, 1.0)
    library = ts.build(te.create_prim_func([x, r, made]), target="llvm")
    rois, out = np.float32([[2, 0, 0, 3, 3]]), ts.nd.array(np.zeros((1, 3, 2, 2), "float32"))
    with pytest.raises(OutOfBoundsError, match=f"{name}: the index 2"):
        library(ts.nd.array(IMAGE), ts.nd.array(rois), out)


@pytest.mark.parametrize(
    "build, error",
    [
        (lambda x: topi.vision.roi_align_nchw(x, x, 2, 1.0, "avg"), ShapeError),
        (lambda x: topi.vision.roi_align_nchw(x, x, 2, 1.0, "sum"), UnsupportedError),
        (lambda x: topi.vision.roi_pool_nchw(x, x, 2, 1.0), ShapeError),
        (lambda x: topi.vision.reorg(x, 2), ShapeError),
    ],
)
def test_what_does_not_fit_is_refused(build, error):
    with pytest.raises(error):
        build(te.placeholder(IMAGE.shape, name="x"))
