"""Small models in plain torch, exported and imported, against torch itself."""

import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import tilesmith
from tests.relax.frontend.torch import torch_models as models
from tilesmith import relax
from tilesmith.relax.frontend.torch import from_exported_program
from tilesmith.relax.interpreter import run


def image(batch=1, size=32):
    return (torch.randn(batch, 3, size, size),)


def words(*shape):
    return torch.randint(1, 50, shape)


MODELS = {
    "resnet": (models.ResNet, image),
    "mobilenet_v2": (lambda: models.MobileNet(nn.ReLU6, False), image),
    "mobilenet_v3": (lambda: models.MobileNet(nn.Hardswish, True), image),
    "efficientnet": (lambda: models.MobileNet(nn.SiLU, True), image),
    "convnext": (models.ConvNeXt, image),
    "vit": (models.VisionTransformer, image),
    "swin": (models.Swin, image),
    "bert": (models.Bert, lambda: (words(2, 6), torch.tensor([[1] * 6, [1] * 4 + [0] * 2]))),
    "gpt2": (
        models.Gpt2,
        lambda: (words(1, 3), torch.randn(1, 4, 5, 4), torch.randn(1, 4, 5, 4)),
    ),
    "t5": (models.T5, lambda: (words(1, 5), words(1, 4))),
    "unet": (models.UNet, lambda: image(size=16)),
    "lstm": (
        models.LstmLanguageModel,
        lambda: (words(2, 3), torch.randn(2, 2, 12), torch.randn(2, 2, 12)),
    ),
}
COMPILED = ("resnet", "bert", "lstm")


@functools.cache
def example(name):
    """Return a model, inputs, and what torch computes."""
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model, given = make().eval(), inputs()
    with torch.no_grad():
        wanted = model(*given)
    return model, given, [wanted] if isinstance(wanted, torch.Tensor) else list(wanted)


def check(found, wanted):
    assert len(found) == len(wanted)
    for array, tensor in zip(found, wanted):
        array = array if isinstance(array, np.ndarray) else array.numpy()
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-4, atol=1e-5)


def compiled(module, *inputs):
    machine = relax.VirtualMachine(relax.build(module, "llvm"), tilesmith.cpu())
    return machine["main"](*[tilesmith.nd.array(tensor.numpy()) for tensor in inputs])


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_torch(name):
    model, inputs, wanted = example(name)
    module = from_exported_program(torch.export.export(model, inputs))
    check(run(module, "main", *[tensor.numpy() for tensor in inputs]), wanted)
    if name in COMPILED:
        check(compiled(module, *inputs), wanted)


def test_batch_and_length_of_a_transformer_are_dynamic():
    model, inputs, _ = example("bert")
    batch, length = Dim("batch", min=1, max=16), Dim("length", min=2, max=32)
    sizes = {0: batch, 1: length}
    program = torch.export.export(model, inputs, dynamic_shapes=(sizes, sizes))
    module = from_exported_program(program)
    bounds = module["main"].attrs["tir_var_upper_bound"]
    assert sorted([int(bound) for bound in bounds.values()]) == [16, 32]
    for shape in ((1, 4), (3, 7)):
        tokens, mask = words(*shape), torch.ones(shape, dtype=torch.int64)
        with torch.no_grad():
            wanted = model(tokens, mask)
        check(run(module, "main", tokens.numpy(), mask.numpy()), wanted)


def test_a_cache_that_grows_is_an_input_and_an_output():
    model, inputs, _ = example("gpt2")
    old = Dim("old", min=1, max=16)
    program = torch.export.export(model, inputs, dynamic_shapes=({}, {2: old}, {2: old}))
    module = from_exported_program(program)
    state = (torch.zeros(1, 4, 2, 4), torch.zeros(1, 4, 2, 4))
    arrays = [tensor.numpy() for tensor in state]
    for _ in range(2):
        tokens = words(1, 3)
        with torch.no_grad():
            logits, *state = model(tokens, *state)
        found, *arrays = run(module, "main", tokens.numpy(), *arrays)
        check([found, *arrays], [logits, *state])


def test_a_cache_in_buffers_is_passed_on_by_the_caller():
    torch.manual_seed(0)
    model = models.Llama().eval()
    inputs = (words(1, 2), torch.tensor([0, 1]))
    program = torch.export.export(model, inputs)
    module = from_exported_program(program)
    assert list(module["main"].attrs["mutated"]) == ["keys", "values"]
    state = [np.zeros((1, 2, 8, 4), "float32")] * 2
    for first in (0, 2, 4):
        tokens, places = words(1, 2), torch.arange(first, first + 2)
        with torch.no_grad():
            wanted = model(tokens, places)
        found, *state = run(module, "main", tokens.numpy(), places.numpy(), *state)
        check([found, *state], [wanted, model.keys, model.values])
