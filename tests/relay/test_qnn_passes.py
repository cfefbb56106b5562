"""Passes, rules, tables and strategies of the dialect of quantised networks."""

import numpy
import pytest

from tests.relay.programs import value_of
from tests.relay.test_qnn_operators import integers, network
from tilesmith import ir, relay
from tilesmith.ir import Op
from tilesmith.relay import qnn
from tilesmith.relay.op.op_strategy import OpStrategy
from tilesmith.relay.qnn.op import canonicalizations, layout_conversions, legalizations
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import OpAttributeInvalid, TypeMismatchError, UnsupportedError
from tilesmith.target import Target

CASES = [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("int8", "uint8")]


def names(mod):
    return [
        node.op.name
        for node in post_order(mod["main"])
        if isinstance(node, relay.Call) and isinstance(node.op, Op)
    ]


def test_canonical_programs_compute_the_same_integers():
    function, inputs = network()
    mod = qnn.transform.CanonicalizeOps()(ir.IRModule.from_expr(function))
    assert not [name for name in names(mod) if name.startswith("qnn.")]
    for found, wanted in zip(value_of(mod["main"], inputs), value_of(function, inputs)):
        numpy.testing.assert_array_equal(found, wanted)
    again = relay.parse(mod.astext(show_meta_data=True))
    ir.assert_structural_equal(again, mod)


def test_rounding_in_floats_has_a_form_in_relay_too():
    x = relay.var("x", shape=(6,), dtype="int32")
    data = numpy.array([-5, -3, -1, 1, 3, 5], "int32")
    for rounding, wanted in (
        ("UPWARD", [-2, -1, 0, 1, 2, 3]),
        ("TONEAREST", [-3, -2, -1, 1, 2, 3]),
    ):
        with qnn.op.requantize_config(rounding=rounding, compute_dtype="float32"):
            body = qnn.op.requantize(x, 0.5, 0, 1.0, 0)
            mod = qnn.transform.CanonicalizeOps()(ir.IRModule.from_expr(relay.Function([x], body)))
        assert value_of(mod["main"], [data]).tolist() == wanted


def test_rules_of_the_program():
    op = Op.get("qnn.abs")
    x = relay.var("x", shape=(4,), dtype="int8")
    mod = ir.IRModule.from_expr(relay.Function([x], qnn.op.abs(x, 1.0, 0, 1.0, 0)))
    seen = []

    @qnn.op.register_qnn_legalize("qnn.abs")
    def legal(attrs, inputs, types):
        seen.append([str(one.dtype) for one in types])
        return relay.abs(inputs[0])

    @qnn.op.register_qnn_canonicalize("qnn.abs")
    def canonical(attrs, inputs, types):
        return relay.negative(inputs[0])

    try:
        assert names(qnn.transform.Legalize()(mod)) == ["abs"]
        assert names(qnn.transform.CanonicalizeOps()(mod)) == ["negative"]
    finally:
        op.reset_attr(qnn.op.op.LEGALIZE)
        op.reset_attr(qnn.op.op.CANONICALIZE)
    assert seen == [["int8", "float32", "int32", "float32", "int32", "int8"]]
    assert names(qnn.transform.Legalize()(mod)) == ["qnn.abs"]


def products(data_dtype, kernel_dtype):
    """Return calls of a convolution and of a dense product, and their inputs."""
    image, flat = integers(1, 4, 5, 5, dtype=data_dtype), integers(2, 8, dtype=data_dtype)
    kernel, rows = integers(3, 4, 3, 3, dtype=kernel_dtype), integers(6, 8, dtype=kernel_dtype)
    i = relay.var("i", shape=image.shape, dtype=data_dtype)
    x = relay.var("x", shape=flat.shape, dtype=data_dtype)
    conv = qnn.op.conv2d(
        i, relay.const(kernel), 7, [3, 0, 4], 0.1, [0.1] * 3, (3, 3), 3, padding=(1, 1)
    )
    dense = qnn.op.dense(x, relay.const(rows), 5, 2, 0.1, 0.1, 6)
    return [(i, conv, image, qnn.op.conv2d), (x, dense, flat, qnn.op.dense)]


def typed(call):
    return [one.struct_info for one in (*call.args, call)]


@pytest.mark.parametrize("data, kernel", CASES)
def test_dtypes_are_changed_for_the_same_product(data, kernel):
    helpers = {
        legalizations.helper_change_dtypes_to_int8: ("int8", "int8"),
        legalizations.helper_change_dtypes_to_uint8: ("uint8", "uint8"),
        legalizations.helper_change_dtypes_to_uint8_int8: ("uint8", "int8"),
        legalizations.helper_change_dtypes_to_be_same: (kernel, kernel),
    }
    for param, call, array, function in products(data, kernel):
        wanted = value_of(relay.Function([param], call), [array])
        for helper, dtypes in helpers.items():
            made = helper(call.attrs, call.args, typed(call), function)
            if dtypes == (data, kernel):
                assert made is None
                continue
            assert tuple([str(one.struct_info.dtype) for one in made.args[:2]]) == dtypes
            found = value_of(relay.Function([param], made), [array])
            numpy.testing.assert_array_equal(found, wanted)


def test_products_in_16_bits():
    for param, call, array, function in products("uint8", "int8"):
        plain = {qnn.op.conv2d: relay.nn.conv2d, qnn.op.dense: relay.nn.dense}[function]
        made = legalizations.helper_no_fast_int8_hw_legalization(
            call.attrs, call.args, typed(call), plain
        )
        assert str(made.args[0].struct_info.dtype) == "int16"
        numpy.testing.assert_array_equal(
            value_of(relay.Function([param], made), [array]),
            value_of(relay.Function([param], call), [array]),
        )
    assert legalizations.legalize_qnn_conv2d(call.attrs, call.args, typed(call)) is None


def test_small_helpers_of_rules():
    assert legalizations.helper_align_up(33, 16) == 48
    assert legalizations.get_scalar_from_constant(relay.const([4])) == 4
    with pytest.raises(TypeMismatchError, match="one element"):
        legalizations.get_scalar_from_constant(relay.const([4, 5]))
    with Target("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"):
        assert legalizations.is_fast_int8_on_intel()
    with Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"):
        assert not legalizations.is_fast_int8_on_intel()
    numpy.testing.assert_allclose(legalizations.hardswish_func(numpy.array([-4.0, 1, 5])),
                                  [0, 4 / 6, 5])  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_tables(dtype):
    x = relay.var("x", shape=(256,), dtype=dtype)
    data = numpy.arange(256).astype("uint8").view(dtype)
    scale = relay.const(0.1) * relay.const(0.5)
    made = canonicalizations.create_integer_lookup_op(
        x, numpy.tanh, scale, relay.const(3), relay.const(0.01), relay.const(-7), in_dtype=dtype,
        out_dtype="int8",
    )  # fmt: skip
    found = value_of(relay.Function([x], made), [data])
    wanted = numpy.tanh((data.astype("float64") - 3) * 0.05) / 0.01 - 7
    assert numpy.abs(found - wanted.clip(-128, 127)).max() <= 0.501
    assert canonicalizations.run_const_expr(scale) == numpy.float32(0.1) * numpy.float32(0.5)
    with pytest.raises(UnsupportedError, match="too long"):
        canonicalizations.create_integer_lookup_table(numpy.tanh, 1.0, 0, 1.0, 0, in_dtype="int16")
    with pytest.raises(TypeMismatchError, match="consists of constants"):
        canonicalizations.run_const_expr(relay.var("y", shape=()))


def test_a_function_of_the_program_by_a_table():
    op = Op.get("qnn.abs")
    legalizations.register_qnn_unary_op_legalize("qnn.abs", numpy.square)
    x = relay.var("x", shape=(5,), dtype="int8")
    mod = ir.IRModule.from_expr(relay.Function([x], qnn.op.abs(x, 1.0, 0, 1.0, 0)))
    try:
        made = qnn.transform.Legalize()(mod)
    finally:
        op.reset_attr(qnn.op.op.LEGALIZE)
    found = value_of(made["main"], [numpy.array([-3, 0, 2, 11, 100], "int8")])
    assert found.tolist() == [9, 0, 4, 121, 127]


def test_layouts():
    (_, call, _, _), _ = products("int8", "int8")
    made = layout_conversions.convert_qnn_conv2d(call.attrs, call.args, [], ["NHWC", "default"])
    assert (made.attrs.data_layout, made.attrs.kernel_layout) == ("NHWC", "HWIO")
    made = layout_conversions.convert_qnn_conv2d(call.attrs, call.args, [], ["NHWC", "OHWI"])
    assert made.attrs.kernel_layout == "OHWI"
    for wrong in (["default"], ["NWHC"]):
        with pytest.raises(OpAttributeInvalid, match="layout"):
            layout_conversions.convert_qnn_conv2d(call.attrs, call.args, [], wrong)


def test_strategies():
    generic = qnn.strategy.generic
    assert generic.qnn_conv2d_strategy is qnn.strategy.arm_cpu.qnn_conv2d_strategy_arm_cpu
    assert isinstance(generic.qnn_tanh_strategy(None, [], None, Target("llvm")), OpStrategy)
    attrs = qnn.op.quantize(relay.var("x", shape=(2,)), 0.1, 0, axis=-1, out_dtype="uint8").attrs
    compute = generic.wrap_compute_quantize(lambda *given: given[-2:])
    assert compute(attrs, ["x", "s", "z"], None) == [-1, "uint8"]
