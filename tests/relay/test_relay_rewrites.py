"""SimplifyExpr, FoldScaleAxis, CombineParallel…, padding, dilation, casts: forms and results."""

import numpy
import pytest

from tests.relay.programs import Maker, Network, arrays, check_same
from tilesmith import ir, relay
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.relay import analysis, transform

NUMBERS = numpy.random.default_rng(5)


def tensor(*shape):
    return relay.const(NUMBERS.uniform(0.3, 1.5, shape).astype("float32"))


def image(name="x", shape=(1, 4, 6, 6)):
    return relay.var(name, shape=shape)


def operators(function):
    return dict(analysis.list_op_freqs(ir.IRModule.from_expr(function)))


# SimplifyExpr

HEAD = (
    "def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(2, 3), float32], %i: Tensor[(2, 3), int8])"
)


def body(text):
    mod = relay.parse(f"{HEAD} {{ {text} }}")
    return transform.EliminateCommonSubexpr()(mod)


@pytest.mark.parametrize(
    "before, after",
    [
        ('cast(%x, dtype="float32")', "%x"),
        ('cast(cast(%x, dtype="float64"), dtype="float32")', "%x"),
        ('cast(cast(%x, dtype="int8"), dtype="float32")',
         'cast(cast(%x, dtype="int8"), dtype="float32")'),
        ('cast(cast(%i, dtype="int32"), dtype="int64")', 'cast(%i, dtype="int64")'),
        ("cast_like(%x, %i)", 'cast(%x, dtype="int8")'),
        ("reshape(reshape(%x, newshape=[3, 2]), newshape=[6])", "reshape(%x, newshape=[6])"),
        ("reshape(reshape(%x, newshape=[3, 2]), newshape=[2, -1])", "%x"),
        ("reshape_like(%x, reshape(%y, newshape=[6]))", "reshape(%x, newshape=[6])"),
        ("squeeze(expand_dims(%x, axis=1), axis=[1])", "%x"),
        ("nn.batch_flatten(%x)", "%x"),
        ("transpose(transpose(%x, axes=[1, 0]), axes=[1, 0])", "%x"),
        ("transpose(%x, axes=[0, 1])", "%x"),
        ("zeros_like(%x)", 'zeros(shape=[2, 3], dtype="float32")'),
        ("ones_like(%i)", 'ones(shape=[2, 3], dtype="int8")'),
        ("full_like(%x, 2f)", 'full(2f, shape=[2, 3], dtype="float32")'),
        ("broadcast_to_like(sum(%x), %x)", "broadcast_to(sum(%x), shape=[2, 3])"),
        ("collapse_sum_like(%x, sum(%x, axis=[0]))", "collapse_sum_to(%x, shape=[3])"),
        ("clip(clip(%x, a_min=0, a_max=6), a_min=-1, a_max=3)", "clip(%x, a_min=0, a_max=3)"),
        ('clip(cast(%i, dtype="int32"), a_min=-128, a_max=127)', 'cast(%i, dtype="int32")'),
        ("add(add(%x, 2f), 3f)", "add(%x, 5f)"),
        ("multiply(2f, multiply(%x, 3f))", "multiply(%x, 6f)"),
        ("multiply(multiply(%x, 1e-30f), 1e-30f)", "multiply(multiply(%x, 1e-30f), 1e-30f)"),
        ("multiply(add(%x, 2f), 3f)", "add(multiply(%x, 3f), 6f)"),
        ("add(%x, 0f)", "%x"),
        ("multiply(%x, ones_like(%x))", "%x"),
        ('subtract(%x, zeros(shape=[2, 3], dtype="float32"))', "%x"),
        ("divide(1f, sqrt(%x))", "rsqrt(%x)"),
        ("divide(3f, sqrt(%x))", "multiply(3f, rsqrt(%x))"),
        ("power(%x, 2f)", "multiply(%x, %x)"),
        ("negative(negative(%x))", "%x"),
        ("nn.relu(nn.relu(%x))", "nn.relu(%x)"),
        ("concatenate((%x,), axis=0)", "%x"),
        ("strided_slice(%x, begin=[0, 0], end=[2, 3])", "%x"),
        ("divide(exp(%x), sum(exp(%x), axis=[1], keepdims=True))", "nn.softmax(%x, axis=1)"),
        ("log(nn.softmax(%x))", "nn.log_softmax(%x)"),
    ],
)  # fmt: skip
def test_simplification(before, after):
    made = transform.SimplifyExpr()(body(before))
    ir.assert_structural_equal(made["main"].body, transform.InferType()(body(after))["main"].body,
                               map_free_vars=True)  # fmt: skip
    check_same(body(before)["main"], transform.SimplifyExpr())


@pytest.mark.parametrize("layouts, count", [
    (("NC", "CN", "NC"), 0), (("NCHW", "NHWC", "CNHW"), 1), (("NCHW", "NCHW2c", "NCHW"), 0),
    (("NCHW", "NCHW2c", "NHWC"), 2), (("NCHW", "NCHW", "NCHW"), 0),
])  # fmt: skip
def test_layouts_are_joined(layouts, count):
    x = value = relay.var("x", shape=(2, 4, 3, 3)[: len(layouts[0])])
    for src, dst in zip(layouts, layouts[1:]):
        value = relay.layout_transform(value, src, dst)
    mod = transform.SimplifyExpr()(ir.IRModule.from_expr(relay.Function([x], value)))
    assert operators(mod["main"]).get("layout_transform", 0) == count
    if count == 1:
        assert mod["main"].body.attrs.dst_layout == layouts[-1]


def test_written_out_softmax():
    x = relay.var("x", shape=(2, 3))
    power = relay.exp(x - relay.max(x, axis=1, keepdims=True))
    value = power / relay.sum(power, axis=1, keepdims=True)
    made = check_same(relay.Function([x], value), transform.SimplifyExpr())
    assert operators(made) == {"nn.softmax": 1}
    whole = relay.exp(x) / relay.sum(relay.exp(x))
    kept = check_same(relay.Function([x], whole), transform.SimplifyExpr())
    assert "nn.softmax" not in operators(kept)


def test_unknown_sizes_are_left_alone():
    x = relay.var("x", relay.TensorType((relay.Any(), 3)))
    mod = ir.IRModule.from_expr(relay.Function([x], relay.zeros_like(x)))
    assert operators(transform.SimplifyExpr()(mod)["main"]) == {"zeros_like": 1}


# SimplifyInference


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("name", ["layer_norm", "instance_norm", "group_norm", "l2_normalize"])
def test_normalisations_are_written_out(name, axis):
    x = relay.var("x", shape=(2, 4, 3, 4))
    attrs = {"l2_normalize": {"eps": 0.1, "axis": [axis]}, "group_norm": {"num_groups": 2}}
    options = {"axis": axis, **attrs.get(name, {})}
    operands = [] if name == "l2_normalize" else [tensor(4), tensor(4)]
    value = relay.Call(ir.Op.get(f"nn.{name}"), [x, *operands], options)
    made = check_same(relay.Function([x], value), transform.SimplifyInference(), tolerance=1e-3)
    assert not [one for one in operators(made) if "norm" in one]


# FoldScaleAxis


def test_a_factor_goes_into_the_weight_before():
    x, w, s = image(), image("w", (3, 4, 3, 3)), relay.var("s", shape=(3, 1, 1))
    before = relay.Function([x, w, s], relay.nn.conv2d(x, w, padding=1) * s)
    made = check_same(before, transform.BackwardFoldScaleAxis())
    scaled = w * relay.reshape(s, (3, 1, 1, 1))
    type_ = relay.TensorType((1, 3, 6, 6))
    after = relay.Function([x, w, s], relay.nn.conv2d(x, scaled, padding=1), type_)
    ir.assert_structural_equal(made, after)


def test_a_factor_goes_into_the_weight_after():
    x, w = image(), image("w", (3, 4, 3, 3))
    factor = tensor(4, 1, 1)
    before = relay.Function([x, w], relay.nn.conv2d(relay.nn.relu(x * factor), w))
    made = check_same(before, transform.ForwardFoldScaleAxis())
    type_ = relay.TensorType((1, 3, 4, 4))
    after = relay.Function([x, w], relay.nn.conv2d(relay.nn.relu(x), w * factor), type_)
    ir.assert_structural_equal(made, after)


def chain(x):
    value = relay.nn.bias_add(relay.nn.conv2d(x, tensor(3, 4, 3, 3)), tensor(3)) + tensor(3, 1, 1)
    return relay.nn.max_pool2d(relay.nn.relu(value), pool_size=(2, 2))


FOLDED = {
    "chain": lambda x: chain(x) * tensor(1, 3, 1, 1),
    "number": lambda x: relay.const(2.0) * chain(x),
    "padded": lambda x: relay.nn.conv2d(
        relay.nn.pad(x * tensor(4, 1, 1), ((0, 0), (0, 0), (1, 1), (1, 1))), tensor(2, 4, 3, 3)
    ),
    "depthwise": lambda x: relay.nn.conv2d(
        x * tensor(4, 1, 1), tensor(4, 1, 3, 3), groups=4
    ) * tensor(4, 1, 1),
    "last": lambda x: relay.nn.conv2d(
        relay.transpose(x, (0, 2, 3, 1)) * tensor(4), tensor(3, 3, 4, 2),
        data_layout="NHWC", kernel_layout="HWIO",
    ) * tensor(2),
    "dense": lambda x: relay.nn.dense(
        relay.reshape(x, (24, 6)) * tensor(6), tensor(5, 6)
    ) * tensor(5),
    "difference": lambda x: (tensor(2, 1, 1) - relay.nn.conv2d(x, tensor(2, 4, 1, 1)))
    * tensor(2, 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_factors_disappear(name):
    x = image()
    made = check_same(relay.Function([x], FOLDED[name](x)), transform.FoldScaleAxis())
    assert "multiply" not in operators(made)


KEPT = {
    "two users": lambda x: relay.Tuple([(y := relay.nn.conv2d(x, tensor(3, 4, 3, 3))),
                                        y * tensor(3, 1, 1)]),
    "other axis": lambda x: relay.nn.conv2d(x, tensor(3, 4, 3, 3)) * tensor(4, 4),
    "sign": lambda x: relay.nn.relu(relay.nn.conv2d(x, tensor(3, 4, 3, 3))) * relay.const(-1.0),
    "function": lambda x: relay.tanh(relay.nn.conv2d(x, tensor(3, 4, 3, 3))) * relay.const(2.0),
    "pad": lambda x: relay.nn.conv2d(
        relay.nn.pad(x * tensor(4, 1, 1), ((0, 0), (0, 0), (1, 1), (1, 1)), 1.0),
        tensor(2, 4, 3, 3)),
    "groups": lambda x: relay.nn.conv2d(x * tensor(4, 1, 1), tensor(4, 2, 3, 3), groups=2),
    "residual": lambda x: (relay.nn.conv2d(x, tensor(4, 4, 1, 1)) + x) * tensor(4, 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_factors_that_stay(name):
    x = image()
    made = check_same(relay.Function([x], KEPT[name](x)), transform.FoldScaleAxis())
    assert operators(made)["multiply"] == 1


# CombineParallel…


def branches(count, make_one):
    return relay.Tuple([make_one(number) for number in range(count)])


@pytest.mark.parametrize("count, least, convolutions", [(3, 3, 1), (2, 3, 2), (2, 2, 1)])
def test_parallel_convolutions(count, least, convolutions):
    x = image()
    value = branches(count, lambda n: relay.nn.relu(
        relay.nn.bias_add(relay.nn.conv2d(x, tensor(n + 1, 4, 3, 3)), tensor(n + 1))))  # fmt: skip
    step = transform.CombineParallelConv2D(min_num_branches=least)
    made = check_same(relay.Function([x], value), step)
    found = operators(made)
    assert found["nn.conv2d"] == found["nn.relu"] == found["nn.bias_add"] == convolutions


def test_two_parallel_convolutions_as_text():
    x, v, w = image(), image("v", (2, 4, 1, 1)), image("w", (3, 4, 1, 1))
    both = relay.Tuple([relay.nn.conv2d(x, one) for one in (v, w)])
    made = check_same(relay.Function([x, v, w], both), transform.CombineParallelConv2D(2))
    whole = relay.nn.conv2d(x, relay.concatenate([v, w], axis=0), channels=5)
    pieces = [
        relay.strided_slice(whole, begin=begin, end=end, slice_mode="size", strides=(1, 1))
        for begin, end in (((0, 0), (-1, 2)), ((0, 2), (-1, 3)))
    ]
    after = transform.InferType()(
        ir.IRModule.from_expr(relay.Function([x, v, w], relay.Tuple(pieces)))
    )
    ir.assert_structural_equal(made, after["main"])


def test_convolutions_that_differ():
    x, y = image(), image("y")
    value = relay.Tuple([
        relay.nn.conv2d(x, tensor(2, 4, 3, 3)), relay.nn.conv2d(x, tensor(2, 4, 3, 3), strides=2),
        relay.nn.conv2d(x, tensor(2, 4, 1, 1)), relay.nn.conv2d(y, tensor(2, 4, 3, 3)),
        relay.nn.conv2d(x, tensor(4, 2, 3, 3), groups=2),
    ])  # fmt: skip
    step = transform.CombineParallelConv2D(2)
    assert operators(check_same(relay.Function([x, y], value), step))["nn.conv2d"] == 5


def test_a_weight_that_depends_on_a_branch():
    x = image()
    first = relay.nn.conv2d(x, tensor(4, 4, 1, 1))
    kernel = relay.reshape(relay.mean(first, axis=[0, 2, 3]), (1, 4, 1, 1))
    value = relay.Tuple([first, relay.nn.conv2d(x, kernel)])
    step = transform.CombineParallelConv2D(2)
    assert operators(check_same(relay.Function([x], value), step))["nn.conv2d"] == 2


@pytest.mark.parametrize("to_batch", [True, False])
def test_parallel_dense_layers(to_batch):
    x = relay.var("x", shape=(4, 6))
    value = branches(3, lambda n: relay.nn.relu(
        relay.nn.bias_add(relay.nn.dense(x, tensor(3, 6)), tensor(3), axis=-1) * tensor(3)
        - relay.const(0.5)))  # fmt: skip
    step = transform.CombineParallelDense(3, to_batch=to_batch)
    found = operators(check_same(relay.Function([x], value), step))
    assert found["nn.batch_matmul" if to_batch else "nn.dense"] == found["nn.relu"] == 1


def test_dense_layers_of_other_sizes_are_no_batch():
    x = relay.var("x", shape=(4, 6))
    function = relay.Function([x], branches(3, lambda n: relay.nn.dense(x, tensor(n + 1, 6))))
    assert operators(check_same(function, transform.CombineParallelDense(3)))["nn.dense"] == 3
    joined = transform.CombineParallelDense(3, to_batch=False)
    assert operators(check_same(function, joined))["nn.dense"] == 1


def test_parallel_batches():
    x = relay.var("x", shape=(2, 4, 6))
    value = branches(3, lambda n: relay.tanh(relay.nn.batch_matmul(x, tensor(2, n + 2, 6))))
    step = transform.CombineParallelBatchMatmul(3)
    found = operators(check_same(relay.Function([x], value), step))
    assert found["nn.batch_matmul"] == found["tanh"] == 1
    assert operators(check_same(relay.Function([x], value), transform.BatchingOps())) == found


# Padding, dilation


def padded(x, value=0.0, after=1):
    return relay.nn.pad(x, ((0, 0), (0, 0), (1, after), (2, 0)), value)


POOL = {"pool_size": (3, 3)}
FOLDED_PADS = {
    "conv": (lambda x: relay.nn.conv2d(padded(x), tensor(2, 4, 3, 3), padding=1), [2, 3, 2, 1]),
    "max": (lambda x: relay.nn.max_pool2d(padded(x, float("-inf")), **POOL), [1, 2, 1, 0]),
    "avg": (lambda x: relay.nn.avg_pool2d(padded(x), **POOL), [1, 2, 1, 0]),
    "counted": (
        lambda x: relay.nn.avg_pool2d(padded(x), padding=1, count_include_pad=True, **POOL),
        [2, 3, 2, 1],
    ),
}


@pytest.mark.parametrize("name", FOLDED_PADS)
def test_padding_is_folded(name):
    make_one, padding = FOLDED_PADS[name]
    x = image()
    made = check_same(relay.Function([x], make_one(x)), transform.FoldExplicitPadding())
    assert "nn.pad" not in operators(made)
    assert list(made.body.attrs.padding) == padding


@pytest.mark.parametrize(
    "make_one",
    [
        lambda x: relay.nn.conv2d(padded(x, 1.0), tensor(2, 4, 3, 3)),
        lambda x: relay.nn.max_pool2d(padded(x), **POOL),
        lambda x: relay.nn.avg_pool2d(padded(x), padding=1, **POOL),
        lambda x: relay.nn.max_pool2d(padded(x, float("-inf"), 3), **POOL),
        lambda x: relay.nn.conv2d(
            relay.nn.pad(x, ((0, 0), (1, 0), (1, 1), (0, 0))), tensor(2, 5, 3, 3)
        ),
    ],
)
def test_padding_that_stays(make_one):
    x = image()
    made = check_same(relay.Function([x], make_one(x)), transform.FoldExplicitPadding())
    assert operators(made)["nn.pad"] == 1


@pytest.mark.parametrize("crops, padding, folds", [
    (((0, 0), (0, 0)), 0, True), (((1, 1), (2, 1)), 0, True), (((0, 0), (0, 0)), 1, True),
    (((2, 1), (0, 3)), 0, False),
])  # fmt: skip
def test_dilated_convolutions(crops, padding, folds):
    x = image("x", (1, 6, 6, 2))
    blocks = relay.nn.space_to_batch_nd(x, (2, 2), ((1, 1), (2, 2)))
    value = relay.nn.conv2d(blocks, tensor(2, 2, 2, 3), padding=padding, data_layout="NHWC",
                            kernel_layout="HWIO")  # fmt: skip
    function = relay.Function([x], relay.nn.batch_to_space_nd(value, (2, 2), crops))
    mod = transform.InferType()(ir.IRModule.from_expr(function))
    made = transform.FlattenAtrousConv()(mod)["main"]
    assert (operators(made) == {"nn.conv2d": 1}) == folds
    numbers = numpy.random.default_rng(0).standard_normal((1, 6, 6, 2)).astype("float32")
    run = relay.build_module.create_executor
    wanted, found = [run("graph", ir.IRModule.from_expr(one)).evaluate()(numbers).numpy()
                     for one in (function, made)]  # fmt: skip
    numpy.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


# Casts, approximations, many operands


def test_each_user_gets_a_cast():
    x = relay.var("x", shape=(3,), dtype="int8")
    wide = relay.cast(x, "float32")
    function = relay.Function([x], relay.Tuple([relay.exp(wide), relay.tanh(wide), wide + wide]))
    made = transform.InferType()(ir.IRModule.from_expr(function))
    made = transform.CanonicalizeCast()(made)["main"]
    assert operators(made)["cast"] == 4
    check_same(function, transform.CanonicalizeCast())
    narrow = relay.cast(relay.var("y", shape=(3,)), "int8")
    function = relay.Function(analysis.free_vars(narrow), narrow + narrow)
    assert operators(check_same(function, transform.CanonicalizeCast()))["cast"] == 1


def test_approximations():
    x = relay.var("x", shape=(2, 3))
    value = relay.Tuple([relay.exp(x), relay.tanh(x), relay.erf(x), relay.nn.softmax(x, axis=0),
                         relay.exp(relay.cast(x, "float64"))])  # fmt: skip
    function = relay.Function([x], value)
    with PassContext(opt_level=4):
        made = Sequential([transform.FastMath()])(ir.IRModule.from_expr(function))["main"]
    assert operators(made) == {"fast_exp": 1, "fast_tanh": 1, "fast_erf": 1, "nn.fast_softmax": 1,
                               "exp": 1, "cast": 1}  # fmt: skip
    numbers = numpy.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    run = relay.build_module.create_executor
    results = [run("graph", ir.IRModule.from_expr(one)).evaluate()(numbers)
               for one in (function, made)]  # fmt: skip
    for wanted, found in zip(*results):
        numpy.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-3)
    with PassContext(opt_level=3):
        kept = Sequential([transform.FastMath()])(ir.IRModule.from_expr(function))["main"]
    assert "fast_exp" not in operators(kept)


@pytest.mark.parametrize("most, calls", [(3, 9), (4, 5), (11, 1), (0, 1), (-1, 1)])
def test_many_operands(most, calls):
    xs = [relay.var(f"x{number}", shape=(1, 2)) for number in range(10)]
    function = relay.Function(xs, relay.concatenate(xs, axis=0))
    made = check_same(function, transform.SplitArgs(most))
    found = operators(made)
    assert found["concatenate"] == calls
    assert found.get("annotation.stop_fusion", 0) == (calls if calls > 1 else 0)
    assert max(len(node.fields) for node in nodes(made) if isinstance(node, relay.Tuple)) <= (
        most - 1 if most > 0 else 10
    )


def nodes(expr):
    found = []
    analysis.post_order_visit(expr, found.append)
    return found


def test_too_few_operands():
    with pytest.raises(Exception, match="cannot join two"):
        transform.SplitArgs(2)(ir.IRModule())


# All of them

PASSES = {
    "SimplifyExpr": [transform.SimplifyExpr()],
    "FoldScaleAxis": [transform.FoldScaleAxis()],
    "CombineParallel": [
        transform.CombineParallelConv2D(2), transform.CombineParallelDense(2),
        transform.CombineParallelBatchMatmul(2),
    ],
    "CombineParallelDense": [transform.CombineParallelDense(2, False)],
    "Canonicalize": [transform.CanonicalizeCast(), transform.CanonicalizeOps()],
    "FoldExplicitPadding": [transform.FoldExplicitPadding(), transform.FlattenAtrousConv()],
    "SplitArgs": [transform.SplitArgs(3)],
    "all": [
        transform.SimplifyInference(), transform.EliminateCommonSubexpr(),
        transform.SimplifyExpr(), transform.CombineParallelConv2D(3),
        transform.CombineParallelDense(3), transform.FoldConstant(), transform.FoldScaleAxis(),
        transform.CanonicalizeCast(), transform.CanonicalizeOps(), transform.FoldConstant(),
        transform.FuseOps(), transform.Inline(), transform.LabelOps(),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_random_programs_compute_the_same(name):
    for seed in range(5):
        check_same(Maker(seed).function(), PASSES[name], arrays(seed), tolerance=1e-3)
        check_same(Network(seed).function(), PASSES[name], tolerance=1e-3)
