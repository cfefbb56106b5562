"""Small models in plain torch, exported and imported, against torch itself."""

import functools

import numpy as np
import pytest
import torch
from torch.export import Dim

import tilesmith
from benchmarks.models.torch_zoo import ZOO, words
from tilesmith import relax
from tilesmith.relax.frontend.torch import from_exported_program
from tilesmith.relax.interpreter import run

NAMES = [name for name in ZOO if name != "llama"]  # whose cache is in buffers, see below
COMPILED = ("resnet18", "bert_base", "lstm")


@functools.cache
def example(name):
    """Return a model, inputs, and what torch computes."""
    model, given = ZOO[name].build_small()
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


def flat(inputs):
    """Return the tensors of inputs, some of which are tuples of them."""
    return [each for one in inputs for each in (one if isinstance(one, tuple) else (one,))]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_agrees_with_torch(name):
    model, inputs, wanted = example(name)
    module = from_exported_program(torch.export.export(model, inputs))
    check(run(module, "main", *[tensor.numpy() for tensor in flat(inputs)]), wanted)
    if name in COMPILED:
        check(compiled(module, *flat(inputs)), wanted)


def test_batch_and_length_of_a_transformer_are_dynamic():
    model, inputs, _ = example("bert_base")
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
    model, inputs, _ = example("gpt2_decode")
    old = {2: Dim("old", min=1, max=16)}
    program = torch.export.export(model, inputs, dynamic_shapes=({}, (old,) * 4))
    module = from_exported_program(program)
    state = (torch.zeros(1, 4, 2, 4),) * 4
    arrays = [tensor.numpy() for tensor in state]
    for _ in range(2):
        tokens = words(1, 3)
        with torch.no_grad():
            logits, *state = model(tokens, tuple(state))
        found, *arrays = run(module, "main", tokens.numpy(), *arrays)
        check([found, *arrays], [logits, *state])


def test_a_cache_in_buffers_is_passed_on_by_the_caller():
    model, inputs = ZOO["llama"].build_small()
    program = torch.export.export(model, inputs)
    module = from_exported_program(program)
    assert list(module["main"].attrs["mutated"]) == ["layers.0.keys", "layers.0.values"]
    layer = model.layers[0]
    state = [np.zeros((1, 2, 8, 4), "float32")] * 2
    for first in (0, 2, 4):
        tokens, places = words(1, 2), torch.arange(first, first + 2)
        with torch.no_grad():
            wanted = model(tokens, places)
        found, *state = run(module, "main", tokens.numpy(), places.numpy(), *state)
        check([found, *state], [wanted, layer.keys, layer.values])
