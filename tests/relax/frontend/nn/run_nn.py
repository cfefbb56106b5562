"""Runs functions of nn tensors: what the tests of operators share."""

import numpy as np

from tilesmith import relax
from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import spec


def export(function, *arrays, debug=False, shapes=None):
    """Return the module whose function "forward" is a function of tensors like arrays."""

    class Model(nn.Module):
        def forward(self, inputs):
            return function(*inputs)

    inputs = [
        spec.Tensor(array.shape if shapes is None else shape, str(array.dtype))
        for array, shape in zip(arrays, shapes or arrays)
    ]
    return Model().export_tvm({"forward": {"inputs": inputs}}, debug=debug)[0]


def interpret(function, *arrays, shapes=None):
    """Return what a function of tensors gives for arrays, by the reference interpreter."""
    return relax.interpreter.run(export(function, *arrays, shapes=shapes), "forward", arrays)


def compiled(function, *arrays, shapes=None):
    """Return what a function of tensors gives for arrays, by compiled code."""
    result = relax.build(export(function, *arrays, shapes=shapes))["forward"](arrays)
    if isinstance(result, (list, tuple)):
        return [one.numpy() for one in result]
    return result.numpy()


def random(*shape, seed=0, dtype="float32"):
    """Return an array of random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
