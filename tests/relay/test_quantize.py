"""relay.quantize: a network of integers agrees with its floats, and does what qconfig says."""

import sys

import numpy
import pytest

from tests.relay.programs import value_of
from tilesmith import ir, relay
from tilesmith.ir import Op
from tilesmith.relax import interpreter
from tilesmith.relay import quantize as quantization
from tilesmith.relay.quantize.annotate import ANNOTATE, is_simulated, sites
from tilesmith.relay.quantize.kl_divergence import best_threshold
from tilesmith.relay.quantize.partition import PARTITION
from tilesmith.relay.translate import to_relax
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import ConfigError, UnsupportedError

RANDOM = numpy.random.default_rng(3)
ALL = {"skip_conv_layers": [], "skip_dense_layer": False}


def weights(*shape):
    fan = int(numpy.prod(shape[1:]))
    return RANDOM.normal(0, (2 / fan) ** 0.5, shape).astype("float32")


def convolution(x, inputs, outputs, size=3, stride=1):
    made = relay.nn.conv2d(
        x, relay.const(weights(outputs, inputs, size, size)), strides=(stride, stride),
        padding=(size // 2, size // 2), channels=outputs, kernel_size=(size, size),
    )  # fmt: skip
    bias = RANDOM.normal(0, 0.1, outputs).astype("float32")
    return relay.nn.bias_add(made, relay.const(bias))


def network(ends_in_softmax=True):
    """Return a small residual network."""
    x = relay.var("data", shape=(1, 3, 8, 8))
    first = relay.nn.relu(convolution(x, 3, 8))
    second = relay.nn.relu(convolution(first, 8, 8))
    joined = relay.nn.relu(convolution(second, 8, 8) + first)
    pooled = relay.nn.max_pool2d(joined, (2, 2), (2, 2))
    side = convolution(pooled, 8, 12, 1, 2)
    last = relay.nn.relu(convolution(pooled, 8, 12, 3, 2) + side)
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(last))
    out = relay.nn.dense(flat, relay.const(weights(10, 12)))
    return ir.IRModule.from_expr(
        relay.Function([x], relay.nn.softmax(out) if ends_in_softmax else out)
    )


def batches(count=3):
    return [{"data": RANDOM.normal(0, 1, (1, 3, 8, 8)).astype("float32")} for _ in range(count)]


NETWORK, PLAIN, DATA = network(), network(False), batches()


def calls(mod, name=None):
    found = [
        node for function in mod.functions.values() for node in post_order(function)
        if isinstance(node, relay.Call) and isinstance(node.op, Op)
    ]  # fmt: skip
    return [node for node in found if name in (None, node.op.name)]


def values(mod):
    return [interpreter.run(to_relax(mod), "main", one["data"]) for one in DATA[:2]]


def error_of(mod, reference):
    found, wanted = values(mod), values(reference)
    greatest = max([numpy.abs(one).max() for one in wanted])
    return max([numpy.abs(a - b).max() for a, b in zip(found, wanted)]) / greatest


@pytest.mark.parametrize(
    "mode, scale",
    [("global_scale", "power2"), ("kl_divergence", "channel_max"), ("percentile", "max")],
)
def test_a_network_of_integers_agrees_with_its_floats(mode, scale):
    with quantization.qconfig(calibrate_mode=mode, weight_scale=scale, **ALL):
        mod = quantization.quantize(NETWORK, dataset=DATA)
    assert len(calls(mod, "qnn.conv2d")) == 5 and len(calls(mod, "qnn.dense")) == 1
    assert not calls(mod, "nn.conv2d") and not calls(mod, "nn.dense")
    assert error_of(mod, NETWORK) < (0.2 if mode == "global_scale" else 0.1)


def test_the_defaults_leave_the_first_convolution_and_dense_in_floats():
    mod = quantization.quantize(NETWORK)
    assert len(calls(mod, "qnn.conv2d")) == 4
    assert len(calls(mod, "nn.conv2d")) == len(calls(mod, "nn.dense")) == 1
    with quantization.qconfig(debug_enabled_ops=["nn.dense"], skip_dense_layer=False):
        mod = quantization.quantize(NETWORK)
    assert len(calls(mod, "qnn.dense")) == 1 and not calls(mod, "qnn.conv2d")


def test_compiled_integers_and_the_table_of_layers():
    with quantization.qconfig(calibrate_mode="percentile", weight_scale="channel_max", **ALL):
        mod = quantization.quantize(NETWORK, dataset=DATA)
        layers = quantization.accuracy_by_layer(NETWORK, dataset=DATA)
    built = relay.create_executor("graph", mod, target="llvm -mcpu=native").evaluate()
    for one in DATA:
        numpy.testing.assert_allclose(
            built(one["data"]).numpy(), value_of(mod["main"], [one["data"]]), atol=1e-5
        )
    assert [one.name for one in layers][-1] == "result" and len(layers) == 8
    assert min([one.signal_to_noise for one in layers]) > 20
    assert max([one.greatest_error for one in layers]) < 0.1
    table = quantization.accuracy_table(layers)
    assert len(table.splitlines()) == 9 and "1x8x8x8" in table and "dB" in table


def test_fewer_bits_are_less_exact():
    errors = []
    for bits in (8, 5, 3):
        with quantization.qconfig(
            nbit_input=bits,
            nbit_weight=bits,
            calibrate_mode="percentile",
            weight_scale="max",
            **ALL,
        ):
            errors.append(error_of(quantization.quantize(NETWORK, dataset=DATA), NETWORK))
    assert errors == sorted(errors) and errors[0] < errors[2] / 3


def test_unsigned_operands():
    with quantization.qconfig(dtype_input="uint8", **ALL):
        unsigned = quantization.quantize(NETWORK)
    with quantization.qconfig(**ALL):
        signed = quantization.quantize(NETWORK)
    first = calls(unsigned, "qnn.conv2d")[0].args[0]
    assert str(first.struct_info.dtype) == "uint8"
    assert error_of(unsigned, signed) < 0.01  # the same numbers, 128 greater


def test_simulation_computes_in_floats_what_the_integers_give():
    options = {"weight_scale": "max", **ALL}
    with quantization.qconfig(do_simulation=True, **options):
        simulated = quantization.quantize(PLAIN)
    assert sites(simulated["main"]) and not calls(simulated, "qnn.conv2d")
    with quantization.qconfig(**options):
        integers = quantization.quantize(PLAIN)
    assert error_of(integers, simulated) < 0.04  # a rounding more or less in the last layer


def test_conversions_in_functions_of_their_own():
    with quantization.qconfig(partition_conversions="fully_integral", **ALL):
        mod = quantization.quantize(PLAIN)
        with pytest.raises(UnsupportedError, match=r"qnn\.dequantize|nn\.softmax"):
            quantization.quantize(NETWORK)
    with quantization.qconfig(**ALL):
        whole = quantization.quantize(PLAIN)
    names = [variable.name_hint for variable in mod.functions]
    assert names == ["quantize_inputs", "quantized_main", "dequantize_outputs", "main"]
    assert str(mod["quantized_main"].body.struct_info.fields[0].dtype) == "int32"
    assert error_of(mod, whole) == 0
    with quantization.qconfig(partition_conversions="enabled"):
        assert error_of(quantization.quantize(NETWORK), NETWORK) < 0.2


def test_parameters_become_constants():
    x, w = relay.var("data", shape=(1, 8)), relay.var("w", shape=(4, 8))
    mod = ir.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    with quantization.qconfig(**ALL):
        made = quantization.quantize(mod, {"w": weights(4, 8)})
    assert [one.name_hint for one in made["main"].params] == ["data"]
    weight = calls(made, "qnn.dense")[0].args[1]
    assert isinstance(weight, relay.Constant) and weight.data.dtype == "int8"


def test_batch_normalisation_becomes_a_part_of_the_convolution():
    x = relay.var("data", shape=(1, 3, 8, 8))
    four = [relay.const(RANDOM.uniform(0.5, 2, 6).astype("float32")) for _ in range(4)]
    made = relay.nn.relu(relay.nn.batch_norm(convolution(x, 3, 6), *four)[0])
    mod = ir.IRModule.from_expr(relay.Function([x], convolution(made, 6, 4)))
    with quantization.qconfig(calibrate_mode="percentile", weight_scale="channel_max", **ALL):
        found = quantization.quantize(mod, dataset=DATA)
    assert error_of(found, mod) < 0.1
    assert not calls(found, "multiply") and len(calls(found, "qnn.conv2d")) == 2


def test_rules_of_the_program():
    op = Op.get("cos")

    @quantization.register_annotate_function("cos")
    def annotated(ref_call, new_args, ctx):
        made = relay.cos(
            quantization.attach_simulated_quantize(
                getattr(new_args[0], "expr", new_args[0]), quantization.QAnnotateKind.INPUT
            )
        )
        return quantization.QAnnotateExpr(made, quantization.QAnnotateKind.ACTIVATION)

    x = relay.var("data", shape=(2, 3))
    mod = ir.IRModule.from_expr(relay.Function([x], relay.cos(x)))
    try:
        found = quantization.annotate()(mod)
    finally:
        op.reset_attr(ANNOTATE)
    assert is_simulated(found["main"].body.args[0])

    @quantization.register_partition_function("cos")
    def partitioned(ref_call, new_args, ctx):
        return quantization.QPartitionExpr(relay.cos(new_args[0]))

    try:
        marked = quantization.partition()(mod)
    finally:
        op.reset_attr(PARTITION)
    assert marked["main"].body.op.name == "annotation.cast_hint"
    assert is_simulated(quantization.annotate()(marked)["main"].body)


def test_thresholds_cut_what_is_far_from_the_rest():
    values = RANDOM.normal(0, 1, 20000)
    assert 2.5 < best_threshold(numpy.append(values, [40.0, -50.0]), 8) < 25
    assert best_threshold(numpy.zeros(3), 8) == 0
    even = RANDOM.uniform(-2, 2, 20000)
    assert best_threshold(even, 8) > 1.8


def test_configuration():
    assert quantization.current_qconfig().nbit_weight == 8
    with quantization.qconfig(nbit_input=6, global_scale=4.0) as config:
        assert quantization.current_qconfig() is config and config.global_scale == 4.0
        kinds = quantization.QAnnotateKind
        assert config.get_nbit_by_kind(kinds.INPUT) == 6
        assert config.get_dtype_by_kind(kinds.ACTIVATION) == "int32"
        assert "nbit_input=6" in str(config)
    assert quantization.kind2str(kinds.WEIGHT) == "weight"
    for wrong, message in (
        ({"nbit_inputs": 8}, "did you mean 'nbit_input'"),
        ({"calibrate_mode": "entropy"}, "kl_divergence"),
        ({"nbit_weight": 9}, "between 2 and 8"),
    ):
        with pytest.raises(ConfigError, match=message):
            quantization.qconfig(**wrong)
    with pytest.raises(ConfigError, match="needs a dataset"):
        with quantization.qconfig(calibrate_mode="percentile"):
            quantization.quantize(NETWORK)
    with pytest.raises(ConfigError, match="has no 'data'"):
        with quantization.qconfig(calibrate_mode="percentile"):
            quantization.quantize(NETWORK, dataset=[{"image": DATA[0]["data"]}])
    with pytest.raises(UnsupportedError, match="no annotation runs"):
        quantization.quantize_context()


def test_large_networks_are_compiled_for_calibration(monkeypatch):
    x = relay.var("data", shape=(2, 8))
    made = relay.nn.relu(relay.nn.dense(x, relay.const(weights(8, 8))))
    mod = ir.IRModule.from_expr(
        relay.Function([x], relay.nn.dense(made, relay.const(weights(4, 8))))
    )
    data = [{"data": RANDOM.normal(0, 1, (2, 8)).astype("float32")} for _ in range(2)]
    found, stats = [], quantization.collect_stats
    for least in (1 << 28, 0):
        monkeypatch.setattr(sys.modules[stats.__module__], "_FEWEST_PRODUCTS", least)
        with quantization.qconfig(calibrate_mode="percentile", **ALL):
            found.append(quantization.quantize(mod, dataset=data))
    scales = [
        [one.args[place].data.numpy() for one in calls(made) for place in (1, 3)
         if one.op.name == "qnn.requantize"]
        for made in found
    ]  # fmt: skip
    assert scales[0]
    numpy.testing.assert_allclose(scales[0], scales[1], rtol=1e-5)
