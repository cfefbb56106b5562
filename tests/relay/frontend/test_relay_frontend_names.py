"""Names of importers and parsers through `import tvm`, and relay's way to kernels of relax."""

import importlib

import numpy as np
import pytest

from tests.relax.frontend.onnx_reference import one_node
from tilesmith import relax, relay
from tilesmith.compat import tvm as alias
from tilesmith.compat.tvm.relax_testing_relay_translator import from_relay
from tilesmith.ir import IRModule
from tilesmith.relax import interpreter
from tilesmith.script import tir as T
from tilesmith.support.errors import (
    DiagnosticError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.tir import PrimFunc


@pytest.fixture(autouse=True)
def installed():
    alias.install()
    yield
    alias.uninstall()


TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32]) { nn.relu(%x) }'


def test_the_parser_has_two_addresses():
    import tvm
    from tvm import parser

    for module in (parser, tvm.relay.parser, tvm.relay):
        assert isinstance(module.parse(TEXT)["main"], tvm.relay.Function)
        assert module.fromtext(TEXT)["main"].body.op.name == "nn.relu"
        assert module.parse_expr('#[version = "0.0.5"]\nadd(1, 2)').op.name == "add"
        assert module.SpanCheck().info.name == "SpanCheck"
    with pytest.raises(DiagnosticError):
        parser.parse("def")


def test_importers_of_onnx_are_at_their_places():
    import tvm
    from tvm.relay.frontend import from_onnx
    from tvm.relay.frontend.onnx import ONNX_DEFAULT_CONFIGS

    assert from_onnx is tvm.relay.frontend.onnx.from_onnx
    assert ONNX_DEFAULT_CONFIGS["use_nt_batch_matmul"] is True
    mod, params = from_onnx(one_node("Relu", {"x": np.ones(3, "float32")}))
    assert mod["main"].body.op.name == "nn.relu" and params == {}


COMMANDS = {
    "paddle": "paddle2onnx --model_dir", "mxnet": "mxnet.onnx.export_model",
    "coreml": "onnxmltools", "caffe": "caffe2onnx", "caffe2": "convert-caffe2-to-onnx",
    "darknet": "darknet2onnx", "oneflow": "oneflow2onnx",
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_other_formats_say_how_to_come_here(name):
    frontend = importlib.import_module("tvm.relay.frontend")
    with pytest.raises(UnsupportedError, match="models are not read") as caught:
        getattr(frontend, "from_" + name)("model", shape={"x": (1, 3)})
    assert COMMANDS[name] in caught.value.notes[0]
    assert "relay.frontend.from_onnx('model.onnx')" in caught.value.notes[0]


@pytest.mark.parametrize("name", ["keras", "tensorflow", "tflite"])
def test_importers_have_modules(name):
    frontend = importlib.import_module("tvm.relay.frontend")
    module = importlib.import_module(f"tvm.relay.frontend.{name}")
    assert getattr(frontend, f"from_{name}") is getattr(module, f"from_{name}")


def test_graphs_of_tensorflow_2_are_frozen_first():
    with pytest.raises(ImportError, match="convert_variables_to_constants_v2"):
        importlib.import_module("tvm.relay.frontend.tensorflow2")


def test_the_prelude_is_imported_by_name():
    mod = IRModule()
    mod.import_from_std("prelude.rly")
    assert "map" in mod and "List" in [one.name_hint for one in mod.type_definitions]
    with pytest.raises(UnknownNameError):
        IRModule().import_from_std("no_such.rly")


# Kernels


def product():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    return relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))


def kernels_called(mod):
    bindings = [one for block in mod["main"].body.blocks for one in block.bindings]
    calls = [one.value for one in bindings if isinstance(one.value, relax.Call)]
    return [one.args[0].name_hint for one in calls if one.op.name == "relax.call_tir"]


def test_relay_functions_become_calls_of_kernels():
    from tvm.relax.testing import relay_translator

    assert relay_translator.from_relay is from_relay
    weight = np.ones((4, 3), "float32")
    mod = from_relay(product(), "llvm", {"w": weight, "unknown": weight})
    assert len(mod["main"].params) == 1 and len(kernels_called(mod)) >= 2
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(interpreter.run(mod, "main", x), x @ weight.T)


@T.prim_func
def own_relu(A: T.Buffer((2, 4), "float32"), B: T.Buffer((2, 4), "float32")):
    for i, j in T.grid(2, 4):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(100)


def test_kernels_of_ones_own_take_the_place_of_operators():
    mod = from_relay(product(), "llvm", translate_op_with_tir={"nn.relu": own_relu})
    assert isinstance(mod["relu"], PrimFunc) and kernels_called(mod)[-1] == "relu"
    x, weight = np.ones((2, 3), "float32"), np.ones((4, 3), "float32")
    np.testing.assert_allclose(interpreter.run(mod, "main", x, weight), x @ weight.T + 100)


def test_mistakes_are_named():
    with pytest.raises(TypeMismatchError, match="takes a relay.Function"):
        from_relay(3, "llvm")
    with pytest.raises(UnsupportedError, match="append_op_attrs"):
        from_relay(product(), "llvm", append_op_attrs=True)
