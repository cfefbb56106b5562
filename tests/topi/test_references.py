"""The references of `topi.testing` against torch, and computes of TOPI against the references."""

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, whole
from tilesmith import te, topi
from tilesmith.support.errors import ShapeError, UnknownNameError, UnsupportedError
from tilesmith.topi import testing

IMAGE = real(2, 4, 7, 6)
FILTER = real(6, 2, 3, 2, seed=1)
VOLUME = real(2, 2, 5, 4, 6)


def torch_result(function, *arrays, **settings):
    torch = pytest.importorskip("torch")
    module = torch.nn.functional
    given = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arrays]
    return getattr(module, function)(*given, **settings).numpy()


def close(got, want, rtol=1e-4):
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.astype("float64"), np.asarray(want, "float64"), rtol, 1e-5)


def pooled_gradient(x, g, kind, ceil, include):
    torch = pytest.importorskip("torch")
    data = torch.from_numpy(x).requires_grad_()
    settings = {"ceil_mode": ceil, "stride": (2, 2), "padding": (1, 0)}
    if kind == "avg":
        settings["count_include_pad"] = include
    made = getattr(torch.nn.functional, kind + "_pool2d")(data, (3, 2), **settings)
    made.backward(torch.from_numpy(g(tuple(made.shape))))
    return made.detach().numpy(), data.grad.numpy()


REFERENCES = {
    "conv1d": lambda: (
        testing.group_conv1d_ncw_python(real(2, 4, 9), real(6, 2, 3, seed=1), 2, 1, 2, 2),
        torch_result("conv1d", real(2, 4, 9), real(6, 2, 3, seed=1), None, 2, 1, 2, 2),
    ),
    "conv2d": lambda: (
        testing.conv2d_nchw_python(IMAGE, FILTER, (2, 1), (1, 2), 2),
        torch_result("conv2d", IMAGE, FILTER, None, (2, 1), (1, 2), 1, 2),
    ),
    "conv2d_nhwc": lambda: (
        testing.conv2d_nhwc_python(
            IMAGE.transpose(0, 2, 3, 1), FILTER.transpose(2, 3, 1, 0), 1, 0, 2
        ).transpose(0, 3, 1, 2),
        torch_result("conv2d", IMAGE, FILTER, None, 1, 0, 1, 2),
    ),
    "conv2d_hwcn": lambda: (
        testing.conv2d_hwcn_python(
            IMAGE.transpose(2, 3, 1, 0), real(3, 2, 4, 5, seed=2), 2, 1
        ).transpose(3, 2, 0, 1),
        torch_result(
            "conv2d", IMAGE, real(3, 2, 4, 5, seed=2).transpose(3, 2, 0, 1).copy(), None, 2, 1
        ),
    ),
    "conv3d": lambda: (
        testing.conv3d_ncdhw_python(VOLUME, real(3, 2, 2, 3, 2, seed=1), 2, 1),
        torch_result("conv3d", VOLUME, real(3, 2, 2, 3, 2, seed=1), None, 2, 1),
    ),
    "conv1d_transpose": lambda: (
        testing.group_conv1d_transpose_ncw_python(
            real(2, 4, 5), real(4, 3, 4, seed=1), 3, 1, (1,), 2
        ),
        torch_result("conv_transpose1d", real(2, 4, 5), real(4, 3, 4, seed=1), None, 3, 1, 1, 2),
    ),
    "conv2d_transpose": lambda: (
        testing.conv2d_transpose_nchw_python(
            IMAGE, real(4, 3, 3, 2, seed=1), (2, 3), (1, 1), (1, 0), 2
        ),
        torch_result(
            "conv_transpose2d", IMAGE, real(4, 3, 3, 2, seed=1), None, (2, 3), 1, (1, 0), 2
        ),
    ),
    "conv2d_transpose_nhwc": lambda: (
        testing.conv2d_transpose_nhwc_python(
            IMAGE.transpose(0, 2, 3, 1), real(3, 2, 5, 4, seed=1), "HWOI", 2, 0
        ).transpose(0, 3, 1, 2),
        torch_result(
            "conv_transpose2d", IMAGE, real(3, 2, 5, 4, seed=1).transpose(3, 2, 0, 1).copy(),
            None, 2
        ),
    ),
    "depthwise": lambda: (
        testing.depthwise_conv2d_python_nchw(IMAGE, real(4, 2, 3, 3, seed=1), 2, 1),
        torch_result("conv2d", IMAGE, real(8, 1, 3, 3, seed=1), None, 2, 1, 1, 4),
    ),
    "softmax": lambda: (testing.softmax_python(IMAGE, 2), torch_result("softmax", IMAGE, 2)),
    "log_softmax": lambda: (
        testing.log_softmax_python(IMAGE),
        torch_result("log_softmax", IMAGE, 1),
    ),
    "lrn": lambda: (
        testing.lrn_python(IMAGE, 3, 1, 2.0, 0.1, 0.75),
        torch_result("local_response_norm", IMAGE, 3, 0.1, 0.75, 2.0),
    ),
    "layer_norm": lambda: (
        testing.layer_norm_python(IMAGE, real(7, 6, seed=1), real(7, 6, seed=2), (2, 3)),
        torch_result("layer_norm", IMAGE, (7, 6), real(7, 6, seed=1), real(7, 6, seed=2)),
    ),
    "group_norm": lambda: (
        testing.group_norm_python(IMAGE, real(4, seed=1), real(4, seed=2), 2, 1, (2, 3)),
        torch_result("group_norm", IMAGE, 2, real(4, seed=1), real(4, seed=2)),
    ),
    "instance_norm": lambda: (
        testing.instance_norm_python(IMAGE, real(4, seed=1), real(4, seed=2), (2, 3)),
        torch_result(
            "instance_norm", IMAGE, None, None, real(4, seed=1), real(4, seed=2)
        ),
    ),
    "adaptive_pool": lambda: (
        testing.adaptive_pool(IMAGE, (3, 4), "avg", "NCHW"),
        torch_result("adaptive_avg_pool2d", IMAGE, (3, 4)),
    ),
    "adaptive_pool_last": lambda: (
        testing.adaptive_pool(IMAGE.transpose(0, 2, 3, 1), 2, "max", "NHWC").transpose(0, 3, 1, 2),
        torch_result("adaptive_max_pool2d", IMAGE, 2),
    ),
    "pool_max": lambda: (
        testing.poolnd_python(VOLUME, (3, 2, 2), (2, 1, 2), (1, 2, 1), (1, 0, 1), (1, 0, 1), "max"),
        torch_result("max_pool3d", VOLUME, (3, 2, 2), (2, 1, 2), (1, 0, 1), (1, 2, 1)),
    ),
    "resize": lambda: (
        testing.resize2d_python(IMAGE, (2, 1.5), "NCHW", "bilinear", "half_pixel"),
        torch_result("interpolate", IMAGE, (14, 9), mode="bilinear"),
    ),
    "resize_nearest": lambda: (
        testing.resize2d_python(IMAGE, (3, 0.5), coordinate_transformation_mode="asymmetric"),
        torch_result("interpolate", IMAGE, (21, 3), mode="nearest"),
    ),
    "resize3d_aligned": lambda: (
        testing.resize3d_python(VOLUME, (2, 2, 2), "NCDHW", "trilinear", "align_corners"),
        torch_result("interpolate", VOLUME, (10, 8, 12), mode="trilinear", align_corners=True),
    ),
    "affine_grid": lambda: (
        testing.affine_grid_python(real(2, 2, 3), (4, 5)),
        torch_result(
            "affine_grid", real(2, 2, 3), (2, 1, 4, 5), align_corners=True
        ).transpose(0, 3, 1, 2),
    ),
    "nll_loss": lambda: (
        testing.nll_loss(real(5, 4), np.array([0, 3, 1, 2, 3]), real(4, low=0.5), "mean", 1),
        torch_result(
            "nll_loss", real(5, 4), np.array([0, 3, 1, 2, 3]), real(4, low=0.5), ignore_index=1
        ),
    ),
    "attention": lambda: (
        testing.attention_python(
            real(2, 5, 4, 3), real(2, 6, 2, 3, seed=1), real(2, 6, 2, 3, seed=2), None, None, None
        ).transpose(0, 2, 1, 3),
        torch_result(
            "scaled_dot_product_attention",
            real(2, 5, 4, 3).transpose(0, 2, 1, 3).copy(),
            real(2, 6, 2, 3, seed=1).transpose(0, 2, 1, 3).copy(),
            real(2, 6, 2, 3, seed=2).transpose(0, 2, 1, 3).copy(),
            enable_gqa=True,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_references_agree_with_torch(name):
    got, want = REFERENCES[name]()
    close(got, want)


@pytest.mark.parametrize("kind, include", [("max", True), ("avg", True), ("avg", False)])
@pytest.mark.parametrize("ceil", [False, True])
def test_the_reference_of_pooling_and_of_its_gradient(kind, include, ceil):
    gradient = {}

    def random_gradient(shape):
        gradient["g"] = real(*shape, seed=5)
        return gradient["g"]

    want, want_gradient = pooled_gradient(IMAGE, random_gradient, kind, ceil, include)
    got = testing.poolnd_python(
        IMAGE, (3, 2), (2, 2), (1, 1), (1, 0), (1, 0), kind, include, ceil, layout="NCHW"
    )
    close(got, want)
    own = testing.pool_grad_nchw(
        IMAGE, gradient["g"], (3, 2), (2, 2), (1, 0, 1, 0), kind, ceil, include
    )
    close(own, want_gradient)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
def test_sampling_of_images(method, padding, aligned):
    grid = real(2, 2, 3, 5, low=-1.7, high=1.7)
    want = torch_result(
        "grid_sample", IMAGE, grid.transpose(0, 2, 3, 1).copy(), mode=method,
        padding_mode=padding, align_corners=aligned,
    )  # fmt: skip
    settings = (method, "NCHW", padding, aligned)
    close(testing.grid_sample_python(IMAGE, grid, *settings), want, 1e-3)
    check(
        Case(
            "grid_sample",
            lambda x, g: topi.image.grid_sample(x, g, *settings),
            lambda x, g: want,
            (IMAGE, grid),
            1e-3,
        )
    )


def test_sampling_of_volumes():
    grid = real(2, 3, 2, 3, 4, low=-1.5, high=1.5)
    want = torch_result(
        "grid_sample", VOLUME, grid.transpose(0, 2, 3, 4, 1).copy(), align_corners=False
    )
    settings = ("bilinear", "NCDHW", "zeros", False)
    close(testing.grid_sample_python(VOLUME, grid, *settings), want)
    case = Case(
        "volume",
        lambda x, g: topi.image.grid_sample(x, g, *settings),
        lambda *_: want,
        (VOLUME, grid),
        1e-4,
    )
    check(case)


BOXES = np.array([[0, 0, 1, 1], [0.2, 0.6, 0.9, 0.1], [-0.2, 0.1, 1.3, 0.8]], "float32")
OWNERS = np.array([1, 0, 1], "int32")
OFFSET = real(2, 2 * 3 * 2 * 2, 3, 5, low=-1.5, high=1.5)
LATER = real(2, 4, 7, 6, seed=9)

CASES = [
    Case(
        "affine_grid",
        lambda x: topi.image.affine_grid(x, (4, 5)),
        lambda x: testing.affine_grid_python(x, (4, 5)),
        (real(2, 2, 3),),
        1e-4,
    ),
    *[
        Case(
            f"crop_and_resize_{method}_{layout}_{size}",
            lambda x, b, i, m=method, y=layout, s=size: topi.image.crop_and_resize(
                x, b, i, s, y, m, 0.5
            ),
            lambda x, b, i, m=method, y=layout, s=size: testing.crop_and_resize_python(
                x, b, i, s, y, m, 0.5
            ),
            (IMAGE, BOXES, OWNERS),
            1e-3,
        )
        for method, layout, size in (
            ("bilinear", "NCHW", (3, 4)),
            ("nearest_neighbor", "NCHW", (4, 3)),
            ("bilinear", "NHWC", (1, 2)),
        )
    ],
    Case(
        "dilate",
        lambda x: topi.nn.dilate(x, (1, 3, 2), 0.5),
        lambda x: testing.dilate_python(x, (1, 3, 2), 0.5),
        (real(2, 3, 4),),
    ),
    Case(
        "space_to_batch_nd",
        lambda x: topi.nn.space_to_batch_nd(x, (2, 3), (1, 0), (2, 0), -1.0),
        lambda x: testing.space_to_batch_nd_python(x, (2, 3), (1, 0), (2, 0), -1.0),
        (real(2, 7, 6, 3),),
    ),
    Case(
        "batch_to_space_nd",
        lambda x: topi.nn.batch_to_space_nd(x, (2, 3), (1, 0), (1, 2)),
        lambda x: testing.batch_to_space_nd_python(x, (2, 3), (1, 0), (1, 2)),
        (real(12, 4, 3, 2),),
    ),
    Case(
        "scale_shift_nchw",
        topi.nn.scale_shift_nchw,
        lambda x, a, b: x * a[:, None, None] + b[:, None, None],
        (IMAGE, real(4), real(4, seed=1)),
    ),
    Case(
        "scale_shift_nhwc",
        topi.nn.scale_shift_nhwc,
        lambda x, a, b: x * a + b,
        (IMAGE, real(6), real(6, seed=1)),
    ),
    Case(
        "fifo_buffer",
        lambda x, old: topi.nn.fifo_buffer(x, old, 1),
        lambda x, old: np.concatenate([old, x], 1)[:, 2:],
        (real(3, 2), real(3, 5, seed=1)),
    ),
    Case(
        "upsampling",
        lambda x: topi.nn.upsampling(x, 3, 2),
        lambda x: x.repeat(3, 2).repeat(2, 3),
        (IMAGE,),
    ),
    Case(
        "upsampling_bilinear",
        lambda x: topi.nn.upsampling(x, 2.0, 1.5, method="bilinear"),
        lambda x: testing.resize2d_python(x, (2, 1.5), "NCHW", "bilinear", "asymmetric"),
        (IMAGE,),
        1e-4,
    ),
    Case(
        "upsampling_aligned",
        lambda x: topi.nn.upsampling(x, 2, 2, "NHWC", "bicubic", True),
        lambda x: testing.resize2d_python(x, (2, 2), "NHWC", "cubic", "align_corners"),
        (IMAGE,),
        1e-3,
    ),
    Case(
        "upsampling3d",
        lambda x: topi.nn.upsampling3d(x, 2, 2, 2, method="trilinear"),
        lambda x: testing.resize3d_python(x, (2, 2, 2), "NCDHW", "trilinear", "half_pixel"),
        (VOLUME,),
        1e-4,
    ),
    Case(
        "resize_nearest_by_default",
        lambda x: topi.image.resize1d(x, None, [8], "NCW", "nearest_neighbor", "half_pixel"),
        lambda x: x[:, :, [0, 0, 1, 1, 2, 2, 3, 4]],
        (real(1, 1, 5),),
    ),
    Case(
        "dilation2d",
        lambda x, f: topi.image.dilation2d_nchw(x, f, (2, 1), 1, (1, 2)),
        lambda x, f: np.array(
            [
                [
                    [
                        [
                            max(
                                x[n, c, y, u] + f[c, i, j]
                                for i in range(3)
                                for j in range(2)
                                for y, u in [(p * 2 - 1 + i, q - 1 + j * 2)]
                                if 0 <= y < 7 and 0 <= u < 6
                            )
                            for q in range(6)
                        ]
                        for p in range(4)
                    ]
                    for c in range(4)
                ]
                for n in range(2)
            ]
        ),
        (IMAGE, real(4, 3, 2, seed=1)),
    ),
    *[
        Case(
            f"correlation_{kernel}_{multiply}",
            lambda a, b, k=kernel, m=multiply: topi.nn.correlation_nchw(a, b, k, 2, 1, 2, 2, m),
            lambda a, b, k=kernel, m=multiply: testing.correlation_nchw_python(
                a, b, k, 2, 1, 2, 2, m
            ),
            (IMAGE, LATER),
            1e-4,
        )
        for kernel, multiply in ((1, True), (3, False))
    ],
    Case(
        "deformable_conv2d",
        lambda x, o, w: topi.nn.deformable_conv2d_nchw(x, o, w, (2, 1), (0, 0), 1, 2, 2),
        lambda x, o, w: testing.deformable_conv2d_nchw_python(x, o, w, (2, 1), (0, 0), 1, 2, 2),
        (IMAGE, OFFSET, FILTER),
        1e-3,
    ),
    Case(
        "deformable_conv2d_nhwc",
        lambda x, o, w: topi.nn.deformable_conv2d_nhwc(x, o, w, 1, 1, 1, 1, 1),
        lambda x, o, w: testing.deformable_conv2d_nhwc_python(x, o, w, 1, 1, 1, 1, 1),
        (real(1, 4, 3, 2), real(1, 4, 3, 18, seed=3), real(3, 3, 2, 4, seed=1)),
        1e-3,
    ),
    Case(
        "binary_dense",
        lambda a, b: topi.nn.binary_dense(topi.nn.binarize_pack(a), topi.nn.binarize_pack(b)),
        lambda a, b: np.where(a >= 0, 1, -1) @ np.where(b >= 0, 1, -1).T,
        (real(3, 64), real(5, 64, seed=1)),
    ),
    Case(
        "binarize_pack_along_the_first",
        lambda x: topi.nn.binarize_pack(x, 0),
        lambda x: np.packbits(x >= 0, 0).reshape(2, 4, 3)[:, ::-1].transpose(0, 2, 1).copy()
        .view("uint32")[..., 0],
        (real(64, 3),),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_computes_agree_with_the_references(case):
    check(case)


@pytest.mark.parametrize(
    "build, error",
    [
        (lambda x: topi.nn.dilate(x, (1, 2)), ShapeError),
        (lambda x: topi.nn.upsampling(x, 2, 2, "NCW"), UnsupportedError),
        (lambda x: topi.nn.upsampling(x, 2, 2, method="fast"), UnsupportedError),
        (lambda x: topi.nn.space_to_batch_nd(x, (2, 4), (0, 0), (0, 0)), ShapeError),
        (lambda x: topi.nn.batch_to_space_nd(x, (3, 1), (0, 0), (0, 0)), ShapeError),
        (lambda x: topi.image.grid_sample(x, x), ShapeError),
        (lambda x: topi.image.grid_sample(x, x, layout="NHWC"), UnsupportedError),
        (lambda x: topi.nn.correlation_nchw(x, x, 3, 9, 1, 1, 0, True), ShapeError),
        (lambda x: topi.nn.binarize_pack(x), ShapeError),
    ],
)
def test_what_does_not_fit_is_refused(build, error):
    with pytest.raises(error):
        build(te.placeholder((2, 4, 7, 6), name="x"))


def test_dispatch_by_target():
    assert testing.dispatch("llvm", {"cpu": 1, "generic": 2}) == 1
    assert testing.dispatch("llvm", {"gpu": 1, "generic": 2}) == 2
    with pytest.raises(UnknownNameError, match="no entry"):
        testing.dispatch("llvm", {"gpu": 1})


def test_references_that_move_elements():
    data = whole(3, 4)
    assert (
        testing.strided_slice_python(data, [2, -1], [0, 0], [-1, -2]) == data[2:0:-1, -1:0:-2]
    ).all()
    assert (
        testing.strided_slice_python(data, [1, 1], [-1, 2], None, "size") == data[1:, 1:3]
    ).all()
    assert (testing.slice_axis_python(data, -1, 1) == data[:, 1:]).all()
    hot = testing.one_hot(np.array([0, 2]), 5, -1, 3, 0, "float32")
    assert hot.tolist() == [[5, -1], [-1, -1], [-1, 5]]
    image = real(2, 8, 4, 6)
    turned = testing.space_to_depth_python(image, 2)
    assert (testing.depth_to_space_python(turned, 2) == image).all()
