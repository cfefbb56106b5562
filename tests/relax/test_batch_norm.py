"""Batch normalisation against torch, with the given statistics and in training."""

import numpy as np
import pytest

import tilesmith
from tilesmith import relax
from tilesmith.relax import op

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (7, 3)])
def test_batch_norm(shape, training, decomposed):
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(shape), *draw.standard_normal((3, 3)), draw.random(3) + 0.5]
    arrays = [array.astype("float32") for array in arrays]
    names = ["x", "gamma", "beta", "mean", "var"]
    params = [
        relax.Var(name, relax.TensorStructInfo(array.shape, "float32"))
        for name, array in zip(names, arrays)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            call = op.nn.batch_norm(*params, axis=1, momentum=0.2, training=training)
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    module = builder.get()
    if decomposed:
        module = relax.transform.DecomposeOpsForInference()(module)
    module = relax.transform.LegalizeOps()(module)
    machine = relax.VirtualMachine(relax.build(module, target="llvm"), tilesmith.cpu())
    got = machine["main"](*[tilesmith.nd.array(array) for array in arrays])
    x, gamma, beta, mean, var = [torch.from_numpy(array.copy()) for array in arrays]
    want = torch.nn.functional.batch_norm(x, mean, var, gamma, beta, training, 0.2)
    for one, other in zip(got, (want, mean, var)):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-5, atol=2e-5)
