"""Gradients of operators and of programs, against differences of results."""

import numpy
import pytest

from tests.relay.gradient_programs import PROGRAMS, number, scalar, total
from tilesmith import cpu, ir, relay
from tilesmith.contrib import graph_executor
from tilesmith.relay import testing
from tilesmith.relay.testing import check_grad, run_as_python, run_infer_type
from tilesmith.relay.transform import (
    DeadCodeElimination,
    FirstOrderGradient,
    InferType,
    PartialEvaluate,
    gradient,
)
from tilesmith.support.errors import (
    ConfigError,
    OpNotImplemented,
    TypeMismatchError,
    UnsupportedError,
)

RANDOM = numpy.random.default_rng(0)
nn = relay.nn


def floats(*shape):
    return RANDOM.standard_normal(shape)


def positive(*shape):
    return RANDOM.random(shape) + 0.5


def ints(*values):
    return relay.const(numpy.array(values, "int64"))


INDICES = ints([0, 2, 1], [1, 1, 0])
MASK = relay.const(numpy.array([[True, False, True], [False, True, True]]))

# name: (expression of variables, values of the variables)
OPERATORS = {
    **{
        name: (getattr(relay, name), [0.47 + 0.4 * numpy.sin(numpy.arange(6.0).reshape(2, 3))])
        for name in (
            "log tan cos cosh sin sinh acos asin asinh atan atanh exp erf sqrt rsqrt sigmoid tanh "
            "floor ceil trunc round abs sign negative copy log2 log10 fast_exp fast_tanh"
        ).split()
    },
    "acosh": (relay.acosh, [positive(2, 3) + 1]),
    **{
        name: (getattr(relay, name), [floats(2, 3), positive(1, 3)])
        for name in "add subtract multiply divide maximum minimum floor_mod mod".split()
    },
    "power": (relay.power, [positive(2, 3), floats(3)]),
    "twice the same": (lambda x: x * x + x, [floats(2, 3)]),
    "comparison": (lambda x, y: relay.where(x > y, x * y, y), [floats(2, 3), floats(2, 3)]),
    "where": (lambda x, y: relay.where(MASK, x, y), [floats(2, 3), floats(1, 3)]),
    "clip": (lambda x: relay.clip(x, -0.5, 0.5), [floats(2, 3)]),
    "cast": (lambda x: relay.cast(relay.cast(x, "float32"), "float64") * x, [numpy.ones((2, 2))]),
    **{
        f"{name} {axis} {keepdims} {exclude}": (
            lambda x, name=name, rest=(axis, keepdims, exclude): getattr(relay, name)(x, *rest),
            [positive(2, 3, 2)],
        )
        for name in "sum mean max min prod".split()
        for axis, keepdims, exclude in ((None, False, False), (1, True, False), (0, False, True))
    },
    "variance": (lambda x: relay.variance(x, 1), [floats(2, 3)]),
    "std": (lambda x: relay.std(x, 1), [floats(2, 3)]),
    "logsumexp": (lambda x: relay.logsumexp(x, 1), [floats(2, 3)]),
    "argmax": (lambda x: relay.cast(relay.argmax(x, 1, True), "float64") * x, [floats(2, 3)]),
    "cumsum": (lambda x: relay.cumsum(x, 1), [floats(2, 3)]),
    "sort of take": (lambda x: relay.take(x, INDICES, 0), [floats(3, 2)]),
    "take flat": (lambda x: relay.take(x, ints(0, 5, 5)), [floats(3, 2)]),
    "gather": (lambda x: relay.gather(x, 0, INDICES), [floats(3, 3)]),
    "gather_nd": (lambda x: relay.gather_nd(x, INDICES), [floats(3, 2, 2)]),
    "scatter": (lambda x, y: relay.scatter_elements(x, ints([2, 0, 1]), y), [floats(3, 3),
                                                                             floats(1, 3)]),
    "scatter_add": (lambda x, y: relay.scatter_elements(x, INDICES, y, 0, "add"),
                    [floats(3, 3), floats(2, 3)]),
    "scatter_nd": (lambda x, y: relay.scatter_nd(x, INDICES, y, "add"), [floats(3, 2),
                                                                        floats(3)]),
    "scatter_nd update": (lambda x, y: relay.scatter_nd(x, ints([0, 2]), y, "update"),
                          [floats(3, 2), floats(2, 2)]),
    "one_hot": (lambda x: x * relay.one_hot(ints(0, 2), relay.const(1.0, "float64"),
                                            relay.const(0.0, "float64"), 3, -1, "float64"),
                [floats(2, 3)]),
    "concatenate": (lambda x, y: relay.concatenate([x, y], 1), [floats(2, 3), floats(2, 1)]),
    "stack": (lambda x, y: relay.stack([x, y, x], 1), [floats(2, 3), floats(2, 3)]),
    "split": (lambda x: relay.multiply(*relay.split(x, 2, 1)), [floats(2, 4)]),
    "split used once": (lambda x: relay.split(x, [1, 3], 1)[1], [floats(2, 4)]),
    "strided_slice": (lambda x: relay.strided_slice(x, [1, 0], [4, 3], [2, 1]), [floats(5, 3)]),
    "reshape": (lambda x: relay.reshape(x, (-1, 2)), [floats(2, 3)]),
    "reshape to a number": (lambda x: relay.reshape(x, ()), [floats(1, 1)]),
    "transpose": (lambda x: relay.transpose(x, [2, 0, 1]), [floats(2, 3, 2)]),
    "squeeze": (lambda x: relay.squeeze(x, [1]), [floats(2, 1, 3)]),
    "expand_dims": (lambda x: relay.expand_dims(x, 1, 2), [floats(2, 3)]),
    "tile": (lambda x: relay.tile(x, (2, 3)), [floats(2, 3)]),
    "repeat": (lambda x: relay.repeat(x, 2, 1), [floats(2, 3)]),
    "reverse": (lambda x: relay.reverse(x, 1), [floats(2, 3)]),
    "broadcast_to": (lambda x: relay.broadcast_to(x, (2, 3)), [floats(1, 3)]),
    "collapse_sum_to": (lambda x: relay.collapse_sum_to(x, (3,)), [floats(2, 3)]),
    "layout_transform": (lambda x: relay.layout_transform(x, "NCHW", "NCHW2c"),
                         [floats(1, 4, 2, 1)]),
    "sequence_mask": (lambda x: relay.sequence_mask(x, ints(1, 2)), [floats(3, 2)]),
    "pad": (lambda x: nn.pad(x, ((1, 0), (2, 1)), 0.5), [floats(2, 3)]),
    "dense": (nn.dense, [floats(2, 3), floats(4, 3)]),
    "matmul": (lambda x, y: nn.matmul(x, y, transpose_a=True), [floats(3, 2), floats(3, 4)]),
    "batch_matmul": (nn.batch_matmul, [floats(2, 2, 3), floats(2, 4, 3)]),
    "bias_add": (nn.bias_add, [floats(2, 3, 2), floats(3)]),
    "relu": (nn.relu, [floats(2, 3)]),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.1), [floats(2, 3)]),
    "prelu": (nn.prelu, [floats(2, 3), floats(3)]),
    "softmax": (lambda x: nn.softmax(x) * x, [floats(2, 3)]),
    "log_softmax": (lambda x: nn.log_softmax(x, 0) * x, [floats(2, 3)]),
    "batch_flatten": (nn.batch_flatten, [floats(2, 3, 2)]),
    "dropout": (lambda x: nn.dropout(x, 0.3), [floats(2, 3)]),
    "layer_norm": (lambda x, g, b: nn.layer_norm(x, g, b) * x, [floats(2, 3), floats(3),
                                                                floats(3)]),
    "batch_norm": (lambda *x: nn.batch_norm(*x)[0],
                   [floats(2, 3, 2), floats(3), floats(3), floats(3), positive(3)]),
    "group_norm": (lambda x, g, b: nn.group_norm(x, g, b, 2) * x,
                   [floats(2, 4, 2), floats(4), floats(4)]),
    "instance_norm": (lambda x, g, b: nn.instance_norm(x, g, b) * x,
                      [floats(1, 2, 3), floats(2), floats(2)]),
    "l2_normalize": (lambda x: nn.l2_normalize(x, 1e-9, [1]) * x, [floats(2, 3)]),
    "cross_entropy": (nn.cross_entropy, [positive(2, 3), positive(2, 3)]),
    "cross_entropy_with_logits": (nn.cross_entropy_with_logits, [floats(2, 3), positive(2, 3)]),
    "nll_loss": (lambda x: nn.nll_loss(x, ints(0, 2), relay.const(numpy.ones(3))), [floats(2, 3)]),
    "conv1d": (lambda x, w: nn.conv1d(x, w, padding=1), [floats(1, 2, 4), floats(2, 2, 3)]),
    "conv2d": (lambda x, w: nn.conv2d(x, w, strides=2, padding=(1, 0), groups=2),
               [floats(1, 2, 4, 3), floats(2, 1, 2, 2)]),
    "conv2d NHWC": (lambda x, w: nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
                    [floats(1, 3, 3, 2), floats(2, 2, 2, 1)]),
    "conv2d_transpose": (lambda x, w: nn.conv2d_transpose(x, w, strides=2),
                         [floats(1, 2, 2, 2), floats(2, 1, 2, 2)]),
    "max_pool2d": (lambda x: nn.max_pool2d(x, (2, 2), (2, 2)), [floats(1, 1, 4, 4)]),
    "avg_pool2d": (lambda x: nn.avg_pool2d(x, (2, 2), (1, 1), padding=(1, 0)),
                   [floats(1, 1, 3, 3)]),
    "max_pool1d": (lambda x: nn.max_pool1d(x, 2, 2), [floats(1, 2, 4)]),
    "global_avg_pool2d": (nn.global_avg_pool2d, [floats(1, 2, 2, 3)]),
    "global_max_pool2d": (lambda x: nn.global_max_pool2d(x, layout="NHWC"), [floats(1, 2, 2, 2)]),
    "adaptive_avg_pool2d": (lambda x: nn.adaptive_avg_pool2d(x, (2, 1)), [floats(1, 1, 4, 3)]),
    "adaptive_avg_pool2d uneven": (
        lambda x: nn.adaptive_avg_pool2d(x, (3, 2)) * 2.0, [floats(1, 1, 5, 3)]),
    "adaptive_max_pool1d uneven": (
        lambda x: nn.adaptive_max_pool1d(x, 3), [floats(1, 2, 7)]),
    "lrn": (lambda x: nn.lrn(x, 3, alpha=0.3), [floats(1, 5, 2)]),
    "einsum": (lambda x, y: relay.einsum((x, y), "ij,jk->k"), [floats(2, 3), floats(3, 2)]),
    "sort": (lambda x: relay.sort(x, 1) * x, [floats(2, 5)]),
    "topk": (lambda x: relay.topk(x, 2, 1)[0] * relay.topk(x, 2, 1, "values"), [floats(2, 5)]),
    "cumprod": (lambda x: relay.cumprod(x, 1), [positive(2, 3)]),
    "resize2d": (lambda x: relay.image.resize2d(x, (3, 7)), [floats(1, 2, 5, 4)]),
    "on the way": (lambda x: relay.annotation.stop_fusion(relay.tanh(x)), [floats(2, 3)]),
}  # fmt: skip


def function_of(make, values):
    params = [
        relay.var(f"x{place}", shape=value.shape, dtype=str(value.dtype))
        for place, value in enumerate(values)
    ]
    return relay.Function(params, make(*params))


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_of_operators(name):
    make, values = OPERATORS[name]
    rtol, eps = (1e-3, 1e-6) if name != "cast" else (2e-2, 1e-2)
    rtol = 2e-2 if name.startswith("fast") else rtol
    check_grad(function_of(make, values), values, eps=eps, rtol=rtol, mode="first_order")


# Programs


def check_program(function, mod, expected=None):
    """Compare gradients with differences, for two pairs of values."""
    mod = ir.IRModule() if mod is None else mod
    both = gradient(function, mod)
    relay.transform.InferType()(ir.IRModule.from_expr(both, mod.functions, mod.type_definitions))
    derived, plain = run_as_python(both, mod), run_as_python(function, mod)
    for values in ([0.3, 0.7], [0.8, -0.4]):
        given = [number(value).data for value in values]
        result, grads = derived(*given)
        assert total(result) == pytest.approx(total(plain(*given)))
        for place, found in enumerate(grads):
            ends = []
            for change in (1e-6, -1e-6):
                moved = [value + change * (n == place) for n, value in enumerate(values)]
                ends.append(total(plain(*[number(value).data for value in moved])))
            wanted = (ends[0] - ends[1]) / 2e-6
            numpy.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("make", PROGRAMS)
def test_gradients_of_programs(make):
    check_program(*make())


def test_gradients_of_gradients():
    x = scalar("x")
    once = run_infer_type(gradient(run_infer_type(relay.Function([x], relay.sin(x) * x * x))))
    y = scalar("y")
    slope = relay.TupleGetItem(relay.TupleGetItem(relay.Call(once, [y]), 1), 0)
    twice = gradient(run_infer_type(relay.Function([y], slope)))
    result, (found,) = run_as_python(run_infer_type(twice))(number(0.7).data)
    v = 0.7
    assert float(result.numpy()) == pytest.approx(numpy.cos(v) * v * v + 2 * v * numpy.sin(v))
    wanted = -numpy.sin(v) * v * v + 4 * v * numpy.cos(v) + 2 * numpy.sin(v)
    assert float(found.numpy()) == pytest.approx(wanted)


@pytest.mark.parametrize("mode", ["first_order", "higher_order"])
def test_both_modes_agree(mode):
    x = relay.var("x", shape=(2, 3), dtype="float64")
    w = relay.var("w", shape=(4, 3), dtype="float64")
    hidden = relay.var("h")
    body = relay.Let(hidden, nn.relu(nn.dense(x, w)), nn.softmax(hidden) * hidden)
    check_grad(relay.Function([x, w], body), [floats(2, 3), floats(4, 3)], mode=mode)


def test_gradients_of_functions_of_a_module():
    mod = ir.IRModule()
    x, y = scalar("x"), scalar("y")
    square = relay.GlobalVar("square")
    mod[square] = relay.Function([y], y * y, relay.scalar_type("float64"))
    mod["main"] = relay.Function([x], square(square(x)))
    changed = FirstOrderGradient()(mod)
    _, (found,) = run_as_python(changed.get_global_var("main"), changed)(number(1.5).data)
    assert float(found.numpy()) == pytest.approx(4 * 1.5**3)
    both = gradient(mod.get_global_var("main"), mod)
    assert {"square_grad", "main_grad"} <= {one.name_hint for one in mod.get_global_vars()}
    _, (found,) = run_as_python(both, mod)(number(1.5).data)
    assert float(found.numpy()) == pytest.approx(4 * 1.5**3)
    InferType()(mod)


def test_a_checkpoint_is_computed_twice_in_the_first_order():
    x = relay.var("x", shape=(2,))
    y = relay.exp(relay.annotation.checkpoint(relay.sin(relay.tanh(x))))
    plain = gradient(relay.Function([x], relay.exp(relay.sin(relay.tanh(x)))), mode="first_order")
    marked = gradient(relay.Function([x], y), mode="first_order")
    assert testing.count_ops(plain)["tanh"] == 1
    assert testing.count_ops(marked)["tanh"] == 2
    assert testing.count_ops(marked)["sin"] == testing.count_ops(plain)["sin"] == 1


def test_gradients_that_programs_state():
    x = relay.var("x", shape=(2,), dtype="float64")
    with testing.TempOpAttr("exp", "FPrimalGradient", lambda call, grad: [grad * call.args[0]]):
        made = gradient(relay.Function([x], relay.exp(x)), mode="first_order")
        _, (found,) = run_as_python(made)(relay.const(numpy.array([3.0, 4.0])).data)
    numpy.testing.assert_array_equal(found.numpy(), [3.0, 4.0])
    check_grad(relay.Function([x], relay.exp(x)), mode="first_order")


def test_what_has_no_gradient():
    x, y = scalar("x"), scalar("y")
    with pytest.raises(OpNotImplemented, match="searchsorted has no gradient"):
        v = relay.var("v", shape=(3,))
        gradient(relay.Function([v], relay.searchsorted(v, v)), mode="first_order")
    with pytest.raises(OpNotImplemented, match="dyn.reshape has no gradient where its sizes"):
        shape = relay.var("s", shape=(1,), dtype="int64")
        gradient(relay.Function([v, shape], relay.reshape(v, shape)), mode="first_order")
    with pytest.raises(UnsupportedError, match="no rule for a If"):
        gradient(relay.Function([x, y], relay.If(x < y, x, y)), mode="first_order")
    with pytest.raises(TypeMismatchError, match="of a function, not of a Var"):
        gradient(x)
    with pytest.raises(ConfigError, match="'third_order'"):
        gradient(relay.Function([x], x), mode="third_order")
    f = relay.var("f", relay.FuncType([relay.scalar_type("float64")], relay.scalar_type("float64")))
    with pytest.raises(TypeMismatchError, match="the parameter 'f'"):
        gradient(relay.Function([f, x], relay.Call(f, [x])))
    mod = ir.IRModule()
    loop = relay.GlobalVar("loop")
    mod[loop] = relay.Function([x], loop(x), relay.scalar_type("float64"))
    with pytest.raises(UnsupportedError, match="calls itself"):
        gradient(relay.Function([y], loop(y)), mod, mode="first_order")


def test_networks_have_gradients():
    """The gradients of a network's weights, against torch."""
    torch = pytest.importorskip("torch")
    net = testing.synthetic.get_net((1, 2, 3, 4))
    mod, params = testing.create_workload(net)
    entry = mod["main"]
    values = [floats(1, 2, 3, 4).astype("float32")]
    values += [params[one.name_hint].numpy() for one in entry.params[1:]]
    made = gradient(entry, mode="first_order")
    names = [one.name_hint for one in entry.params]
    _, grads = run_as_python(made)(*[relay.const(value).data for value in values])
    tensors = dict(zip(names, [torch.from_numpy(v.copy()).requires_grad_() for v in values]))
    x = tensors["data"]
    dense = torch.relu(x.reshape(-1, 4) @ tensors["dense_weight"].T).reshape(x.shape)
    conv = torch.nn.functional.conv2d(x, tensors["conv_weight"], tensors["conv_bias"], padding=1)
    (torch.relu(conv) + dense).sum().backward()
    for name, found in zip(names, grads):
        numpy.testing.assert_allclose(
            found.numpy(), tensors[name].grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name
        )


def test_compiled_gradients():
    """Both modes, compiled: what is left of the higher order is a straight-line program."""
    x = relay.var("x", shape=(2, 3))
    w = relay.var("w", shape=(4, 3))
    hidden = relay.tanh(nn.dense(x, w))
    function = run_infer_type(relay.Function([x, w], nn.log_softmax(hidden)))
    first = gradient(function, mode="first_order")
    mod = InferType()(ir.IRModule.from_expr(gradient(function)))
    rest = DeadCodeElimination()(PartialEvaluate()(mod))["main"]
    values = [floats(2, 3).astype("float32"), floats(4, 3).astype("float32")]
    result, grads = run_as_python(first)(*[relay.const(value).data for value in values])
    both = relay.Function([x, w], relay.Tuple([relay.Call(one, [x, w]) for one in (first, rest)]))
    lib = relay.build(ir.IRModule.from_expr(both), target="llvm")
    module = graph_executor.GraphModule(lib["default"](cpu()))
    module.set_input(x=values[0], w=values[1])
    module.run()
    for place in range(2):
        value, (by_x, by_w) = module.get_output(place)
        for found, wanted in zip((value, by_x, by_w), (result, *grads)):
            numpy.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "size", "mode"),
    [((2, 3, 5), (7,), "linear"), ((1, 2, 3, 5, 2), (5, 2, 3), "trilinear")],
)
def test_resizing_along_one_and_three_axes_against_torch(shape, size, mode):
    torch = pytest.importorskip("torch")
    x = relay.var("x", shape=shape)
    resize = {1: relay.image.resize1d, 3: relay.image.resize3d}[len(size)]
    function = run_infer_type(relay.Function([x], relay.exp(resize(x, size))))
    value = floats(*shape).astype("float32")
    made = run_infer_type(gradient(function, mode="first_order"))
    _, (found,) = run_as_python(made)(relay.const(value).data)
    given = torch.from_numpy(value).requires_grad_()
    torch.exp(torch.nn.functional.interpolate(given, size, mode=mode)).sum().backward()
    numpy.testing.assert_allclose(found.numpy(), given.grad.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mode", ["first_order", "higher_order"])
def test_quantised_tensors_that_are_joined(mode):
    scale, point, out_scale = relay.var("s", shape=()), relay.const(1, "int32"), relay.const(0.25)
    variables = [relay.var(name, shape=(2, 3)) for name in "ab"]
    quantize = relay.qnn.op.quantize
    parts = [quantize(one, out_scale, point, out_dtype="int8") for one in variables]
    scales, points = (out_scale, relay.const(0.5)), (point, point)
    joined = relay.qnn.op.concatenate(parts, scales, points, out_scale, point, axis=0)
    floats_again = relay.qnn.op.dequantize(joined, scale, point)
    function = run_infer_type(relay.Function([*variables, scale], floats_again))
    made = run_infer_type(gradient(function, mode=mode))
    values = [floats(2, 3).astype("float32") for _ in variables]
    given = [relay.const(one).data for one in (*values, numpy.float32(0.25))]
    result, grads = run_as_python(made)(*given)
    for found in grads[:2]:
        numpy.testing.assert_array_equal(found.numpy(), numpy.zeros((2, 3)))
    numpy.testing.assert_allclose(grads[2].numpy(), result.numpy().sum() / 0.25, rtol=1e-5)
