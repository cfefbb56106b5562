"""States how operators fuse with their neighbours: the attribute ``TOpPattern``.

``register_pattern(name, pattern)`` of a program takes precedence. What no line names is opaque: it
is a kernel of its own.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relay.op import (  # noqa: F401 - they declare the operators
    algorithm,
    annotation,
    image,
    nn,
    reduce,
    tensor,
    transform,
    vision,
)

__all__ = ["pattern_of"]

_KINDS = {
    FusionKind.ELEMWISE: """
        abs acos acosh annotation.cast_hint asin asinh atan atanh bitwise_not cast ceil clip copy
        cos cosh erf exp fast_erf fast_exp fast_tanh fixed_point_multiply floor full full_like
        isfinite isinf isnan log log10 log2 logical_not negative nn.leaky_relu nn.relu ones
        ones_like reinterpret round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zeros zeros_like
    """,
    FusionKind.BROADCAST: """
        add bitwise_and bitwise_or bitwise_xor broadcast_to broadcast_to_like divide equal
        expand_dims floor_divide floor_mod greater greater_equal left_shift less less_equal
        logical_and logical_or logical_xor maximum minimum mod multiply nn.bias_add nn.prelu
        not_equal power right_shift subtract trunc_divide trunc_mod where
    """,
    FusionKind.INJECTIVE: """
        adv_index arange cast_like concatenate contrib_reverse_reshape gather gather_nd
        image.resize1d image.resize2d image.resize3d layout_transform matrix_set_diag meshgrid
        nn.batch_flatten nn.batch_to_space_nd nn.depth_to_space nn.dilate nn.mirror_pad nn.pad
        nn.space_to_batch_nd nn.space_to_depth nn.upsampling nn.upsampling3d one_hot repeat reshape
        reshape_like reverse reverse_sequence sequence_mask slice_like sliding_window split squeeze
        stack strided_slice take tile transpose trilu vision.yolo_reorg
    """,
    FusionKind.COMM_REDUCE: """
        all any argmax argmin collapse_sum_like collapse_sum_to max mean min prod sum variance
    """,
    FusionKind.OUT_ELEMWISE_FUSABLE: """
        image.crop_and_resize image.dilation2d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d
        nn.adaptive_avg_pool3d nn.adaptive_max_pool1d nn.adaptive_max_pool2d nn.adaptive_max_pool3d
        nn.avg_pool1d nn.avg_pool2d nn.avg_pool2d_grad nn.avg_pool3d nn.batch_matmul nn.conv1d
        nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose
        nn.correlation nn.cross_entropy nn.cross_entropy_with_logits nn.deformable_conv2d nn.dense
        nn.global_avg_pool1d nn.global_avg_pool2d nn.global_avg_pool3d nn.global_max_pool1d
        nn.global_max_pool2d nn.global_max_pool3d nn.group_norm nn.instance_norm nn.l2_normalize
        nn.layer_norm nn.lrn nn.matmul nn.max_pool1d nn.max_pool2d nn.max_pool2d_grad nn.max_pool3d
        nn.sparse_conv2d nn.sparse_dense vision.roi_align vision.roi_pool
    """,
}

_DEFAULT_LEVEL = 5  # below that of `register_pattern`

for _kind, _names in _KINDS.items():
    for _name in _names.split():
        Op.get(_name).set_attr("TOpPattern", int(_kind), _DEFAULT_LEVEL)


def pattern_of(op: Any) -> FusionKind:
    """Return how an operator fuses."""
    return FusionKind(int(op.get_attr("TOpPattern", FusionKind.OPAQUE)))
