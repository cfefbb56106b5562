"""Normalisation, padding, attention, losses and resizing against numpy and torch."""

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, torch_function, whole
from tilesmith import te, topi
from tilesmith.support.errors import ShapeError, UnsupportedError

IMAGE = real(2, 6, 5, 4)
GAMMA, BETA = real(6, seed=1), real(6, seed=2)
CLASSES, TARGETS = real(3, 4, 2), whole(3, 2, low=0, high=4).astype("int64")
WEIGHTS = real(4, low=0.5, high=2.0)


def attention(query, key, value, *bias, **options):
    """torch's, of (batch, heads, length, size)."""
    turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (query, key, value)]
    found = torch_function("scaled_dot_product_attention", *turned, *bias, **options)
    return found.transpose(0, 2, 1, 3)


def attention_inputs(length, keys):
    sizes = ((2, length, 3, 4), (2, keys, 3, 4), (2, keys, 3, 5))
    return tuple([real(*size, seed=seed) for seed, size in enumerate(sizes)])


def padded(mode):
    return lambda x: np.pad(x, ((1, 2), (0, 3)), mode)


CASES = [
    Case(
        "group_norm",
        lambda x, g, b: topi.nn.group_norm(x, g, b, 3, 1, [2, 3]),
        lambda x, g, b: torch_function("group_norm", x, 3, g, b),
        (IMAGE, GAMMA, BETA),
        1e-4,
    ),
    Case(
        "group_norm_channels_last",
        lambda x: topi.nn.group_norm(x, None, None, 2, -1, [1, 2]),
        lambda x: torch_function("group_norm", np.moveaxis(x, -1, 1).copy(), 2).transpose(
            0, 2, 3, 1
        ),
        (real(2, 5, 4, 6),),
        1e-4,
    ),
    Case(
        "instance_norm",
        lambda x, g, b: topi.nn.instance_norm(x, g, b, [2, 3]),
        lambda x, g, b: torch_function("instance_norm", x, None, None, g, b),
        (IMAGE, GAMMA, BETA),
        1e-4,
    ),
    Case(
        "lrn",
        lambda x: topi.nn.lrn(x, 3, 1, 0.1, 0.75, 2.0),
        lambda x: torch_function("local_response_norm", x, 3, 0.1, 0.75, 2.0),
        (IMAGE,),
    ),
    Case(
        "matmul_bias",
        lambda a, b, c: topi.nn.matmul(a, b, c, None, True, True),
        lambda a, b, c: a.T @ b.T + c,
        (real(5, 3), real(4, 5), real(4)),
        1e-4,
    ),
    *[
        Case(
            f"depth_to_space_{mode}",
            lambda x, mode=mode: topi.nn.depth_to_space(x, 2, mode=mode),
            lambda x, parts=parts, order=order: (
                x.reshape(1, *parts, 3, 5).transpose(order).reshape(1, 3, 6, 10)
            ),
            (real(1, 12, 3, 5),),
        )
        for mode, parts, order in (
            ("DCR", (2, 2, 3), (0, 3, 4, 1, 5, 2)),
            ("CRD", (3, 2, 2), (0, 1, 4, 2, 5, 3)),
        )
    ],
    Case(
        "space_to_depth",
        lambda x: topi.nn.space_to_depth(x, 2, "NHWC"),
        lambda x: x.reshape(1, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 12),
        (real(1, 4, 6, 3),),
    ),
    Case(
        "prelu_last",
        lambda x, s: topi.nn.prelu(x, s, -1),
        lambda x, s: np.where(x > 0, x, x * s),
        (IMAGE, real(4)),
    ),
    *[
        Case(name, lambda x, f=function: f(x, (1, 0), (2, 3)), padded(mode), (real(4, 5),))
        for name, mode, function in (
            ("reflect", "reflect", topi.nn.reflect_pad),
            ("replicate", "edge", topi.nn.replicate_pad),
            ("circular", "wrap", topi.nn.circular_pad),
            ("symmetric", "symmetric", topi.nn.mirror_pad),
        )
    ],
    Case("attention", topi.nn.attention, attention, attention_inputs(3, 5), 1e-4),
    Case(
        "attention_causal",
        lambda q, k, v: topi.nn.attention(q, k, v, scale=0.3, causal_mask="TopLeft"),
        lambda q, k, v: attention(q, k, v, scale=0.3, is_causal=True),
        attention_inputs(4, 4),
        1e-4,
    ),
    Case(
        "attention_bias",
        topi.nn.attention,
        lambda q, k, v, b: attention(q, k, v, b),
        (*attention_inputs(3, 5), real(2, 1, 3, 5, seed=7)),
        1e-4,
    ),
    Case(
        "cross_entropy",
        topi.nn.cross_entropy_with_logits,
        lambda p, t: -(p * t).sum() / 3,
        (real(3, 5), real(3, 5, seed=1)),
    ),
    *[
        Case(
            f"nll_loss_{reduction}",
            lambda p, t, w, reduction=reduction: topi.nn.nll_loss(p, t, w, reduction, 2),
            lambda p, t, w, reduction=reduction: torch_function(
                "nll_loss", p, t, w, reduction=reduction, ignore_index=2
            ),
            (CLASSES, TARGETS, WEIGHTS),
        )
        for reduction in ("none", "sum", "mean")
    ],
    Case(
        "nll_loss_one",
        topi.nn.nll_loss,
        lambda p, t: -p[t],
        (real(4), np.array(2, "int64")),
    ),
    Case(
        "quantize",
        lambda x, s, z: topi.nn.quantize(x, s, z, 1),
        lambda x, s, z: np.clip(np.round(x / s[:, None] + z[:, None]), -128, 127),
        (real(2, 3, 4, low=-90, high=90), np.float32([0.7, 0.3, 0.9]), np.int8([3, -5, 0])),
    ),
    Case(
        "dequantize",
        lambda x, s, z: topi.nn.dequantize(x, s, z),
        lambda x, s, z: (x.astype("float32") - z) * s,
        (whole(3, 4, low=-128, high=127).astype("int8"), np.float32(0.7), np.int8(-100)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compute(case):
    check(case)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_gradient_of_nll_loss(reduction):
    torch = pytest.importorskip("torch")
    predictions = torch.from_numpy(CLASSES).requires_grad_()
    out = torch.nn.functional.nll_loss(
        predictions,
        torch.from_numpy(TARGETS),
        torch.from_numpy(WEIGHTS),
        reduction=reduction,
        ignore_index=2,
    )
    grads = real(*out.shape, seed=5)
    out.backward(torch.from_numpy(np.asarray(grads)))
    check(
        Case(
            "nll_loss_grad",
            lambda g, p, t, w: topi.nn.nll_loss_grad(g, p, t, w, reduction, 2),
            lambda *inputs: predictions.grad.numpy(),
            (np.asarray(grads), CLASSES, TARGETS, WEIGHTS),
        )
    )


RESIZES = [
    ("linear", "half_pixel", {"mode": "bilinear", "align_corners": False}),
    ("linear", "align_corners", {"mode": "bilinear", "align_corners": True}),
    ("nearest_neighbor", "asymmetric", {"mode": "nearest"}),
    ("nearest_neighbor", "half_pixel", {"mode": "nearest-exact"}),
    ("cubic", "half_pixel", {"mode": "bicubic", "align_corners": False}),
    ("cubic", "align_corners", {"mode": "bicubic", "align_corners": True}),
]


@pytest.mark.parametrize("size", [(9, 3), (4, 11)])
@pytest.mark.parametrize(("method", "coordinates", "options"), RESIZES)
def test_resize2d(method, coordinates, options, size):
    rounding = "floor" if options["mode"] == "nearest" else "round_prefer_ceil"
    build = lambda x: topi.image.resize2d(
        x, None, size, "NCHW", method, coordinates, rounding, bicubic_alpha=-0.75
    )
    meaning = lambda x: torch_function("interpolate", x, size, **options)
    check(Case("resize2d", build, meaning, (real(1, 2, 6, 7),), 1e-3))


@pytest.mark.parametrize(
    ("function", "shape", "size", "mode", "layout"),
    [
        (topi.image.resize1d, (2, 3, 7), (5,), "linear", "NCW"),
        (topi.image.resize3d, (1, 2, 3, 4, 5), (5, 3, 7), "trilinear", "NCDHW"),
    ],
)
def test_resize_of_other_ranks(function, shape, size, mode, layout):
    build = lambda x: function(x, None, size, layout)
    meaning = lambda x: torch_function("interpolate", x, size, mode=mode)
    check(Case("resize", build, meaning, (real(*shape),), 1e-3))


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda x: topi.nn.group_norm(x, None, None, 4, 1, [2, 3]), ShapeError, "6 channels"),
        (lambda x: topi.nn.mirror_pad(x, (1, 0, 0, 0), mode="WRAP"), UnsupportedError, "'WRAP'"),
        (lambda x: topi.nn.replicate_pad(x, (1, 0)), ShapeError, "4 numbers"),
        (lambda x: topi.nn.attention(x, x, x, window_size=2), UnsupportedError, "window_size"),
        (lambda x: topi.nn.nll_loss(x, x, None, "max"), UnsupportedError, "'max'"),
        (lambda x: topi.image.resize2d(x, None, (3,)), ShapeError, "2 numbers"),
        (lambda x: topi.image.resize2d(x, [1, 2], (3, 3)), UnsupportedError, "region"),
        (lambda x: topi.image.resize2d(x, None, (3, 3), method="area"), UnsupportedError, "'area'"),
        (lambda x: topi.image.resize1d(x, None, (3,)), UnsupportedError, "'NCW'"),
    ],
)
def test_mistakes_are_said(build, error, text):
    with pytest.raises(error, match=text):
        build(te.placeholder((2, 6, 5, 4), "float32", "x"))
