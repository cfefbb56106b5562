"""Models of one operator, and what numpy and torch say that they compute: name → function that
gives (writer, inputs by name, results).
"""

import numpy as np
import torch

from tests.relay.frontend.tflite_writer import Writer

RNG = np.random.default_rng(11)
PROGRAMS = {}


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def program(function):
    """Add a program under the function's name."""
    PROGRAMS[function.__name__] = function
    return function


def one(name, operands, wanted, options=None, constants=(), **fields):
    """A model of one operator: arrays that are inputs, those of ``constants`` in the model."""
    model = Writer()
    numbers, given = [], {}
    for place, x in enumerate(operands):
        if place in constants:
            numbers.append(model.const(f"c{place}", x))
        else:
            numbers.append(model.input(f"x{place}", x.shape, str(x.dtype)))
            given[f"x{place}"] = x
    wanted = wanted if isinstance(wanted, list) else [wanted]
    results = [model.output(f"y{i}", y.shape, str(y.dtype)) for i, y in enumerate(wanted)]
    model.op(name, numbers, results, options, **fields)
    return model, given, wanted


def elementwise(name, function, *operands, options=None, **fields):
    def make():
        wanted = np.asarray(function(*operands))
        return one(name, operands, wanted.astype(wanted.dtype), options, **fields)

    PROGRAMS[name.lower()] = make


X, Y = floats(3, 5), floats(3, 5)
N, M = RNG.integers(-9, 9, (3, 5)).astype("int32"), RNG.integers(1, 5, (3, 5)).astype("int32")
for _name, _function in {
    "ABS": np.abs, "CEIL": np.ceil, "COS": np.cos, "EXP": np.exp, "FLOOR": np.floor,
    "NEG": np.negative, "SIGN": np.sign, "SIN": np.sin, "SQUARE": np.square, "TANH": np.tanh,
    "ZEROS_LIKE": np.zeros_like, "ROUND": np.rint, "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6), "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1), "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)),
}.items():  # fmt: skip
    elementwise(_name, _function, X * 3)
for _name, _function in {
    "LOG": np.log, "SQRT": np.sqrt, "RSQRT": lambda x: 1 / np.sqrt(x),
}.items():  # fmt: skip
    elementwise(_name, _function, np.abs(X) + 0.5)
for _name, _function in {
    "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "GREATER": np.greater, "LESS": np.less,
    "GREATER_EQUAL": np.greater_equal, "LESS_EQUAL": np.less_equal, "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal, "SQUARED_DIFFERENCE": lambda a, b: (a - b) ** 2,
    "FLOOR_DIV": np.floor_divide,
}.items():  # fmt: skip
    elementwise(_name, _function, X, Y)
elementwise("POW", np.power, np.abs(X) + 0.5, Y)
elementwise("FLOOR_MOD", np.mod, N, M)
elementwise("BITWISE_XOR", np.bitwise_xor, N, M)
elementwise("RIGHT_SHIFT", np.right_shift, N, M)
elementwise("LOGICAL_AND", np.logical_and, X > 0, Y > 0)
elementwise("LOGICAL_OR", np.logical_or, X > 0, Y > 0)
elementwise("LOGICAL_NOT", np.logical_not, X > 0)
elementwise("SELECT_V2", np.where, X > 0, X, Y)
elementwise("SELECT", np.where, X > 0, X, Y)
elementwise("ADD_N", lambda *xs: sum(xs), X, Y, X)
elementwise("LEAKY_RELU", lambda x: np.where(x > 0, x, x * 0.25), X, options="LeakyReluOptions",
            Alpha=0.25)  # fmt: skip
elementwise("PRELU", lambda x, a: np.where(x > 0, x, x * a), X, np.abs(Y[0]))
elementwise("GELU", lambda x: torch.nn.functional.gelu(torch.tensor(x), approximate="tanh").numpy(),
            X, options="GeluOptions", Approximate=True)  # fmt: skip
for _name, _function, _kind in (
    ("ADD", lambda a, b: np.maximum(a + b, 0), 1), ("SUB", lambda a, b: np.clip(a - b, 0, 6), 3),
    ("MUL", lambda a, b: np.clip(a * b, -1, 1), 2), ("DIV", np.divide, 0),
):  # fmt: skip
    elementwise(_name, _function, X, Y[:1], options=f"{_name.capitalize()}Options",
                FusedActivationFunction=_kind)  # fmt: skip


def moving(name, function, x, *constants, options=None, **fields):
    """A program of an operator whose first operand is an input, the others constants."""

    def make():
        return one(
            name, [x, *constants], function(x), options, range(1, 1 + len(constants)), **fields
        )

    PROGRAMS[name.lower()] = make


F = floats(2, 4, 6, 3)
INT = np.int32
moving("RESHAPE", lambda x: x.reshape(2, -1), F, INT([2, -1]))
moving("SQUEEZE", lambda x: x.reshape(4, 6), F[:1, :, :, :1].copy(), options="SqueezeOptions",
       SqueezeDims=[0, 3])  # fmt: skip
moving("EXPAND_DIMS", lambda x: x[:, :, None], F, INT(2))
moving("TRANSPOSE", lambda x: x.transpose(3, 1, 0, 2), F, INT([3, 1, 0, 2]))
moving("SLICE", lambda x: x[:, 1:3, 2:], F, INT([0, 1, 2, 0]), INT([2, 2, -1, 3]))
moving("STRIDED_SLICE", lambda x: x[1, 3:0:-2, ..., None, 1:], F, INT([1, 3, 0, 0, 1]),
       INT([2, 0, 0, 0, 3]), INT([1, -2, 1, 1, 1]), options="StridedSliceOptions", BeginMask=0,
       EndMask=0, EllipsisMask=4, NewAxisMask=8, ShrinkAxisMask=1)  # fmt: skip
moving("TILE", lambda x: np.tile(x, (1, 2, 1, 3)), F, INT([1, 2, 1, 3]))
moving("BROADCAST_TO", lambda x: np.broadcast_to(x, (3, 2, 5)).copy(), floats(2, 1), INT([3, 2, 5]))
moving("REVERSE_V2", lambda x: x[:, ::-1], F, INT([1]))
moving("GATHER", lambda x: x[:, :, [4, 0]], F, INT([4, 0]), options="GatherOptions", Axis=2)
moving("GATHER_ND", lambda x: x[[0, 1], [3, 2]], F, INT([[0, 3], [1, 2]]))
moving("PAD", lambda x: np.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0))), F,
       INT([[0, 0], [1, 2], [0, 1], [0, 0]]))  # fmt: skip
moving("PADV2", lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7), floats(2, 3),
       INT([[1, 0], [0, 2]]), np.float32(7))  # fmt: skip
moving("MIRROR_PAD", lambda x: np.pad(x, ((1, 1), (2, 0)), "symmetric"), floats(3, 4),
       INT([[1, 1], [2, 0]]), options="MirrorPadOptions", Mode=1)  # fmt: skip
moving("CUMSUM", lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1], floats(3, 4), INT(1),
       options="CumsumOptions", Reverse=True)  # fmt: skip
moving("MEAN", lambda x: x.mean((1, 2)), F, INT([1, 2]), options="ReducerOptions", KeepDims=False)
moving("SUM", lambda x: x.sum(-1, keepdims=True), F, INT([-1]), options="ReducerOptions",
       KeepDims=True)  # fmt: skip
moving("REDUCE_MAX", lambda x: x.max((0, 3)), F, INT([0, 3]), options="ReducerOptions")
moving("REDUCE_MIN", lambda x: x.min(1), F, INT([1]), options="ReducerOptions")
moving("REDUCE_PROD", lambda x: x.prod(3), F, INT([3]), options="ReducerOptions")
moving("REDUCE_ANY", lambda x: x.any(1), X > 1, INT([1]), options="ReducerOptions")
moving("REDUCE_ALL", lambda x: x.all(0), X > -1, INT([0]), options="ReducerOptions")
moving("ARG_MAX", lambda x: x.argmax(1), F, INT(1), options="ArgMaxOptions", OutputType=4)
moving("ARG_MIN", lambda x: x.argmin(-1).astype("int32"), F, INT(-1), options="ArgMinOptions",
       OutputType=2)  # fmt: skip
moving("SEGMENT_SUM", lambda x: np.stack([x[0] + x[1], x[2]]), X, INT([0, 0, 1]))
moving("SOFTMAX", lambda x: torch.softmax(torch.tensor(x) * 2, -1).numpy(), F,
       options="SoftmaxOptions", Beta=2.0)  # fmt: skip
moving("LOG_SOFTMAX", lambda x: torch.log_softmax(torch.tensor(x), -1).numpy(), F)
moving("L2_NORMALIZATION", lambda x: x / np.sqrt((x * x).sum(-1)[..., None]), F,
       options="L2NormOptions")  # fmt: skip
moving("MATRIX_DIAG", lambda x: x[..., None] * np.eye(5, dtype="float32"), X)
moving("DYNAMIC_UPDATE_SLICE", lambda x: np.concatenate([x[:, :2], Y[:, :3]], 1), X,
       Y[:, :3].copy(), INT([0, 9]))  # fmt: skip
moving("RANK", lambda x: np.int32(4), F)
moving("SHAPE", lambda x: INT([2, 4, 6, 3]), F, options="ShapeOptions", OutType=2)
moving("WHERE", lambda x: np.argwhere(x), X > 0)


@program
def cast():
    return one("CAST", [X * 5], (X * 5).astype("int32"), "CastOptions", OutDataType=2)


@program
def concatenation():
    return one("CONCATENATION", [X, Y], np.concatenate([X, Y], 1), "ConcatenationOptions", Axis=-1)


@program
def pack():
    return one("PACK", [X, Y], np.stack([X, Y], 1), "PackOptions", Axis=1, ValuesCount=2)


@program
def unpack():
    return one("UNPACK", [X], list(X), "UnpackOptions", Axis=0, Num=3)


@program
def split():
    return one("SPLIT", [INT(2), F], np.split(F, 3, 2), "SplitOptions", [0], NumSplits=3)


@program
def split_v():
    operands = [F, INT([1, -1, 2]), INT(2)]
    return one("SPLIT_V", operands, np.split(F, [1, 4], 2), "SplitVOptions", [1, 2], NumSplits=3)


@program
def topk():
    order = np.argsort(-X, 1)[:, :2].astype("int32")
    return one("TOPK_V2", [X, INT(2)], [np.take_along_axis(X, order, 1), order], None, [1])


@program
def one_hot():
    operands = [INT([1, 0, 3]), INT(4), np.float32(5), np.float32(-1)]
    wanted = np.where(np.eye(4)[[1, 0, 3]] == 1, 5, -1).astype("float32")
    return one("ONE_HOT", operands, wanted, "OneHotOptions", [1, 2, 3], Axis=-1)


@program
def fill():
    wanted = np.full((2, 3), 1.5, "float32")
    return one("FILL", [INT([2, 3]), np.float32(1.5).reshape(())], wanted, None, [0])


@program
def scatter_nd():
    wanted = np.zeros((5, 2), "float32")
    values = floats(3, 2)
    np.add.at(wanted, [1, 4, 1], values)
    return one("SCATTER_ND", [INT([[1], [4], [1]]), values, INT([5, 2])], wanted, None, [2])


@program
def sparse_to_dense():
    wanted = np.full((3, 4), -1, "float32")
    values = floats(2)
    wanted[[0, 2], [1, 3]] = values
    operands = [INT([[0, 1], [2, 3]]), INT([3, 4]), values, np.float32(-1)]
    return one("SPARSE_TO_DENSE", operands, wanted, None, [0, 1, 3])


@program
def embedding_lookup():
    return one("EMBEDDING_LOOKUP", [INT([2, 0]), X], X[[2, 0]])


@program
def batch_matmul():
    a, b = floats(2, 1, 4, 3), floats(5, 4, 6)
    wanted = np.swapaxes(a, -1, -2) @ b
    return one("BATCH_MATMUL", [a, b], wanted, "BatchMatMulOptions", AdjX=True)


def nchw(x):
    return torch.tensor(np.moveaxis(x, -1, 1).copy())


def nhwc(x):
    return np.moveaxis(x.numpy(), 1, -1).copy()


def convolved(x, w, b, groups=1, **more):
    """A convolution by torch: x is NHWC, w OHWI."""
    weight = torch.tensor(np.moveaxis(w, -1, 1).copy())
    return nhwc(torch.conv2d(nchw(x), weight, torch.tensor(b), groups=groups, **more))


@program
def conv_2d():
    x, w, b = floats(2, 7, 9, 4), floats(6, 3, 3, 2), floats(6)
    wanted = np.maximum(convolved(x, w, b, 2, stride=(2, 1), padding=(1, 1)), 0)
    return one(
        "CONV_2D", [x, w, b], wanted, "Conv2DOptions", [1, 2], StrideH=2, StrideW=1, Padding=0,
        DilationHFactor=1, DilationWFactor=1, FusedActivationFunction=1,
    )  # fmt: skip


@program
def depthwise_conv_2d():
    x, w, b = floats(1, 7, 9, 3), floats(1, 3, 2, 6), floats(6)
    wanted = convolved(x, w.transpose(3, 1, 2, 0), b, 3, dilation=(2, 3))
    return one(
        "DEPTHWISE_CONV_2D", [x, w, b], wanted, "DepthwiseConv2DOptions", [1, 2], StrideH=1,
        StrideW=1, Padding=1, DepthMultiplier=2, DilationHFactor=2, DilationWFactor=3,
    )  # fmt: skip


@program
def transpose_conv():
    x, w = floats(1, 4, 5, 3), floats(2, 3, 3, 3)
    full = torch.conv_transpose2d(nchw(x), torch.tensor(w.transpose(3, 0, 1, 2).copy()), stride=2)
    wanted = nhwc(full)[:, :8, :10]
    return one(
        "TRANSPOSE_CONV", [INT(wanted.shape), w, x], wanted, "TransposeConvOptions", [0, 1],
        StrideH=2, StrideW=2, Padding=0,
    )  # fmt: skip


@program
def fully_connected():
    x, w, b = floats(2, 3, 4), floats(5, 4), floats(5)
    return one("FULLY_CONNECTED", [x, w, b], x @ w.T + b, "FullyConnectedOptions", [1, 2],
               KeepNumDims=True)  # fmt: skip


@program
def max_pool_2d():
    x = floats(1, 7, 6, 2)
    return one(
        "MAX_POOL_2D", [x], nhwc(torch.max_pool2d(nchw(x), (3, 2), (2, 1))), "Pool2DOptions",
        Padding=1, FilterHeight=3, FilterWidth=2, StrideH=2, StrideW=1,
    )  # fmt: skip


@program
def average_pool_2d():
    x = floats(1, 7, 6, 2)
    pool = torch.nn.functional.avg_pool2d
    wanted = nhwc(pool(nchw(x), 3, 1, 1, count_include_pad=False))
    return one(
        "AVERAGE_POOL_2D", [x], wanted, "Pool2DOptions", Padding=0, FilterHeight=3, FilterWidth=3,
        StrideH=1, StrideW=1,
    )  # fmt: skip


@program
def l2_pool_2d():
    x = floats(1, 6, 6, 2)
    wanted = nhwc(torch.sqrt(torch.nn.functional.avg_pool2d(nchw(x * x), 2)))
    return one(
        "L2_POOL_2D", [x], wanted, "Pool2DOptions", Padding=1, FilterHeight=2, FilterWidth=2,
        StrideH=2, StrideW=2,
    )  # fmt: skip


def suppressed(name, most, *more):
    lefts = np.float32([0, 0.1, 2, 2.5, 5])
    boxes = np.stack([0 * lefts, lefts, 0 * lefts + 1, lefts + 1], 1)
    scores = np.float32([0.5, 0.9, 0.7, 0.6, 0.1])
    kept = [1, 2, 3][:most]
    places = INT(kept + [0] * (most - len(kept)))
    found = [places, INT(len(kept))]
    if more:
        found.insert(1, np.float32([*scores[kept], *[0] * (most - len(kept))]))
    limits = [INT(most), np.float32(0.5), np.float32(0.2), *more]
    return one(name, [boxes, scores, *limits], found, None, range(2, 3 + len(limits)))


@program
def nms_v4():
    return suppressed("NON_MAX_SUPPRESSION_V4", 2)


@program
def nms_v5():
    return suppressed("NON_MAX_SUPPRESSION_V5", 7, np.float32(0))


@program
def lstm():
    x, cell = floats(2, 4, 3), torch.nn.LSTM(3, 5, batch_first=True)
    w_x, w_h, b_x, b_h = [one.detach().numpy() for one in cell.parameters()]
    model, names = Writer(), "ifco"
    operands = [model.input("x", x.shape)]
    for kind, held in (("w", w_x), ("r", w_h)):
        operands += [model.const(kind + n, held[5 * i : 5 * i + 5]) for i, n in enumerate(names)]
    operands += [None] * 3
    bias = b_x + b_h
    operands += [model.const("b" + n, bias[5 * i : 5 * i + 5]) for i, n in enumerate(names)]
    operands += [None, None, model.tensor("h", (2, 5)), model.tensor("c", (2, 5))]
    y = model.output("y", (2, 4, 5))
    options = "UnidirectionalSequenceLSTMOptions"
    model.op("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], options, FusedActivationFunction=4)
    return model, {"x": x}, [cell(torch.tensor(x))[0].detach().numpy()]


@program
def rnn():
    x, cell = floats(4, 2, 3), torch.nn.RNN(3, 5, bias=True)
    w_x, w_h, b_x, b_h = [one.detach().numpy() for one in cell.parameters()]
    model = Writer()
    operands = [model.input("x", x.shape), model.const("w", w_x), model.const("r", w_h),
                model.const("b", b_x + b_h), model.tensor("h", (2, 5))]  # fmt: skip
    y = model.output("y", (4, 2, 5))
    model.op("UNIDIRECTIONAL_SEQUENCE_RNN", operands, [y], "SequenceRNNOptions",
             FusedActivationFunction=4, TimeMajor=True)  # fmt: skip
    return model, {"x": x}, [cell(torch.tensor(x))[0].detach().numpy()]
