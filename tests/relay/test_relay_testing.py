"""relay.testing: networks against torch, weights, programs as Python's own, helpers of tests."""

import ast

import numpy
import pytest
import torch
import torch.nn.functional as F

from tilesmith import ir, relay
from tilesmith.relax import interpreter
from tilesmith.relay import testing
from tilesmith.relay.backend.interpreter import ConstructorValue, RefValue
from tilesmith.relay.prelude import Prelude
from tilesmith.relay.testing import init, nat, yolo_detection
from tilesmith.relay.translate import to_relax
from tilesmith.support.errors import (
    ConfigError,
    ExecutionError,
    ShapeError,
    TilesmithError,
    UnknownNameError,
    UnsupportedError,
)

SMALL = {"num_classes": 5, "image_shape": (3, 40, 40)}
WORKLOADS = {
    # network → arguments, result, number of weights of the published definition (None: our own)
    "mlp": ({"batch_size": 2}, (2, 10), 109386),
    "resnet": ({"num_layers": 18, "image_shape": (3, 40, 40)}, (1, 1000), None),
    "resnet 20": ({"num_layers": 20, "image_shape": (3, 28, 28)}, (1, 1000), None),
    "resnet 50 NHWC": ({"num_layers": 50, "image_shape": (40, 40, 3), "layout": "NHWC"},
                       (1, 1000), None),
    "resnet_3d": ({"num_classes": 5, "image_shape": (3, 4, 36, 36)}, (1, 5), None),
    "mobilenet": (SMALL, (1, 5), None),
    "mobilenet NHWC": ({"num_classes": 5, "image_shape": (40, 40, 3), "layout": "NHWC"},
                       (1, 5), None),
    "vgg": ({"batch_size": 1, "image_shape": (3, 32, 32), "batch_norm": True}, (1, 1000), None),
    "densenet": ({"batch_size": 2, "image_shape": (3, 64, 64)}, (2, 1000), 7978856),
    "inception_v3": ({"image_shape": (3, 75, 75)}, (1, 1000), 23834568),
    "squeezenet": ({"version": "1.0"}, (1, 1000), 1248424),
    "squeezenet 1.1": ({"version": "1.1"}, (1, 1000), 1235496),
    "dcgan": ({"batch_size": 2, "ngf": 8}, (2, 3, 64, 64), None),
    "dcgan NHWC": ({"batch_size": 2, "ngf": 8, "layout": "NHWC"}, (2, 64, 64, 3), None),
    "dqn": ({"batch_size": 1}, (1, 18), None),
    "lstm": ({"iterations": 3, "num_hidden": 4, "batch_size": 2}, (2, 4), None),
    "synthetic": ({}, (1, 3, 24, 12), None),
    "synthetic int8": ({"wtype": "int8"}, (1, 3, 24, 12), None),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_networks_have_their_results_and_weights(name):
    arguments, shape, count = WORKLOADS[name]
    mod, params = getattr(testing, name.split()[0]).get_workload(**arguments)
    function = mod["main"]
    assert tuple(function.ret_type.concrete_shape) == shape
    assert {one.name_hint for one in function.params} == {*params, "data"}
    if count is not None:  # what is counted elsewhere: without the statistics of normalisations
        learnt = [value for key, value in params.items() if "_moving_" not in key]
        assert sum([value.numpy().size for value in learnt]) == count


def result_of(mod, params, **inputs):
    values = [
        inputs[one.name_hint] if one.name_hint in inputs else params[one.name_hint].numpy()
        for one in mod["main"].params
    ]
    return interpreter.run(to_relax(mod), "main", *values)


class Torch:
    """Parts of networks in torch, with the weights of a workload."""

    def __init__(self, params):
        self.params = {name: torch.from_numpy(value.numpy()) for name, value in params.items()}

    def norm(self, x, name, scale=True, epsilon=1e-5):
        one = {key: self.params.get(f"{name}_{key}") for key in
               ("gamma", "beta", "moving_mean", "moving_var")}  # fmt: skip
        gamma = one["gamma"] if scale else torch.ones_like(one["beta"])
        return F.batch_norm(x, one["moving_mean"], one["moving_var"], gamma, one["beta"],
                            eps=epsilon)  # fmt: skip

    def act(self, x, name, epsilon=1e-5):
        return F.relu(self.norm(x, name, epsilon=epsilon))

    def conv(self, x, name, **named):
        return F.conv2d(x, self.params[f"{name}_weight"], **named)

    def dense(self, x, name):
        return F.linear(x, self.params[f"{name}_weight"], self.params[f"{name}_bias"])


def resnet18(net, x):
    x = net.norm(x, "bn_data", scale=False, epsilon=2e-5)
    x = F.relu(net.norm(net.conv(x, "conv0", stride=2, padding=3), "bn0", epsilon=2e-5))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage in range(1, 5):
        for unit in range(1, 3):
            name = f"stage{stage}_unit{unit}"
            stride = 2 if stage > 1 and unit == 1 else 1
            first = net.act(x, name + "_bn1", 2e-5)
            y = net.conv(first, name + "_conv1", stride=stride, padding=1)
            y = net.conv(net.act(y, name + "_bn2", 2e-5), name + "_conv2", padding=1)
            x = y + (net.conv(first, name + "_sc", stride=stride) if unit == 1 else x)
    x = net.act(x, "bn1", 2e-5).mean((2, 3))
    return F.softmax(net.dense(x, "fc1"), -1)


def mobilenet(net, x):
    x = net.act(net.conv(x, "conv_block_1_conv", stride=2, padding=1), "conv_block_1_bn")
    for number in range(1, 14):
        name = f"separable_conv_block_{number}"
        stride = 2 if number in (2, 4, 6, 12) else 1
        x = net.conv(x, name, stride=stride, padding=1, groups=x.shape[1])
        x = net.act(x, name + "_bn1")
        x = net.act(net.conv(x, name + "_conv2"), name + "_bn2")
    return F.softmax(net.dense(x.mean((2, 3)), "fc"), -1)


def mlp(net, x):
    x = F.relu(net.dense(x.flatten(1), "fc1"))
    return F.softmax(net.dense(F.relu(net.dense(x, "fc2")), "fc3"), -1)


def lstm(net, x):
    hidden = torch.zeros_like(x), torch.zeros_like(x)
    for step in range(3):
        cell = torch.nn.LSTMCell(x.shape[1], x.shape[1])
        given = {f"weight_{kind}h": net.params[f"{name}_{step}_weight"]
                 for kind, name in (("i", "i2h"), ("h", "h2h"))}  # fmt: skip
        given |= {f"bias_{kind}h": net.params[f"{name}_{step}_bias"]
                  for kind, name in (("i", "i2h"), ("h", "h2h"))}  # fmt: skip
        cell.load_state_dict(given)
        hidden = cell(x, hidden)
    return hidden[0]


CHECKED = {
    "resnet": (resnet18, {"num_layers": 18, **SMALL}),
    "mobilenet": (mobilenet, SMALL),
    "mlp": (mlp, {"batch_size": 3}),
    "lstm": (lstm, {"iterations": 3, "num_hidden": 5, "batch_size": 2}),
}


class Random(init.Xavier):
    """Random values for the parameters of normalisations and biases, too."""

    def _zero(self, name, arr):
        arr[...] = numpy.random.normal(size=arr.shape) * 0.3

    def _one(self, name, arr):
        arr[...] = numpy.random.uniform(0.5, 1.5, size=arr.shape)

    _bias = _beta = _mean = _zero
    _gamma = _variance = _one


@pytest.mark.parametrize("name", CHECKED)
def test_networks_agree_with_torch(name):
    reference, arguments = CHECKED[name]
    mod, _ = getattr(testing, name).get_workload(**arguments)
    mod, params = testing.create_workload(mod["main"], Random(), seed=3)
    shape = mod["main"].params[0].checked_type.concrete_shape
    data = numpy.random.default_rng(1).standard_normal(shape).astype("float32")
    with torch.no_grad():
        wanted = reference(Torch(params), torch.from_numpy(data)).numpy()
    found = result_of(mod, params, data=data)
    numpy.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)


def test_both_layouts_of_the_generator_agree():
    params = {}
    found = {}
    for layout in ("NCHW", "NHWC"):
        mod, params = testing.dcgan.get_workload(1, ngf=4, random_len=7, layout=layout)
        if layout == "NCHW":
            first = {name: value.numpy() for name, value in params.items()}
        values = {}
        for name, value in first.items():
            if layout == "NHWC" and name.endswith("deconv_weight"):
                value = value.transpose(2, 3, 1, 0)  # in, out, h, w → h, w, out, in
            if layout == "NHWC" and name == "dense_weight":
                value = value.reshape(32, 16, 7).transpose(1, 0, 2).reshape(512, 7)
            values[name] = value
        values["data"] = numpy.linspace(-1, 1, 7, dtype="float32").reshape(1, 7)
        found[layout] = result_of(mod, params, **values)
    numpy.testing.assert_allclose(
        found["NHWC"].transpose(0, 3, 1, 2), found["NCHW"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: testing.resnet.get_workload(num_layers=19), ConfigError, "19 layers"),
        (lambda: testing.resnet.get_net(1, 10, 21, (3, 28, 28)), ConfigError, "21 layers"),
        (lambda: testing.vgg.get_workload(1, num_layers=12), ConfigError, "not 12"),
        (lambda: testing.densenet.get_workload(120), ConfigError, "not 120"),
        (lambda: testing.squeezenet.get_workload(version="2"), ConfigError, "1.0 and 1.1"),
        (lambda: testing.dcgan.get_workload(1, oshape=(3, 32, 32)), ShapeError, "64 x 64"),
        (lambda: testing.layers.conv2d(relay.var("x")), ConfigError, "needs a name"),
        (lambda: testing.layers.conv_kernel_layout("CHWN"), TilesmithError, "NCHW, NHWC"),
        (lambda: init.Xavier(rnd_type="cauchy"), ConfigError, "gaussian"),
        (lambda: init.Xavier()("fc_what", numpy.zeros(3)), UnknownNameError, "weight, bias"),
        (lambda: init.Xavier()("fc_weight", numpy.zeros(3)), ShapeError, "two axes"),
        (lambda: Prelude().mod.import_from_std("trees.rly"), UnknownNameError, "nat.rly"),
    ],
)
def test_what_there_is_not_is_refused(make, error, text):
    with pytest.raises(error) as found:
        make()
    assert text in "".join([str(found.value), *getattr(found.value, "notes", ())])


@pytest.mark.parametrize("rnd_type", ["uniform", "gaussian"])
@pytest.mark.parametrize(("factor_type", "factor"), [("in", 300), ("out", 500), ("avg", 400)])
def test_xavier(rnd_type, factor_type, factor):
    numpy.random.seed(0)
    weight = numpy.zeros((500, 300), "float32")
    init.Xavier(rnd_type, factor_type, magnitude=2)("weight", weight)
    spread = 2 / factor / (3 if rnd_type == "uniform" else 1)
    assert weight.var() == pytest.approx(spread, rel=0.03)
    init.Constant(0.25)("weight", weight)
    assert (weight == 0.25).all()


def test_helpers():
    x = relay.var("x", shape=(2, 3))
    y = relay.tanh(x) + relay.tanh(x)
    assert testing.run_infer_type(y).checked_type == relay.TensorType((2, 3))
    assert testing.count_ops(y) == {"tanh": 2, "add": 1}
    merged = testing.run_opt_pass(y, [relay.transform.EliminateCommonSubexpr()])
    assert testing.count_ops(merged) == {"tanh": 1, "add": 1}
    function = testing.run_opt_pass(relay.Function([x], y), relay.transform.InferType())
    assert isinstance(function, relay.Function)
    values = testing.rand("float32", 2, 3).numpy()
    assert values.shape == (2, 3) and (0 <= values).all() and (values < 1).all()


def test_an_attribute_for_a_while():
    op = ir.Op.get("nn.dense")
    with testing.TempOpAttr("nn.dense", "FForTest", 1):
        with testing.TempOpAttr("nn.dense", "FForTest", 2):
            assert op.get_attr("FForTest") == 2
        assert op.get_attr("FForTest") == 1
    assert not op.has_attr("FForTest")


# Programs as Python's own


def number(value):
    return relay.const(value, "int32")


def test_programs_with_data_as_python():
    mod = ir.IRModule()
    prelude = Prelude(mod)
    mod.import_from_std("nat.rly")
    double = mod.get_global_var("nat_double")
    six = testing.run_as_python(double(testing.make_nat_expr(prelude, 3)), mod)
    assert testing.count(prelude, six) == 6
    assert testing.count(prelude, testing.make_nat_value(prelude, 4)) == 4
    assert nat.get_type(prelude, "nat")[1].name_hint == "Z"
    twice = relay.Function([x := relay.var("x", "int32")], x + x)
    numbers = prelude.cons(number(1), prelude.cons(number(5), prelude.nil()))
    pair = relay.Tuple([prelude.sum(prelude.map(twice, numbers)), prelude.length(numbers)])
    assert [int(one.numpy()) for one in testing.run_as_python(pair, mod)] == [12, 2]
    some = testing.run_as_python(prelude.some(number(3)), mod)
    assert isinstance(some, ConstructorValue)  # what the executors return
    assert (some.tag, int(some.fields[0].numpy())) == (prelude.some.tag, 3)
    with pytest.raises(ExecutionError, match="no clause"):
        testing.run_as_python(prelude.hd(prelude.nil()), mod)
    with pytest.raises(UnsupportedError, match="nat_double"):
        testing.run_as_python(double(testing.make_nat_expr(prelude, 3)))


def test_programs_with_references_as_python():
    place = relay.var("r")
    body = relay.If(relay.RefRead(place) > number(2), relay.RefRead(place), number(0))
    write = relay.RefWrite(place, relay.RefRead(place) + number(2))
    program = relay.Let(place, relay.RefCreate(number(1)), relay.Let(relay.var("_"), write, body))
    assert int(testing.run_as_python(program).numpy()) == 3
    assert "RefValue(" in ast.unparse(testing.to_python(program))
    made = testing.run_as_python(relay.RefCreate(number(1)))
    assert isinstance(made, RefValue) and int(made.value.numpy()) == 1


def test_loops_and_closures_as_python():
    i, x = relay.var("i", "int32"), relay.var("x", shape=(2,))
    loop = relay.loops.while_loop(
        lambda i, x: i < number(200), [i, x], lambda i, x: [i + number(1), x + x]
    )
    start = relay.const(numpy.full(2, 2.0**-190, "float64").astype("float32"))
    count, _ = testing.run_as_python(relay.Call(loop, [number(0), start]))
    assert int(count.numpy()) == 200
    y = relay.var("y", "int32")
    add = relay.Function([x2 := relay.var("x", "int32")], relay.Function([y], x2 + y))
    assert int(testing.run_as_python(add)(number(4).data)(number(5).data).numpy()) == 9


def test_operators_without_numpy_meaning_run_too():
    value = relay.const(numpy.zeros((2, 4), "float32"))
    found = testing.run_as_python(relay.nn.fast_softmax(value))
    numpy.testing.assert_allclose(found.numpy(), 0.25, rtol=1e-5)


# Boxes


def layer(objectness):
    """A layer of 2 × 2 cells, one anchor and 3 classes, with one object in the upper right cell."""
    output = numpy.zeros((1, 8, 2, 2), "float32")
    output[0, :2, 0, 1] = 0.5
    output[0, 4, 0, 1] = objectness
    output[0, 5:, 0, 1] = 0.1, 0.9, 0.0
    return {"type": "Yolo", "output": output, "biases": [32, 16], "mask": [0], "classes": 3}


def test_boxes_of_yolo(capsys):
    found = yolo_detection.fill_network_boxes((64, 64), (128, 64), 0.3, 1, [layer(0.8)])
    assert len(found) == 1 and found[0]["prob"] == [0.0, pytest.approx(0.72), 0.0]
    # The image fills the width; of the height it takes the half in the middle.
    numpy.testing.assert_allclose(found[0]["bbox"], (0.75, 0.0, 0.5, 0.5))
    absolute = yolo_detection.fill_network_boxes((64, 64), (128, 64), 0.3, 0, [layer(0.8)])
    numpy.testing.assert_allclose(absolute[0]["bbox"], (96, 0, 64, 32))
    both = yolo_detection.fill_network_boxes((64, 64), (64, 64), 0.3, 1, [layer(0.6), layer(0.8)])
    yolo_detection.do_nms_sort(both, 3, 0.45)
    assert [one["prob"][1] > 0 for one in both] == [True, False]
    image = numpy.zeros((3, 32, 64), "float32")
    labels, best, *_, corners = yolo_detection.get_detections(image, found[0], 0.3, "abc", 3)
    assert (labels, best, corners) == (["b: 0.72"], "b", (32, 63, 0, 8))
    yolo_detection.show_detections(image, found, 0.3, "abc", 3)
    assert "b: 0.72 at rows 0 to 8" in capsys.readouterr().out
