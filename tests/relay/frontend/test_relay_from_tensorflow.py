"""relay.frontend.from_tensorflow: frozen graphs, against TensorFlow's own results and numpy."""

import sys

import numpy as np
import pytest

import tilesmith as ts
from tests.relay.frontend.written_models import FOLDER, agree, computed, reference, written
from tilesmith import relay
from tilesmith.contrib import graph_executor
from tilesmith.relay.frontend.tensorflow.messages import graph_class
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import (
    ConfigError,
    FileError,
    FrontendError,
    MissingDependencyError,
    OpAttributeUnImplemented,
    OpNotImplemented,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
)

NUMBERS = {"float32": 1, "int32": 3, "int64": 9, "bool": 10}
RNG = np.random.default_rng(5)


class Graph:
    """Writes a GraphDef node by node."""

    def __init__(self):
        self.message = graph_class()()

    def node(self, op, name, *inputs, **attrs):
        made = self.message.node.add(name=name, op=op, input=list(inputs))
        for key, value in attrs.items():
            held = made.attr.add(key=key).value
            if isinstance(value, np.ndarray):
                held.tensor.dtype = NUMBERS[str(value.dtype)]
                held.tensor.tensor_content = value.tobytes()
                for size in value.shape:
                    held.tensor.tensor_shape.dim.add(size=size)
            elif isinstance(value, bool):
                held.b = value
            elif isinstance(value, int):
                held.i = value
            elif isinstance(value, float):
                held.f = value
            elif isinstance(value, str) and value in NUMBERS:
                held.type = NUMBERS[value]
            elif isinstance(value, str):
                held.s = value.encode()
            elif isinstance(value, tuple):
                held.shape.SetInParent()
                for size in value:
                    held.shape.dim.add(size=size)
            else:
                held.list.i.extend(value)
        return name

    def const(self, name, value, dtype=None):
        return self.node("Const", name, value=np.asarray(value, dtype))

    def data(self, **inputs):
        for name, value in inputs.items():
            self.node("Placeholder", name, dtype=str(value.dtype), shape=value.shape)

    def bytes(self):
        return self.message.SerializeToString()


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


# Graphs that TensorFlow has written


@pytest.mark.parametrize("name", written(".pb"))
def test_a_graph_agrees_with_tensorflow(name):
    names, inputs, outputs = reference(name)
    mod, params = relay.frontend.from_tensorflow(FOLDER / name, outputs=names[len(inputs) :])
    given = {one.partition(":")[0]: x for one, x in zip(names, inputs)}
    agree(computed(mod, params, given), outputs)


def test_a_network_runs_as_native_code_with_its_channels_first():
    names, inputs, outputs = reference("network.pb")
    mod, params = relay.frontend.from_tensorflow((FOLDER / "network.pb").read_bytes(), "NCHW")
    calls = [one for one in post_order(mod["main"].body) if isinstance(one, relay.Call)]
    layouts = {one.attrs.data_layout for one in calls if one.op.name == "nn.conv2d"}
    assert layouts == {"NCHW"}
    lib = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.run(**{names[0].partition(":")[0]: inputs[0]})
    agree([module.get_output(0).numpy()], outputs)


# Graphs that are written here


ONE = {
    "Acos": (np.arccos, np.float32([-0.5, 0, 0.25])),
    "Asinh": (np.arcsinh, floats(3)),
    "Atanh": (np.arctanh, np.float32([-0.5, 0, 0.25])),
    "Cosh": (np.cosh, floats(3)),
    "Expm1": (np.expm1, floats(3)),
    "Log1p": (np.log1p, np.float32([0, 0.5, 3])),
    "IsNan": (np.isnan, np.float32([np.nan, 1, np.inf])),
    "Reciprocal": (np.reciprocal, np.float32([2, -4])),
    "Rint": (np.rint, np.float32([0.5, 1.5, -2.5, 0.3])),
    "Softplus": (lambda x: np.log1p(np.exp(x)), floats(5)),
    "Softsign": (lambda x: x / (1 + np.abs(x)), floats(5)),
    "L2Loss": (lambda x: np.sum(x * x) / 2, floats(5)),
    "OnesLike": (np.ones_like, floats(5)),
    "Rank": (lambda x: np.int32(x.ndim), floats(2, 3)),
    "Size": (lambda x: np.int32(x.size), floats(2, 3)),
    "MatrixDiag": (lambda x: x[..., None] * np.eye(3, dtype="float32"), floats(2, 3)),
}


@pytest.mark.parametrize("name", ONE)
def test_operators_of_one_operand(name):
    function, x = ONE[name]
    graph = Graph()
    graph.data(x=x)
    graph.node(name, "y", "x")
    mod, params = relay.frontend.from_tensorflow(graph.bytes())
    agree(computed(mod, params, {"x": x}), [np.asarray(function(x))])


INTS = np.int32([7, -7, 9]), np.int32([2, 2, -4])
TWO = {
    "BitwiseXor": (np.bitwise_xor, INTS),
    "TruncateDiv": (lambda a, b: np.trunc(a / b).astype("int32"), INTS),
    "FloorMod": (np.mod, INTS),
    "Mod": (np.fmod, INTS),
    "DivNoNan": (lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b)),
                 (floats(3), np.float32([0, 2, -1]))),
    "LogicalAnd": (np.logical_and, (np.array([True, False]), np.array([True, True]))),
    "Pow": (np.power, (np.float32([1, 2, 3]), np.float32([2, 0.5, -1]))),
    "LeftShift": (np.left_shift, (np.int32([1, 2]), np.int32([3, 1]))),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_operators_of_two_operands(name):
    function, (a, b) = TWO[name]
    graph = Graph()
    graph.data(a=a, b=b)
    graph.node(name, "y", "a", "b")
    mod, params = relay.frontend.from_tensorflow(graph.bytes())
    agree(computed(mod, params, {"a": a, "b": b}), [np.asarray(function(a, b))])


def test_batch_normalisation_and_other_results():
    x, scale, shift, mean = floats(2, 3, 4, 5), floats(5), floats(5), floats(5)
    variance = np.abs(floats(5)) + 1
    weights = {"scale": scale, "shift": shift, "mean": mean, "variance": variance}
    graph = Graph()
    graph.data(x=x)
    for name, value in weights.items():
        graph.const(name, value)
    graph.node(
        "FusedBatchNormV3", "bn", "x", "scale", "shift", "mean", "variance",
        epsilon=0.001, is_training=False, data_format="NHWC",
    )  # fmt: skip
    graph.node("Identity", "mean_again", "bn:1", "^x")
    mod, params = relay.frontend.from_tensorflow(graph.bytes(), outputs=["bn", "mean_again"])
    assert sorted(params) == ["mean", "scale", "shift", "variance"]
    wanted = (x - mean) / np.sqrt(variance + 0.001) * scale + shift
    agree(computed(mod, params, {"x": x}), [wanted, mean])


def test_shapes_are_computed_at_import():
    """A graph that flattens by the shape of its input."""
    x = floats(2, 3, 4)
    graph = Graph()
    graph.data(x=x)
    graph.node("Shape", "shape", "x", out_type="int32")
    for name, value in {"zero": [0], "one": [1], "rest": -1}.items():
        graph.const(name, value, "int32")
    graph.node("StridedSlice", "batch", "shape", "zero", "one", "one", shrink_axis_mask=1)
    graph.node("Pack", "target", "batch", "rest", axis=0)
    graph.node("Reshape", "flat", "x", "target")
    mod, _ = relay.frontend.from_tensorflow(graph.bytes(), shape={"x": (5, 3, 4)})
    assert list(mod["main"].ret_type.concrete_shape) == [5, 12]


def test_constants_repeat_their_last_value():
    graph = Graph()
    graph.data(x=floats(2, 3))
    node = graph.message.node.add(name="c", op="Const")
    held = node.attr.add(key="value").value.tensor
    held.dtype = 1
    held.float_val.extend([1.0, 4.0])
    for size in (2, 3):
        held.tensor_shape.dim.add(size=size)
    graph.node("AddV2", "y", "x", "c")
    mod, params = relay.frontend.from_tensorflow(graph.bytes())
    np.testing.assert_array_equal(params["c"].numpy(), [[1, 4, 4], [4, 4, 4]])
    assert [one.name_hint for one in mod["main"].params] == ["x", "c"]


# Mistakes


def test_all_operators_that_cannot_be_imported_are_named():
    graph = Graph()
    graph.data(x=floats(2))
    graph.node("Enter", "loop", "x")
    graph.node("NoSuchOp", "strange", "loop")
    graph.node("StatefulPartitionedCall", "called", "strange")
    graph.node("ReadVariableOp", "weight", "called")
    graph.node("NoSuchOp", "unused", "x")
    graph.node("Identity", "y", "weight")
    with pytest.raises(OpNotImplemented) as caught:
        relay.frontend.from_tensorflow(graph.bytes())
    for part in (
        "NoSuchOp ('strange')",
        "'loop'",
        "control flow",
        "'called'",
        "freeze",
        "'weight'",
    ):
        assert part in caught.value.message
    assert "unused" not in caught.value.message
    assert "tf2onnx" in caught.value.notes[0]


def test_what_has_to_be_known_is_named():
    graph = Graph()
    graph.data(x=floats(4), shape=np.int32([2, 2]))
    graph.node("Reshape", "y", "x", "shape")
    with pytest.raises(OpAttributeUnImplemented, match="the shape is 'shape'") as caught:
        relay.frontend.from_tensorflow(graph.bytes())
    assert "'y' (Reshape)" in caught.value.notes[-1]


def test_mistakes_say_what_to_do(tmp_path, monkeypatch):
    convert = relay.frontend.from_tensorflow
    graph = Graph()
    graph.node("Placeholder", "x", dtype="float32", shape=(-1, -1))
    graph.node("Relu", "y", "x")
    with pytest.raises(ShapeError, match="'x' is open"):
        convert(graph.bytes())
    with pytest.raises(UnknownNameError, match="no placeholder 'z'"):
        convert(graph.bytes(), shape={"z": (1,)})
    with pytest.raises(UnknownNameError, match="no node 'z'"):
        convert(graph.bytes(), outputs="z")
    with pytest.raises(UnknownNameError, match="no result 3"):
        convert(graph.bytes(), outputs="y:3", shape={"x": (1, 2)})
    with pytest.raises(ConfigError, match="no setting"):
        convert(graph.bytes(), convert_config={"use_sparse": True})
    with pytest.raises(ConfigError, match="layout"):
        convert(graph.bytes(), layout="CHWN")
    with pytest.raises(FileError, match="cannot be read"):
        convert(tmp_path / "missing.pb")
    with pytest.raises(FrontendError, match="no frozen GraphDef"):
        convert(b"")
    with pytest.raises(FrontendError, match="no GraphDef"):
        convert(b"\x0a\xffnot a graph")
    with pytest.raises(TypeMismatchError, match="takes a GraphDef"):
        convert(3)
    graph_class.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingDependencyError, match="protobuf"):
        convert(graph.bytes())
