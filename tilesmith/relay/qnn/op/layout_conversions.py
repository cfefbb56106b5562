"""Rules by which ConvertLayout changes the layouts of quantised convolutions and pools."""

from __future__ import annotations

from tilesmith.ir import register_op_attr
from tilesmith.relay.op.layout_conversions import KERNELS, convolution_rule, layout_rule

__all__ = ["convert_qnn_avg_pool2d", "convert_qnn_conv2d", "convert_qnn_conv2d_transpose"]

_TRANSPOSED = {"NCHW": "IOHW", "NHWC": "HWIO"}

convert_qnn_conv2d = convolution_rule("qnn.conv2d", KERNELS["nn.conv2d"])
convert_qnn_conv2d_transpose = convolution_rule("qnn.conv2d_transpose", _TRANSPOSED)
convert_qnn_avg_pool2d = layout_rule("qnn.avg_pool2d")

for _name, _rule in (
    ("qnn.conv2d", convert_qnn_conv2d),
    ("qnn.conv2d_transpose", convert_qnn_conv2d_transpose),
    ("qnn.avg_pool2d", convert_qnn_avg_pool2d),
):
    register_op_attr(_name, "FTVMConvertOpLayout", _rule)
