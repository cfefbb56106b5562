"""Specifications of modules: what they hold, and what is wrong with bad ones."""

import pytest

from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import spec
from tilesmith.relax.frontend.nn.llm import PagedKVCache
from tilesmith.support.errors import ShapeError, TilesmithError, TypeMismatchError, UnknownNameError


class Model(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(4, 2)

    def forward(self, x: nn.Tensor, length: int = 3):
        return self.fc(x)


def specify(inputs, method="forward"):
    return spec.ModuleSpec.from_raw({method: inputs}, Model())


def test_a_specification_is_printed():
    made = specify({"x": spec.Tensor(["n", 4], "float32"), "length": int})
    assert str(made) == (
        "ModuleSpec(Model)\n  forward: MethodSpec(x: Tensor(['n', 4], \"float32\"), length: int)"
    )
    assert spec.ModuleSpec.from_raw(made, Model()) is made


def test_modes_are_plain_without_settings():
    method = specify({"x": spec.Tensor([2, 4], "float32")}).method_specs[0]
    assert (method.param_mode, method.effect_mode) == ("plain", "plain")
    assert method.arg_names == ["x"]  # the other input has a default


def test_classes_of_objects_and_lists_stand_for_specifications():
    class Other(nn.Module):
        def forward(self, cache, pair):
            return pair

    inputs = {"cache": PagedKVCache, "pair": [int, spec.Tensor([1], "int32")]}
    cache, pair = spec.ModuleSpec.from_raw({"forward": inputs}, Other()).method_specs[0].arg_specs
    assert isinstance(cache, spec.Object) and cache.object_type is PagedKVCache
    assert isinstance(pair, spec.Tuple) and isinstance(pair.elements[0], spec.Int)


def test_examples_of_torch_give_a_specification():
    torch = pytest.importorskip("torch")
    method = spec.MethodSpec.from_torch([torch.zeros(2, 4), 3], Model().forward)
    assert str(method) == 'MethodSpec(x: Tensor([2, 4], "float32"), length: int)'
    with pytest.raises(TypeMismatchError, match="input 'x' of 'forward' is str"):
        spec.MethodSpec.from_torch(["a"], Model().forward)


X = spec.Tensor(["n", 4], "float32")
BAD = {
    "no dictionary": (X, TypeMismatchError, "'forward'"),
    "not a specification": ({"x": 3}, TypeMismatchError, "input 'x' of 'forward' is 3"),
    "unknown input": ({"x": X, "y": X}, UnknownNameError, "no input 'y'"),
    "missing input": ({"length": int}, UnknownNameError, "lacks the input 'x'"),
    "dtype": ({"x": spec.Tensor([2], "float33")}, TilesmithError, "input 'x' of 'forward'"),
    "size": ({"x": spec.Tensor([2.5], "int8")}, ShapeError, "input 'x' of 'forward': 2.5"),
    "negative": ({"x": spec.Tensor([-1], "int8")}, ShapeError, "input 'x'.*-1 is negative"),
    "name": ({"x": spec.Tensor(["n + 1"], "int8")}, ShapeError, "'x'.*'n \\+ 1' is not the name"),
    "element": ({"x": [X, "y"]}, TypeMismatchError, "element 1 of input 'x'"),
    "mode": ({"x": X, "$": {"param_mode": "tuple"}}, TypeMismatchError, "param_mode.*'tuple'"),
    "setting": ({"x": X, "$": {"params": "none"}}, UnknownNameError, "no setting 'params'"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_named(name):
    inputs, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        specify(inputs)


def test_unknown_methods_are_named():
    with pytest.raises(UnknownNameError, match="Model has no method 'prefill'"):
        specify({}, "prefill")
    with pytest.raises(TypeMismatchError, match="specification of Model"):
        spec.ModuleSpec.from_raw([1], Model())
