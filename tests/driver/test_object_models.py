"""`tilesmith.compile` of models that are objects or files of other packages."""

import os
import types
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import tilesmith
from tilesmith.cli.main import tilesmith as command
from tilesmith.inspect import StepExecutor
from tilesmith.inspect.torch_reference import values_by_torch
from tilesmith.support.errors import ConfigError, FrontendError, TilesmithError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


class Gated(torch.nn.Module):
    """A module whose operators become one or several, with a result of one tensor or more."""

    def __init__(self, many=False):
        super().__init__()
        self.linear, self.many = torch.nn.Linear(16, 24), many
        self.register_buffer("scale", torch.full((12,), 0.5))

    def forward(self, x):
        left, right = self.linear(x).chunk(2, 1)
        product = torch.softmax(left * right * self.scale, -1)
        return (product, left) if self.many else product


def exported(many=False, dynamic=False):
    torch.manual_seed(0)
    model = Gated(many).eval()
    shapes = ({0: torch.export.Dim("rows", min=2, max=64)},) if dynamic else None
    return model, torch.export.export(model, (torch.randn(5, 16),), dynamic_shapes=shapes)


@pytest.mark.parametrize("many", [False, True])
def test_exported_programs_are_compiled(many):
    model, program = exported(many, dynamic=True)
    x = torch.randn(7, 16)
    with torch.no_grad():
        expected = model(x)
    found = tilesmith.compile(program)(x)
    for ours, theirs in zip(found if many else [found], expected if many else [expected]):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)


def test_a_tuple_of_one_tensor_stays_a_tuple():
    class One(torch.nn.Module):
        def forward(self, x):
            return (x + 1,)

    program = torch.export.export(One(), (torch.zeros(3),))
    steps = StepExecutor(program, engine="numpy")
    steps.set_inputs(np.zeros(3, "float32"))
    (only,) = steps.result()
    np.testing.assert_array_equal(only, np.ones(3))


def test_sizes_of_inputs_can_be_fixed():
    _, program = exported(dynamic=True)
    fixed = StepExecutor(program, engine="numpy", input_shapes={"x": (3, 16)}).module
    assert [int(size) for size in fixed["main"].params[0].struct_info.shape] == [3, 16]
    for shapes, message in [
        ({"y": (3, 16)}, "'y', which is not an input .*inputs: x"),
        ({"x": (3,)}, "gives 1 sizes for 'x', the model has 2"),
        ({"x": (3, 17)}, "axis 1 of 'x' is 17, the model says 16"),
        ({"x": (65, 16)}, "exported for sizes 2 to 64"),
    ]:
        with pytest.raises(FrontendError, match=f"(?s){message}"):
            tilesmith.compile(program, input_shapes=shapes)


def test_the_first_node_that_differs_from_torch():
    x = np.random.default_rng(0).standard_normal((5, 16)).astype("float32")
    _, program = exported()
    steps = StepExecutor(program, engine="numpy")
    steps.set_inputs(x)
    assert steps.first_difference("torch") is None
    compared = values_by_torch(program, {"x": x})
    assert len([step for step in steps.steps if step.name in compared]) >= 5
    wrong = exported()[1]
    with torch.no_grad():
        wrong.state_dict["linear.bias"] += 1
    found = steps.first_difference(values_by_torch(wrong, {"x": x}))
    assert "linear" in found.step.nodes and found.step.operator == "relax.add"
    assert found.largest == pytest.approx(1, rel=1e-3)
    with pytest.raises(ConfigError, match="onnxruntime runs ONNX models"):
        steps.first_difference("onnxruntime")
    other = StepExecutor(steps.module, engine="numpy")
    other.set_inputs(x)
    with pytest.raises(ConfigError, match="torch runs programs that it exported"):
        other.first_difference("torch")


def keras_model():
    """An object of a class that says that it is of keras, which is not installed everywhere."""
    return types.new_class("Model", (), {}, lambda body: body.update(__module__="keras.m"))()


@pytest.mark.parametrize(
    "make, advice",
    [
        (Gated, r"torch.export.export\(model.eval\(\), example_inputs\)"),
        (lambda: torch.fx.symbolic_trace(Gated()), "torch.export.export.*from_fx"),
        (
            lambda: torch.jit.trace(torch.nn.ReLU(), torch.zeros(2)),
            "relay.frontend.from_pytorch",
        ),
        (
            lambda: types.new_class(
                "Model", (), {}, lambda body: body.update(__module__="keras.m")
            )(),
            "relay.frontend.from_keras",
        ),
        (object, "a torch.export.ExportedProgram"),
    ],
)
def test_other_objects_are_refused_with_advice(make, advice):
    with pytest.raises(FrontendError, match=f"(?s)is not a model that can be compiled.*{advice}"):
        tilesmith.compile(make())


class Trap:
    """An object whose unpickling would be seen."""

    def __reduce__(self):
        return (exec, ("import os; os.environ['TRAPPED'] = 'yes'",))


def write_exported(path):
    torch.export.save(exported()[1], path)


def write_pickled(path):
    torch.save({"a": Trap()}, path)


def write_keras(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", b"")


FILES = {
    "model.pt2": (write_exported, "torch.export.load"),
    "model.pth": (write_pickled, "torch.export.export"),
    "model.keras": (write_keras, "from_keras"),
    "model.h5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64)), "from_keras"),
    "model.tflite": (lambda path: path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(64)), "from_tflite"),
    "model.zip": (lambda path: path.write_bytes(b"PK\x03\x04 and no archive"), "not an ONNX model"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_formats_are_refused_unread(name, tmp_path, monkeypatch):
    monkeypatch.delenv("TRAPPED", raising=False)
    path = tmp_path / name
    write, advice = FILES[name]
    write(path)
    with pytest.raises(TilesmithError, match=advice):
        tilesmith.compile(path)
    done = CliRunner().invoke(command, ["compile", str(path)])
    assert done.exit_code != 0 and advice in done.output
    assert "TRAPPED" not in os.environ
