"""The models that the fuzzer changes: small ones of every family of operators.

Those of ``BASES`` are written here; where the package onnx has its node tests, their models serve,
too.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
from onnx import FunctionProto, ModelProto, ValueInfoProto, helper, numpy_helper, parser

__all__ = ["BASES", "Base", "load_base", "names_of_others"]

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class Base:
    """A model as text. Inputs: ``float[1,N] x, int64[2] i``. Weights: name → shape (random floats)
    or array; those in ``external`` are stored in a file beside the model.
    """

    inputs: str
    nodes: str
    outputs: str = "y"
    weights: Weights = field(default_factory=dict)
    opset: int = 17
    functions: str = ""
    external: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def model(self) -> ModelProto:
        """Return the model. The weights are the same every time."""
        rng = numpy.random.default_rng(0)
        graph = helper.make_graph(
            _nodes(self.nodes),
            "graph",
            [_value(text) for text in re.findall(r"\w+(?:\[[^]]*\])? \w+", self.inputs)],
            [ValueInfoProto(name=name.strip()) for name in self.outputs.split(",")],
            [_tensor(rng, name, value) for name, value in self.weights.items()],
        )
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(name, 1) for name in self.domains]
        return helper.make_model(
            graph, opset_imports=imports, ir_version=8, functions=_functions(self.functions)
        )


def _nodes(text: str) -> list[Any]:
    return list(parser.parse_graph(f"g (float x) => (float y) {{ {text} }}").node)


def _functions(text: str) -> list[FunctionProto]:
    return [parser.parse_function(part) for part in text.split("====") if part.strip()]


def _value(text: str) -> ValueInfoProto:
    graph = parser.parse_graph(f"g ({text}) => (float y) {{ y = Relu(x) }}")
    found: ValueInfoProto = graph.input[0]
    return found


def _tensor(rng: numpy.random.Generator, name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        value = rng.standard_normal(value).astype("float32")
    return numpy_helper.from_array(numpy.asarray(value), name)


def _ints(*values: int) -> Any:
    return numpy.array(values, "int64")


_ELEMENTWISE = {
    "unary": Base(
        "float[2,3] x",
        "a = Relu(x) b = LeakyRelu<alpha=0.1>(a) c = Clip(b, low, high) d = Sigmoid(c) y = Erf(d)",
        weights={"low": numpy.float32(-1), "high": numpy.float32(1)},
    ),
    "binary": Base(
        "float[2,3] x, float[3] z",
        "a = Add(x, z) b = Mul(a, w) c = Pow(b, p) d = Max(c, x, z) y = Where(m, d, b)",
        weights={"w": (2, 1), "p": numpy.float32(2), "m": numpy.array([True, False, True])},
    ),
    "integers": Base(
        "int32[2,3] x, int32[2,3] z",
        "a = Div(x, z) b = Mod(x, z) c = Add(a, b) d = Cast<to=1>(c) y = BitShift<direction="
        '"LEFT">(u, s)',
        "y, d",
        {"u": numpy.array([1, 2], "uint8"), "s": numpy.array([1, 3], "uint8")},
    ),
    "compare": Base(
        "float[2,3] x", "a = Greater(x, w) b = Not(a) c = And(a, b) d = Cast<to=6>(c) y = Neg(d)",
        weights={"w": (3,)},
    ),
    "cast": Base(
        "float[4] x",
        "a = Cast<to=10>(x) b = Cast<to=7>(a) c = Cast<to=9>(b) d = Cast<to=16>(x) "
        "y = Cast<to=1>(d)",
        "y, c",
    ),
    "half": Base("float16[4,8] x", "y = MatMul(x, w)", weights={
        "w": numpy.linspace(-1, 1, 24, dtype="float16").reshape(8, 3)}),
    "softmax": Base("float[2,5] x", "a = Softmax<axis=-1>(x) b = LogSoftmax<axis=0>(a) y = Exp(b)"),
    "dropout": Base(
        "float[2,5] x", "y, m = Dropout(x, r)", "y, m", {"r": numpy.float32(0.3)}
    ),
}  # fmt: skip

_WINDOWS = {
    "conv": Base(
        "float[1,3,8,8] x",
        'y = Conv<pads=[1,1,1,1], strides=[2,2], dilations=[1,1], group=1, kernel_shape=[3,3], '
        'auto_pad="NOTSET">(x, w, b)',
        weights={"w": (4, 3, 3, 3), "b": (4,)},
    ),
    "conv_groups": Base(
        "float[N,4,6,6] x", "a = Conv<group=4>(x, w) y = Relu(a)", weights={"w": (4, 1, 3, 3)}
    ),
    "conv1d": Base(
        "float[1,2,9] x", 'y = Conv<auto_pad="SAME_UPPER", strides=[2]>(x, w)',
        weights={"w": (3, 2, 3)},
    ),
    "conv3d": Base("float[1,1,4,4,4] x", "y = Conv(x, w)", weights={"w": (2, 1, 2, 2, 2)}),
    "conv_transpose": Base(
        "float[1,2,4,4] x",
        "y = ConvTranspose<strides=[2,2], output_padding=[1,1], pads=[1,1,1,1]>(x, w, b)",
        weights={"w": (2, 3, 3, 3), "b": (3,)},
    ),
    "max_pool": Base(
        "float[1,2,7,7] x",
        "y, i = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1, pads=[1,1,1,1]>(x)",
        "y, i",
    ),
    "average_pool": Base(
        "float[1,2,7,7] x",
        "a = AveragePool<kernel_shape=[2,2], count_include_pad=1, pads=[0,1,0,1]>(x) "
        "y = GlobalAveragePool(a)",
    ),
    "lp_pool": Base("float[1,2,6] x", "a = LpPool<kernel_shape=[2], p=2>(x) y = GlobalMaxPool(a)"),
    "resize": Base(
        "float[1,2,4,4] x",
        'a = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , s) '
        'y = Resize<mode="cubic", cubic_coeff_a=-0.5>(a, , , n)',
        weights={"s": numpy.array([1, 1, 2, 1.5], "float32"), "n": _ints(1, 2, 3, 5)},
    ),
    "resize_nearest": Base(
        "float[1,1,H,W] x", 'y = Resize<mode="nearest", nearest_mode="floor">(x, , s)',
        weights={"s": numpy.array([1, 1, 2, 2], "float32")},
    ),
    "grid_sample": Base(
        "float[1,1,4,4] x, float[1,3,3,2] g",
        'y = GridSample<mode="bilinear", padding_mode="zeros", align_corners=0>(x, g)',
    ),
    "roi": Base(
        "float[1,2,6,6] x, float[2,4] r",
        'y = RoiAlign<output_height=2, output_width=2, sampling_ratio=2, spatial_scale=1.0>'
        '(x, r, b)', weights={"b": _ints(0, 0)},
    ),
    "depth_to_space": Base(
        "float[1,8,2,3] x", 'a = DepthToSpace<blocksize=2, mode="CRD">(x) y = '
        "SpaceToDepth<blocksize=2>(a)",
    ),
}  # fmt: skip

_PRODUCTS = {
    "matmul": Base("float[2,3,4] x", "y = MatMul(x, w)", weights={"w": (4, 5)}),
    "matmul_dynamic": Base("float[N,4] x, float[4,M] z", "y = MatMul(x, z)"),
    "gemm": Base(
        "float[3,4] x", "y = Gemm<alpha=0.5, beta=2.0, transA=0, transB=1>(x, w, b)",
        weights={"w": (5, 4), "b": (5,)},
    ),
    "einsum": Base("float[2,3] x, float[3,4] z", 'y = Einsum<equation="ij,jk->ik">(x, z)'),
    "reduce": Base(
        "float[2,3,4] x",
        "a = ReduceSum<keepdims=1>(x, axes) b = ReduceMean<axes=[1]>(x) c = ReduceMax<axes=[-1], "
        "keepdims=0>(a) d = ReduceLogSumExp<axes=[0]>(b) y = ArgMax<axis=1, keepdims=0, "
        "select_last_index=1>(x)",
        "y, c, d", {"axes": _ints(1)},
    ),
    "reduce_dynamic": Base("float[N,M] x", "a = ReduceL2<axes=[0]>(x) y = ReduceProd<axes=[1]>(a)"),
    "cumsum": Base(
        "float[3,4] x", "y = CumSum<exclusive=1, reverse=1>(x, axis)",
        weights={"axis": numpy.int64(1)},
    ),
    "top_k": Base(
        "float[2,6] x", "v, i = TopK<axis=1, largest=1, sorted=1>(x, k) y = Cast<to=1>(i)", "v, y",
        {"k": _ints(3)},
    ),
    "layer_norm": Base(
        "float[2,3,4] x", "a = LayerNormalization<axis=-1, epsilon=0.00001>(x, s, b) "
        "y = LpNormalization<axis=1, p=2>(a)", weights={"s": (4,), "b": (4,)},
    ),
    "batch_norm": Base(
        "float[2,3,4,4] x",
        "a = BatchNormalization<epsilon=0.001, momentum=0.9, training_mode=0>(x, s, b, m, v) "
        "b2 = InstanceNormalization(a, s, b) y = LRN<size=3, alpha=0.1, beta=0.5>(b2)",
        weights={"s": (3,), "b": (3,), "m": (3,), "v": numpy.ones(3, "float32")},
    ),
    "group_norm": Base(
        "float[1,4,3,3] x", "y = GroupNormalization<num_groups=2>(x, s, b)",
        weights={"s": (4,), "b": (4,)}, opset=21,
    ),
    "quantised": Base(
        "float[1,4] x",
        "q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) d, e, f = "
        "DynamicQuantizeLinear(a) m = MatMulInteger(d, w, f) y = Cast<to=1>(m)",
        weights={
            "s": numpy.float32(0.1), "z": numpy.uint8(3),
            "w": numpy.arange(12, dtype="uint8").reshape(4, 3),
        },
    ),
    "quantised_conv": Base(
        "uint8[1,2,5,5] x", "y = QLinearConv<pads=[1,1,1,1]>(x, s, z, w, ws, wz, os, oz)",
        weights={
            "s": numpy.float32(0.1), "z": numpy.uint8(3), "os": numpy.float32(0.5),
            "w": numpy.arange(36, dtype="int8").reshape(2, 2, 3, 3), "wz": numpy.int8(0),
            "ws": numpy.float32(0.02), "oz": numpy.uint8(7),
        },
    ),
}  # fmt: skip

_INDICES = {
    "gather": Base(
        "float[5,3] x, int64[2] i", "a = Gather<axis=0>(x, i) y = Gather<axis=1>(a, c)",
        weights={"c": _ints(0, -1)},
    ),
    "gather_nd": Base("float[2,3,4] x", "y = GatherND<batch_dims=0>(x, i)", weights={
        "i": numpy.array([[0, 1], [1, -1]])}),
    "gather_elements": Base("float[3,3] x, int64[2,3] i", "y = GatherElements<axis=0>(x, i)"),
    "scatter_nd": Base("float[4,3] x, int64[2,1] i, float[2,3] u", "y = ScatterND(x, i, u)"),
    "scatter_elements": Base(
        "float[3,3] x, int64[2,3] i, float[2,3] u",
        'y = ScatterElements<axis=0, reduction="add">(x, i, u)',
    ),
    "one_hot": Base("int64[3] i", "y = OneHot<axis=-1>(i, d, v)", weights={
        "d": _ints(4), "v": numpy.array([0, 1], "float32")}),
    "slice": Base(
        "float[4,6] x", "a = Slice(x, b, e, axes, steps) y = Slice(a, b2, e2)",
        weights={"b": _ints(1, -1), "e": _ints(4, 0), "axes": _ints(0, 1), "steps": _ints(1, -2),
                 "b2": _ints(0), "e2": _ints(2)},
    ),
    "non_zero": Base("float[2,3] x", "a = NonZero(x) y = Transpose<perm=[1,0]>(a)"),
    "unique": Base("float[6] x", "y, i, j, n = Unique<sorted=1>(x)", "y, i, j, n"),
    "compress": Base("float[4] x, bool[4] c", "y = Compress<axis=0>(x, c)"),
    "pad": Base(
        "float[2,3] x", 'a = Pad<mode="constant">(x, p, v) y = Pad<mode="reflect">(x, p)', "a, y",
        {"p": _ints(0, 1, 1, 2), "v": numpy.float32(1.5)},
    ),
    "trilu": Base("float[3,4] x", "y = Trilu<upper=0>(x, k)", weights={"k": numpy.int64(1)}),
}  # fmt: skip

_SHAPES = {
    "shape_arithmetic": Base(
        "float[N,3,4] x",
        "s = Shape(x) n = Gather<axis=0>(s, zero) m = Mul(n, two) u = Unsqueeze(m, axes) "
        "c = Concat<axis=0>(u, minus) y = Reshape<allowzero=0>(x, c)",
        weights={"zero": numpy.int64(0), "two": numpy.int64(1), "axes": _ints(0),
                 "minus": _ints(-1)},
    ),
    "reshape": Base(
        "float[2,3,4] x", "a = Reshape(x, t) b = Flatten<axis=1>(a) c = Squeeze(b) "
        "y = Transpose<perm=[1,0]>(b)", "c, y", {"t": _ints(0, -1, 2)},
    ),
    "expand": Base(
        "float[3,1] x", "a = Expand(x, t) b = Tile(a, r) y = Concat<axis=1>(b, b)",
        weights={"t": _ints(2, 3, 4), "r": _ints(1, 2, 1)},
    ),
    "split": Base(
        "float[6,2] x", "a, b = Split<axis=0>(x, s) y = Concat<axis=-1>(b, b)", "a, y",
        {"s": _ints(2, 4)},
    ),
    "fill": Base(
        "float[N] x", "s = Shape(x) a = ConstantOfShape<value=float[1]{2.5}>(s) y = Add(a, x)"
    ),
    "range": Base(
        "int64[1] n", "m = Squeeze(n) a = Range(zero, m, one) y = Cast<to=1>(a)",
        weights={"zero": numpy.int64(0), "one": numpy.int64(1)},
    ),
    "eye": Base("float[3,4] x", "a = EyeLike<k=1>(x) b = Size(x) y = Add(a, x)", "y, b"),
    "dynamic_reshape": Base("float[2,6] x, int64[2] t", "y = Reshape(x, t)"),
    "constants": Base(
        "float[2] x", "c = Constant<value_floats=[1.0,2.0]>() d = Constant<value=float[2]{3,4}>() "
        "e = Add(c, d) y = Mul(e, x)",
    ),
    "external": Base(
        "float[2,4] x", "a = MatMul(x, w) y = Add(a, b)", weights={"w": (4, 3), "b": (3,)},
        external=("w", "b"),
    ),
}  # fmt: skip

_CONTROL = {
    "if": Base(
        "bool c, float[2] x",
        "y = If<then_branch = t () => (float[2] a) { a = Add(x, w) }, "
        "else_branch = e () => (float[2] b) { b = Neg(x) }>(c)",
        weights={"w": (2,)},
    ),
    "loop": Base(
        "int64 n, float[2] x",
        "y, z = Loop<body = l (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) "
        "{ d = Identity(c) t = Add(s, x) u = Mul(t, w) }>(n, go, x)",
        "y, z", {"go": numpy.bool_(True), "w": (2,)},
    ),
    "loop_fixed": Base(
        "float[2] x",
        "y = Loop<body = l (int64 i, bool c, float[2] s) => (bool d, float[2] t) "
        "{ d = Identity(c) t = Add(s, s) }>(n, , x)",
        weights={"n": numpy.int64(3)},
    ),
    "scan": Base(
        "float[2] h, float[3,2] x",
        "f, y = Scan<num_scan_inputs=1, body = b (float[2] s, float[2] e) => (float[2] t, "
        "float[2] o) { t = Add(s, e) o = Mul(t, w) }>(h, x)",
        "f, y", {"w": (2,)},
    ),
    "sequence": Base(
        "float[2] x, float[3] z",
        "s = SequenceConstruct(x, z) t = SequenceInsert(s, x, one) a = SequenceAt(t, one) "
        "n = SequenceLength(t) y = ConcatFromSequence<axis=0>(t)",
        "y, a, n", {"one": numpy.int64(1)},
    ),
    "split_sequence": Base(
        "float[4,2] x",
        "s = SplitToSequence<axis=0, keepdims=1>(x, k) e = SequenceErase(s, k2) "
        "y = ConcatFromSequence<axis=1, new_axis=1>(e)",
        weights={"k": numpy.int64(1), "k2": numpy.int64(0)},
    ),
    "optional": Base(
        "float[2] x", "o = Optional(x) h = OptionalHasElement(o) y = OptionalGetElement(o)", "y, h",
    ),
    "function": Base(
        "float[2,3] x", "a = own.twice<scale=2.0>(x) y = own.twice(a)",
        functions='<domain: "own", opset_import: ["" : 17]> twice <scale: float = 3.0> (v) => (r) '
        "{ s = Constant<value_float=@scale>() t = Mul(v, s) r = Add(t, v) }",
        domains=("own",),
    ),
    "nested": Base(
        "bool c, float[2] x",
        "y = If<then_branch = t () => (float[2] a) { k = Constant<value_int=2>() a = Loop<body = l "
        "(int64 i, bool g, float[2] s) => (bool d, float[2] t2) { d = Identity(g) t2 = Add(s, x) }>"
        "(k, , x) }, else_branch = e () => (float[2] b) { b = Neg(x) }>(c)",
    ),
}  # fmt: skip

_RECURRENT = {
    "lstm": Base(
        "float[3,1,2] x",
        'a, h, c = LSTM<hidden_size=2, direction="forward">(x, w, r, b) y = Squeeze(a)', "y, h, c",
        {"w": (1, 8, 2), "r": (1, 8, 2), "b": (1, 16)},
    ),
    "gru": Base(
        "float[3,2,2] x",
        'y, h = GRU<hidden_size=2, direction="bidirectional", linear_before_reset=1>(x, w, r)',
        "y, h", {"w": (2, 6, 2), "r": (2, 6, 2)},
    ),
    "rnn": Base(
        "float[2,1,3] x, int32[1] n",
        'y = RNN<hidden_size=2, activations=["Tanh"], layout=0>(x, w, r, , n)',
        weights={"w": (1, 2, 3), "r": (1, 2, 2)},
    ),
    "signal": Base(
        "float[1,8,1] x", "a = DFT<axis=1, onesided=1>(x) w = HannWindow(n) y = Identity(w)",
        "a, y", {"n": numpy.int64(4)},
    ),
    "attention": Base(
        "float[2,4,8] x",
        "q = MatMul(x, wq) k = MatMul(x, wk) t = Transpose<perm=[0,2,1]>(k) s = MatMul(q, t) "
        "p = Softmax<axis=-1>(s) a = MatMul(p, x) b = Add(a, x) y = LayerNormalization(b, g)",
        weights={"wq": (8, 8), "wk": (8, 8), "g": (8,)},
    ),
    "contrib": Base(
        "float[2,4] x",
        "a = com.microsoft.Gelu(x) b = com.microsoft.BiasGelu(a, w) c = com.microsoft.FusedMatMul"
        "<transB=1, alpha=0.5>(b, m) y = com.microsoft.SkipLayerNormalization(c3, c3, g)",
        weights={"w": (4,), "m": (4, 4), "c3": (1, 2, 4), "g": (4,)}, outputs="y, c",
        domains=("com.microsoft",),
    ),
}  # fmt: skip

BASES: dict[str, Base] = {
    **_ELEMENTWISE, **_WINDOWS, **_PRODUCTS, **_INDICES, **_SHAPES, **_CONTROL, **_RECURRENT,
}  # fmt: skip


@functools.lru_cache(maxsize=1)
def _node_tests() -> dict[str, ModelProto]:
    """Return the models of onnx's node tests, small ones only, by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    models = {f"onnx/{test.name}": test.model for test in tests if test.model is not None}
    return {name: model for name, model in models.items() if model.ByteSize() < 8192}


@functools.lru_cache(maxsize=1)
def names_of_others() -> list[str]:
    """Return the names of the models that come with onnx."""
    return sorted(_node_tests())


def load_base(name: str) -> ModelProto:
    """Return a model of its own, which may be changed."""
    if name in BASES:
        return BASES[name].model()
    copy = ModelProto()
    copy.CopyFrom(_node_tests()[name])
    return copy
