"""Every operator: struct info, numpy evaluation and compiled tensor program agree."""

import numpy as np
import pytest

from tilesmith import ir, relax
from tilesmith.relax import op
from tilesmith.relax.op.evaluate import evaluate_call
from tilesmith.relax.transform.fold_constant import run_prim_func
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def positive(*shape):
    return (rng.random(shape) + 0.2).astype("float32")


def i64(*shape, high=3):
    return rng.integers(0, high, shape).astype("int64")


def i32(*shape, low=-9, high=9):
    return rng.integers(low, high, shape).astype("int32")


def boolean(*shape):
    return rng.random(shape) > 0.5


def unit(*shape):
    return (rng.random(shape) * 1.6 - 0.8).astype("float32")


FLOAT_UNARY = [
    "abs", "ceil", "cos", "cosh", "erf", "exp", "floor", "negative", "round", "sigmoid", "sign",
    "sin", "sinh", "square", "tan", "tanh", "trunc", "isfinite", "isinf", "isnan", "nn.relu",
    "nn.gelu", "nn.gelu_tanh", "nn.silu", "atan", "asinh",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal",
]  # fmt: skip


def named(name):
    value = op
    for part in name.split("."):
        value = getattr(value, part)
    return value


CASES = {
    **{name: (named(name), [f32(3, 5)], {}) for name in FLOAT_UNARY},
    **{name: (named(name), [positive(3, 5)], {}) for name in ("log", "sqrt", "rsqrt")},
    **{name: (named(name), [unit(3, 5)], {}) for name in ("acos", "asin", "atanh")},
    "acosh": (op.acosh, [positive(4) + 1], {}),
    "bitwise_not": (op.bitwise_not, [i32(3, 5)], {}),
    "logical_not": (op.logical_not, [boolean(3, 5)], {}),
    **{name: (named(name), [f32(3, 1, 5), f32(4, 1)], {}) for name in BINARY},
    **{
        "int_" + name: (named(name), [i32(3, 5), i32(5)], {}) for name in BINARY if name != "divide"
    },
    "power": (op.power, [positive(3, 5), f32(3, 5)], {}),
    "floor_divide": (op.floor_divide, [i32(3, 5), i32(3, 5, low=1)], {}),
    "floor_divide_float": (op.floor_divide, [f32(3, 5), positive(3, 5)], {}),
    "floor_mod": (op.floor_mod, [i32(3, 5), i32(3, 5, low=1)], {}),
    "mod": (op.mod, [i32(3, 5), i32(3, 5, low=1)], {}),
    "logical_and": (op.logical_and, [boolean(3, 5), boolean(5)], {}),
    "logical_or": (op.logical_or, [boolean(3, 5), boolean(5)], {}),
    "logical_xor": (op.logical_xor, [boolean(3, 5), boolean(5)], {}),
    "bitwise_and": (op.bitwise_and, [i32(3, 5), i32(5)], {}),
    "bitwise_or": (op.bitwise_or, [i32(3, 5), i32(5)], {}),
    "bitwise_xor": (op.bitwise_xor, [i32(3, 5), i32(5)], {}),
    "left_shift": (op.left_shift, [i32(3, 5, low=0), i32(5, low=0, high=4)], {}),
    "right_shift": (op.right_shift, [i32(3, 5), i32(5, low=0, high=4)], {}),
    "clip": (op.clip, [f32(3, 5)], {"min": -0.5, "max": 0.5}),
    "ewise_fma": (op.ewise_fma, [f32(3, 5), f32(3, 5), f32(3, 5)], {}),
    "where": (op.where, [boolean(3, 1), f32(3, 5), f32(5)], {}),
    "astype": (op.astype, [f32(3, 5)], {"dtype": "int32"}),
    "leakyrelu": (op.nn.leakyrelu, [f32(3, 5)], {"alpha": 0.2}),
    "prelu": (op.nn.prelu, [f32(2, 3, 4), f32(3)], {"axis": 1}),
    "softmax": (op.nn.softmax, [f32(3, 5)], {}),
    "softmax_axis": (op.nn.softmax, [f32(3, 5, 2)], {"axis": 1}),
    "log_softmax": (op.nn.log_softmax, [f32(3, 5)], {}),
    "batch_norm": (
        op.nn.batch_norm,
        [f32(2, 3, 4, 5), f32(3), f32(3), f32(3), positive(3)],
        {"axis": 1},
    ),
    "batch_norm_training": (
        op.nn.batch_norm,
        [f32(2, 3, 4, 5), f32(3), f32(3), f32(3), positive(3)],
        {"axis": 1, "training": True, "momentum": 0.3},
    ),
    "layer_norm": (op.nn.layer_norm, [f32(2, 3, 7), f32(7), f32(7)], {"axes": [-1]}),
    "layer_norm_two": (op.nn.layer_norm, [f32(2, 3, 7), f32(3, 7), f32(3, 7)], {"axes": [1, 2]}),
    "group_norm": (
        op.nn.group_norm,
        [f32(2, 6, 3, 3), f32(6), f32(6)],
        {"num_groups": 3, "channel_axis": 1, "axes": [2, 3]},
    ),
    "instance_norm": (
        op.nn.instance_norm,
        [f32(2, 3, 4, 5), f32(3), f32(3)],
        {"channel_axis": 1, "axes": [2, 3]},
    ),
    "rms_norm": (op.nn.rms_norm, [f32(3, 8), f32(8)], {}),
    "dropout": (op.nn.dropout, [f32(3, 5)], {}),
    "lrn": (op.nn.lrn, [f32(1, 7, 3, 3)], {"size": 5}),
    "lrn_even": (op.nn.lrn, [f32(1, 7, 3, 3)], {"size": 4}),
    "pad": (op.nn.pad, [f32(3, 5)], {"pad_width": [1, 2, 0, 3], "pad_value": 1.5}),
    "pad_reflect": (op.nn.pad, [f32(4, 5)], {"pad_width": [1, 2, 0, 3], "pad_mode": "reflect"}),
    "pad_edge": (op.nn.pad, [f32(4, 5)], {"pad_width": [1, 2, 0, 3], "pad_mode": "replicate"}),
    "pad_circular": (op.nn.pad, [f32(4, 5)], {"pad_width": [1, 2, 0, 3], "pad_mode": "circular"}),
    "attention": (op.nn.attention, [f32(2, 5, 3, 4), f32(2, 7, 3, 4), f32(2, 7, 3, 6)], {}),
    "attention_bias": (
        op.nn.attention,
        [f32(2, 5, 3, 4), f32(2, 5, 3, 4), f32(2, 5, 3, 4), f32(1, 1, 5, 5)],
        {"causal_mask": "TopLeft"},
    ),
    "cross_entropy": (op.nn.cross_entropy_with_logits, [f32(3, 5), f32(3, 5)], {}),
    "nll_loss": (op.nn.nll_loss, [f32(3, 5), i64(3, high=5), positive(5)], {}),
    "nll_loss_none": (op.nn.nll_loss, [f32(3, 5), i64(3, high=5)], {"reduction": "none"}),
    "conv1d": (op.nn.conv1d, [f32(2, 4, 9), f32(6, 4, 3)], {"strides": 2, "padding": 1}),
    "conv2d": (
        op.nn.conv2d,
        [f32(2, 3, 7, 6), f32(4, 3, 3, 2)],
        {"strides": (2, 1), "padding": (1, 0, 2, 1)},
    ),
    "conv2d_dilated": (op.nn.conv2d, [f32(1, 3, 9, 9), f32(4, 3, 3, 3)], {"dilation": 2}),
    "conv2d_groups": (
        op.nn.conv2d,
        [f32(1, 4, 5, 5), f32(6, 2, 3, 3)],
        {"groups": 2, "padding": 1},
    ),
    "conv2d_depthwise": (
        op.nn.conv2d,
        [f32(1, 4, 5, 5), f32(4, 1, 3, 3)],
        {"groups": 4, "padding": 1},
    ),
    "conv2d_nhwc": (
        op.nn.conv2d,
        [f32(1, 6, 5, 3), f32(3, 3, 3, 4)],
        {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": 1},
    ),
    "conv2d_mixed": (
        op.nn.conv2d,
        [f32(1, 6, 5, 3), f32(4, 3, 3, 3)],
        {"data_layout": "NHWC", "kernel_layout": "OHWI"},
    ),
    "conv3d": (op.nn.conv3d, [f32(1, 2, 4, 5, 6), f32(3, 2, 2, 3, 2)], {"padding": 1}),
    "conv1d_transpose": (
        op.nn.conv1d_transpose,
        [f32(1, 3, 5), f32(3, 4, 3)],
        {"strides": 2, "padding": 1, "output_padding": 1},
    ),
    "conv2d_transpose": (
        op.nn.conv2d_transpose,
        [f32(1, 3, 4, 5), f32(3, 2, 3, 3)],
        {"strides": 2, "padding": 1},
    ),
    "conv2d_transpose_groups": (
        op.nn.conv2d_transpose,
        [f32(1, 4, 4, 5), f32(4, 2, 3, 3)],
        {"groups": 2, "dilation": 2},
    ),
    "max_pool1d": (op.nn.max_pool1d, [f32(1, 3, 9)], {"pool_size": 3, "strides": 2}),
    "max_pool2d": (
        op.nn.max_pool2d,
        [f32(1, 3, 7, 8)],
        {"pool_size": (3, 2), "strides": 2, "padding": 1},
    ),
    "max_pool2d_ceil": (
        op.nn.max_pool2d,
        [f32(1, 3, 7, 8)],
        {"pool_size": 3, "strides": 2, "ceil_mode": True},
    ),
    "avg_pool2d": (
        op.nn.avg_pool2d,
        [f32(1, 3, 7, 8)],
        {"pool_size": 3, "strides": 2, "padding": 1},
    ),
    "avg_pool2d_include": (
        op.nn.avg_pool2d,
        [f32(1, 3, 7, 8)],
        {"pool_size": 3, "strides": 2, "padding": 1, "count_include_pad": True},
    ),
    "avg_pool3d": (op.nn.avg_pool3d, [f32(1, 2, 4, 5, 6)], {"pool_size": 2, "strides": 2}),
    "adaptive_avg_pool2d": (op.nn.adaptive_avg_pool2d, [f32(1, 3, 7, 8)], {"output_size": (3, 4)}),
    "adaptive_avg_pool2d_one": (op.nn.adaptive_avg_pool2d, [f32(1, 3, 7, 8)], {"output_size": 1}),
    "adaptive_max_pool1d": (op.nn.adaptive_max_pool1d, [f32(1, 3, 7)], {"output_size": 3}),
    "matmul": (op.matmul, [f32(3, 4), f32(4, 5)], {}),
    "matmul_batch": (op.matmul, [f32(2, 1, 3, 4), f32(5, 4, 6)], {}),
    "matmul_vector": (op.matmul, [f32(4), f32(4, 5)], {}),
    "dense": (op.dense, [f32(3, 4), f32(5, 4)], {}),
    "reshape": (op.reshape, [f32(3, 4)], {"shape": (2, -1)}),
    "flatten": (op.flatten, [f32(3, 4)], {}),
    "batch_flatten": (op.batch_flatten, [f32(3, 4, 2)], {}),
    "expand_dims": (op.expand_dims, [f32(3, 4)], {"axis": [0, -1]}),
    "squeeze": (op.squeeze, [f32(1, 3, 1, 4)], {"axis": [0]}),
    "squeeze_all": (op.squeeze, [f32(1, 3, 1, 4)], {}),
    "permute_dims": (op.permute_dims, [f32(2, 3, 4)], {"axes": [2, 0, 1]}),
    "permute_reversed": (op.permute_dims, [f32(2, 3, 4)], {}),
    "broadcast_to": (op.broadcast_to, [f32(3, 1)], {"shape": (2, 3, 4)}),
    "split": (op.split, [f32(4, 7)], {"indices_or_sections": 3, "axis": 1}),
    "split_indices": (op.split, [f32(4, 7)], {"indices_or_sections": [2, 5], "axis": -1}),
    "repeat": (op.repeat, [f32(3, 4)], {"repeats": 2, "axis": 1}),
    "repeat_flat": (op.repeat, [f32(3, 4)], {"repeats": 2}),
    "tile": (op.tile, [f32(3, 4)], {"repeats": [2, 1, 3]}),
    "flip": (op.flip, [f32(3, 4)], {"axis": 1}),
    "take": (op.take, [f32(5, 4), i64(2, 3, high=5)], {"axis": 0}),
    "gather_elements": (op.gather_elements, [f32(3, 4), i64(3, 2, high=4)], {"axis": 1}),
    "gather_nd": (op.gather_nd, [f32(3, 4, 5), i64(6, 2, high=3)], {}),
    "strided_slice": (
        op.strided_slice,
        [f32(7, 8)],
        {"axes": [0, 1], "begin": [1, -1], "end": [6, -9], "strides": [2, -3]},
    ),
    "scatter_elements": (
        op.scatter_elements,
        [f32(3, 4), np.array([[1, 0, 2, 1]], "int64"), f32(1, 4)],
        {"axis": 0},
    ),
    "scatter_elements_add": (
        op.scatter_elements,
        [f32(3, 4), np.array([[1, 0, 2, 1], [1, 1, 1, 0]], "int64"), f32(2, 4)],
        {"axis": 0, "reduction": "add"},
    ),
    "scatter_nd": (op.scatter_nd, [f32(4, 3), np.array([[1], [3]], "int64"), f32(2, 3)], {}),
    "sum": (op.sum, [f32(3, 4, 5)], {"axis": [0, 2]}),
    "sum_all": (op.sum, [f32(3, 4)], {}),
    "mean": (op.mean, [f32(3, 4, 5)], {"axis": [1], "keepdims": True}),
    "variance": (op.variance, [f32(3, 4, 5)], {"axis": [1, 2]}),
    "std": (op.std, [f32(3, 4)], {"axis": 1}),
    "prod": (op.prod, [f32(3, 4)], {"axis": 1}),
    "max": (op.max, [f32(3, 4)], {"axis": 1}),
    "min": (op.min, [i32(3, 4)], {"axis": 0, "keepdims": True}),
    "cumsum": (op.cumsum, [f32(3, 4)], {"axis": 1}),
    "cumsum_exclusive": (op.cumsum, [i32(3, 4)], {"axis": 0, "exclusive": True, "dtype": "int64"}),
    "cumprod": (op.cumprod, [f32(6)], {}),
    "argmax": (op.argmax, [f32(3, 6)], {"axis": 1}),
    "argmin": (op.argmin, [f32(3, 6)], {"axis": 0, "keepdims": True}),
    "sort": (op.sort, [f32(3, 6)], {}),
    "argsort": (op.argsort, [i32(3, 6, high=-5)], {"axis": 0, "descending": True}),
    "topk": (op.topk, [f32(3, 6)], {"k": 2}),
    "topk_smallest": (op.topk, [f32(3, 6)], {"k": 2, "largest": False, "ret_type": "values"}),
    "full_like": (op.full_like, [f32(3, 6)], {"fill_value": 2.5}),
    "ones_like": (op.ones_like, [f32(3, 6)], {}),
    "zeros_like": (op.zeros_like, [i32(3, 6)], {}),
    "tril": (op.tril, [f32(2, 4, 5)], {"k": 1}),
    "triu": (op.triu, [f32(4, 5)], {"k": -1}),
    "one_hot": (op.one_hot, [i64(3, 2)], {"on_value": 1, "off_value": 0, "depth": 4}),
    "checked_lengths": (op.checked_lengths, [np.array([0, 5, 3])], {"size": (5,)}),
    "quantize": (op.quantize, [f32(3, 5) * 3, positive(5), i32(5)], {"axis": 1}),
    "quantize_scalar": (
        op.quantize,
        [f32() * 3, np.float32(0.1), np.int32(3)],
        {"out_dtype": "uint8"},
    ),
    "dequantize_scalar": (
        op.dequantize,
        [np.array(9, "uint8"), np.float32(0.1), np.int32(3)],
        {},
    ),
    "quantize_halves": (
        op.quantize,
        [np.arange(-4, 5, dtype="float32") / 2, np.float32(1), np.uint8(3)],
        {"out_dtype": "uint8"},
    ),
    "dequantize": (
        op.dequantize,
        [i32(3, 5).astype("int8"), positive(3), i32(3).astype("int8")],
        {"axis": 0},
    ),
    "collapse_sum_like": (op.collapse_sum_like, [f32(4, 3, 5), f32(3, 1)], {}),
    "resize_nearest": (
        op.image.resize2d,
        [f32(1, 2, 4, 5)],
        {
            "size": (8, 7),
            "method": "nearest_neighbor",
            "coordinate_transformation_mode": "asymmetric",
            "rounding_method": "floor",
        },
    ),
    "resize_linear": (op.image.resize2d, [f32(1, 2, 4, 5)], {"size": (7, 3)}),
    "resize_align": (
        op.image.resize2d,
        [f32(1, 2, 4, 5)],
        {"size": 6, "coordinate_transformation_mode": "align_corners"},
    ),
    "resize_cubic": (
        op.image.resize2d,
        [f32(1, 2, 4, 5)],
        {"size": (7, 9), "method": "cubic", "cubic_alpha": -0.75},
    ),
}


def flat(value):
    return list(value) if isinstance(value, tuple) else [value]


def plain(arg):
    """The value of an argument that is no tensor of the test."""
    if isinstance(arg, relax.Constant):
        return arg.data.numpy()
    if isinstance(arg, relax.ShapeExpr):
        return arg.concrete
    return tuple(field.value.value for field in arg)


def fields(info):
    return list(info.fields) if isinstance(info, relax.TupleStructInfo) else [info]


@pytest.mark.parametrize("name", CASES)
def test_evaluation_and_program_agree(name):
    function, arrays, attrs = CASES[name]
    params = [
        relax.Var(f"x{i}", relax.TensorStructInfo(a.shape, a.dtype)) for i, a in enumerate(arrays)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            value = builder.emit(function(*params, **attrs))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    module = builder.get()
    call = module["main"].body.blocks[0].bindings[0].value
    values = [*arrays, *[plain(arg) for arg in call.args[len(arrays) :]]]
    want = flat(evaluate_call(call, values))
    infos = fields(call.struct_info)
    assert len(want) == len(infos)
    for array, info in zip(want, infos):
        assert info.concrete_shape == array.shape
        assert info.dtype.numpy() == array.dtype
    lowered = relax.transform.LegalizeOps()(module)
    binding = lowered["main"].body.blocks[0].bindings
    call = next(b.value for b in binding if isinstance(b.value, relax.Call))
    assert call.op.name == "relax.call_tir", call
    inputs = [
        arrays[params.index(arg)] if isinstance(arg, relax.Var) else arg.data.numpy()
        for arg in call.args[1]
    ]
    got = run_prim_func(lowered[call.args[0]], inputs, fields(call.struct_info))
    for found, expected in zip(got, want):
        np.testing.assert_allclose(
            found.astype("float64"), expected.astype("float64"), rtol=2e-4, atol=2e-5
        )


def info(*shape, dtype="float32"):
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


n, m = ir.Var("n", "int64"), ir.Var("m", "int64")


@pytest.mark.parametrize(
    "call, shape",
    [
        (op.add(info(n, 4), info(1, 4)), [n, 4]),
        (op.matmul(info(n, 4), info(4, m)), [n, m]),
        (op.reshape(info(n, 4), (-1, 2)), [n * 2, 2]),
        (op.concat([info(n, 4), info(n, 4)], 0), [n * 2, 4]),
        (op.flatten(info(n, 4)), [n * 4]),
        (op.permute_dims(info(n, m, 3)), [3, m, n]),
        (op.nn.conv2d(info(n, 3, 8, 8), info(4, 3, 3, 3), padding=1), [n, 4, 8, 8]),
        (op.strided_slice(info(n, 4), [1], [1], [3]), [n, 2]),
        (op.expand_dims(info(n), 0), [1, n]),
        (op.sum(info(n, m), axis=1, keepdims=True), [n, 1]),
        (op.take(info(n, m), info(5, dtype="int64"), axis=1), [n, 5]),
        (op.zeros([n, 3], "int8"), [n, 3]),
        (op.tile(info(n, 2), [2, 3]), [n * 2, 6]),
    ],
)
def test_symbolic_sizes(call, shape):
    assert relax.relations.prove_equal_shapes(call.struct_info.shape, relax.ShapeExpr(shape))


def test_unknown_shapes_keep_the_rank():
    x = relax.Var("x", relax.TensorStructInfo(dtype="float32", ndim=2))
    assert op.add(x, x).struct_info.ndim == 2
    assert op.matmul(x, x).struct_info.shape is None
    assert op.sum(x, axis=0).struct_info.ndim == 1


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (lambda: op.add(info(2, 3), info(4)), ShapeError, "cannot broadcast"),
        (lambda: op.add(info(2), info(2, dtype="int32")), TypeMismatchError, "one dtype"),
        (lambda: op.matmul(info(2, 3), info(4, 5)), ShapeError, "differs"),
        (lambda: op.reshape(info(2, 3), (4, 2)), ShapeError, "number of elements"),
        (lambda: op.nn.conv2d(info(1, 3, 8, 8), info(4, 5, 3, 3)), ShapeError, "channels"),
        (lambda: op.nn.softmax(info(2, 3), axis=2), ShapeError, "no axis 2"),
        (lambda: op.exp(info(2, dtype="int32")), TypeMismatchError, "floats"),
        (lambda: op.concat([info(2, 3), info(2, 4)], 0), ShapeError, "concat"),
        (lambda: op.nn.pad(info(2, 3), [1, 1]), ShapeError, "pad"),
        (lambda: op.squeeze(info(2, 3), [0]), ShapeError, "size 1"),
    ],
)
def test_mistakes_are_named(make, kind, text):
    with pytest.raises(kind, match=text) as error:
        _ = make().struct_info
    assert "in the call relax." in str(error.value)


def test_attributes_are_checked():
    with pytest.raises(OpAttributeInvalid, match="(?s)stride.*strides"):
        relax.Call(
            ir.Op.get("relax.nn.conv2d"), [info(1, 3, 8, 8), info(4, 3, 3, 3)], {"stride": 1}
        )
    with pytest.raises(OpAttributeInvalid, match="groups"):
        op.nn.conv2d(info(1, 3, 8, 8), info(4, 3, 3, 3), groups="two")
