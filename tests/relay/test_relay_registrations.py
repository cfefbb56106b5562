"""What programs state about operators: each function sets the attribute that users know."""

import itertools

import numpy as np
import pytest

from tilesmith import relay
from tilesmith.ir import IRModule, Op

_numbers = itertools.count()

FUNCTIONS = {
    "register_alter_op_layout": "FTVMAlterOpLayout",
    "register_compute": "FTVMCompute",
    "register_convert_op_layout": "FTVMConvertOpLayout",
    "register_external_compiler": "FTVMExternalCompiler",
    "register_fake_quantization_to_integer": "FTVMFakeQuantizationToInteger",
    "register_gradient": "FPrimalGradient",
    "register_infer_correct_layout": "FInferCorrectLayout",
    "register_legalize": "FTVMLegalize",
    "register_mixed_precision_conversion": "FTVMMixedPrecisionConversionType",
    "register_optional_fake_quantization_to_integer": "FTVMOptionalFakeQuantizationToInteger",
}


def new_operator():
    return relay.op.op.register(f"test.registered_{next(_numbers)}", "an operator of a test")


@pytest.mark.parametrize(("register", "attribute"), FUNCTIONS.items())
def test_a_function_is_registered_by_level(register, attribute):
    op = new_operator()
    register = getattr(relay.op, register)

    @register(op.name)
    def first(*args):
        return None

    assert op.get_attr(attribute) is first
    register(op.name, len, level=12)
    register(op.name, first, level=11)
    assert op.get_attr(attribute) is len


@pytest.mark.parametrize(
    ("register", "attribute", "value"),
    [
        (relay.op.register_pattern, "TOpPattern", relay.op.OpPattern.INJECTIVE),
        (relay.op.register_stateful, "TOpIsStateful", True),
    ],
)
def test_a_value_is_registered(register, attribute, value):
    op = new_operator()
    register(op.name, value)
    assert op.get_attr(attribute) == value


def test_a_shape_function_says_what_it_needs():
    op = new_operator()
    relay.op.register_shape_func(op.name, False, len)
    assert op.get_attr("FShapeFunc") is len
    assert op.get_attr("TShapeDataDependent") == [False]


def test_names_are_found_at_all_places():
    for name in relay.op.op.__all__:
        assert getattr(relay.op, name) is getattr(relay.op.op, name)
        assert getattr(relay, name) is getattr(relay.op.op, name)
    assert Op.get("debug").support_level == 1


def test_debug_shows_the_value_to_a_function():
    seen = []
    x = relay.var("x", shape=(3, 5))
    shown = relay.op.debug(relay.exp(x), lambda value: seen.append(value.numpy().copy()))
    module = IRModule.from_expr(relay.Function([x], relay.add(shown, relay.const(1.0))))
    value = np.linspace(-1, 1, 15, dtype="float32").reshape(3, 5)
    result = relay.create_executor("graph", module).evaluate()(value)
    np.testing.assert_allclose(result.numpy(), np.exp(value) + 1, rtol=1e-6)
    assert len(seen) == 1
    np.testing.assert_allclose(seen[0], np.exp(value), rtol=1e-6)
