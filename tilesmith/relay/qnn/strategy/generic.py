"""Strategies of the dialect's operators for any target, and what strategies are written with.

A wrapper gives a compute, ``compute(attrs, inputs, out_type)``, of a function of tensors; it hands
over the inputs and then the attributes that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.op.strategy.names import wrap_topi_schedule
from tilesmith.relay.op.strategy.own import own_strategy
from tilesmith.relay.op.strategy.wrappers import wrap_topi_compute
from tilesmith.target.generic_func import GenericFunc

__all__ = [
    "qnn_add_strategy", "qnn_avg_pool2d_strategy", "qnn_batch_matmul_strategy",
    "qnn_concatenate_strategy", "qnn_conv2d_strategy", "qnn_dense_pack_strategy",
    "qnn_dense_strategy", "qnn_dequantize_strategy", "qnn_mul_strategy", "qnn_quantize_strategy",
    "qnn_requantize_strategy", "qnn_subtract_strategy", "qnn_tanh_strategy",
    "wrap_compute_dequantize", "wrap_compute_qnn_avg_pool2d", "wrap_compute_quantize",
    "wrap_topi_compute", "wrap_topi_concatenate", "wrap_topi_qnn_batch_matmul",
    "wrap_topi_qnn_conv2d", "wrap_topi_qnn_dense", "wrap_topi_schedule",
]  # fmt: skip

Compute = Callable[[Any, Any, Any], list[Any]]


def _with_attributes(*names: str) -> Callable[[Callable[..., Any]], Compute]:
    def wrap(topi_compute: Callable[..., Any]) -> Compute:
        """Return the compute of a function of the inputs and of some attributes."""

        def compute(attrs: Any, inputs: Any, out_type: Any) -> list[Any]:
            made = topi_compute(*inputs, *[attrs[name] for name in names])
            return list(made) if isinstance(made, (list, tuple)) else [made]

        return compute

    return wrap


wrap_compute_quantize = _with_attributes("axis", "out_dtype")
wrap_compute_dequantize = _with_attributes("axis", "out_dtype")
wrap_topi_qnn_conv2d = _with_attributes("strides", "padding", "dilation", "out_dtype")
wrap_topi_qnn_dense = _with_attributes("out_dtype")
wrap_topi_qnn_batch_matmul = _with_attributes("out_dtype")
wrap_topi_concatenate = _with_attributes("axis")
wrap_compute_qnn_avg_pool2d = _with_attributes(
    "pool_size", "strides", "padding", "dilation", "ceil_mode", "count_include_pad", "layout"
)


def _strategy(name: str) -> GenericFunc:
    return own_strategy(Op.get("qnn." + name))


qnn_quantize_strategy = _strategy("quantize")
qnn_dequantize_strategy = _strategy("dequantize")
qnn_requantize_strategy = _strategy("requantize")
qnn_add_strategy = _strategy("add")
qnn_subtract_strategy = _strategy("subtract")
qnn_mul_strategy = _strategy("mul")
qnn_tanh_strategy = _strategy("tanh")
qnn_concatenate_strategy = _strategy("concatenate")
qnn_conv2d_strategy = _strategy("conv2d")
qnn_dense_strategy = _strategy("dense")
qnn_dense_pack_strategy = _strategy("contrib_dense_pack")
qnn_batch_matmul_strategy = _strategy("batch_matmul")
qnn_avg_pool2d_strategy = _strategy("avg_pool2d")
