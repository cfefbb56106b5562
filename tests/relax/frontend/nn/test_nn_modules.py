"""Layers with the weights of torch, states, and what modules offer besides `forward`."""

import inspect

import numpy as np
import pytest

from tests.relax.frontend.nn.run_nn import random
from tilesmith import relax
from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import op, spec
from tilesmith.runtime import register_func
from tilesmith.support.errors import (
    DiagnosticError,
    ShapeError,
    TypeMismatchError,
    UnknownMemberError,
    UnknownNameError,
    UnsupportedError,
)

torch = pytest.importorskip("torch")


def run(module, *arrays, name="forward"):
    """Return what a module with data computes, by the reference interpreter."""
    names = list(inspect.signature(getattr(module, name)).parameters)
    inputs = {key: spec.Tensor(array.shape, str(array.dtype)) for key, array in zip(names, arrays)}
    exported, params = module.export_tvm({name: inputs})
    weights = [param.data.numpy() for _, param in params]
    return relax.interpreter.run(exported, name, *arrays, *weights)


def filled(module, seed=0):
    """Give a module random weights."""
    rng = np.random.default_rng(seed)
    for param in module.parameters():
        param.data = rng.standard_normal(param.shape).astype(param.dtype)
    return module


LAYERS = {
    "Linear": (nn.Linear(6, 4), torch.nn.Linear(6, 4), (3, 6)),
    "Linear without bias": (nn.Linear(6, 4, bias=False), torch.nn.Linear(6, 4, bias=False), (6,)),
    "Conv1D": (nn.Conv1D(4, 6, 3, 2, 1, 1, 2), torch.nn.Conv1d(4, 6, 3, 2, 1, 1, 2), (2, 4, 9)),
    "Conv2D": (nn.Conv2D(3, 4, (3, 2)), torch.nn.Conv2d(3, 4, (3, 2)), (1, 3, 6, 5)),
    "Conv3D": (nn.Conv3D(2, 3, 2), torch.nn.Conv3d(2, 3, 2), (1, 2, 3, 4, 3)),
    "ConvTranspose1D": (
        nn.ConvTranspose1D(4, 6, 3, 2, 1, 1), torch.nn.ConvTranspose1d(4, 6, 3, 2, 1, 1), (2, 4, 5),
    ),
    "LayerNorm": (nn.LayerNorm(6), torch.nn.LayerNorm(6), (3, 6)),
    "LayerNorm of two axes": (nn.LayerNorm((3, 6)), torch.nn.LayerNorm((3, 6)), (2, 3, 6)),
    "LayerNorm without weights": (
        nn.LayerNorm(6, elementwise_affine=False),
        torch.nn.LayerNorm(6, elementwise_affine=False), (3, 6),
    ),
    "RMSNorm": (nn.RMSNorm(6, -1, bias=False), torch.nn.RMSNorm(6, 1e-5), (3, 6)),
    "GroupNorm": (nn.GroupNorm(2, 4), torch.nn.GroupNorm(2, 4), (2, 4, 5)),
    "GELU": (nn.GELU(), torch.nn.GELU(), (3, 6)),
    "SiLU": (nn.SiLU(), torch.nn.SiLU(), (3, 6)),
    "ReLU": (nn.ReLU(), torch.nn.ReLU(), (3, 6)),
    "Identity": (nn.Identity(), torch.nn.Identity(), (3, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_load_the_weights_of_torch(name):
    module, reference, shape = LAYERS[name]
    for param in reference.parameters():
        torch.nn.init.normal_(param)
    module.load_state_dict(reference.state_dict())
    x = random(*shape)
    expected = reference(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(run(module, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_embedding(shape):
    table = filled(nn.Embedding(10, 4))
    x = np.random.default_rng(0).integers(0, 10, shape).astype("int32")
    np.testing.assert_array_equal(run(table, x), table.weight.data.numpy()[x])


def test_timesteps_and_their_embedding():
    module = filled(nn.TimestepEmbedding(8, 16, out_dim=4, post_act_fn="gelu", cond_proj_dim=3))
    weights = {name: torch.tensor(p.data.numpy()) for name, p in module.named_parameters()}
    sample, condition = random(2, 8), random(2, 3, seed=1)
    x = torch.tensor(sample) + torch.tensor(condition) @ weights["cond_proj.weight"].T
    x = torch.nn.functional.silu(x @ weights["linear_1.weight"].T + weights["linear_1.bias"])
    x = torch.nn.functional.gelu(x @ weights["linear_2.weight"].T + weights["linear_2.bias"])
    found = run(module, sample, condition)
    np.testing.assert_allclose(found, x.numpy(), rtol=1e-4, atol=1e-4)
    assert run(nn.Timesteps(8), np.array([1, 5], "int32")).shape == (2, 8)
    with pytest.raises(UnsupportedError, match="no activation 'mish'"):
        nn.TimestepEmbedding(8, 16, act_fn="mish")
    with pytest.raises(UnsupportedError, match="cond_proj_dim"):
        run(nn.TimestepEmbedding(8, 16), sample, condition)


@pytest.mark.parametrize("context", [None, 5])
def test_attention(context):
    module = filled(nn.Attention(6, context, heads=2, dim_head=4, norm_num_groups=3))
    x, other = random(2, 7, 6), random(2, 3, context or 6, seed=1)
    arrays = [x] if context is None else [x, other]
    w = {name: torch.tensor(p.data.numpy()) for name, p in module.named_parameters()}
    hidden = torch.tensor(x).transpose(1, 2)
    hidden = torch.nn.functional.group_norm(hidden, 3, w["group_norm.weight"], w["group_norm.bias"])
    hidden = hidden.transpose(1, 2)
    source = hidden if context is None else torch.tensor(other)
    q, k, v = (
        (t @ w[f"to_{n}.weight"].T).unflatten(-1, (2, 4)).transpose(1, 2)
        for n, t in (("q", hidden), ("k", source), ("v", source))
    )
    found = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    expected = found @ w["to_out.0.weight"].T + w["to_out.0.bias"]
    np.testing.assert_allclose(run(module, *arrays), expected.numpy(), rtol=1e-3, atol=1e-4)
    with pytest.raises(UnsupportedError, match="no argument 'gate'"):
        module(nn.Tensor.placeholder((1, 2, 6), "float32"), gate=1)


def test_channels_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="3 groups"):
        nn.Conv2D(4, 6, 3, groups=3)
    with pytest.raises(ShapeError, match="3 groups"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ShapeError, match="kernel of 2 axes"):
        nn.Conv2D(4, 6, (3, 3, 3))


# Parameters


class Two(nn.Module):
    def __init__(self):
        self.dtype = "float32"
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.layers.append(nn.Linear(2, 2, bias=False))
        self.tied = self.layers[0].weight

    def forward(self, x: nn.Tensor):
        return self.layers(x)


def test_parameters_by_name():
    module = Two()
    names = ["layers.0.weight", "layers.0.bias", "layers.1.weight"]
    assert [name for name, _ in module.named_parameters()] == names
    assert list(module.state_dict(prefix="m.")) == [f"m.{name}" for name in [*names, "tied"]]
    assert len(list(module.parameters())) == 3
    data = {name: random(*p.shape) for name, p in module.state_dict().items()}
    with pytest.raises(UnknownNameError, match=r"missing \['tied'\]"):
        module.load_state_dict({name: data[name] for name in names})
    assert module.load_state_dict({"other": data["tied"]}, strict=False)[1] == ["other"]
    module.load_state_dict(data)
    assert module.layers[1].weight.data.numpy() is not None


def test_parameters_check_their_data():
    param = nn.Parameter((2, "n"), "float32")
    param.data = np.zeros((2, 5), "float32")
    with pytest.raises(ShapeError, match=r"got data of \(3, 5\)"):
        param.data = np.zeros((3, 5), "float32")
    with pytest.raises(TypeMismatchError, match="got data of float64"):
        param.data = np.zeros((2, 5))


def test_data_types():
    module = filled(Two())
    module.to("float16")
    assert module.dtype == "float16" and module.layers[0].bias.dtype == "float16"
    assert str(module.layers[0].bias.data.dtype) == "float16"
    assert nn.get_default_dtype() == "float32"
    nn.set_default_dtype("float16")
    try:
        assert nn.Linear(2, 2).weight.dtype == "float16"
    finally:
        nn.set_default_dtype("float32")
    mixed = nn.Linear(2, 2, dtype="float16", out_dtype="float32")
    mixed.to("bfloat16")
    assert (mixed.weight.dtype, mixed.bias.dtype) == ("bfloat16", "float32")


def test_a_mutator_replaces_layers():
    class Doubled(nn.Module):
        def __init__(self, inner):
            self.inner = inner

        def forward(self, x: nn.Tensor):
            return self.inner(x) * 2

    seen = []

    class Rewrite(nn.Mutator):
        def visit_module(self, name, node):
            seen.append(name)
            return Doubled(node) if isinstance(node, nn.Linear) else self.visit(name, node)

        def visit_param(self, name, node):
            seen.append(name)
            return node

    module = filled(Two())
    x = random(3, 2)
    before = run(module, x)
    assert Rewrite().visit_module("", module) is module
    assert seen == ["", "layers.0", "layers.1", "tied"]
    assert isinstance(module.layers[0], Doubled)
    assert not np.allclose(before, run(module, x))
    assert [n for n, _ in module.named_parameters()][0] == "layers.0.inner.weight"


def test_a_module_without_forward_says_so():
    with pytest.raises(UnsupportedError, match="Empty defines no forward"):
        type("Empty", (nn.Module,), {})()(1)


def test_tensors_are_made_in_several_ways():
    scalar = nn.Tensor.from_scalar(3, "float16")
    assert (scalar.shape, scalar.ndim, scalar.dtype) == ([], 0, "float16")
    known = nn.Tensor.from_const(np.zeros((2, 3), "int8"))
    assert known.shape == [2, 3] and repr(known) == 'Tensor([2, 3], "int8")'
    named = nn.Tensor.placeholder((2, "n", "n"), "float32", "named")
    assert named.shape[0] == 2 and named.shape[1].name == "n"
    assert named.shape[1].same_as(named.shape[2])
    info = relax.TensorStructInfo(None, "float32", ndim=2)
    unknown = nn.Tensor.from_struct_info(info, "unknown")
    assert unknown.ndim == 2
    with pytest.raises(ShapeError, match="is not known"):
        unknown.shape
    with pytest.raises(TypeMismatchError, match="a tensor is needed"):
        nn.Tensor(_expr=relax.Var("x", relax.ObjectStructInfo()))
    with pytest.raises(TypeMismatchError, match="an object is needed"):
        nn.Object(_expr=relax.Var("x", info), _name="x")


def test_values_are_bound_in_the_function_under_construction():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4, 2), "float32"))
    with builder.function("main", [x]):
        first, second = nn.wrap_nested(relax.op.split(x, 2), "halves")
        total = op.add(first, second)
        builder.emit_func_output(nn.core.as_expression(total))
    found = relax.interpreter.run(builder.get(), "main", random(4, 2))
    np.testing.assert_array_equal(found, random(4, 2)[:2] + random(4, 2)[2:])
    with pytest.raises(DiagnosticError, match="no module is being exported"):
        nn.Exporter.current()


def test_states_define_all_their_methods():
    for name, args in (("emit_init", ("x", None)), ("create", ("x",)), ("finalize", ())):
        with pytest.raises(NotImplementedError, match=name):
            getattr(nn.Effect(), name)(*args)


def test_a_subroutine_has_no_states():
    class Inner(nn.Module):
        define_subroutine = True

        def __init__(self):
            self.cache = nn.KVCache(1, [4])

        def forward(self, x: nn.Tensor):
            self.cache.append(x)
            return x

    class Outer(nn.Module):
        def __init__(self):
            self.inner = Inner()

        def forward(self, x: nn.Tensor):
            return self.inner(x)

    with pytest.raises(UnsupportedError, match="'inner' has the state 'cache'"):
        Outer().export_tvm({"forward": {"x": spec.Tensor([2, 4], "float32")}})


# Compiled modules


class Stateful(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(4, 3)
        self.first = nn.KVCache(2, [3])
        self.second = nn.KVCache(2, [3])

    def forward(self, x: nn.Tensor, total: int):
        y = self.fc(x)
        op.print_(y)
        op.debug_func("tests.nn.note", y, 3, "text")
        self.first.append(y)
        self.second.append(y * 2)
        return self.first.view(total), self.second.view(total)

    def peek(self, total: int):
        return self.first.view(total)


@pytest.mark.parametrize("mode", ["plain", "packed"])
def test_a_compiled_module_keeps_its_states(mode, capfd):
    noted = []
    register_func("tests.nn.note", lambda *args: noted.append(args) or 0, override=True)
    module = filled(Stateful())
    modes = {"param_mode": mode, "effect_mode": mode}
    inputs = {
        "forward": {"x": spec.Tensor(["n", 4], "float32"), "total": int, "$": modes},
        "peek": {"total": int, "$": modes},
    }
    compiled = module.jit(inputs, debug=True)
    fresh = module.jit(inputs, debug=True)
    x = random(5, 4)
    weight, bias = module.fc.weight.data.numpy(), module.fc.bias.data.numpy()
    expected = x @ weight.T + bias
    compiled["forward"](torch.tensor(x[:2]), 2)
    first, second = compiled.forward(torch.tensor(x[2:]), 5)
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(second.numpy(), 2 * expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(compiled["peek"](3).numpy(), expected[:3], rtol=1e-4, atol=1e-5)
    assert fresh["forward"](torch.tensor(x[:1]), 1)[0].shape == (1, 3)
    assert [args[2:] for args in noted] == [(3, "text")] * 3
    assert "test_nn_modules.py:" in noted[0][0] and noted[0][1].shape == (2, 3)
    assert capfd.readouterr().out.count("test_nn_modules.py:") == 3
    with pytest.raises(ShapeError, match="no view of"):
        compiled["peek"](9)
    with pytest.raises(TypeMismatchError, match="takes 2 inputs, got 1"):
        compiled["forward"](torch.tensor(x))
    with pytest.raises(TypeMismatchError, match="'total' is 1.5"):
        compiled["peek"](1.5)
    with pytest.raises(TypeMismatchError, match="tensor of torch is needed"):
        compiled["forward"](x, 5)
    with pytest.raises(UnknownMemberError, match="no method 'decode'"):
        compiled["decode"]


def test_raw_results_and_mistakes_of_jit():
    module = filled(nn.Linear(4, 3))
    inputs = {"forward": {"x": spec.Tensor(["n", 4], "float32")}}
    made, machine, data = module.jit(inputs, out_format="raw")
    x = random(2, 4)
    expected = x @ data[0].numpy().T + data[1].numpy()
    np.testing.assert_allclose(machine["forward"](x, *data).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert made.method_names == ["forward"]
    with pytest.raises(ShapeError, match=r"weight, bias have no data"):
        nn.Linear(4, 3).jit(inputs)
    with pytest.raises(UnsupportedError, match="out_format"):
        module.jit(inputs, out_format="numpy")
    with pytest.raises(UnsupportedError, match="for the CPU"):
        module.jit(inputs, device="cuda")


def test_caches_check_what_they_get():
    class Bad(nn.Module):
        def __init__(self, shape, dtype="float32"):
            self.cache = nn.KVCache(2, shape, dtype)

        def forward(self, x: nn.Tensor):
            self.cache.append(x)
            return x

    inputs = {"forward": {"x": spec.Tensor(["n", 4], "float32")}}
    with pytest.raises(ShapeError, match=r"\[5\] are needed"):
        Bad([5]).export_tvm(inputs)
    with pytest.raises(TypeMismatchError, match="cache of float16"):
        Bad([4], "float16").export_tvm(inputs)
    with pytest.raises(DiagnosticError, match="outside of a method"):
        nn.KVCache(2, [4]).view(1)
