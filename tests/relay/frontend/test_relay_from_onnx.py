"""relay.frontend.from_onnx and relay.build, against onnxruntime."""

import numpy as np
import onnx
import pytest
from onnx import helper

import tilesmith as ts
from tests.relax.frontend.onnx_reference import (
    make_model,
    node_tests,
    one_node,
    reference,
    with_constants,
)
from tilesmith import relax, relay
from tilesmith.contrib import graph_executor
from tilesmith.relax import interpreter
from tilesmith.relay.frontend import onnx as relay_onnx
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import ConfigError, FileError, FrontendError, OpNotImplemented

RANDOM = np.random.default_rng(5)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def built(mod, params, feed):
    """The outputs of a module that relay.build has compiled."""
    lib = relay.build(mod, "llvm", params=params)
    executor = graph_executor.GraphModule(lib["default"](ts.cpu()))
    executor.run(**feed)
    return [executor.get_output(place).numpy() for place in range(executor.get_num_outputs())]


def check(model, feed, rtol=1e-4, atol=1e-5, **options):
    """Both ways give the same outputs."""
    mod, params = relay.frontend.from_onnx(model, **options)
    for found, wanted in zip(built(mod, params, feed), reference(model, feed), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(
            found.astype("float64"), wanted.astype("float64"), rtol=rtol, atol=atol
        )
    return mod


# One of ONNX's own node tests for each operator.
NODES = """
acos acosh add_bcast and2d argmax_keepdims_example argmin_no_keepdims_example asinh
averagepool_2d_ceil basic_conv_with_padding batchnorm_example cast_FLOAT_to_DOUBLE ceil clip
concat_2d_axis_1 constant conv_with_strides_and_asymmetric_padding convtranspose
cumsum_1d_exclusive depthtospace_example div dropout_default einsum_batch_matmul elu equal erf exp
expand_dim_unchanged eyelike_with_dtype flatten_axis1 floor gather_1 gather_elements_0
gathernd_example_float32 gelu_default_1 gemm_all_attributes globalaveragepool globalmaxpool
greater group_normalization_example hardmax_example hardsigmoid hardswish identity
instancenorm_example isinf layer_normalization_2d_axis1 leakyrelu less log logsoftmax_axis_1 lrn
matmul_3d matmul_4d max_example maxpool_2d_dilations mean_example mish mod_mixed_sign_int32 neg
nllloss_NC not_2d onehot_with_axis or2d pow prelu_broadcast qlinearconv reciprocal
reduce_l2_keep_dims_example reduce_log_sum_exp_keepdims_random reduce_max_do_not_keepdims_example
reshape_negative_dim resize_downsample_scales_linear round scatter_elements_with_axis scatternd
selu shape shrink_soft sigmoid sign slice_neg_steps softmax_axis_0 softplus softsign spacetodepth
split_equal_parts_2d sqrt squeeze sub sum_example tan tanh thresholdedrelu tile top_k
transpose_default tril triu_pos unsqueeze_axis_1 where_example xor2d
""".split()


@pytest.fixture(scope="module")
def cases():
    return node_tests()


@pytest.mark.parametrize("name", NODES)
def test_node_tests_through_relay_build(cases, name):
    model, inputs, *_ = cases["test_" + name]
    model, inputs = with_constants(model, inputs)
    feed = {item.name: value for item, value in zip(model.graph.input, inputs)}
    check(model, feed)


def layers():
    """A convolution with a bias, and a matrix product; its names are no identifiers."""
    nodes = [
        helper.make_node("Conv", ["in.0", "conv.w", "conv.b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "fc/w", "fc/b"], ["y"], transB=1),
    ]
    weights = {
        "conv.w": floats(4, 3, 3, 3), "conv.b": floats(4), "fc/w": floats(2, 4), "fc/b": floats(2),
    }  # fmt: skip
    inputs = {"in.0": ("float32", (1, 3, 6, 5))}
    return make_model(nodes, inputs, {"y": ("float32", (1, 2))}, weights), weights


def operators(mod):
    found = [one.op.name for one in post_order(mod["main"].body) if isinstance(one, relay.Call)]
    return found


@pytest.mark.parametrize("freeze", [True, False])
def test_weights_keep_their_names(freeze):
    model, weights = layers()
    mod, params = relay.frontend.from_onnx(model, freeze_params=freeze)
    names = [param.name_hint for param in mod["main"].params]
    assert names[0] == "in.0" and sorted(names[1:]) == sorted(params)
    assert sorted(params) == ([] if freeze else sorted(weights))
    for name, value in params.items():
        np.testing.assert_array_equal(value.numpy(), weights[name])
    feed = {"in.0": floats(1, 3, 6, 5)}
    want = reference(model, feed)[0]
    np.testing.assert_allclose(built(mod, params, feed)[0], want, rtol=1e-4, atol=1e-5)


def test_calls_are_those_that_relay_has():
    model, _ = layers()
    mod, _ = relay.frontend.from_onnx(model, freeze_params=False)
    assert operators(mod)[:3] == ["nn.conv2d", "nn.bias_add", "nn.relu"]
    assert "nn.dense" in operators(mod)
    convolution = next(one for one in post_order(mod["main"].body) if _is(one, "nn.conv2d"))
    assert convolution.attrs.channels == 4 and tuple(convolution.attrs.kernel_size) == (3, 3)
    assert convolution.span.format() == "Conv node '→c'"
    assert convolution.checked_type.shape[1] == 4


def _is(node, name):
    return isinstance(node, relay.Call) and node.op.name == name


def test_unknown_sizes():
    model, _ = layers()
    mod, params = relay.frontend.from_onnx(model, shape={"in.0": (relay.Any(), 3, 6, 5)})
    lib = relay.build(mod, "llvm", params=params)
    executor = relax.VirtualMachine(lib.get_lib(), ts.cpu())
    for count in (1, 3):
        values = floats(count, 3, 6, 5)
        got = executor["main"](values).numpy()
        want = [reference(model, {"in.0": one[None]})[0] for one in values]
        np.testing.assert_allclose(got, np.concatenate(want), rtol=1e-4, atol=1e-5)


def choice():
    """A choice, whose branches use a value from outside."""
    branches = {}
    for word, operator in (("then", "Relu"), ("else", "Neg")):
        node = helper.make_node(operator, ["x"], [word + "_y"])
        output = helper.make_tensor_value_info(word + "_y", onnx.TensorProto.FLOAT, [4])
        branches[word + "_branch"] = helper.make_graph([node], word, [], [output])
    node = helper.make_node("If", ["c"], ["y"], **branches)
    inputs = {"c": ("bool", ()), "x": ("float32", (4,))}
    return make_model([node], inputs, {"y": ("float32", (4,))})


@pytest.mark.parametrize("holds", [True, False])
def test_choices(holds):
    mod, _ = relay.frontend.from_onnx(choice())
    assert isinstance(mod["main"].body, relay.If)
    feed = {"c": np.array(holds), "x": floats(4)}
    lib = relay.build(mod, "llvm")
    got = relax.VirtualMachine(lib.get_lib(), ts.cpu())["main"](*feed.values()).numpy()
    np.testing.assert_array_equal(got, reference(choice(), feed)[0])


@pytest.mark.parametrize("name", ["nonzero_example", "range_int32_type_negative_delta_expanded"])
def test_sizes_that_data_tells(cases, name):
    model, inputs, outputs, *_ = cases["test_" + name]
    mod, _ = relay.frontend.from_onnx(model)
    got = interpreter.run(relay.to_relax(mod), "main", *inputs)
    np.testing.assert_array_equal(got, outputs[0])


def test_recurrent_networks():
    feed = {"x": floats(3, 2, 4), "w": floats(1, 20, 4), "r": floats(1, 20, 5)}
    check(one_node("LSTM", feed, outputs=3, hidden_size=5), feed)


def test_models_are_written_with_names(tmp_path):
    model, _ = layers()
    mod, _ = relay.frontend.from_onnx(model, export_node_renamed_model_path=str(tmp_path))
    written = onnx.load(tmp_path / "test.onnx")
    names = [node.name for node in written.graph.node]
    assert names == ["Conv_0", "Relu_0", "pool", "Flatten_0", "Gemm_0"]
    assert not model.graph.node[0].name
    spans = {one.span.name for one in post_order(mod["main"].body) if isinstance(one, relay.Call)}
    assert spans <= set(names)
    path = tmp_path / "again.onnx"
    relay.frontend.from_onnx(tmp_path / "test.onnx", export_node_renamed_model_path=path)
    assert path.exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        relay_onnx.export_model(tmp_path / "file" / "x", model)


def test_settings():
    model, _ = layers()
    relay.frontend.from_onnx(model, convert_config={"use_nt_batch_matmul": False})
    with pytest.raises(ConfigError, match="no setting 'use_nt_batch_matmull'") as caught:
        relay.frontend.from_onnx(model, convert_config={"use_nt_batch_matmull": False})
    assert "did you mean 'use_nt_batch_matmul'?" in caught.value.notes
    older = one_node("Softmax", {"x": floats(2, 3, 4)}, opset=11)
    mod, _ = relay.frontend.from_onnx(older, opset=13)
    assert operators(mod) == ["nn.softmax"]


def test_inputs_are_described():
    name, sizes, dtype, named = relay_onnx.get_info(
        helper.make_tensor_value_info("x", onnx.TensorProto.INT8, ["n", 3])
    )
    assert (name, sizes[1], dtype, named) == ("x", 3, "int8", ["n"])
    assert isinstance(sizes[0], relay.Any)
    tensor = onnx.numpy_helper.from_array(np.arange(3), "t")
    assert relay_onnx.get_numpy(tensor).tolist() == [0, 1, 2]
    assert relay_onnx.get_type(onnx.TensorProto.FLOAT16) == "float16"


def test_mistakes_are_named():
    with pytest.raises(OpNotImplemented, match="Wobble"):
        relay.frontend.from_onnx(one_node("Wobble", {"x": floats(3)}, domain="own"))
    with pytest.raises(FrontendError, match="'nothing'"):
        relay.frontend.from_onnx(layers()[0], shape={"nothing": (1,)})
