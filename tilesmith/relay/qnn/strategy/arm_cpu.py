"""Strategies for Arm CPUs: those of any target; the static search knows Arm's vectors."""

from tilesmith.relay.qnn.strategy import generic

__all__ = [
    "qnn_conv2d_strategy_arm_cpu", "qnn_dense_strategy_arm_cpu",
    "qnn_dequantize_strategy_arm_cpu", "qnn_quantize_strategy_arm_cpu",
]  # fmt: skip

qnn_quantize_strategy_arm_cpu = generic.qnn_quantize_strategy
qnn_dequantize_strategy_arm_cpu = generic.qnn_dequantize_strategy
qnn_conv2d_strategy_arm_cpu = generic.qnn_conv2d_strategy
qnn_dense_strategy_arm_cpu = generic.qnn_dense_strategy
