"""Products of bfloat16 whose weights are packed for dot products of two: a part of PackForVectors.

    y = R.matmul(x, w, out_dtype="float32")    →    y = R.call_tir(matmul_pairs, (x, words of w))

The same for weights of float16 that are converted where they are used: these keep their 16 bits
in memory, and the kernel converts them in registers.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Constant, known_struct_info
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.byte_products import in_words
from tilesmith.target import Target
from tilesmith.target.features import target_features
from tilesmith.target.machine import MachineModel

__all__ = ["FEWEST_COLUMNS", "has_dot_products_of_pairs", "in_pairs", "is_packable"]

FEWEST_COLUMNS = 8
"""With fewer output channels a vector would be mostly empty."""


def has_dot_products_of_pairs(target: Target, machine: MachineModel) -> bool:
    """Return whether a target adds two products of bfloat16 to each lane of its vectors at once."""
    features = target_features(target)
    lanes = machine.lanes(32)
    if lanes == 4 and "neon" in features:
        return "bf16" in features
    return "avx512bf16" in features and (lanes == 16 or "avx512vl" in features)


def in_pairs(weights: numpy.ndarray) -> numpy.ndarray:
    """Return bfloat16 ``(…, inputs, outputs)`` as words of two along the inputs."""
    return in_words(weights.view("uint16"), "uint16")


def is_packable(call: Call, weight: Any) -> bool:
    """Return whether PackForVectors packs the weight of a product, if it is a constant."""
    info = known_struct_info(weight)
    if not isinstance(info, TensorStructInfo) or not isinstance(weight, Constant):
        return False
    shape = numpy.asarray(weight.data).shape
    attrs: Any = call.attrs
    if call.op is operators.matmul.op:
        data: Any = known_struct_info(call.args[0])
        return len(shape) == 2 and shape[1] >= FEWEST_COLUMNS and data.ndim >= 2
    if call.op is not operators.nn.conv2d.op:
        return False
    layouts = attrs.data_layout, attrs.kernel_layout, attrs.out_layout or "NCHW"
    plain = layouts == ("NCHW", "OIHW", "NCHW")
    return plain and int(attrs.groups) == 1 and shape[0] >= FEWEST_COLUMNS
