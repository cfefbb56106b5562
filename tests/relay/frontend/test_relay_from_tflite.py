"""relay.frontend.from_tflite: operators against numpy and torch, models against TensorFlow Lite."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tflite

import tilesmith as ts
from tests.relay.frontend.tflite_programs import PROGRAMS, floats, one
from tests.relay.frontend.tflite_writer import Writer
from tests.relay.frontend.written_models import FOLDER, agree, computed, reference, written
from tilesmith import relay
from tilesmith.contrib import graph_executor
from tilesmith.relay.frontend.tflite import OperatorConverter, build_str_map, get_pad_value
from tilesmith.relay.frontend.tflite.registry import CONVERTERS
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import (
    FileError,
    FrontendError,
    MissingDependencyError,
    OpAttributeUnImplemented,
    OpNotImplemented,
    TypeMismatchError,
    UnknownNameError,
)

LITERT = os.environ.get("LITERT_PYTHON")


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_operator_agrees_with_numpy(name):
    model, inputs, wanted = PROGRAMS[name]()
    mod, params = relay.frontend.from_tflite(model.bytes())
    agree(computed(mod, params, inputs), wanted)


@pytest.mark.parametrize("name", written(".tflite"))
def test_a_model_agrees_with_tensorflow_lite(name):
    """Models of floats, of 8 bit integers and of halves, which TensorFlow has written."""
    names, inputs, outputs = reference(name)
    mod, params = relay.frontend.from_tflite(FOLDER / name)
    agree(computed(mod, params, dict(zip(names, inputs))), outputs, steps=1)


@pytest.mark.skipif(LITERT is None, reason="LITERT_PYTHON names no Python with LiteRT")
def test_operators_agree_with_litert(tmp_path):
    for name, make in PROGRAMS.items():
        model, inputs, _ = make()
        (tmp_path / f"{name}.tflite").write_bytes(model.bytes())
        np.savez(tmp_path / f"{name}.npz", **inputs)
    script = Path(__file__).parent / "litert_reference.py"
    done = subprocess.run([LITERT, script, tmp_path], capture_output=True, text=True, check=True)
    refused = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    print("\n".join(refused.values()))
    assert len(refused) < len(PROGRAMS) / 8
    for name in set(PROGRAMS) - set(refused):
        data = (tmp_path / f"{name}.tflite").read_bytes()
        with np.load(tmp_path / f"{name}.npz") as held:
            inputs = dict(held)
        with np.load(tmp_path / f"{name}.out.npz") as held:
            wanted = [held[f"arr_{i}"] for i in range(len(held))]
        mod, params = relay.frontend.from_tflite(data)
        agree(computed(mod, params, inputs), wanted)


def test_there_are_many_operators():
    known = set(build_str_map(tflite.BuiltinOperator).values())
    assert len(CONVERTERS.keys() & known) >= 80
    assert not CONVERTERS.keys() - known


# Integers


def quantised(weight_scale, zero=0, kind="int8"):
    """A convolution on integers, and its results by the numbers that they stand for."""
    rng = np.random.default_rng(2)
    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, (1, 5, 6, 3)).astype(kind)
    w = rng.integers(limits.min, limits.max, (4, 3, 2, 3)).astype(kind)
    b = rng.integers(-900, 900, 4).astype("int32")
    scales = np.float32(weight_scale)
    model = Writer()
    operands = [
        model.input("x", x.shape, kind, scale=0.05, zero=3),
        model.const("w", w, scale=scales, zero=zero),
        model.const("b", b, scale=0.05 * scales),
    ]
    y = model.output("y", (1, 3, 5, 4), kind, scale=0.7, zero=-5 if kind == "int8" else 120)
    model.op(
        "CONV_2D", operands, [y], "Conv2DOptions", StrideH=1, StrideW=1, Padding=1,
        DilationHFactor=1, DilationWFactor=1, FusedActivationFunction=1,
    )  # fmt: skip
    numbers = (x.astype("float64") - 3) * 0.05
    weights = (w.astype("float64") - zero) * np.broadcast_to(scales, 4)[:, None, None, None]
    found = np.zeros((1, 3, 5, 4))
    for i in range(3):
        for j in range(5):
            window = numbers[:, i : i + 3, j : j + 2]
            found[:, i, j] = np.tensordot(window, weights, ((1, 2, 3), (1, 2, 3)))
    found = np.maximum(found + b * 0.05 * scales, 0)
    end = -5 if kind == "int8" else 120
    return model, x, np.clip(np.rint(found / 0.7) + end, limits.min, limits.max).astype(kind)


@pytest.mark.parametrize(
    "given",
    [(0.02,), ([0.02, 0.001, 0.03, 0.005],), (0.02, 130, "uint8")],
    ids=["tensor", "channels", "uint8"],
)
def test_convolutions_compute_with_integers(given):
    model, x, wanted = quantised(*given)
    mod, params = relay.frontend.from_tflite(model.bytes())
    assert {one.dtype for one in params.values()} == {wanted.dtype.name, "int32"}
    calls = [one for one in post_order(mod["main"].body) if isinstance(one, relay.Call)]
    assert [one.op.name for one in calls if one.op.name.startswith("qnn")] == [
        "qnn.conv2d", "qnn.requantize",
    ]  # fmt: skip
    agree(computed(mod, params, {"x": x}), [wanted], steps=1)


def test_a_quantised_network_runs_as_native_code():
    names, inputs, outputs = reference("network_int8.tflite")
    mod, params = relay.frontend.from_tflite(FOLDER / "network_int8.tflite")
    lib = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.run(**{names[0]: inputs[0]})
    agree([module.get_output(0).numpy()], outputs, steps=1)


def test_quantise_and_dequantise():
    x = floats(3, 4)
    model = Writer()
    start, end = model.input("x", x.shape), model.output("z", x.shape)
    middle = model.tensor("y", x.shape, "int8", scale=0.1, zero=4)
    other = model.tensor("w", x.shape, "uint8", scale=0.2, zero=128)
    model.op("QUANTIZE", [start], [middle])
    model.op("QUANTIZE", [middle], [other])
    model.op("DEQUANTIZE", [other], [end])
    mod, params = relay.frontend.from_tflite(model.bytes())
    middle = np.clip(np.rint(x / np.float32(0.1)) + 4, -128, 127)
    found = computed(mod, params, {"x": x})[0]
    np.testing.assert_allclose(found, (middle - 4) * 0.1, atol=0.11)
    assert np.unique(np.round(found / 0.2, 3) % 1).tolist() in ([0.0], [0.0, 1.0])


# Converters of one's own


class Own(OperatorConverter):
    def __init__(self, model, subgraph, exp_tab):
        super().__init__(model, subgraph, exp_tab)
        self.convert_map["Twice"] = self.twice

    def twice(self, op):
        x = self.get_tensor_expr(self.get_input_tensors(op)[0])
        return x + x

    def convert_abs(self, op):
        return relay.negative(self.get_tensor_expr(self.get_input_tensors(op)[0]))


def test_converters_of_ones_own():
    x = floats(2, 3)
    model = Writer()
    a, b, c = model.input("a", x.shape), model.tensor("b", x.shape), model.output("c", x.shape)
    model.op("CUSTOM", [a], [b], custom="Twice")
    model.op("ABS", [b], [c])
    with pytest.raises(OpNotImplemented, match="Twice"):
        relay.frontend.from_tflite(model.bytes())
    mod, params = relay.frontend.from_tflite(model.bytes(), op_converter=Own)
    agree(computed(mod, params, {"a": x}), [-2 * x])


def test_inputs_may_have_another_shape_and_a_model_object_is_read():
    model, _, _ = PROGRAMS["abs"]()
    held = tflite.Model.GetRootAs(model.bytes(), 0)
    mod, _ = relay.frontend.from_tflite(held, {"x0": (7, 2)}, {"x0": "float64"})
    main = mod["main"]
    assert list(main.params[0].checked_type.concrete_shape) == [7, 2]
    assert str(main.ret_type.dtype) == "float64"


def test_tensors_of_one_name_stay_apart():
    x = floats(2, 3)
    model = Writer()
    a, b, c = model.input("t", x.shape), model.tensor("t", x.shape), model.output("t", x.shape)
    model.op("NEG", [a], [b])
    model.op("EXP", [b], [c])
    mod, params = relay.frontend.from_tflite(model.bytes())
    agree(computed(mod, params, {"t": x}), [np.exp(-x)])


def test_methods_that_users_know():
    """A subclass may call the converters of kinds of operators."""

    class Calls(OperatorConverter):
        def convert_conv2d(self, op):
            return self.convert_conv(op, "conv2d")

        def convert_max_pool2d(self, op):
            return self.convert_pool2d(op, "max")

        def convert_abs(self, op):
            return self.convert_densify(op)

    for name in ("conv_2d", "max_pool_2d"):
        model, inputs, wanted = PROGRAMS[name]()
        mod, params = relay.frontend.from_tflite(model.bytes(), op_converter=Calls)
        agree(computed(mod, params, inputs), wanted)
    with pytest.raises(OpNotImplemented, match="DENSIFY"):
        relay.frontend.from_tflite(PROGRAMS["abs"]()[0].bytes(), op_converter=Calls)


# Mistakes


def test_all_operators_that_cannot_be_imported_are_named():
    model = Writer()
    a, b = model.input("a", (2, 3)), model.tensor("deep", (2, 3))
    c, d = model.tensor("found", (2, 3)), model.output("d", (2, 3))
    model.op("WHILE", [a], [b])
    model.op("HASHTABLE_FIND", [b], [c])
    model.op("WHILE", [c], [d])
    with pytest.raises(OpNotImplemented) as caught:
        relay.frontend.from_tflite(model.bytes())
    assert "HASHTABLE_FIND ('found')" in caught.value.message
    assert "WHILE ('deep', 'd')" in caught.value.message
    assert "tf2onnx" in caught.value.notes[0]


def test_what_has_to_be_known_is_named():
    model, _, _ = one("RESHAPE", [floats(2, 3), np.int32([3, 2])], floats(3, 2))
    with pytest.raises(OpAttributeUnImplemented, match="the shape is 'x1'") as caught:
        relay.frontend.from_tflite(model.bytes())
    assert "RESHAPE 'y0'" in caught.value.notes[-1]


def test_mistakes_say_what_to_do(tmp_path, monkeypatch):
    model, _, _ = PROGRAMS["abs"]()
    with pytest.raises(UnknownNameError, match="no input 'z'"):
        relay.frontend.from_tflite(model.bytes(), {"z": (1,)})
    with pytest.raises(FileError, match="cannot be read"):
        relay.frontend.from_tflite(tmp_path / "missing.tflite")
    with pytest.raises(FrontendError, match="TFL3"):
        relay.frontend.from_tflite(b"no model at all")
    with pytest.raises(TypeMismatchError, match="takes bytes"):
        relay.frontend.from_tflite(3)
    assert get_pad_value(7, 3, 2) == (1, 1) and get_pad_value(8, 3, 2) == (0, 1)
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(MissingDependencyError, match="tflite"):
        relay.frontend.from_tflite(model.bytes())
