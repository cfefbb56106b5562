"""A library computes parts of a graph: OpenBLAS multiplies, Tilesmith compiles the rest.

python examples/library_for_a_part.py
"""

import numpy as np

import tilesmith as ts
from tilesmith import relax
from tilesmith.relax.backend.contrib.cblas import partition_for_cblas
from tilesmith.relax.frontend import nn


class Perceptron(nn.Module):
    """Two layers with an activation between them."""

    def __init__(self):
        self.first, self.second = nn.Linear(64, 128), nn.Linear(128, 10)

    def forward(self, x):
        """Return the scores of 10 classes."""
        return self.second(nn.op.gelu(self.first(x)))


def main(path="model.tsm") -> None:
    """Divide, build, save, load and run a model."""
    model, params = Perceptron().export_tvm({"forward": {"x": nn.spec.Tensor((16, 64), "float32")}})
    divided = partition_for_cblas(model)
    print(divided)
    # relax.ext.cblas makes modules of the parts, relax.build links them
    compiled = relax.transform.RunCodegen()(divided)
    relax.build(compiled, "llvm").export_library(path)
    loaded = ts.runtime.load_module(path)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(param.shape).astype("float32") for _, param in params]
    x = rng.standard_normal((16, 64)).astype("float32")
    given = [ts.nd.array(one) for one in (x, *arrays)]
    found = loaded["forward"](*given).numpy()
    own = relax.build(model, "llvm")["forward"](*given).numpy()
    np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
