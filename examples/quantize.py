"""Quantise a network: what each layer loses, and how much faster the integers are.

python examples/quantize.py            # a small residual network
python examples/quantize.py 18         # ResNet-18
"""

import sys
import time

import numpy as np

import tilesmith as ts
from tilesmith import relay

RANDOM = np.random.default_rng(0)


def convolution(x, inputs, outputs, stride=1):
    """Return a convolution with random weights, normalised, and its activation."""
    weight = RANDOM.normal(0, (2 / (9 * inputs)) ** 0.5, (outputs, inputs, 3, 3))
    made = relay.nn.conv2d(
        x, relay.const(weight, "float32"), strides=(stride, stride), padding=(1, 1)
    )
    statistics = [RANDOM.uniform(0.5, 1.5, outputs) for _ in range(4)]
    return relay.nn.batch_norm(made, *[relay.const(one, "float32") for one in statistics])[0]


def network():
    """Return a small residual network."""
    data = relay.var("data", shape=(1, 3, 64, 64))
    x = relay.nn.relu(convolution(data, 3, 32, 2))
    for inputs, outputs in ((32, 32), (32, 64), (64, 64), (64, 128)):
        stride = 1 if inputs == outputs else 2
        inner = relay.nn.relu(convolution(x, inputs, outputs, stride))
        side = x if inputs == outputs else convolution(x, inputs, outputs, stride)
        x = relay.nn.relu(convolution(inner, outputs, outputs) + side)
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(x))
    weight = relay.const(RANDOM.normal(0, 0.1, (10, 128)), "float32")
    return ts.IRModule.from_expr(relay.Function([data], relay.nn.dense(flat, weight)))


def milliseconds(model, image) -> float:
    """Return the time of one inference on one core, the best of twenty."""
    run = relay.build(model, "llvm -mcpu=native -num-cores=1").get_lib()
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        run(image)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main() -> None:
    """Calibrate with random images, print the table of layers and both times."""
    layers_of_resnet = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if layers_of_resnet:
        shape = {"num_layers": layers_of_resnet, "image_shape": (3, 64, 64)}
        model, params = relay.testing.resnet.get_workload(**shape)
        model["main"] = relay.build_module.bind_params_by_name(model["main"], params)
    else:
        model = network()
    images = [{"data": RANDOM.normal(0, 1, (1, 3, 64, 64)).astype("float32")} for _ in range(4)]
    with relay.quantize.qconfig(
        calibrate_mode="percentile",
        weight_scale="channel_max",
        skip_conv_layers=[],
        skip_dense_layer=False,
    ):
        integers = relay.quantize.quantize(model, dataset=images)
        layers = relay.quantize.accuracy_by_layer(model, dataset=images)
    print(relay.quantize.accuracy_table(layers))
    image = images[0]["data"]
    floats, small = milliseconds(model, image), milliseconds(integers, image)
    print(f"float32: {floats:.2f} ms, int8: {small:.2f} ms, {floats / small:.1f} times as fast")


if __name__ == "__main__":
    main()
