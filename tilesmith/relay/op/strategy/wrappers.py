"""Adapts functions of TOPI to computes of strategies: ``wrap_compute_*``, from one table.

    compute = wrap_compute_dense(topi.nn.dense)
    compute(attrs, [data, weight], out_type)      # [topi.nn.dense(data, weight, None, out_dtype)]

A row lists the arguments of the function: a number is an input, ``*`` all of them, ``list`` all as
one list, another word an attribute (or a flag of the wrapper), ``word=`` passes it by name,
``word?flag`` only where the flag is set. ``None`` and ``''`` stand for themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.support.lazy import resolve

__all__ = ["WRAPPERS", "rewritten_layout", "original_shape", "wrap_topi_compute", "wrapper"]

_LAYOUTS = (
    " rewritten?need_auto_scheduler_layout ''?need_meta_schedule_layout"
    " original?need_meta_schedule_layout"
)

WRAPPERS = {
    "all_class_nms": "0 1 2 3 4 output_format",
    "argsort": "0 axis= is_ascend= dtype=",
    "argwhere": "result_shape 0",
    "batch_matmul": "0 1 result_shape out_dtype?need_out_dtype transpose_a transpose_b" + _LAYOUTS,
    "batch_norm": "0 1 2 3 4 axis epsilon center scale",
    "bitserial_conv2d": "0 1 strides padding activation_bits weight_bits pack_dtype out_dtype"
    " unipolar",
    "bitserial_dense": "0 1 data_bits weight_bits pack_dtype out_dtype unipolar",
    "concat": "list axis",
    "conv1d": "0 1 strides padding dilation out_dtype",
    "conv1d_transpose": "0 1 strides padding out_dtype output_padding groups?has_groups",
    "conv2d": "0 1 strides padding dilation groups?has_groups data_layout?need_data_layout"
    " kernel_layout?need_kernel_layout out_layout?need_out_layout out_dtype" + _LAYOUTS,
    "conv2d_backward_weight": "0 1 result_shape strides padding dilation groups grad_layout"
    " data_layout kernel_layout out_dtype",
    "conv2d_gemm": "0 1 strides padding dilation out_dtype kernel_size channels",
    "conv2d_transpose": "0 1 strides padding out_dtype output_padding groups?has_groups"
    " data_layout?add_layout",
    "conv2d_winograd_nnpack": "0 1 strides padding dilation out_dtype",
    "conv3d": "0 1 strides padding dilation groups data_layout?need_layout out_dtype" + _LAYOUTS,
    "conv3d_transpose": "0 1 strides padding out_dtype output_padding groups?has_groups",
    "correlation": "0 1 kernel_size max_displacement stride1 stride2 padding is_multiply",
    "deformable_conv2d": "0 1 2 strides padding dilation deformable_groups groups out_dtype",
    "dense": "0 1 None out_dtype" + _LAYOUTS,
    "dft": "0 1 inverse",
    "dilation2d": "0 1 strides padding dilations data_layout?need_data_layout out_dtype",
    "einsum": "equation *",
    "get_valid_counts": "0 1 id_index score_index",
    "group_conv1d": "0 1 strides padding dilation groups out_dtype",
    "invert_permutation": "0",
    "layout_transform": "0 src_layout dst_layout schedule_rule=",
    "matmul": "0 1 None out_dtype transpose_a transpose_b" + _LAYOUTS,
    "multibox_prior": "0 sizes ratios steps offsets clip",
    "multibox_transform_loc": "0 1 2 clip threshold variances",
    "multinomial": "0 1 num_samples",
    "nms": "0 1 2 3 4 force_suppress top_k coord_start score_index id_index return_indices"
    " invalid_to_bottom",
    "proposal": "0 1 2 scales ratios feature_stride threshold rpn_pre_nms_top_n"
    " rpn_post_nms_top_n rpn_min_size iou_loss",
    "regular_nms": "*",
    "roi_align": "0 1 pooled_size= spatial_scale= sample_ratio= mode=",
    "scanop": "0 axis dtype exclusive",
    "scatter_elements": "0 1 2 axis reduction",
    "scatter_nd": "0 1 2 mode",
    "searchsorted": "0 1 right dtype",
    "sliding_window": "0 axis window_shape strides",
    "softmax": "0 axis",
    "sort": "0 axis= is_ascend=",
    "sparse_add": "0 1 2 3",
    "sparse_conv2d": "0 1 2 3 layout kernel_size",
    "sparse_dense": "0 1 2 3 sparse_lhs",
    "sparse_fill_empty_rows": "0 1 2 3 result_shape",
    "sparse_reshape": "0 1 2 result_shape",
    "stft": "0 n_fft hop_length win_length 1 normalized onesided result_shape",
    "threefry_generate": "0 out_shape",
    "threefry_split": "0",
    "topk": "0 k axis ret_type is_ascend dtype",
    "trilu": "0 1 upper",
    "uniform": "0 1 2 out_shape out_dtype",
    "unique": "0 sorted return_counts",
}
"""Name of a wrapper → the arguments of the function that it adapts."""

_FLAGS: dict[str, dict[str, Any]] = {
    "batch_matmul": {
        "need_auto_scheduler_layout": False, "need_meta_schedule_layout": False,
        "need_out_dtype": False,
    },
    "conv1d_transpose": {"has_groups": False},
    "conv2d": {
        "need_data_layout": False, "need_kernel_layout": False, "need_out_layout": False,
        "has_groups": False, "need_auto_scheduler_layout": False,
        "need_meta_schedule_layout": False,
    },
    "conv2d_transpose": {"has_groups": False, "add_layout": False},
    "conv3d": {
        "need_layout": False, "need_auto_scheduler_layout": False,
        "need_meta_schedule_layout": False,
    },
    "conv3d_transpose": {"has_groups": False},
    "dense": {"need_auto_scheduler_layout": False, "need_meta_schedule_layout": False},
    "dilation2d": {"need_data_layout": False},
    "layout_transform": {"schedule_rule": "None"},
    "matmul": {"need_auto_scheduler_layout": False, "need_meta_schedule_layout": False},
}  # fmt: skip
"""Wrapper → its flags with their defaults, in order."""


def wrap_topi_compute(topi_compute: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return the compute of a function that takes all inputs and nothing else."""
    return lambda attrs, inputs, out_type: _listed(topi_compute(*inputs))


def wrapper(name: str) -> Callable[..., Callable[..., list[Any]]]:
    """Return ``wrap_compute_<name>``: it takes a function of TOPI, and flags."""
    words, flags = WRAPPERS[name].split(), _FLAGS.get(name, {})
    by_position = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function = inspect.Parameter("topi_compute", by_position)
    signature = inspect.Signature(
        ([] if name == "sliding_window" else [function])
        + [inspect.Parameter(flag, by_position, default=value) for flag, value in flags.items()]
    )

    def wrap(*args: Any, **named: Any) -> Callable[..., list[Any]]:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"wrap_compute_{name}(): {error}") from None
        bound.apply_defaults()
        given = dict(bound.arguments)
        compute = given.pop("topi_compute", None) or resolve("tilesmith.topi:sliding_window")
        return _adapted(compute, words, given)

    wrap.__name__ = wrap.__qualname__ = f"wrap_compute_{name}"
    wrap.__doc__ = f"Return the compute of a function of TOPI with the arguments {' '.join(words)}."
    wrap.__dict__["__signature__"] = signature
    return wrap


def _adapted(
    compute: Callable[..., Any], words: Sequence[str], flags: Mapping[str, Any]
) -> Callable[..., list[Any]]:
    def adapted(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        values: list[Any] = []
        named: dict[str, Any] = {}
        for word in words:
            word, _, condition = word.partition("?")
            if condition and not flags[condition]:
                continue
            if word == "*":
                values += inputs
            elif word.endswith("="):
                named[word[:-1]] = _value(word[:-1], attrs, inputs, out_type, flags)
            else:
                values.append(_value(word, attrs, inputs, out_type, flags))
        return _listed(compute(*values, **named))

    return adapted


def _value(
    word: str, attrs: Any, inputs: Sequence[Any], out_type: Any, flags: Mapping[str, Any]
) -> Any:
    if word.isdigit():
        return inputs[int(word)]
    if word in flags:
        return flags[word]
    special = _SPECIAL.get(word)
    if special is not None:
        return special(attrs, inputs, out_type)
    value = getattr(attrs, word)
    return None if word == "dtype" and not value else value


def _out_dtype(attrs: Any, inputs: Sequence[Any], out_type: Any) -> Any:
    given = attrs.get("out_dtype")
    return given if given not in (None, "", "same") else inputs[0].dtype


def rewritten_layout(attrs: Any) -> str:
    """Return the layout that an auto-scheduler has given a weight, "" if none has."""
    return str(attrs.get("auto_scheduler_rewritten_layout", "") or "")


def original_shape(attrs: Any) -> Any:
    """Return the shape that a weight had before a tuner changed its layout, None if none has."""
    return attrs.get("meta_schedule_original_shape")


_SPECIAL: dict[str, Callable[[Any, Sequence[Any], Any], Any]] = {
    "None": lambda attrs, inputs, out_type: None,
    "''": lambda attrs, inputs, out_type: "",
    "list": lambda attrs, inputs, out_type: list(inputs),
    "out_dtype": _out_dtype,
    "result_shape": lambda attrs, inputs, out_type: list(out_type.shape),
    "rewritten": lambda attrs, inputs, out_type: rewritten_layout(attrs),
    "original": lambda attrs, inputs, out_type: original_shape(attrs),
}


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]
