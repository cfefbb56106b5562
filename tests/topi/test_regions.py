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
