"""``relay.qnn.op.qnn``: the functions that make calls of the dialect's operators."""

from tilesmith.relay.qnn.op.conversions import (
    dequantize,
    quantize,
    simulated_dequantize,
    simulated_quantize,
)
from tilesmith.relay.qnn.op.elementwise import (
    abs,
    add,
    erf,
    exp,
    hardswish,
    leaky_relu,
    log,
    mul,
    rsqrt,
    sigmoid,
    sqrt,
    subtract,
    tanh,
)
from tilesmith.relay.qnn.op.others import avg_pool2d, concatenate, softmax
from tilesmith.relay.qnn.op.products import (
    batch_matmul,
    contrib_dense_pack,
    conv2d,
    conv2d_transpose,
    dense,
)
from tilesmith.relay.qnn.op.requantize import (
    RequantizeConfig,
    current_requantize_config,
    requantize,
    requantize_config,
)

__all__ = [
    "RequantizeConfig", "abs", "add", "avg_pool2d", "batch_matmul", "concatenate",
    "contrib_dense_pack", "conv2d", "conv2d_transpose", "current_requantize_config", "dense",
    "dequantize", "erf", "exp", "hardswish", "leaky_relu", "log", "mul", "quantize", "requantize",
    "requantize_config", "rsqrt", "sigmoid", "simulated_dequantize", "simulated_quantize",
    "softmax", "sqrt", "subtract", "tanh",
]  # fmt: skip
