"""Each compute against numpy or torch, through compiled code and (small ones) the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, torch_function, whole
from tilesmith import te, topi
from tilesmith.support.errors import ShapeError, UnsupportedError


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, g, b, axes):
    mean = x.mean(axes, keepdims=True)
    variance = x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * g + b


A, B = real(3, 5), real(3, 5, seed=1)
POSITIVE = real(3, 5, low=0.1, high=3.0)
IMAGE = real(2, 4, 9, 7)
UNARY = {
    "exp": (np.exp, A),
    "log": (np.log, POSITIVE),
    "sqrt": (np.sqrt, POSITIVE),
    "tanh": (np.tanh, A),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), A),
    "rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE),
    "abs": (np.abs, A),
    "negative": (np.negative, A),
    "ceil": (np.ceil, A),
    "floor": (np.floor, A),
    "trunc": (np.trunc, A),
    "round": (np.round, A),
    "sign": (np.sign, A),
    "sin": (np.sin, A),
    "cos": (np.cos, A),
    "tan": (np.tan, A),
    "atan": (np.arctan, A),
    "sinh": (np.sinh, A),
    "cosh": (np.cosh, A),
    "log2": (np.log2, POSITIVE),
    "log10": (np.log10, POSITIVE),
    "isnan": (np.isnan, A),
    "isfinite": (np.isfinite, A),
    "isinf": (np.isinf, A),
    "identity": (lambda x: x, A),
}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "mod": np.fmod,
}
INTEGER = {
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "mod": np.fmod,
    "divide": lambda a, b: np.trunc(a / b).astype("int32"),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}
NONZERO = np.where(whole(3, 5, seed=2) == 0, 4, whole(3, 5, seed=2)).astype("int32")

CASES = [
    *[Case(name, getattr(topi, name), f, (x,)) for name, (f, x) in UNARY.items()],
    *[Case(name, getattr(topi, name), f, (A, B)) for name, f in BINARY.items()],
    *[
        Case(name + "_broadcast", getattr(topi, name), f, (IMAGE, real(4, 1, 1, seed=2)))
        for name, f in list(BINARY.items())[:4]
    ],
    *[
        Case(name + "_int", getattr(topi, name), f, (whole(3, 5), NONZERO))
        for name, f in INTEGER.items()
    ],
    *[
        Case(
            f"{name}_{axis}_{keep}",
            lambda x, n=name, a=axis, k=keep: getattr(topi, n)(x, a, k),
            lambda x, f=f, a=axis, k=keep: f(x, axis=a, keepdims=k),
            (real(3, 4, 5),),
            1e-4,
        )
        for name, f in REDUCTIONS.items()
        for axis in (None, 1, (0, 2))
        for keep in (False, True)
    ],
    Case("argmax", lambda x: topi.argmax(x, 1), lambda x: np.argmax(x, 1), (real(4, 7, 3),)),
    Case(
        "argmin",
        lambda x: topi.argmin(x, -1, True),
        lambda x: np.argmin(x, -1, keepdims=True),
        (A,),
    ),
    Case(
        "argmax_ties",
        lambda x: topi.argmax(x, 1),
        lambda x: np.argmax(x, 1),
        (np.ones((3, 4), "float32"),),
    ),
    *[
        Case(
            f"{function.__name__}_{kind}",
            lambda x, f=function: f(x, 1),
            lambda x, f=meaning: f(x, 1),
            (values,),
        )
        for function, meaning in ((topi.argmax, np.argmax), (topi.argmin, np.argmin))
        for kind, values in (
            ("of_infinities", np.array([[-np.inf] * 3, [np.inf] * 3], "float32")),
            ("of_limits", np.array([[-(2**31)] * 3, [2**31 - 1] * 3], "int32")),
            ("of_truths", np.array([[False, True, True], [True, False, False]])),
            ("by_blocks", np.random.default_rng(0).integers(0, 99, (2, 9001)).astype("int32")),
        )
    ],
    Case(
        "argmax_of_all",
        lambda x: topi.argmax(x),
        lambda x: np.argmax(x),
        (np.array([[1, 5, 2], [5, 0, 3]], "int32"),),
    ),
    Case(
        "argmax_of_nan",  # an index within the axis, whatever stands there
        lambda x: topi.less(topi.argmax(x, 1), 3),
        lambda x: np.ones(2, bool),
        (np.array([[np.nan] * 3, [1, np.nan, 2]], "float32"),),
    ),
    Case(
        "argmin_last",
        lambda x: topi.argmin(x, 1, select_last_index=True),
        lambda x: np.array([2, 1]),
        (np.array([[1, 0, 0], [3, 3, 4]], "float32"),),
    ),
    Case("power", lambda x: topi.power(x, 3.0), lambda x: np.power(x, 3), (POSITIVE,)),
    Case("clip", lambda x: topi.clip(x, -1.0, 0.5), lambda x: np.clip(x, -1, 0.5), (A,)),
    Case("cast", lambda x: topi.cast(x, "int32"), lambda x: x.astype("int32"), (A,)),
    Case(
        "where",
        topi.where,
        lambda c, x, y: np.where(c != 0, x, y),
        (whole(3, 5, low=0, high=2), A, B),
    ),
    Case(
        "broadcast_to",
        lambda x: topi.broadcast_to(x, (4, 3, 5)),
        lambda x: np.broadcast_to(x, (4, 3, 5)),
        (A,),
    ),
    Case(
        "transpose",
        lambda x: topi.transpose(x, (2, 0, 1)),
        lambda x: x.transpose(2, 0, 1),
        (real(3, 4, 5),),
    ),
    Case(
        "reshape", lambda x: topi.reshape(x, (5, -1)), lambda x: x.reshape(5, -1), (real(4, 5, 3),)
    ),
    Case("flatten", topi.nn.flatten, lambda x: x.reshape(x.shape[0], -1), (IMAGE,)),
    Case("expand_dims", lambda x: topi.expand_dims(x, 1, 2), lambda x: x[:, None, None], (A,)),
    Case("squeeze", topi.squeeze, np.squeeze, (real(1, 3, 1, 4),)),
    Case("flip", lambda x: topi.flip(x, 1), lambda x: x[:, ::-1], (A,)),
    Case(
        "concatenate",
        lambda x, y: topi.concatenate([x, y], 1),
        lambda x, y: np.concatenate([x, y], 1),
        (A, real(3, 2)),
    ),
    Case("stack", lambda x, y: topi.stack([x, y], 1), lambda x, y: np.stack([x, y], 1), (A, B)),
    Case("split", lambda x: topi.split(x, [2, 3], 1), lambda x: np.split(x, [2, 3], 1), (A,)),
    Case("split_even", lambda x: topi.split(x, 3, 0), lambda x: np.split(x, 3, 0), (A,)),
    Case(
        "strided_slice",
        lambda x: topi.strided_slice(x, [1, -1], [3, -6], [1, -2]),
        lambda x: x[1:3, -1:-6:-2],
        (real(4, 9),),
    ),
    Case(
        "strided_slice_axes",
        lambda x: topi.strided_slice(x, [2], [9], [3], axes=[1]),
        lambda x: x[:, 2:9:3],
        (real(4, 9),),
    ),
    Case(
        "take",
        lambda x, i: topi.take(x, i, 1),
        lambda x, i: np.take(x, i, 1, mode="clip"),
        (real(3, 6), whole(2, 2, low=0, high=6)),
    ),
    Case(
        "take_flat", topi.take, lambda x, i: np.take(x, i), (real(3, 6), whole(4, low=0, high=18))
    ),
    Case(
        "gather",
        lambda x, i: topi.gather(x, 1, i),
        lambda x, i: np.take_along_axis(x, i, 1),
        (real(3, 6), whole(3, 2, low=0, high=6)),
    ),
    Case(
        "gather_nd",
        topi.gather_nd,
        lambda x, i: x[tuple(i)],
        (real(3, 6), whole(2, 4, low=0, high=3)),
    ),
    Case("repeat", lambda x: topi.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1), (A,)),
    Case("tile", lambda x: topi.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), (A,)),
    Case(
        "one_hot",
        lambda i: topi.one_hot(i, 1.0, 0.0, 4, -1, "float32"),
        lambda i: np.eye(4, dtype="float32")[i],
        (whole(3, 2, low=0, high=4),),
    ),
    Case("triu", lambda x: topi.trilu(x, 1, True), lambda x: np.triu(x, 1), (real(5, 5),)),
    Case("tril", lambda x: topi.trilu(x, 0, False), np.tril, (real(5, 4),)),
    Case(
        "layout_transform",
        lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"),
        lambda x: x.reshape(2, 1, 4, 9, 7).transpose(0, 1, 3, 4, 2),
        (IMAGE,),
    ),
    Case("matmul", topi.matmul, np.matmul, (real(3, 4, 5), real(5, 6)), 1e-4),
    Case(
        "matmul_T",
        lambda a, b: topi.matmul(a, b, True, True),
        lambda a, b: a.T @ b.T,
        (real(4, 3), real(5, 4)),
        1e-4,
    ),
    Case("matmul_vector", topi.matmul, np.matmul, (real(3, 4), real(4)), 1e-4),
    Case(
        "dense", topi.nn.dense, lambda a, w, b: a @ w.T + b, (real(3, 7), real(4, 7), real(4)), 1e-4
    ),
    Case(
        "batch_matmul",
        topi.nn.batch_matmul,
        lambda a, b: a @ b.transpose(0, 2, 1),
        (real(2, 3, 4), real(2, 5, 4)),
        1e-4,
    ),
    Case("relu", topi.nn.relu, lambda x: np.maximum(x, 0), (A,)),
    Case(
        "leaky_relu",
        lambda x: topi.nn.leaky_relu(x, 0.1),
        lambda x: np.where(x > 0, x, 0.1 * x),
        (A,),
    ),
    Case(
        "prelu",
        topi.nn.prelu,
        lambda x, s: np.where(x > 0, x, x * s[:, None, None]),
        (IMAGE, real(4)),
    ),
    Case("gelu", topi.nn.gelu, lambda x: torch_function("gelu", x), (A,)),
    Case(
        "gelu_tanh",
        lambda x: topi.nn.gelu(x, True),
        lambda x: torch_function("gelu", x, approximate="tanh"),
        (A,),
    ),
    Case("silu", topi.nn.silu, lambda x: torch_function("silu", x), (A,)),
    Case("hard_swish", topi.nn.hard_swish, lambda x: torch_function("hardswish", x), (A,)),
    Case("elu", topi.nn.elu, lambda x: torch_function("elu", x), (A,)),
    Case("softmax", lambda x: topi.nn.softmax(x, 1), lambda x: softmax(x, 1), (real(2, 7, 3),)),
    Case("log_softmax", topi.nn.log_softmax, lambda x: np.log(softmax(x, -1)), (real(3, 6),)),
    Case(
        "layer_norm",
        lambda x, g, b: topi.nn.layer_norm(x, g, b, [1, 2]),
        lambda x, g, b: layer_norm(x, g, b, (1, 2)),
        (real(2, 5, 3), real(5, 3), real(5, 3)),
        1e-4,
    ),
    Case(
        "rms_norm",
        topi.nn.rms_norm,
        lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w,
        (real(3, 8), real(8)),
        1e-4,
    ),
    Case(
        "pad",
        lambda x: topi.nn.pad(x, (1, 0), (2, 3), 7.0),
        lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=7),
        (A,),
    ),
    Case(
        "mirror_pad",
        lambda x: topi.nn.mirror_pad(x, (1, 2), (1, 1), "REFLECT"),
        lambda x: np.pad(x, ((1, 1), (2, 1)), mode="reflect"),
        (A,),
    ),
    Case(
        "conv2d",
        lambda x, w: topi.nn.conv2d(x, w, 2, 1, 1),
        lambda x, w: torch_function("conv2d", x, w, stride=2, padding=1),
        (IMAGE, real(5, 4, 3, 3)),
        1e-4,
    ),
    Case(
        "conv2d_dilated",
        lambda x, w: topi.nn.conv2d_nchw(x, w, 1, (2, 2), 2),
        lambda x, w: torch_function("conv2d", x, w, padding=2, dilation=2),
        (IMAGE, real(3, 4, 3, 3)),
        1e-4,
    ),
    Case(
        "conv2d_nhwc",
        lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, 1, 1),
        lambda x, w: torch_function(
            "conv2d", x.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy(), padding=1
        ).transpose(0, 2, 3, 1),
        (real(1, 6, 5, 4), real(3, 3, 4, 2)),
        1e-4,
    ),
    Case(
        "group_conv2d",
        lambda x, w: topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, 2),
        lambda x, w: torch_function("conv2d", x, w, padding=1, groups=2),
        (IMAGE, real(6, 2, 3, 3)),
        1e-4,
    ),
    Case(
        "depthwise_conv2d",
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1),
        lambda x, w: torch_function("conv2d", x, w.reshape(8, 1, 3, 3), padding=1, groups=4),
        (IMAGE, real(4, 2, 3, 3)),
        1e-4,
    ),
    Case(
        "conv2d_transpose",
        lambda x, w: topi.nn.conv2d_transpose_nchw(x, w, (2, 2), (1, 1), None, (1, 0)),
        lambda x, w: torch_function(
            "conv_transpose2d", x, w, stride=2, padding=1, output_padding=(1, 0)
        ),
        (IMAGE, real(4, 3, 3, 3)),
        1e-4,
    ),
    Case(
        "max_pool",
        lambda x: topi.nn.pool2d(x, [3, 2], [2, 2], [1, 1], [1, 0, 1, 1], "max"),
        lambda x: torch_function(
            "max_pool2d", np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 1)), constant_values=-9), (3, 2), 2
        ),
        (IMAGE,),
    ),
    Case(
        "avg_pool",
        lambda x: topi.nn.pool2d(
            x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "avg", False, "NCHW", False
        ),
        lambda x: torch_function("avg_pool2d", x, 3, 2, 1, count_include_pad=False),
        (IMAGE,),
        1e-4,
    ),
    Case(
        "avg_pool_ceil",
        lambda x: topi.nn.pool2d(x, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "avg", True),
        lambda x: torch_function("avg_pool2d", x, 2, 2, ceil_mode=True),
        (IMAGE,),
        1e-4,
    ),
    Case(
        "adaptive_avg",
        lambda x: topi.nn.adaptive_pool(x, (4, 3), "avg"),
        lambda x: torch_function("adaptive_avg_pool2d", x, (4, 3)),
        (IMAGE,),
        1e-4,
    ),
    Case(
        "adaptive_max",
        lambda x: topi.nn.adaptive_pool(x, (4, 3), "max"),
        lambda x: torch_function("adaptive_max_pool2d", x, (4, 3)),
        (IMAGE,),
    ),
    Case(
        "global_pool",
        lambda x: topi.nn.global_pool(x, "avg"),
        lambda x: x.mean((2, 3), keepdims=True),
        (IMAGE,),
        1e-4,
    ),
]


@pytest.mark.parametrize("index_dtype", [None, "int64"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compute(case, index_dtype):
    check(case, index_dtype)


@pytest.mark.parametrize(
    "build, error, text",
    [
        (lambda: topi.add(te.placeholder((3, 4)), te.placeholder((3, 5))), ShapeError, "broadcast"),
        (
            lambda: topi.matmul(te.placeholder((3, 4)), te.placeholder((5, 4))),
            ShapeError,
            "inner sizes",
        ),
        (lambda: topi.reshape(te.placeholder((3, 4)), (5, 2)), ShapeError, "12 elements"),
        (lambda: topi.sum(te.placeholder((3, 4)), 2), ShapeError, "axis 2"),
        (lambda: topi.split(te.placeholder((3, 4)), 3, 1), ShapeError, "3 parts"),
        (lambda: topi.squeeze(te.placeholder((3, 4)), 0), ShapeError, "squeezed"),
        (
            lambda: topi.nn.conv2d(
                te.placeholder((1, 3, 5, 5)), te.placeholder((2, 4, 3, 3)), 1, 0, 1
            ),
            ShapeError,
            "channels",
        ),
        (
            lambda: topi.nn.conv2d(
                te.placeholder((1, 3, 5, 5)), te.placeholder((2, 3, 3, 3)), 1, 0, 1, "CHWN"
            ),
            UnsupportedError,
            "layout",
        ),
    ],
)
def test_wrong_shapes_are_said(build, error, text):
    with pytest.raises(error, match=text):
        build()
