"""Relay: build a small network, run it, look inside.

python examples/relay.py
"""

import numpy as np

import tilesmith as ts
from tilesmith import relay
from tilesmith.contrib import graph_executor
from tilesmith.contrib.debugger import debug_executor


def network() -> ts.IRModule:
    """Return a convolution with bias, its activation, and a classifier."""
    x = relay.var("x", shape=(1, 3, 32, 32))
    y = relay.nn.conv2d(x, relay.var("filter", shape=(8, 3, 3, 3)), padding=(1, 1))
    y = relay.nn.relu(relay.nn.bias_add(y, relay.var("bias", shape=(8,))))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
    y = relay.nn.softmax(relay.nn.dense(y, relay.var("classes", shape=(10, 8))))
    return ts.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))


def main() -> None:
    """Build the network, run it, and show its graph, kernels and times."""
    shapes = {"filter": (8, 3, 3, 3), "bias": (8,), "classes": (10, 8)}
    params = {name: np.random.randn(*shape).astype("float32") for name, shape in shapes.items()}
    print(relay.transform.InferType()(network()))

    with ts.transform.PassContext(opt_level=3):
        lib = relay.build(network(), target="llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.run(x=np.random.randn(1, 3, 32, 32))
    print("classes:", module.get_output(0).numpy().round(3))

    debugger = debug_executor.create(lib.get_graph_json(), lib, ts.cpu())
    debugger.run(number=10, x=np.random.randn(1, 3, 32, 32).astype("float32"))  # a table of kernels


if __name__ == "__main__":
    main()
