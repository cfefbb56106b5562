"""relay.frontend.from_pytorch: traced and scripted models, against torch."""

import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tilesmith as ts
from tilesmith import relax, relay
from tilesmith.contrib import graph_executor
from tilesmith.relax import interpreter
from tilesmith.relay.frontend import pytorch, pytorch_utils
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import (
    FileError,
    FrontendError,
    MissingDependencyError,
    OpNotImplemented,
    TypeMismatchError,
    UnsupportedError,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of TorchScript
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


def interpreted(mod, params, *inputs):
    """What a module computes, by the interpreter."""
    main = mod["main"]
    values = [params[one.name_hint].numpy() for one in main.params[len(inputs) :]]
    return interpreter.run(relay.to_relax(mod), "main", *inputs, *values)


class Block(torch.nn.Module):
    """A residual block as ResNets have them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outputs)
        self.shortcut = torch.nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 4, 3, 2, 1)
        self.blocks = torch.nn.Sequential(Block(4, 4, 1))
        self.fc = torch.nn.Linear(4, 5)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.stem(x)), 2)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.blocks(x), 1), 1))


class Encoder(torch.nn.Module):
    """One layer of attention over embedded words, as BERT has them."""

    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(20, 8), torch.nn.Embedding(16, 8)
        self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
        self.norm1, self.norm2 = torch.nn.LayerNorm(8), torch.nn.LayerNorm(8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        q, k, v = self.qkv(x).view(ids.shape[0], -1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-1, -2) / 2.0, -1) @ v
        x = self.norm1(x + self.out(scores.permute(0, 2, 1, 3).reshape(x.shape)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


@pytest.fixture(autouse=True)
def same_weights():
    torch.manual_seed(0)


@pytest.mark.parametrize("is_scripted", [False, True])
def test_residual_network(is_scripted):
    model, x = Residual().eval(), torch.randn(1, 3, 16, 16)
    script = torch.jit.script(model) if is_scripted else torch.jit.trace(model, x)
    mod, params = relay.frontend.from_pytorch(script, [("image", (1, 3, 16, 16))])
    names = [one.name_hint for one in mod["main"].params]
    assert names[0] == "image" and set(names[1:]) == set(params)
    # all weights of their own, though many of them have equal values
    state = model.state_dict()
    assert set(params) == {name for name in state if "num_batches" not in name}
    for name, value in params.items():
        np.testing.assert_array_equal(value.numpy(), state[name].numpy())
    want = model(x).detach().numpy()
    if is_scripted:
        got = interpreted(mod, params, x.numpy())
    else:
        lib = relay.build(mod, "llvm", params=params)
        executor = graph_executor.GraphModule(lib["default"](ts.cpu()))
        executor.run(image=x.numpy())
        got = executor.get_output(0).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_encoder():
    model, ids = Encoder().eval(), torch.randint(0, 20, (2, 7))
    script = torch.jit.trace(model, ids)
    mod, params = relay.frontend.from_pytorch(script, [("ids", ((2, 7), "int64"))])
    lib = relay.build(mod, "llvm", params=params)
    executor = graph_executor.GraphModule(lib["default"](ts.cpu()))
    executor.run(ids=ids.numpy())
    want = model(ids).detach().numpy()
    np.testing.assert_allclose(executor.get_output(0).numpy(), want, rtol=1e-3, atol=1e-4)
    calls = [one.op.name for one in post_order(mod["main"].body) if isinstance(one, relay.Call)]
    assert "nn.layer_norm" in calls and "nn.softmax" in calls and "erf" in calls


MODELS = {
    "conv1d": (torch.nn.Conv1d(3, 4, 3, groups=1, dilation=2), (2, 3, 12)),
    "conv_transpose": (torch.nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (1, 3, 5, 5)),
    "groups": (torch.nn.Conv2d(4, 8, 3, groups=2, padding=1), (1, 4, 5, 6)),
    "group_norm": (torch.nn.GroupNorm(2, 4), (2, 4, 3, 5)),
    "instance_norm": (torch.nn.InstanceNorm2d(4, affine=True), (2, 4, 3, 5)),
    "prelu": (torch.nn.PReLU(4), (2, 4, 3)),
    "activations": (
        torch.nn.Sequential(
            torch.nn.SiLU(), torch.nn.Hardswish(), torch.nn.ELU(), torch.nn.Softplus(),
            torch.nn.LeakyReLU(0.2), torch.nn.Mish(), torch.nn.ReLU6(), torch.nn.GELU(),
        ),
        (2, 5),
    ),
    "pools": (
        torch.nn.Sequential(
            torch.nn.AvgPool2d(2), torch.nn.MaxPool2d(3, 1, 1, ceil_mode=True),
            torch.nn.AdaptiveAvgPool2d((2, 1)),
        ),
        (1, 2, 9, 8),
    ),
    "upsample": (torch.nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4, 5)),
    "pad": (torch.nn.ReflectionPad2d((1, 2, 0, 1)), (1, 2, 4, 5)),
    "lstm": (torch.nn.LSTM(4, 5, batch_first=True, bidirectional=True), (2, 3, 4)),
    "gru": (torch.nn.GRU(4, 5), (3, 2, 4)),
    "attention": (torch.nn.MultiheadAttention(8, 2), None),
}  # fmt: skip


class SelfAttention(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x, x, x)[0]


@pytest.mark.parametrize("name", MODELS)
def test_layers(name):
    model, shape = MODELS[name]
    if shape is None:
        model, shape = SelfAttention(model), (3, 2, 8)
    model, x = model.eval(), torch.randn(shape)
    mod, params = relay.frontend.from_pytorch(torch.jit.trace(model, x), [("x", shape)])
    assert set(params) <= set(model.state_dict())
    got, want = interpreted(mod, params, x.numpy()), model(x)
    for found, wanted in zip(_flat(got), _flat(want), strict=True):
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-3, atol=1e-4)


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [one for part in value for one in _flat(part)]
    return [value]


def test_control_flow_of_scripted_models():
    class Choice(torch.nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                return x * 2
            return x - 1

    mod, params = relay.frontend.from_pytorch(torch.jit.script(Choice()), [("x", (3,))])
    assert isinstance(mod["main"].body, relay.If)
    for sign in (1, -1):
        x = np.full(3, sign, "float32")
        np.testing.assert_array_equal(interpreted(mod, params, x), x * 2 if sign > 0 else x - 1)


def test_sizes_that_are_not_known():
    model = torch.nn.Linear(4, 3)
    script = torch.jit.trace(model, torch.randn(2, 4))
    mod, params = relay.frontend.from_pytorch(script, [("x", (relay.Any(), 4))])
    lib = relay.build(mod, "llvm", params=params)
    run = relax.VirtualMachine(lib.get_lib(), ts.cpu())["main"]
    for count in (1, 5):
        x = torch.randn(count, 4)
        np.testing.assert_allclose(run(x.numpy()).numpy(), model(x).detach(), rtol=1e-4, atol=1e-5)


def test_functions_and_names(tmp_path):
    @torch.jit.script
    def scale(x, y):
        return x * y + 1.0

    mod, params = relay.frontend.from_pytorch(
        scale, [("a", (3,)), ("b", (3,))], export_renamed_c_graph_path=str(tmp_path)
    )
    assert [one.name_hint for one in mod["main"].params] == ["a", "b"] and not params
    assert "aten::mul" in (tmp_path / "graph.txt").read_text()
    assert pytorch.get_all_op_names(scale.graph) >= {"aten::mul", "aten::add", "prim::Constant"}
    model = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.randn(1, 2))
    mod, params = relay.frontend.from_pytorch(model, [("x", (1, 2))], use_parser_friendly_name=True)
    assert set(params) == {"0_weight", "0_bias"}
    assert {one.name_hint for one in mod["main"].params} == {"x", "0_weight", "0_bias"}
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        pytorch.export_c_graph(str(tmp_path / "file" / "x.txt"), scale.graph)


def test_equal_weights_stay_apart_and_unchanged():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    for one in model.parameters():
        torch.nn.init.constant_(one, 0.5)
    script = torch.jit.trace(model, torch.randn(1, 3))
    mod, params = relay.frontend.from_pytorch(script, [("x", (1, 3))])
    assert len(params) == 4
    assert all((one == 0.5).all() for one in script.state_dict().values())
    x = np.ones((1, 3), "float32")
    np.testing.assert_allclose(
        interpreted(mod, params, x), model(torch.from_numpy(x)).detach(), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("infos", "options", "kind", "text"),
    [
        ([("x", 3)], {}, TypeMismatchError, "an input is"),
        ([("x", ((2, 4), "float31"))], {}, TypeMismatchError, "no dtype 'float31'"),
        ([("x", [(2, 4), (2, 4)])], {}, TypeMismatchError, "an input is"),
        ([], {}, FrontendError, "torch cannot write the model"),
        ([("x", (2, 4))], {"custom_convert_map": {"a": 1}}, UnsupportedError, "custom_convert_map"),
        ([("x", (2, 4))], {"keep_quantized_weight": True}, UnsupportedError, "has quantised"),
    ],
)
def test_mistakes_are_named(infos, options, kind, text):
    script = torch.jit.trace(torch.nn.Linear(4, 3), torch.randn(2, 4))
    with pytest.raises(kind, match=text):
        relay.frontend.from_pytorch(script, infos, **options)


def test_models_have_to_be_torchscript():
    with pytest.raises(
        TypeMismatchError, match="takes a model of TorchScript, got Linear"
    ) as caught:
        relay.frontend.from_pytorch(torch.nn.Linear(4, 3), [("x", (2, 4))])
    assert "torch.jit.trace" in caught.value.notes[0]


def test_operators_without_a_form_are_named():
    class Lone(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    script = torch.jit.trace(Lone(), torch.randn(3, 3))
    with pytest.raises(OpNotImplemented, match="aten::linalg_svd"):
        relay.frontend.from_pytorch(script, [("x", (3, 3))])


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match="reading models of PyTorch") as caught:
        relay.frontend.from_pytorch(None, [])
    assert "pip install" in caught.value.notes[0]


def test_questions_about_torch():
    assert pytorch_utils.is_version_greater_than("1.13.1")
    assert not pytorch_utils.is_version_greater_than("99.0")
    script = torch.jit.script(torch.nn.Linear(2, 2))
    nodes = script.graph.findAllNodes("prim::GetAttr")
    assert {pytorch_utils.getattr_attr_name(one) for one in nodes} == {"weight", "bias"}
