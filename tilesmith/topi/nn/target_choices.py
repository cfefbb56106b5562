"""Choices that a target makes for operators of graphs: other layouts, operators, dtypes.

Each is a generic function. Its default answers None, the operator stays as it is; a target changes
that with ``conv2d_legalize.register(function, "arm_cpu")``. The two ``*_infer_layout`` functions
have no default: what a tuned operator's layout is, only the target that chose it knows.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from tilesmith.target import GenericFunc

_LEGALIZE = ("attrs", "inputs", "types")
_ALTER = ("attrs", "inputs", "tinfos", "out_type")
_QUANTIZED = tuple(["_" + name for name in _ALTER])
_INFER = ("workload", "cfg")

_CHOICES: dict[str, tuple[str, ...]] = {
    "add_alter_layout": _QUANTIZED,
    "batch_matmul_legalize": _LEGALIZE,
    "bias_add_legalize": _QUANTIZED[:3],
    "bitserial_conv2d_legalize": _LEGALIZE,
    "conv2d_alter_layout": _ALTER,
    "conv2d_infer_layout": _INFER,
    "conv2d_legalize": _LEGALIZE,
    "conv2d_transpose_alter_layout": _ALTER,
    "conv2d_transpose_legalize": _LEGALIZE,
    "conv3d_alter_layout": _ALTER,
    "conv3d_transpose_legalize": _LEGALIZE,
    "dense_alter_layout": _ALTER,
    "dense_legalize": _LEGALIZE,
    "depthwise_conv2d_infer_layout": _INFER,
    "matmul_legalize": _LEGALIZE,
    "qnn_conv2d_alter_layout": _QUANTIZED,
    "qnn_dense_alter_layout": _QUANTIZED,
    "qnn_requantize_alter_layout": _QUANTIZED,
    "sparse_dense_alter_layout": _QUANTIZED,
}
"""The choices by name, with the names of their parameters."""

__all__ = [
    "add_alter_layout", "batch_matmul_legalize", "bias_add_legalize", "bitserial_conv2d_legalize",
    "conv2d_alter_layout", "conv2d_infer_layout", "conv2d_legalize",
    "conv2d_transpose_alter_layout", "conv2d_transpose_legalize", "conv3d_alter_layout",
    "conv3d_transpose_legalize", "dense_alter_layout", "dense_legalize",
    "depthwise_conv2d_infer_layout", "matmul_legalize", "qnn_conv2d_alter_layout",
    "qnn_dense_alter_layout", "qnn_requantize_alter_layout", "sparse_dense_alter_layout",
]  # fmt: skip


def _choice(name: str) -> GenericFunc:
    """Return the generic function of one row of the table."""
    signature = inspect.Signature(
        [inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD) for one in _CHOICES[name]]
    )

    def unchanged(*args: Any, **kwargs: Any) -> None:
        """Return what the current target makes of an operator, or None."""
        signature.bind(*args, **kwargs)

    unchanged.__name__ = unchanged.__qualname__ = name
    unchanged.__dict__["__signature__"] = signature
    made = GenericFunc(name, None if _CHOICES[name] == _INFER else unchanged)
    functools.update_wrapper(made, unchanged)
    return made


add_alter_layout = _choice("add_alter_layout")
batch_matmul_legalize = _choice("batch_matmul_legalize")
bias_add_legalize = _choice("bias_add_legalize")
bitserial_conv2d_legalize = _choice("bitserial_conv2d_legalize")
conv2d_alter_layout = _choice("conv2d_alter_layout")
conv2d_infer_layout = _choice("conv2d_infer_layout")
conv2d_legalize = _choice("conv2d_legalize")
conv2d_transpose_alter_layout = _choice("conv2d_transpose_alter_layout")
conv2d_transpose_legalize = _choice("conv2d_transpose_legalize")
conv3d_alter_layout = _choice("conv3d_alter_layout")
conv3d_transpose_legalize = _choice("conv3d_transpose_legalize")
dense_alter_layout = _choice("dense_alter_layout")
dense_legalize = _choice("dense_legalize")
depthwise_conv2d_infer_layout = _choice("depthwise_conv2d_infer_layout")
matmul_legalize = _choice("matmul_legalize")
qnn_conv2d_alter_layout = _choice("qnn_conv2d_alter_layout")
qnn_dense_alter_layout = _choice("qnn_dense_alter_layout")
qnn_requantize_alter_layout = _choice("qnn_requantize_alter_layout")
sparse_dense_alter_layout = _choice("sparse_dense_alter_layout")
