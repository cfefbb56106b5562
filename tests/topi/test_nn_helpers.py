"""What surrounds the operators of networks: rewritten weights, simulated dtypes, choices of
targets, sizes that are read back from stages.
"""

import inspect

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, torch_function, whole
from tilesmith import te, tir, topi
from tilesmith.support.errors import (
    OpAttributeInvalid,
    ShapeError,
    TargetError,
    UnsupportedError,
)
from tilesmith.target import Target
from tilesmith.topi.nn import target_choices, workloads

DATA, WEIGHT, BIAS = real(3, 12), real(8, 12, seed=1), real(8, seed=2)
BATCH, MATRICES = real(2, 3, 12), real(2, 12, 8, seed=1)
IMAGE, FILTER = real(1, 5, 6, 4), real(3, 3, 4, 8, seed=1)
VOLUME, DEEP = real(1, 3, 4, 5, 2), real(2, 2, 2, 2, 4, seed=1)


def tiled(matrix, rows, columns):
    """A matrix in blocks of so many rows and columns."""
    m, n = matrix.shape
    parts = matrix.reshape(m // rows, rows, n // columns, columns)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3))


def by_outputs(filters, block):
    """A filter whose outputs, the last axis, come first, in blocks."""
    parts = filters.reshape(*filters.shape[:-1], -1, block)
    return np.ascontiguousarray(np.moveaxis(parts, -2, 0))


def correlation(rank, data, filters):
    """torch's convolution of channels-last data."""
    turned = np.moveaxis(data, -1, 1).copy(), np.moveaxis(filters, (-1, -2), (0, 1)).copy()
    return np.moveaxis(torch_function(f"conv{rank}d", *turned), 1, -1)


REWRITTEN = [
    Case(
        "dense",
        lambda x, w, b: topi.nn.dense(x, w, b, auto_scheduler_rewritten_layout="2j4k4j3k"),
        lambda x, w, b: DATA @ WEIGHT.T + b,
        (DATA, tiled(WEIGHT, 4, 3), BIAS),
        1e-4,
    ),
    Case(
        "dense_with_joined_axes",
        lambda x, w: topi.nn.dense(x, w, None, None, "2j 4k 4j 3k"),
        lambda x, w: DATA @ WEIGHT.T,
        (DATA, tiled(WEIGHT, 4, 3).reshape(8, 12)),
        1e-4,
    ),
    Case(
        "matmul",
        lambda x, w: topi.nn.matmul(x, w, auto_scheduler_rewritten_layout="4k2j3k4j"),
        lambda x, w: DATA @ WEIGHT.T,
        (DATA, tiled(np.ascontiguousarray(WEIGHT.T), 3, 4)),
        1e-4,
    ),
    Case(
        "batch_matmul",
        lambda x, w: topi.nn.batch_matmul(
            x, w, transpose_b=False, auto_scheduler_rewritten_layout="2b4k8j3k"
        ),
        lambda x, w: BATCH @ MATRICES,
        (BATCH, np.ascontiguousarray(MATRICES.reshape(2, 4, 3, 8).swapaxes(2, 3))),
        1e-4,
    ),
    Case(
        "conv2d_nhwc",
        lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, 0, 1, "float32", "2ff3ry3rx4rc4ff"),
        lambda x, w: correlation(2, IMAGE, FILTER),
        (IMAGE, by_outputs(FILTER, 4)),
        1e-4,
    ),
    Case(
        "conv3d_ndhwc",
        lambda x, w: topi.nn.conv3d_ndhwc(x, w, 1, 0, 1, 1, "float32", "2ff2rz2ry2rx2rc2ff"),
        lambda x, w: correlation(3, VOLUME, DEEP),
        (VOLUME, by_outputs(DEEP, 2)),
        1e-4,
    ),
    Case(
        "conv2d_winograd_nhwc",
        lambda x, w: topi.nn.conv2d_winograd_nhwc(
            x, w, 1, 0, 1, "float32", auto_scheduler_rewritten_layout="2co3eps3nu4ci4co"
        ),
        lambda x, w: correlation(2, IMAGE, FILTER),
        (IMAGE, by_outputs(FILTER, 4)),
        1e-3,
    ),
    Case(
        "dense_as_it_was",
        lambda x, w: topi.nn.dense(x, w, meta_schedule_original_shape=(8, 12)),
        lambda x, w: x @ w.T,
        (DATA, WEIGHT),
        1e-4,
    ),
    Case(
        "dense_pack",
        topi.nn.dense_pack,
        lambda x, w, b: DATA @ WEIGHT.T + b,
        (DATA, np.ascontiguousarray(WEIGHT.reshape(2, 4, 12).swapaxes(1, 2)), BIAS),
        1e-4,
    ),
    Case(
        "scale_shift_nchwc",
        topi.nn.scale_shift_nchwc,
        lambda x, scale, shift: x * scale[:, None, None] + shift[:, None, None],
        (real(2, 3, 4, 5, 2), real(3, 2, seed=1), real(3, 2, seed=2)),
    ),
    Case(
        "softmax_common",
        lambda x: topi.nn.softmax_common(x, 0, True),
        lambda x: torch_function("softmax", x, 0),
        (DATA,),
        1e-4,
    ),
]


def limited(dtype, data, scale, zero):
    ends = np.iinfo(dtype)
    return np.clip(np.round(data / scale) + zero, ends.min, ends.max)


SCALES, ZEROS = real(3, seed=1, low=0.01, high=0.1), whole(3, seed=2)
PLANES = real(2, 3, 5, low=-9, high=9)


def along(values):
    return values[:, None].astype("float64")


QUANTIZED = [
    *[
        Case(
            f"quantize_{name}",
            lambda x, s, z, name=name: topi.nn.simulated_quantize(
                x, topi.nn.SQNN_DTYPE_TO_CODE[name], s, z, 1
            ),
            lambda x, s, z, name=name: limited(name, x, along(s), along(z)),
            (PLANES, SCALES, ZEROS),
        )
        for name in ("int8", "uint8", "int32")
    ],
    Case(
        "quantize_with_one_scale",
        lambda x, s, z: topi.nn.simulated_quantize(x, "uint8", s, z),
        lambda x, s, z: limited("uint8", x, s, z),
        (PLANES, np.array([0.05], "float32"), np.array(128, "int32")),
    ),
    Case(
        "quantize_what_a_tensor_says",
        lambda x, c: topi.nn.simulated_quantize(x, c, 0.5, 3),
        lambda x, c: limited("int8", x, 0.5, 3),
        (PLANES, np.array([1], "int32")),
    ),
    Case(
        "quantize_disabled",
        lambda x: topi.nn.simulated_quantize(x, topi.nn.SQNN_DISABLE),
        lambda x: x,
        (PLANES,),
    ),
    Case(
        "dequantize",
        lambda x, s, z: topi.nn.simulated_dequantize(x, topi.nn.SQNN_INT8, s, z, 1),
        lambda x, s, z: (x - along(z)) * along(s),
        (PLANES, SCALES, ZEROS),
        1e-4,
    ),
    Case(
        "dequantize_disabled",
        lambda x, c: topi.nn.simulated_dequantize(x, c, 2.0, 1.0),
        lambda x, c: x,
        (PLANES, np.array(0, "int32")),
    ),
]


@pytest.mark.parametrize("case", REWRITTEN + QUANTIZED, ids=lambda case: case.name)
def test_computes(case):
    check(case)


def test_the_filter_of_a_convolution_of_nhwc_data_may_be_rearranged():
    x, w = te.placeholder((1, 5, 6, 4), name="x"), te.placeholder((3, 3, 4, 8), name="w")
    made = topi.nn.conv2d_nhwc(x, w, 1, 0, 1)
    assert te.create_prim_func([x, w, made]).attrs["layout_free_buffers"] == (1,)
    plain = topi.nn.conv(x, w, 1, 0, 1, 1, "NHWC")
    assert "layout_free_buffers" not in te.create_prim_func([x, w, plain]).attrs


def placeholder(*shape):
    return te.placeholder(shape, "float32", "x")


@pytest.mark.parametrize(
    ("layout", "original", "error", "text"),
    [
        ("2j4k4j3k", (8, 12), OpAttributeInvalid, "one tuner only"),
        ("", (12, 8), UnsupportedError, r"once had the shape \[12, 8\]"),
        ("2j4k4j", None, ShapeError, "does not fit '2j4k4j'"),
        ("8n12k", None, OpAttributeInvalid, "not the axes"),
        ("j4k", None, OpAttributeInvalid, "not a rewritten layout"),
    ],
)
def test_weights_in_an_unknown_order_are_refused(layout, original, error, text):
    with pytest.raises(error, match=text):
        topi.nn.dense(placeholder(3, 12), placeholder(8, 12), None, None, layout, original)


def test_the_shape_of_a_batch_of_products_is_checked():
    a, b = placeholder(2, 3, 4), placeholder(2, 5, 4)
    assert [int(size) for size in topi.nn.batch_matmul(a, b, (2, 3, 5)).shape] == [2, 3, 5]
    with pytest.raises(ShapeError, match=r"\[2, 3, 5\], not \[2, 3, 4\]"):
        topi.nn.batch_matmul(a, b, (2, 3, 4))
    with pytest.raises(ShapeError, match="inner sizes 4 and 3"):
        topi.nn.dense_pack(placeholder(2, 4), placeholder(2, 3, 8))


@pytest.mark.parametrize("name", target_choices.__all__)
def test_choices_of_targets(name):
    choice = getattr(topi.nn, name)
    given = [None] * len(inspect.signature(choice).parameters)
    if name.endswith("infer_layout"):
        with pytest.raises(TargetError, match=f"'{name}' has no version"):
            choice(*given)
        return
    assert choice(*given) is None
    with pytest.raises(TypeError):
        choice(*given, None)
    choice.register(lambda *args: len(args), ["house"])
    with Target("llvm -keys=house,cpu"):
        assert choice(*given) == len(given)
    with Target("llvm"):
        assert choice(*given) is None


def test_sizes_are_read_back_from_stages():
    data, padded = placeholder(1, 3, 8, 9), placeholder(1, 3, 10, 13)
    assert topi.nn.infer_pad(data, padded) == (1, 2)
    assert topi.nn.infer_pad(data, None) == (0, 0)
    volume, larger = placeholder(1, 4, 5, 6, 3), placeholder(1, 6, 5, 8, 3)
    assert topi.nn.infer_pad3d(volume, larger, "NDHWC") == (2, 0, 2)
    assert topi.nn.infer_pad3d(volume, None, "NCDHW") == (0, 0, 0)
    with pytest.raises(UnsupportedError, match="'NDHW'"):
        topi.nn.infer_pad3d(volume, larger, "NDHW")
    kernel = placeholder(4, 3, 3, 13)
    made = topi.nn.conv2d_nchw(padded, kernel, (2, 1), 0, 1)
    assert topi.nn.infer_stride(padded, kernel, made) == (2, 1)
    assert topi.nn.POOL_TYPE_CODE == {"avg": 0, "max": 1}
    assert topi.nn.SQNN_CODE_TO_DTYPE == {0: "disable", 1: "int8", 2: "uint8", 3: "int32"}


def test_paddings_of_windows():
    assert topi.nn.get_pad_tuple1d("SAME", (4,)) == (2, 1)
    assert topi.nn.get_pad_tuple3d((1, 2, 3), (3, 3, 3)) == (1, 2, 3, 1, 2, 3)
    assert topi.nn.get_pad_tuple_generic((1, 2, 3, 4), (3, 3)) == ([1, 2], [3, 4])


def test_workloads():
    data, kernel = placeholder(1, 6, 8, 9), placeholder(4, 3, 3, 2)
    made = workloads.conv2d_workload(data, kernel, (2, 1), (1, 0), 1, "int32")
    assert made == (
        "float32", "int32", 8, 9, 6, 2, 4, 3, 2, 1, 0, 1, 0, 1, 1, 2, 1
    )  # fmt: skip
    assert (made.groups, made.kernel_w, made.padb, made.stride_h) == (2, 2, 1, 2)
    last = workloads.conv2d_workload(
        placeholder(1, 8, 9, 6), placeholder(3, 2, 6, 4), 1, "SAME", 2, None, "NHWC"
    )
    assert last.groups == 1 and last.out_dtype == "float32" and last.padt == 2
    each = workloads.depthwise_workload(data, placeholder(6, 2, 3, 2), 1, 0, 1, None)
    assert (each.in_filter, each.out_filter) == (6, 12)
    with pytest.raises(UnsupportedError, match="'HWCN'"):
        workloads.depthwise_workload(data, kernel, 1, 0, 1, None, "HWCN")


def test_activations_of_layers_are_functions_of_expressions():
    value = tir.Var("x", "float32")
    for name in ("f_act", "g_act", "h_act"):
        function = inspect.signature(topi.nn.lstm).parameters[name].default
        assert function(value).dtype == "float32"
