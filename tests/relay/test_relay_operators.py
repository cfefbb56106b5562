"""Operators through relay's door, against numpy and torch: one program holds all calls."""

import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F

import tilesmith as ts
from tilesmith import relay
from tilesmith.ir import Op
from tilesmith.relay.op.view import View, functions
from tilesmith.support.errors import (
    OpAttributeInvalid,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.topi import testing as topi_testing

RANDOM = numpy.random.default_rng(0)


def floats(*shape, low=-1.0, high=1.0):
    return RANDOM.uniform(low, high, shape).astype("float32")


def integers(*shape, low=-9, high=9, dtype="int32"):
    return RANDOM.integers(low, high, shape).astype(dtype)


@dataclass
class Case:
    """A call of relay's function, its inputs, and what it should give."""

    name: str
    inputs: list
    expected: Any
    attributes: dict = field(default_factory=dict)
    make: Any = None  # (*variables) → expression, where the function takes more than tensors
    tolerance: float = 1e-5

    def expression(self, variables):
        if self.make is not None:
            return self.make(*variables)
        function = relay
        for part in self.name.split("."):
            function = getattr(function, part)
        return function(*variables, **self.attributes)

    def wanted(self):
        found = self.expected(*self.inputs) if callable(self.expected) else self.expected
        found = found if isinstance(found, (tuple, list)) else [found]
        return [
            one.numpy() if isinstance(one, torch.Tensor) else numpy.asarray(one) for one in found
        ]


def torched(function):
    return lambda *arrays: function(*[torch.from_numpy(numpy.array(one)) for one in arrays])


def erf(x):
    return torch.erf(torch.from_numpy(x))


X, Y = floats(2, 3, 5), floats(2, 3, 5)
POSITIVE = floats(2, 3, 5, low=0.1, high=3)
ABOVE_ONE = floats(2, 5, low=1.1, high=3)
INTS, J = integers(3, 4), integers(3, 4, low=1)
BOOL, BOOL2 = X > 0, Y > 0
IMAGE, IMAGE_NHWC = floats(1, 4, 9, 8), floats(1, 9, 8, 4)

UNARY = {
    "log": numpy.log, "log2": numpy.log2, "log10": numpy.log10, "sqrt": numpy.sqrt,
    "rsqrt": lambda x: 1 / numpy.sqrt(x), "exp": numpy.exp, "erf": erf, "tanh": numpy.tanh,
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)), "cos": numpy.cos, "sin": numpy.sin,
    "tan": numpy.tan, "cosh": numpy.cosh, "sinh": numpy.sinh, "atan": numpy.arctan,
    "asinh": numpy.arcsinh, "floor": numpy.floor, "ceil": numpy.ceil, "trunc": numpy.trunc,
    "round": numpy.rint, "abs": numpy.abs, "sign": numpy.sign, "negative": numpy.negative,
    "isnan": numpy.isnan, "isfinite": numpy.isfinite, "isinf": numpy.isinf, "copy": lambda x: x,
    "zeros_like": numpy.zeros_like, "ones_like": numpy.ones_like,
    "fast_exp": numpy.exp, "fast_tanh": numpy.tanh, "fast_erf": erf,
    "nn.relu": lambda x: numpy.maximum(x, 0),
    "nn.batch_flatten": lambda x: x.reshape(2, 15),
}  # fmt: skip
BINARY = {
    "add": numpy.add, "subtract": numpy.subtract, "multiply": numpy.multiply,
    "divide": numpy.divide, "floor_divide": numpy.floor_divide, "power": numpy.power,
    "mod": numpy.fmod, "trunc_mod": numpy.fmod, "floor_mod": numpy.mod,
    "trunc_divide": lambda a, b: numpy.trunc(a / b), "equal": numpy.equal,
    "not_equal": numpy.not_equal, "less": numpy.less, "less_equal": numpy.less_equal,
    "greater": numpy.greater, "greater_equal": numpy.greater_equal, "maximum": numpy.maximum,
    "minimum": numpy.minimum,
}  # fmt: skip
LOGICAL = {"logical_and": numpy.logical_and, "logical_or": numpy.logical_or,
           "logical_xor": numpy.logical_xor}  # fmt: skip
BITS = {
    "bitwise_and": numpy.bitwise_and, "bitwise_or": numpy.bitwise_or,
    "bitwise_xor": numpy.bitwise_xor, "mod": numpy.fmod, "floor_mod": numpy.mod,
    "trunc_divide": lambda a, b: numpy.trunc(a / b).astype("int32"),
    "divide": lambda a, b: numpy.trunc(a / b).astype("int32"),
}  # fmt: skip
REDUCTIONS = ("sum", "mean", "max", "min", "prod")
WEIGHT = floats(6, 4, 3, 3)
SPARSE_MATRIX = numpy.array([[0, 2, 0, 1], [3, 0, 0, 0]], "float32")
SPARSE, SPARSE_INDICES, SPARSE_STARTS = (
    numpy.array([2, 1, 3], "float32"), numpy.array([1, 3, 0], "int32"),
    numpy.array([0, 2, 3], "int32"),
)  # fmt: skip

CASES = [
    *[Case(name, [POSITIVE], f, tolerance=1e-4) for name, f in UNARY.items()],
    *[Case(name, [floats(2, 5)], f) for name, f in (
        ("asin", numpy.arcsin), ("acos", numpy.arccos), ("atanh", numpy.arctanh))],
    Case("acosh", [ABOVE_ONE], numpy.arccosh),
    *[Case(name, [POSITIVE, floats(3, 1, low=0.5, high=2)], f) for name, f in BINARY.items()],
    *[Case(name, [BOOL, BOOL2], f) for name, f in LOGICAL.items()],
    *[Case(name, [INTS, J], f) for name, f in BITS.items()],
    Case("logical_not", [BOOL], numpy.logical_not),
    Case("bitwise_not", [INTS], numpy.bitwise_not),
    Case("left_shift", [INTS, J % 4], numpy.left_shift),
    Case("right_shift", [INTS, J % 4], numpy.right_shift),
    Case("clip", [X], lambda x: x.clip(-0.5, 0.25), {"a_min": -0.5, "a_max": 0.25}),
    *[Case(name, [X], lambda x, name=name: getattr(numpy, name)(x, axis=(0, 2)), {"axis": (0, 2)})
      for name in REDUCTIONS],
    *[Case(name, [X], lambda x, name=name: getattr(numpy, name)(x, axis=(0, 2), keepdims=True),
           {"axis": 1, "exclude": True, "keepdims": True}) for name in REDUCTIONS],
    Case("all", [BOOL], lambda x: x.all(1), {"axis": 1}),
    Case("any", [BOOL], lambda x: x.any(-1), {"axis": -1}),
    Case("argmax", [X], lambda x: x.argmax(1).astype("int32"), {"axis": 1}),
    Case("argmin", [X], lambda x: x.argmin(2).astype("int32"), {"axis": 2}),
    Case("variance", [X], lambda x: x.var(1), {"axis": 1}),
    Case("variance", [X], lambda x: x.var((0, 2), ddof=1), {"axis": (0, 2), "unbiased": True}),
    Case("std", [X], lambda x: x.std(2, keepdims=True), {"axis": 2, "keepdims": True}),
    Case("mean_variance", [X], lambda x: [x.mean(1), x.var(1)], {"axis": 1}),
    Case("mean_std", [X], lambda x: [x.mean(1), x.std(1)], {"axis": 1}),
    Case("logsumexp", [X], torched(lambda x: torch.logsumexp(x, 1)), {"axis": 1}),
    # shapes
    Case("reshape", [X], lambda x: x.reshape(2, 15), {"newshape": (0, -3)}),
    Case("reshape", [X], lambda x: x.reshape(6, 5), {"newshape": (-1, 5)}),
    Case("reshape", [floats(2, 12)], lambda x: x.reshape(2, 3, 4), {"newshape": (0, -4, 3, -1)}),
    Case("reshape", [X], lambda x: x, {"newshape": (2, -2)}),
    Case("reverse_reshape", [X], lambda x: x.reshape(6, 5), {"newshape": (-1, 0)}),
    Case("reshape_like", [X, floats(6, 5)], lambda x, y: x.reshape(6, 5)),
    Case("reshape_like", [floats(6, 5), X], lambda x, y: x.reshape(2, 3, 5),
         {"lhs_end": 1, "rhs_end": 2}),
    Case("expand_dims", [X], lambda x: x[:, None, None], {"axis": 1, "num_newaxis": 2}),
    Case("expand_dims", [X], lambda x: x[..., None], {"axis": -1}),
    Case("squeeze", [X[:1]], lambda x: x[0], {"axis": [0]}),
    Case("transpose", [X], lambda x: x.transpose(2, 0, 1), {"axes": (2, 0, 1)}),
    Case("transpose", [X], lambda x: x.T),
    Case("broadcast_to", [X[:, :1]], lambda x: numpy.broadcast_to(x, (2, 3, 5)),
         {"shape": (2, 3, 5)}),
    Case("broadcast_to_like", [X[:, :1], Y], lambda x, y: numpy.broadcast_to(x, (2, 3, 5))),
    Case("collapse_sum_like", [X, X[:, :1]], lambda x, y: x.sum(1, keepdims=True)),
    Case("collapse_sum_like", [X, Y], lambda x, y: x),
    Case("collapse_sum_to", [X], lambda x: x, {"shape": (2, 3, 5)}),
    Case("collapse_sum_to", [X], lambda x: x.sum((0, 1)), {"shape": (5,)}),
    Case("shape_of", [X], numpy.array([2, 3, 5], "int32")),
    Case("ndarray_size", [X], numpy.array(30, "int32")),
    Case("layout_transform", [IMAGE], lambda x: x.reshape(1, 2, 2, 9, 8).transpose(0, 1, 3, 4, 2),
         {"src_layout": "NCHW", "dst_layout": "NCHW2c"}),
    # conversion, creation
    Case("cast", [X * 9], lambda x: x.astype("int32"), {"dtype": "int32"}),
    Case("cast_like", [INTS, X], lambda x, y: x.astype("float32")),
    Case("reinterpret", [X], lambda x: x.view("int32"), {"dtype": "int32"}),
    Case("zeros", [], numpy.zeros((2, 3), "int32"), {"shape": (2, 3), "dtype": "int32"}),
    Case("ones", [], numpy.ones(4, "float32"), {"shape": (4,), "dtype": "float32"}),
    Case("full", [], numpy.full((2, 2), 7, "float32"), make=lambda: relay.full(7.0, (2, 2))),
    Case("full_like", [INTS], lambda x: numpy.full_like(x, 3), {"fill_value": 3}),
    Case("arange", [], numpy.arange(2, 11, 3, dtype="float32"),
         make=lambda: relay.arange(2, 11, 3)),
    Case("arange", [], numpy.arange(5, dtype="int32"),
         make=lambda: relay.arange(relay.const(5), dtype="int32")),
    Case("one_hot", [numpy.array([2, 0], "int32")], numpy.array([[0, 0, 5], [5, 0, 0]], "float32"),
         {"on_value": 5.0, "off_value": 0.0, "depth": 3, "axis": -1, "dtype": "float32"}),
    # several tensors
    Case("concatenate", [X, Y], lambda x, y: numpy.concatenate([x, y], 1),
         make=lambda x, y: relay.concatenate([x, y], 1)),
    Case("stack", [X, Y], lambda x, y: numpy.stack([x, y], -1),
         make=lambda x, y: relay.stack((x, y), -1)),
    Case("split", [X], lambda x: numpy.split(x, [1, 3], 2),
         make=lambda x: relay.split(x, (1, 3), axis=2).astuple()),
    Case("split", [X], lambda x: numpy.split(x, 3, 1)[2], make=lambda x: relay.split(x, 3, 1)[2]),
    Case("einsum", [floats(3, 4), floats(4, 2)], numpy.matmul,
         make=lambda a, b: relay.einsum((a, b), "ij,jk->ik")),
    Case("meshgrid", [floats(2), floats(3)], lambda a, b: numpy.meshgrid(a, b, indexing="ij"),
         make=lambda a, b: relay.meshgrid([a, b]).astuple()),
    Case("where", [BOOL, X, Y], numpy.where),
    # order and repetition
    Case("repeat", [X], lambda x: x.repeat(2, 1), {"repeats": 2, "axis": 1}),
    Case("tile", [X], lambda x: numpy.tile(x, (2, 1, 3)), {"reps": (2, 1, 3)}),
    Case("reverse", [X], lambda x: x[:, ::-1], {"axis": 1}),
    Case("reverse_sequence", [floats(4, 2), numpy.array([3, 2], "int32")],
         lambda x, n: numpy.stack([numpy.r_[x[:3, 0][::-1], x[3:, 0]],
                                   numpy.r_[x[:2, 1][::-1], x[2:, 1]]], 1),
         {"seq_axis": 0, "batch_axis": 1}),
    Case("cumsum", [X], lambda x: x.cumsum(1), {"axis": 1}),
    Case("cumprod", [X], lambda x: x.cumprod(0), {"axis": 0}),
    Case("trilu", [floats(4, 4)], lambda x: numpy.triu(x, 1), {"k": 1, "upper": True}),
    Case("trilu", [floats(4, 4)], lambda x: numpy.tril(x, -1), {"k": -1, "upper": False}),
    Case("sort", [X], lambda x: numpy.sort(x, 1), {"axis": 1}),
    Case("argsort", [X], lambda x: numpy.argsort(-x, -1).astype("int32"), {"is_ascend": False}),
    Case("topk", [X], torched(lambda x: [(r := torch.topk(x, 2)).values, r.indices.int()]),
         make=lambda x: relay.topk(x, 2).astuple()),
    Case("topk", [X], torched(lambda x: torch.topk(x, 2, largest=False).values),
         {"k": 2, "ret_type": "values", "is_ascend": True}),
    Case("searchsorted", [numpy.sort(floats(8)), floats(3)],
         lambda s, v: numpy.searchsorted(s, v).astype("int32")),
    Case("sequence_mask", [floats(4, 2), numpy.array([3, 1], "int32")],
         lambda x, n: numpy.where(numpy.arange(4)[:, None] < n, x, -1), {"mask_value": -1}),
    Case("matrix_set_diag", [floats(3, 3), floats(3)],
         lambda x, d: x - numpy.diag(numpy.diag(x)) + numpy.diag(d)),
    Case("invert_permutation", [numpy.array([2, 0, 1], "int32")], numpy.array([1, 2, 0], "int32")),
    Case("unravel_index", [numpy.array([5, 7], "int32"), numpy.array([3, 4], "int32")],
         lambda i, s: numpy.stack(numpy.unravel_index(i, s)).astype("int32")),
    Case("sliding_window", [floats(5)], lambda x: numpy.stack([x[0:3], x[2:5]]),
         {"axis": 0, "window_shape": (3,), "strides": (2,)}),
    # slices and indices
    Case("strided_slice", [X], lambda x: x[0:2, 1:3], {"begin": (0, 1), "end": (2, 3)}),
    Case("strided_slice", [X], lambda x: x[:, :, 4:0:-2],
         {"begin": (4,), "end": (0,), "strides": (-2,), "axes": (2,)}),
    Case("strided_slice", [X], lambda x: x[:, 1:3],
         {"begin": (0, 1), "end": (-1, 2), "slice_mode": "size"}),
    Case("strided_set", [X, floats(2, 2, 5)], lambda x, v: numpy.concatenate([x[:, :1], v], 1),
         {"begin": (0, 1, 0), "end": (2, 3, 5)}),
    Case("slice_like", [X, floats(1, 2)], lambda x, y: x[:1, :2]),
    Case("slice_like", [X, floats(1, 2, 3)], lambda x, y: x[:, :, :3], {"axes": (-1,)}),
    Case("take", [X, numpy.array([2, 0], "int32")], lambda x, i: x.take(i, 1), {"axis": 1}),
    Case("take", [X, numpy.array([7, -9], "int32")], lambda x, i: x.take([2, 0], 1),
         {"axis": 1, "mode": "clip"}),
    Case("gather", [X, integers(2, 3, 2, low=0, high=4, dtype="int64")],
         torched(lambda x, i: torch.gather(x, 2, i)), make=lambda x, i: relay.gather(x, 2, i)),
    Case("gather_nd", [X, numpy.array([[0, 1], [2, 0]], "int32")], lambda x, i: x[[0, 1], [2, 0]]),
    Case("scatter_elements", [X, integers(2, 3, 1, low=0, high=4, dtype="int64"), floats(2, 3, 1)],
         torched(lambda x, i, u: x.scatter(2, i, u)), {"axis": 2}),
    Case("scatter_nd", [numpy.zeros(6, "float32"), numpy.array([[1, 4]], "int32"), floats(2)],
         lambda x, i, u: numpy.array([0, u[0], 0, 0, u[1], 0], "float32"), {"mode": "add"}),
    Case("adv_index", [X, numpy.array([1, 0], "int32"), numpy.array([2, 0], "int32")],
         lambda x, i, j: x[i, j], make=lambda x, i, j: relay.adv_index([x, i, j])),
    Case("sparse_to_dense", [numpy.array([[0, 1], [2, 0]], "int32"), floats(2)],
         lambda i, v: numpy.array([[0, v[0]], [0, 0], [v[1], 0]], "float32"),
         make=lambda i, v: relay.sparse_to_dense(i, (3, 2), v)),
    Case("dft", [floats(2, 6), floats(2, 6)], lambda a, b: [
        (f := numpy.fft.fft(a + 1j * b)).real.astype("float32"), f.imag.astype("float32")],
        make=lambda a, b: relay.dft(a, b).astuple()),
    Case("stft", [floats(1, 12)], torched(lambda x: torch.view_as_real(torch.stft(
        x, 4, 2, center=False, return_complex=True, window=torch.ones(4)))),
        {"n_fft": 4, "hop_length": 2}),
    Case("topk", [X], torched(lambda x: torch.topk(x, 2).indices.int()),
         {"k": 2, "ret_type": "indices"}),
    Case("unique", [numpy.array([3, 1, 3, 2, 1], "int32")],
         lambda x: numpy.array([1, 2, 3], "int32"),
         make=lambda x: relay.strided_slice(relay.unique(x)[0], (0,), (3,))),
    # sparse matrices
    Case("nn.sparse_dense", [floats(3, 4), SPARSE, SPARSE_INDICES, SPARSE_STARTS],
         lambda x, d, i, p: x @ SPARSE_MATRIX.T,
         make=lambda x, *parts: relay.nn.sparse_dense(x, parts)),
    Case("nn.sparse_add", [floats(2, 4), SPARSE, SPARSE_INDICES, SPARSE_STARTS],
         lambda x, d, i, p: x + SPARSE_MATRIX,
         make=lambda x, *parts: relay.nn.sparse_add(x, parts)),
    # products
    Case("nn.dense", [floats(3, 5), floats(4, 5)], lambda a, b: a @ b.T, {"units": 4}),
    Case("nn.matmul", [floats(5, 3), floats(5, 4)], lambda a, b: a.T @ b, {"transpose_a": True}),
    Case("nn.batch_matmul", [floats(2, 3, 5), floats(2, 4, 5)],
         lambda a, b: a @ b.transpose(0, 2, 1)),
    # convolutions
    Case("nn.conv1d", [floats(1, 3, 9), floats(4, 3, 3)],
         torched(lambda x, w: F.conv1d(x, w, stride=2, padding=1)), {"strides": 2, "padding": 1}),
    Case("nn.conv2d", [IMAGE, WEIGHT], torched(lambda x, w: F.conv2d(x, w, padding=1)),
         {"padding": (1, 1), "channels": 6, "kernel_size": (3, 3)}),
    Case("nn.conv2d", [IMAGE_NHWC, WEIGHT.transpose(2, 3, 1, 0)], torched(lambda x, w: F.conv2d(
        x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), stride=2).permute(0, 2, 3, 1)),
        {"strides": (2, 2), "data_layout": "NHWC", "kernel_layout": "HWIO"}),
    Case("nn.conv2d", [IMAGE, floats(4, 1, 3, 3)],
         torched(lambda x, w: F.conv2d(x, w, groups=4, dilation=2)),
         {"groups": 4, "dilation": (2, 2)}),
    Case("nn.conv3d", [floats(1, 2, 4, 5, 5), floats(3, 2, 2, 2, 2)],
         torched(lambda x, w: F.conv3d(x, w))),
    Case("nn.conv2d_transpose", [IMAGE, floats(4, 3, 3, 3)],
         torched(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)),
         {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 1)}),
    Case("nn.conv1d_transpose", [floats(1, 3, 5), floats(3, 2, 3)],
         torched(lambda x, w: F.conv_transpose1d(x, w, stride=2)), {"strides": (2,)}),
    # pools
    Case("nn.max_pool2d", [IMAGE], torched(lambda x: F.max_pool2d(x, 3, 2, 1)),
         {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}),
    Case("nn.avg_pool2d", [IMAGE], torched(lambda x: F.avg_pool2d(x, 3, 2, 1,
         count_include_pad=False)), {"pool_size": 3, "strides": 2, "padding": 1}),
    Case("nn.max_pool1d", [X], torched(lambda x: F.max_pool1d(x, 2, 2)),
         {"pool_size": 2, "strides": 2}),
    Case("nn.avg_pool3d", [floats(1, 1, 4, 4, 4)], torched(lambda x: F.avg_pool3d(x, 2, 1)),
         {"pool_size": (2, 2, 2)}),
    Case("nn.global_avg_pool2d", [IMAGE], lambda x: x.mean((2, 3), keepdims=True)),
    Case("nn.global_max_pool2d", [IMAGE], lambda x: x.max((2, 3), keepdims=True)),
    Case("nn.adaptive_avg_pool2d", [IMAGE], torched(lambda x: F.adaptive_avg_pool2d(x, (3, 2))),
         {"output_size": (3, 2)}),
    Case("nn.adaptive_max_pool1d", [X], torched(lambda x: F.adaptive_max_pool1d(x, 2)),
         {"output_size": 2}),
    # normalisation
    Case("nn.softmax", [X], torched(lambda x: x.softmax(1)), {"axis": 1}),
    Case("nn.log_softmax", [X], torched(lambda x: x.log_softmax(-1))),
    Case("nn.fast_softmax", [X], torched(lambda x: x.softmax(-1)), tolerance=1e-4),
    Case("nn.batch_norm", [IMAGE, *[floats(4, low=0.5) for _ in range(3)], floats(4, low=0.5)],
         torched(lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b)),
         make=lambda *args: relay.nn.batch_norm(*args)[0], tolerance=1e-4),
    Case("nn.layer_norm", [X, floats(5), floats(5)],
         torched(lambda x, g, b: F.layer_norm(x, (5,), g, b))),
    Case("nn.group_norm", [IMAGE, floats(4), floats(4)],
         torched(lambda x, g, b: F.group_norm(x, 2, g, b)), {"num_groups": 2}),
    Case("nn.instance_norm", [IMAGE, floats(4), floats(4)],
         torched(lambda x, g, b: F.instance_norm(x, weight=g, bias=b))),
    Case("nn.instance_norm", [IMAGE, floats(4), floats(4)],
         torched(lambda x, g, b: F.instance_norm(x)), {"center": False, "scale": False}),
    Case("nn.l2_normalize", [X], torched(lambda x: F.normalize(x, dim=1)),
         {"eps": 1e-12, "axis": [1]}),
    Case("nn.lrn", [IMAGE], torched(lambda x: F.local_response_norm(x, 3, 1e-4, 0.75, 2.0)),
         {"size": 3, "alpha": 1e-4}),
    Case("nn.dropout", [X], lambda x: x),
    # the rest of nn
    Case("nn.bias_add", [IMAGE, floats(4)], lambda x, b: x + b[:, None, None]),
    Case("nn.bias_add", [IMAGE, floats(8)], lambda x, b: x + b, {"axis": -1}),
    Case("nn.leaky_relu", [X], torched(lambda x: F.leaky_relu(x, 0.2)), {"alpha": 0.2}),
    Case("nn.prelu", [IMAGE, floats(4)], torched(F.prelu)),
    Case("nn.pad", [X], lambda x: numpy.pad(x, ((0, 0), (1, 2), (0, 3)), constant_values=2),
         {"pad_width": ((0, 0), (1, 2), (0, 3)), "pad_value": 2.0}),
    Case("nn.pad", [X], lambda x: numpy.pad(x, ((0, 0), (1, 1), (0, 0)), "edge"),
         {"pad_width": ((0, 0), (1, 1), (0, 0)), "pad_mode": "edge"}),
    Case("nn.mirror_pad", [X], lambda x: numpy.pad(x, ((0, 0), (1, 1), (2, 0)), "symmetric"),
         {"pad_width": ((0, 0), (1, 1), (2, 0))}),
    Case("nn.dilate", [floats(2, 2)], lambda x: numpy.array(
        [[x[0, 0], 0, x[0, 1]], [x[1, 0], 0, x[1, 1]]], "float32"), {"strides": (1, 2)}),
    Case("nn.depth_to_space", [IMAGE], torched(lambda x: F.pixel_shuffle(x, 2)),
         {"block_size": 2, "mode": "CRD"}),
    Case("nn.space_to_depth", [IMAGE[:, :, :8]], lambda x: x.reshape(1, 4, 4, 2, 4, 2).transpose(
        0, 3, 5, 1, 2, 4).reshape(1, 16, 4, 4), {"block_size": 2}),
    Case("nn.space_to_batch_nd", [floats(1, 4, 4, 1)],
         lambda x: x.reshape(1, 2, 2, 2, 2, 1).transpose(2, 4, 0, 1, 3, 5).reshape(4, 2, 2, 1),
         {"block_shape": (2, 2), "paddings": ((0, 0), (0, 0))}),
    Case("nn.batch_to_space_nd", [floats(4, 2, 2, 1)],
         lambda x: x.reshape(2, 2, 1, 2, 2, 1).transpose(2, 3, 0, 4, 1, 5).reshape(1, 4, 4, 1),
         {"block_shape": (2, 2), "crops": ((0, 0), (0, 0))}),
    Case("nn.upsampling", [IMAGE], lambda x: x.repeat(2, 2).repeat(3, 3),
         {"scale_h": 2, "scale_w": 3}),
    Case("nn.cross_entropy_with_logits", [floats(3, 4), floats(3, 4)],
         lambda p, t: -(p * t).sum() / 3),
    Case("nn.cross_entropy", [floats(3, 4, low=0.1), floats(3, 4)],
         lambda p, t: -(numpy.log(p) * t).sum() / 3),
    Case("nn.nll_loss", [floats(3, 4), numpy.array([1, 0, 3], "int64"), floats(4, low=0.1)],
         torched(lambda p, t, w: F.nll_loss(p, t, w))),
    # images
    Case("image.resize2d", [IMAGE], torched(lambda x: F.interpolate(
        x, (13, 5), mode="bilinear", align_corners=True)),
        {"size": (13, 5), "coordinate_transformation_mode": "align_corners"}),
    Case("image.resize1d", [X], lambda x: x.repeat(2, 2),
         {"size": (10,), "method": "nearest_neighbor",
          "coordinate_transformation_mode": "asymmetric"}),
    Case("image.resize3d", [floats(1, 1, 2, 3, 2)],
         lambda x: x.repeat(2, 2).repeat(2, 3).repeat(2, 4),
         {"size": (4, 6, 4), "method": "nearest_neighbor",
          "coordinate_transformation_mode": "asymmetric"}),
    Case("image.grid_sample", [IMAGE, floats(1, 2, 3, 3)], torched(lambda x, g: F.grid_sample(
        x, g.permute(0, 2, 3, 1), align_corners=True)), tolerance=1e-4),
    Case("image.affine_grid", [floats(1, 2, 3)], torched(lambda a: F.affine_grid(
        a, (1, 1, 3, 4), align_corners=True).permute(0, 3, 1, 2)), {"target_shape": (3, 4)}),
    # vision
    Case("vision.roi_pool", [IMAGE, numpy.array([[0, 0, 0, 7, 7]], "float32")], lambda x, r: numpy.
         stack([x[0, :, :8].reshape(4, 2, 4, 2, 4).max((2, 4))]),
         {"pooled_size": (2, 2), "spatial_scale": 1.0}),
    Case("vision.yolo_reorg", [floats(1, 4, 4, 6)], lambda x: topi_testing.reorg_python(x, 2),
         {"stride": 2}),
    Case("argwhere", [INTS > 0], lambda x: numpy.argwhere(x).astype("int32")),
]  # fmt: skip

NAMES = [f"{case.name}-{number}" for number, case in enumerate(CASES)]


def variables(case):
    return [
        relay.var(f"{case.name.replace('.', '_')}_{place}", shape=one.shape, dtype=str(one.dtype))
        for place, one in enumerate(case.inputs)
    ]


@pytest.fixture(scope="module")
def computed():
    """What one program gives that holds all calls."""
    params, fields, values = [], [], []
    for case in CASES:
        own = variables(case)
        params += own
        values += case.inputs
        fields.append(case.expression(own))
    function = relay.Function(params, relay.Tuple(fields))
    with ts.transform.PassContext(opt_level=0):
        run = relay.create_executor("graph").evaluate(function)
    return run(*values)


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_an_operator_computes_what_it_should(computed, number):
    case = CASES[number]
    found = computed[number]
    found = found if isinstance(found, (tuple, list)) else [found]
    wanted = case.wanted()
    assert len(found) == len(wanted)
    for one, expected in zip(found, wanted):
        one = one.numpy()
        assert one.shape == expected.shape
        assert one.dtype == expected.dtype or expected.dtype == "float64"
        numpy.testing.assert_allclose(one, expected, rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_the_type_of_a_call_is_that_of_its_value(computed, number):
    expression = CASES[number].expression(variables(CASES[number]))
    found, type_ = computed[number], expression.checked_type
    found = found if isinstance(found, (tuple, list)) else [found]
    types = type_.fields if isinstance(type_, relay.TupleType) else [type_]
    for one, field_type in zip(found, types, strict=True):
        assert str(field_type.dtype) == str(one.dtype)
        if CASES[number].name != "argwhere":  # its size depends on the data
            assert tuple([int(size) for size in field_type.shape]) == one.shape


def test_every_operator_is_a_view_of_a_record():
    import tilesmith.relay.op  # noqa: F401 - declares them

    names = [name for name in Op.list_op_names() if isinstance(Op.get(name).spec, View)]
    assert len(names) > 180
    for name in names:
        view = Op.get(name).spec
        assert view.description, name
        assert (view.translate is None) != (view.compute is None), name
        assert 0 <= Op.get(name).support_level <= 11


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("add", "(lhs, rhs)"),
        ("nn.conv2d", "(data, weight, strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), "
         "groups=1, channels=None, kernel_size=None, data_layout='NCHW', kernel_layout='OIHW', "
         "out_layout='', out_dtype='')"),
        ("nn.dense", "(data, weight, units=None, out_dtype='')"),
        ("sum", "(data, axis=None, keepdims=False, exclude=False)"),
        ("take", "(data, indices, axis=None, batch_dims=0, mode='clip')"),
    ],
)  # fmt: skip
def test_the_signatures_are_those_that_users_know(name, signature):
    namespace, _, short = name.rpartition(".")
    prefix = namespace + "." if namespace else ""
    assert str(inspect.signature(functions(prefix)[short])) == signature


X_VAR, W_VAR = relay.var("x", shape=(1, 4, 9, 8)), relay.var("w", shape=(6, 4, 3, 3))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: relay.nn.conv2d(X_VAR, W_VAR, stride=2), TypeMismatchError, "stride"),
        (lambda: relay.nn.conv2d(X_VAR, W_VAR, kernel_size=(5, 5)).struct_info, ShapeError,
         "kernel_size"),
        (lambda: relay.nn.dense(relay.var("a", shape=(2, 3)), relay.var("b", shape=(4, 3)), units=5)
         .struct_info, ShapeError, "units"),
        (lambda: relay.sum(X_VAR, axis="x"), OpAttributeInvalid, "axis"),
        (lambda: relay.sum(X_VAR, exclude=True).struct_info, OpAttributeInvalid, "exclude"),
        (lambda: relay.op.get("nn.conv2"), UnknownNameError, "nn.conv2d"),
        (lambda: relay.squeeze(X_VAR, relay.var("b", shape=(1,), dtype="int64")).struct_info,
         UnsupportedError, "axes"),
        (lambda: relay.strided_slice(X_VAR, relay.var("b", shape=(1,)), (1,), axes=[1]),
         UnsupportedError, "axes"),
        (lambda: relay.reshape(relay.var("a", relay.TensorType((relay.Any(),))), (0, -3))
         .struct_info, ShapeError, "reshape"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("padding", "wanted"), [(1, (1, 1, 1, 1)), ((1, 2), (1, 2, 1, 2)), ([1, 2, 3, 4], (1, 2, 3, 4))]
)
def test_padding_is_written_in_full(padding, wanted):
    assert relay.op.nn.utils.get_pad_tuple2d(padding) == wanted
    assert relay.op.nn.utils.get_pad_tuple1d(padding=3) == (3, 3)
    assert len(relay.op.nn.utils.get_pad_tuple3d((1, 2, 3))) == 6
    with pytest.raises(OpAttributeInvalid, match="padding of 2 axes"):
        relay.op.nn.utils.get_pad_tuple2d((1, 2, 3))


def test_an_unknown_operator_suggests_the_nearest():
    with pytest.raises(AttributeError) as caught:
        relay.nn.sofmax
    assert "nn.softmax" in str(caught.value)
