"""ConvertLayout, AlterOpLayout, Legalize: what they make of programs, and that values stay."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay
from tilesmith.relay.testing import TempOpAttr
from tilesmith.relay.transform.infer_layout_utils import InferCorrectLayoutOutput
from tilesmith.support.errors import OpAttributeInvalid, UnsupportedError
from tilesmith.tir import layout

RANDOM = np.random.default_rng(0)
NHWC = {"nn.conv2d": ["NHWC", "default"]}
BLOCKS = {"nn.conv2d": ["NCHW4c", "OIHW4i4o"]}


def conv(x, channels=8, name="w", **attrs):
    inputs = int(x.checked_type.shape[1]) if isinstance(x, relay.Var) else 8
    w = relay.var(name, shape=(channels, inputs // attrs.get("groups", 1), 3, 3))
    attrs = {"padding": (1, 1), **attrs}
    return relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=channels, **attrs)


def image(name="x", channels=4):
    return relay.var(name, shape=(1, channels, 6, 6))


def module(body):
    return ts.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))


def inputs_of(mod):
    shapes = [[int(n) for n in one.checked_type.shape] for one in mod["main"].params]
    return [RANDOM.uniform(-1, 1, shape).astype("float32") for shape in shapes]


def values(mod, inputs):
    found = relay.create_executor("debug", mod).evaluate()(*inputs)
    return [found.numpy()] if hasattr(found, "numpy") else [one.numpy() for one in found]


def calls(mod, name):
    found = []

    def visit(node):
        if isinstance(node, relay.Call) and getattr(node.op, "name", "") == name:
            found.append(node)

    relay.analysis.post_order_visit(mod["main"], visit)
    return found


def converted(body, wanted=NHWC):
    mod = module(body)
    made = relay.transform.ConvertLayout(wanted)(mod)
    inputs = inputs_of(mod)
    for a, b in zip(values(mod, inputs), values(made, inputs)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return made


FOLLOWERS = {
    "relu": relay.nn.relu,
    "scale": lambda y: relay.multiply(y, relay.const(2.0)),
    "add a vector": lambda y: relay.add(y, relay.var("c", shape=(8, 1, 1))),
    "add a row": lambda y: relay.add(y, relay.var("c", shape=(6,))),
    "bias_add": lambda y: relay.nn.bias_add(y, relay.var("c", shape=(8,))),
    "pool": lambda y: relay.nn.max_pool2d(y, (2, 2), (2, 2)),
    "global pool": relay.nn.global_avg_pool2d,
    "concatenate": lambda y: relay.concatenate([y, relay.nn.relu(y)], axis=1),
    "split": lambda y: relay.split(y, 2, axis=1)[1],
    "sum": lambda y: relay.sum(y, axis=[1], exclude=True),
    "mean": lambda y: relay.mean(y, axis=[2, 3], keepdims=True),
    "argmax": lambda y: relay.argmax(y, axis=1),
    "softmax": lambda y: relay.nn.softmax(y, axis=1),
    "pad": lambda y: relay.nn.pad(y, ((0, 0), (0, 0), (1, 0), (2, 1))),
    "slice": lambda y: relay.strided_slice(y, [0, 2], [1, 6]),
    "squeeze": lambda y: relay.nn.relu(relay.squeeze(y, axis=[0])),
    "prelu": lambda y: relay.nn.prelu(y, relay.var("c", shape=(8,))),
    "batch_norm": lambda y: relay.nn.batch_norm(
        y, *[relay.exp(relay.var(name, shape=(8,))) for name in "abcd"]
    )[0],
    "upsampling": lambda y: relay.nn.upsampling(y, 2.0, 2.0),
    "reverse": lambda y: relay.reverse(y, axis=1),
}


@pytest.mark.parametrize("follow", FOLLOWERS.values(), ids=FOLLOWERS)
def test_what_follows_stays_in_the_new_layout(follow):
    made = converted(relay.nn.relu(follow(conv(image()))))
    assert calls(made, "nn.conv2d")[0].attrs.data_layout == "NHWC"
    last = made["main"].body
    assert last.op.name in ("layout_transform", "nn.relu")
    backwards = [one for one in calls(made, "layout_transform") if one.attrs.src_layout != "NCHW"
                 and one.attrs.src_layout != "OIHW"]  # fmt: skip
    assert all(one is last for one in backwards)


@pytest.mark.parametrize("follow", FOLLOWERS.values(), ids=FOLLOWERS)
def test_blocks_of_channels_keep_values(follow):
    made = converted(follow(conv(image())), BLOCKS)
    assert calls(made, "nn.conv2d")[0].attrs.kernel_layout == "OIHW4i4o"


@pytest.mark.parametrize(
    "follow",
    [
        lambda y: relay.reshape(y, (1, -1)),
        lambda y: relay.Tuple([y, relay.nn.batch_flatten(y)]),
        lambda y: relay.nn.dense(relay.nn.batch_flatten(y), relay.var("d", shape=(3, 288))),
    ],
)
def test_others_get_the_old_layout(follow):
    made = converted(follow(conv(image())))
    assert len(calls(made, "layout_transform")) == 3


def test_a_chain_is_transformed_once_at_each_end():
    y = conv(relay.nn.relu(conv(image(), name="v")), name="w")
    made = converted(relay.nn.relu(y))
    assert len(calls(made, "layout_transform")) == 4  # data, two weights, result


def test_a_transposition_is_only_a_name():
    made = converted(relay.transpose(conv(image()), [0, 2, 3, 1]))
    assert made["main"].body.op.name == "nn.conv2d"


def test_a_transformation_back_is_not_made():
    y = relay.layout_transform(conv(image()), "NCHW", "NHWC")
    assert converted(y)["main"].body.op.name == "nn.conv2d"


def test_kernels_of_single_channels():
    made = converted(conv(image(channels=8), groups=8))
    assert calls(made, "nn.conv2d")[0].attrs.kernel_layout == "HWOI"


def test_a_named_kernel_layout():
    made = converted(conv(image()), {"nn.conv2d": ["NHWC", "OHWI"]})
    assert calls(made, "nn.conv2d")[0].attrs.kernel_layout == "OHWI"


def test_pools_alone():
    made = converted(relay.nn.max_pool2d(image(), (2, 2)), {"nn.max_pool2d": ["NHWC"]})
    assert calls(made, "nn.max_pool2d")[0].attrs.layout == "NHWC"


def test_sizes_that_do_not_fit_blocks_stay():
    made = converted(conv(image(channels=3)), BLOCKS)
    assert calls(made, "nn.conv2d")[0].attrs.data_layout == "NCHW"


def test_a_program_without_such_calls_is_the_same():
    mod = relay.transform.InferType()(module(relay.nn.relu(image())))
    assert relay.transform.ConvertLayout(NHWC)(mod)["main"] is mod["main"]


def test_bad_wishes():
    with pytest.raises(OpAttributeInvalid, match="has to be named"):
        relay.transform.ConvertLayout({"nn.conv2d": ["default"]})(module(conv(image())))
    with pytest.raises(OpAttributeInvalid, match="no kernel layout"):
        relay.transform.ConvertLayout({"nn.conv2d": ["NWHC", "default"]})(module(conv(image())))
    with pytest.raises(UnsupportedError, match="register_convert_op_layout"):
        relay.transform.ConvertLayout({"nn.dense": ["NC"]})(module(conv(image())))


def test_layers_are_skipped():
    y = conv(relay.nn.relu(conv(image(), name="v")), name="w")
    with relay.transform.LayoutConfig(skip_layers=[0]):
        made = relay.transform.ConvertLayout(NHWC)(module(y))
    assert [one.attrs.data_layout for one in calls(made, "nn.conv2d")] == ["NCHW", "NHWC"]
    assert relay.transform.LayoutConfig.current is None


def alter(**changes):
    def rule(attrs, inputs, tinfos, out_type):
        assert tinfos[0].shape[1] == 4 and out_type.shape[1] == 8
        new = {key: attrs[key] for key in attrs.keys()} | changes
        new = {key: value for key, value in new.items() if value is not None}
        return relay.nn.conv2d(*inputs, **new)

    return rule


def test_a_registered_rule_alters():
    rule = alter(data_layout="NCHW4c", kernel_layout="OIHW4i4o")
    mod = module(relay.nn.relu(conv(image())))
    inputs = inputs_of(mod)
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule):
        made = relay.transform.AlterOpLayout()(mod)
        with ts.transform.PassContext(opt_level=3):
            lib = relay.build(mod, "llvm")
    assert calls(made, "nn.relu")[0].args[0].attrs.data_layout == "NCHW4c"
    np.testing.assert_allclose(values(mod, inputs)[0], values(made, inputs)[0], rtol=1e-4,
                               atol=1e-5)  # fmt: skip
    assert len(lib.ir_mod["main"].params) == 2


def test_a_rule_may_compute_operands():
    def rule(attrs, inputs, tinfos, out_type):
        data, weight = inputs
        new = {key: attrs[key] for key in ("padding", "channels", "kernel_size")}
        weight = relay.multiply(weight, relay.const(2.0))
        return relay.nn.conv2d(data, weight, data_layout="NHWC", kernel_layout="HWIO", **new)

    mod = module(conv(image()))
    inputs = inputs_of(mod)
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule):
        made = relay.transform.AlterOpLayout()(mod)
    (wanted,), (found,) = values(mod, inputs), values(made, inputs)
    np.testing.assert_allclose(wanted * 2, found, rtol=1e-4, atol=1e-5)


def test_registered_layouts_let_an_operator_follow():
    seen = []

    def infer(attrs, new_in_layouts, old_in_layouts, old_in_types):
        seen.append([str(one) for one in new_in_layouts])
        names = [str(one) for one in new_in_layouts]
        chosen = layout("NHWC" if names == ["NHWC"] else "NCHW")
        return InferCorrectLayoutOutput([chosen], [chosen], attrs)

    with TempOpAttr("nn.relu", "FInferCorrectLayout", infer):
        made = converted(relay.exp(relay.nn.relu(conv(image()))))
    assert made["main"].body.op.name == "layout_transform"
    assert ["NHWC"] in seen


def test_legalize_applies_what_is_registered():
    def legal(attrs, inputs, types):
        assert [str(one.dtype) for one in types] == ["float32", "float32"]
        return relay.maximum(inputs[0], relay.const(0.0))

    mod = module(relay.exp(relay.nn.relu(image())))
    with TempOpAttr("nn.relu", "test.legal", legal):
        made = relay.transform.Legalize("test.legal")(mod)
    assert "maximum" in str(made) and "nn.relu" not in str(made)
    assert "nn.relu" in str(relay.transform.Legalize()(mod))


def test_what_is_registered_acts_when_a_program_is_built():
    mod = module(relay.nn.relu(image()))
    values_ = inputs_of(mod)
    with TempOpAttr("nn.relu", "FTVMLegalize", lambda attrs, inputs, types: relay.exp(inputs[0])):
        lib = relay.build(mod, "llvm")
    executor = ts.contrib.graph_executor.GraphModule(lib["default"](ts.cpu()))
    executor.run(x=values_[0])
    np.testing.assert_allclose(executor.get_output(0).numpy(), np.exp(values_[0]), rtol=1e-5)


@pytest.mark.parametrize("target", ["NCHW8c", "NHWC", "NCHW2c4h"])
def test_constants_are_transformed_like_tensors(target):
    x = RANDOM.random((1, 5, 8, 3)).astype("float32")
    call = relay.layout_transform(relay.const(x), "NCHW", target)
    folded = relay.transform.FoldConstantExpr(call, ts.IRModule())
    x_var = relay.var("x", shape=x.shape)
    mod = module(relay.layout_transform(x_var, "NCHW", target))
    legal = relay.create_executor("graph", mod, ts.cpu(), "llvm").evaluate()(x)
    np.testing.assert_array_equal(folded.data.numpy(), legal.numpy())


def test_a_deep_network_is_linear():
    y = image(channels=8)
    for step in range(400):
        y = relay.nn.relu(conv(y, name=f"w{step}"))
    made = relay.transform.ConvertLayout(NHWC)(module(y))
    assert len(calls(made, "layout_transform")) == 402
