"""Arguments for each operator that modules of schedules know, and the shapes of its results."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith import te
from tilesmith.ir import operators


class Example(NamedTuple):
    """Shapes of tensors by parameter (with a dtype where it is not float32), other arguments, and
    the shapes of the results.
    """

    tensors: dict[str, Any]
    others: dict[str, Any]
    results: list[tuple[Any, ...]]

    def arguments(self) -> dict[str, Any]:
        made = dict(self.others)
        for name, given in self.tensors.items():
            shape, dtype = given if isinstance(given[-1], str) else (given, "float32")
            made[name] = te.placeholder(shape, dtype, name=name)
        return made


SAME = {"strides": 1, "stride": 1, "padding": 1, "dilation": 1, "out_dtype": "float32"}
EXTRA = {"num_tile": 2, "interleave_A": False, "groups": 1}
_IMAGE, _LAST = (1, 4, 6, 7), (1, 6, 7, 4)
_KERNEL = (8, 4, 3, 3)
_BYTES = {"pack_dtype": "uint8", "out_dtype": "int16", "unipolar": True, "stride": 1, "padding": 1}
_BITS = {"in_bits": 1, "weight_bits": 1, "activation_bits": 1, "data_bits": 1}


def conv(data: Any, kernel: Any, result: Any, **others: Any) -> Example:
    tensors = {"data": data, "Input": data, "kernel": kernel, "Filter": kernel}
    return Example(tensors, {**EXTRA, **SAME, **others}, [result])


EXAMPLES: dict[str, Example] = {
    "all_class_non_max_suppression": Example(
        {"boxes": (1, 5, 4), "scores": (1, 2, 5)},
        {"max_output_boxes_per_class": 2, "iou_threshold": 0.5, "score_threshold": 0.1},
        [(10, 3)],
    ),
    "argwhere": Example({"condition": (6, 7)}, {"output_shape": (6, 2)}, [(6, 2)]),
    "batch_matmul": Example(
        {"x": (2, 3, 5), "y": (2, 4, 5), "tensor_a": (2, 3, 5), "tensor_b": (2, 4, 5)},
        {},
        [(2, 3, 4)],
    ),
    "bitserial_conv2d_nchw": conv(
        ((1, 8, 6, 7), "uint8"), ((8, 8, 3, 3), "uint8"), (1, 8, 6, 7), **_BYTES, **_BITS
    ),
    "bitserial_conv2d_nhwc": conv(
        ((1, 6, 7, 8), "uint8"), ((3, 3, 8, 8), "uint8"), (1, 6, 7, 8), **_BYTES, **_BITS
    ),
    "bitserial_dense": Example(
        {"data": ((3, 16), "uint8"), "weight": ((5, 16), "uint8")}, {**_BYTES, **_BITS}, [(3, 5)]
    ),
    "conv1d_ncw": conv((1, 4, 7), (8, 4, 3), (1, 8, 7)),
    "conv1d_nwc": conv((1, 7, 4), (3, 4, 8), (1, 7, 8)),
    "conv1d_transpose_ncw": conv((1, 4, 7), (4, 8, 3), (1, 8, 7), output_padding=(0,)),
    "conv2d_NCHWc": conv(
        (1, 1, 6, 7, 4), (2, 1, 3, 3, 4, 4), (1, 2, 6, 7, 4), layout="NCHW4c", out_layout="NCHW4c"
    ),
    "conv2d_NCHWc_int8": conv(
        ((1, 1, 6, 7, 4), "uint8"),
        ((1, 1, 3, 3, 1, 8, 4), "int8"),
        (1, 1, 6, 7, 8),
        layout="NCHW4c",
        out_layout="NCHW8c",
        out_dtype="int32",
    ),
    "conv2d_hwcn": conv((6, 7, 4, 1), (3, 3, 4, 8), (6, 7, 8, 1)),
    "conv2d_nchw": conv(_IMAGE, _KERNEL, (1, 8, 6, 7)),
    "conv2d_nhwc": conv(_LAST, (3, 3, 4, 8), (1, 6, 7, 8)),
    "conv2d_transpose_nchw": conv(
        _IMAGE,
        (4, 8, 3, 3),
        (1, 8, 6, 7),
        strides=(1, 1),
        stride=(1, 1),
        padding=(1, 1),
        output_padding=(0, 0),
    ),
    "conv2d_winograd_nchw": conv(_IMAGE, _KERNEL, (1, 8, 6, 7)),
    "conv3d_ncdhw": conv((1, 4, 5, 6, 7), (8, 4, 3, 3, 3), (1, 8, 5, 6, 7)),
    "conv3d_ndhwc": conv((1, 5, 6, 7, 4), (3, 3, 3, 4, 8), (1, 5, 6, 7, 8)),
    "conv3d_transpose_ncdhw": conv(
        (1, 4, 5, 6, 7),
        (4, 8, 3, 3, 3),
        (1, 8, 5, 6, 7),
        strides=(1, 1, 1),
        stride=(1, 1, 1),
        output_padding=(0, 0, 0),
    ),
    "concatenate": Example(
        {}, {"data": [te.placeholder((2, 3)), te.placeholder((2, 4))], "axis": 1}, [(2, 7)]
    ),
    "correlation_nchw": Example(
        {"data1": (1, 3, 8, 8), "data2": (1, 3, 8, 8)},
        {
            "kernel_size": 1,
            "max_displacement": 2,
            "stride1": 1,
            "stride2": 1,
            "padding": 2,
            "is_multiply": True,
        },
        [(1, 25, 8, 8)],
    ),
    "cumprod": Example({"data": (3, 5)}, {"axis": 1}, [(3, 5)]),
    "cumsum": Example({"data": (3, 5)}, {"axis": 1}, [(3, 5)]),
    "deformable_conv2d_nchw": Example(
        {"data": _IMAGE, "offset": (1, 18, 6, 7), "kernel": _KERNEL},
        {**SAME, "deformable_groups": 1, "groups": 1},
        [(1, 8, 6, 7)],
    ),
    "dense": Example(
        {"data": (3, 5), "weight": (4, 5), "A": (3, 5), "B": (4, 5)},
        {"bias": None, "dtype": "float32", "out_dtype": "float32"},
        [(3, 4)],
    ),
    "depthwise_conv2d_NCHWc": conv(
        (1, 1, 6, 7, 4), (1, 1, 3, 3, 1, 4), (1, 1, 6, 7, 4), layout="NCHW4c", out_layout="NCHW4c"
    ),
    "depthwise_conv2d_nchw": conv(_IMAGE, (4, 1, 3, 3), _IMAGE),
    "depthwise_conv2d_nhwc": conv(_LAST, (3, 3, 4, 1), _LAST),
    "dft": Example({"re_data": (3, 8), "im_data": (3, 8)}, {"inverse": False}, [(3, 8), (3, 8)]),
    "log_softmax": Example({"x": (3, 5)}, {}, [(3, 5)]),
    "get_valid_counts": Example({"data": (1, 5, 6)}, {}, [(1,), (1, 5, 6), (1, 5)]),
    "group_conv1d_ncw": conv((1, 4, 7), (8, 2, 3), (1, 8, 7), groups=2),
    "group_conv1d_nwc": conv((1, 7, 4), (3, 2, 8), (1, 7, 8), groups=2),
    "group_conv2d_nchw": conv(_IMAGE, (8, 2, 3, 3), (1, 8, 6, 7), groups=2),
    "group_conv2d_transpose_nchw": conv(
        _IMAGE,
        (4, 4, 3, 3),
        (1, 8, 6, 7),
        groups=2,
        stride=(1, 1),
        padding=(1, 1),
        output_padding=(0, 0),
    ),
    "invert_permutation": Example({"data": ((5,), "int32")}, {}, [(5,)]),
    "matmul": Example(
        {
            "data": (3, 5),
            "data_a": (3, 5),
            "tensor_a": (3, 5),
            "weight": (5, 4),
            "data_b": (5, 4),
            "tensor_b": (5, 4),
        },
        {
            "bias": None,
            "out_dtype": "float32",
            "transpose_a": False,
            "transpose_b": False,
            "_": None,
        },
        [(3, 4)],
    ),
    "multibox_detection": Example(
        {"cls_prob": (1, 3, 5), "loc_pred": (1, 20), "anchor": (1, 5, 4)}, {}, [(1, 5, 6)]
    ),
    "multibox_prior": Example({"data": (1, 3, 4, 5)}, {}, [(1, 20, 4)]),
    "multibox_transform_loc": Example(
        {"cls_prob": (1, 3, 5), "loc_pred": (1, 20), "anchor": (1, 5, 4)}, {}, [(1, 5, 6), (1,)]
    ),
    "non_max_suppression": Example(
        {"data": (1, 5, 6), "valid_count": ((1,), "int32"), "indices": ((1, 5), "int32")},
        {"return_indices": False, "max_output_size": -1},
        [(1, 5, 6)],
    ),
    "proposal": Example(
        {"cls_prob": (1, 2, 4, 5), "bbox_pred": (1, 4, 4, 5), "im_info": (1, 3)},
        {
            "scales": (8,),
            "ratios": (1,),
            "feature_stride": 16,
            "threshold": 0.7,
            "rpn_pre_nms_top_n": 10,
            "rpn_post_nms_top_n": 5,
            "rpn_min_size": 1,
            "iou_loss": False,
        },
        [(5, 5)],
    ),
    "roi_align_nchw": Example(
        {"data": (1, 3, 8, 8), "rois": (2, 5)},
        {"pooled_size": (3, 3), "spatial_scale": 1.0, "mode": "avg"},
        [(2, 3, 3, 3)],
    ),
    "scanop": Example(
        {"data": (3, 5)}, {"binop": operators.add, "identity_value": 0, "axis": 1}, [(3, 5)]
    ),
    "scatter_elements": Example(
        {"data": (3, 5), "indices": ((2, 5), "int32"), "updates": (2, 5)}, {}, [(3, 5)]
    ),
    "scatter_nd": Example(
        {"data": (3, 5), "indices": ((2, 4), "int32"), "updates": (4,)}, {"mode": "add"}, [(3, 5)]
    ),
    "searchsorted": Example({"sorted_sequence": (7,), "values": (3,)}, {"right": False}, [(3,)]),
    "softmax": Example({"x": (3, 5)}, {}, [(3, 5)]),
    "sort": Example({"data": (3, 5)}, {}, [(3, 5)]),
    "sparse_conv2d": Example(
        {"data": (1, 6, 6, 4), "wdat": (3, 1, 1), "wind": ((3,), "int32"), "wptr": ((9,), "int32")},
        {"layout": "NHWC"},
        [],
    ),
    "sparse_dense": Example(
        {
            "data": (3, 5),
            "weight_data": (6,),
            "weight_indices": ((6,), "int32"),
            "weight_indptr": ((5,), "int32"),
        },
        {},
        [(3, 4)],
    ),
    "sparse_reshape": Example(
        {
            "sparse_indices": ((4, 2), "int64"),
            "prev_shape": ((2,), "int64"),
            "new_shape": ((3,), "int64"),
        },
        {"new_sparse_indices_shape": (4, 3), "new_shape_shape": (3,)},
        [(4, 3), (3,)],
    ),
    "stft": Example(
        {"data": (1, 32), "window": (8,)},
        {
            "n_fft": 8,
            "hop_length": 4,
            "win_length": 8,
            "normalized": False,
            "onesided": True,
            "output_shape": (1, 5, 7, 2),
        },
        [(1, 5, 7, 2)],
    ),
    "topk": Example({"data": (3, 5)}, {"k": 2, "ret_type": "values"}, [(3, 2)]),
    "unique": Example({"data": ((5,), "int32")}, {"return_counts": False}, []),
}
