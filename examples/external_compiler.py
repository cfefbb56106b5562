"""A compiler of one's own for parts of a model: what it takes, and what it makes of it.

python examples/external_compiler.py
"""

import json

import numpy as np

import tilesmith as ts
from tilesmith import relay
from tilesmith.relay.dataflow_pattern import is_op, wildcard
from tilesmith.runtime.module import Module


def run(text):
    """Make the module that runs a part: here numpy does the work of the hardware."""
    part = json.loads(text)

    def scaled_product(data, weight, out):
        out.copyfrom(np.maximum(data.numpy() @ weight.numpy().T, 0) * part["scale"])

    functions = ts.runtime.module_from_functions({part["name"]: scaled_product})
    # What `saved` holds goes into the artifact, from which `load` makes the module again.
    packed = {part["name"]: functions[part["name"]]}
    return Module("my_unit", functions=packed, saved=text.encode())


@ts.register_func("runtime.module.loadbinary_my_unit")
def load(content):
    """Make the module from what was saved."""
    return run(content.decode())


@ts.register_func("relay.ext.my_unit")
def generate(func):
    """Make the module of one part of a model."""
    return run(json.dumps({"name": func.attrs["global_symbol"], "scale": 1.0}))


PATTERNS = [
    ("my_unit.dense_relu", is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard()))),
]


def partition(model):
    """Divide a model between the compiler and ours."""
    steps = [
        relay.transform.MergeComposite(PATTERNS),
        relay.transform.AnnotateTarget("my_unit"),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
    ]
    return ts.transform.Sequential(steps)(model)


def main(path="model.so") -> None:
    """Divide, build, save, load and run a model."""
    x, w = relay.var("x", shape=(16, 32)), relay.var("w", shape=(24, 32))
    model = ts.IRModule.from_expr(relay.tanh(relay.nn.relu(relay.nn.dense(x, w))))
    divided = partition(model)
    print(divided)
    relay.build(divided, target="llvm").export_library(path)
    loaded = ts.runtime.load_module(path)
    a, b = np.random.rand(16, 32).astype("float32"), np.random.rand(24, 32).astype("float32")
    result = loaded(ts.nd.array(a), ts.nd.array(b))
    np.testing.assert_allclose(result.numpy(), np.tanh(np.maximum(a @ b.T, 0)), rtol=1e-5)


if __name__ == "__main__":
    main()
