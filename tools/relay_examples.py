"""Lists one call of each of relay's operators, for `tools/relay_operators.py`: what is true of an
operator is tried on its example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith import relay
from tilesmith.relay import annotation, image, nn, qnn, random, vision
from tilesmith.relay.op.view import make_call

__all__ = ["EXAMPLES"]


def f(*shape: int, dtype: str = "float32") -> Any:
    """Return a variable."""
    return relay.var("x", shape=shape, dtype=dtype)


def i(*shape: int) -> Any:
    """Return a variable of integers."""
    return f(*shape, dtype="int32")


def c(value: Any, dtype: str = "int32") -> Any:
    """Return a constant."""
    return relay.const(numpy.array(value, dtype))


def b(*shape: int) -> Any:
    """Return a variable of truth values."""
    return f(*shape, dtype="bool")


def q(*shape: int) -> Any:
    """Return a variable of bytes."""
    return f(*shape, dtype="int8")


def at_run_time(name: str, *args: Any, **attributes: Any) -> Any:
    """Return a call of an operator that has sizes among its operands."""
    return make_call(f"dyn.{name}", args, attributes)


def scale(value: float = 0.5) -> Any:
    """Return a scale of quantised numbers."""
    return relay.const(value, "float32")


def zero() -> Any:
    """Return a zero point."""
    return relay.const(3, "int32")


def lookup(name: str) -> Callable[..., Any]:
    """Return relay's function of an operator."""
    found: Any = relay
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def image_4d() -> Any:
    """Return a batch of one image."""
    return f(1, 4, 9, 8)


def volume() -> Any:
    """Return a batch of one volume."""
    return f(1, 2, 4, 6, 6)


def _doubled() -> list[Any]:
    """Return a function, its input and the tensor that it writes."""
    x = f(3)
    return [relay.Function([x], x + x), relay.Tuple([f(3)]), relay.Tuple([f(3)])]


UNARY = """
    log log2 log10 sqrt rsqrt exp erf tanh sigmoid cos sin tan cosh sinh atan asinh asin acos atanh
    acosh floor ceil trunc round abs sign negative isnan isfinite isinf copy zeros_like ones_like
    fast_exp fast_tanh fast_erf nn.relu nn.batch_flatten sum mean max min prod argmax argmin
    nn.softmax nn.log_softmax nn.fast_softmax shape_of ndarray_size cumsum cumprod sort argsort
    transpose nn.leaky_relu annotation.checkpoint annotation.stop_fusion
"""
BINARY = """
    add subtract multiply divide floor_divide power mod trunc_mod floor_mod trunc_divide equal
    not_equal less less_equal greater greater_equal maximum minimum broadcast_to_like reshape_like
    collapse_sum_like cast_like slice_like
"""
QUANTISED = "abs erf exp hardswish log rsqrt sigmoid softmax sqrt tanh"

Example = Callable[[], Any]
EXAMPLES: dict[str, Example] = {
    **{name: lambda name=name: lookup(name)(f(2, 3, 5)) for name in UNARY.split()},
    **{name: lambda name=name: lookup(name)(f(2, 3, 5), f(2, 3, 5)) for name in BINARY.split()},
    **{f"logical_{name}": lambda name=name: lookup(f"logical_{name}")(b(3), b(3))
       for name in ("and", "or", "xor")},
    **{f"bitwise_{name}": lambda name=name: lookup(f"bitwise_{name}")(i(3), i(3))
       for name in ("and", "or", "xor")},
    "logical_not": lambda: relay.logical_not(b(3)),
    "bitwise_not": lambda: relay.bitwise_not(i(3)),
    "left_shift": lambda: relay.left_shift(i(3), i(3)),
    "right_shift": lambda: relay.right_shift(i(3), i(3)),
    "all": lambda: relay.all(b(2, 3), axis=1),
    "any": lambda: relay.any(b(2, 3), axis=1),
    "variance": lambda: relay.variance(f(2, 3), axis=1),
    "clip": lambda: relay.clip(f(2, 3), -1.0, 1.0),
    "fixed_point_multiply": lambda: relay.fixed_point_multiply(i(3), 1 << 30, 1),
    "fixed_point_requantize": lambda: make_call(
        "fixed_point_requantize", [i(3), c(1 << 30), c(0), c(1), c(2)], {}),
    # conversion, creation
    "cast": lambda: relay.cast(f(3), "int32"),
    "reinterpret": lambda: relay.reinterpret(f(3), "int32"),
    "zeros": lambda: relay.zeros((2, 3), "float32"),
    "ones": lambda: relay.ones((2, 3), "float32"),
    "full": lambda: relay.full(relay.const(1.0), (2, 3)),
    "full_like": lambda: relay.full_like(f(3), relay.const(1.0)),
    "arange": lambda: relay.arange(relay.const(5), dtype="int32"),
    "one_hot": lambda: relay.one_hot(i(2), relay.const(1.0), relay.const(0.0), 3, -1, "float32"),
    # movement
    "reshape": lambda: relay.reshape(f(2, 3), (3, 2)),
    "contrib_reverse_reshape": lambda: relay.reverse_reshape(f(2, 3), (3, 2)),
    "expand_dims": lambda: relay.expand_dims(f(2), 0),
    "squeeze": lambda: relay.squeeze(f(1, 2)),
    "broadcast_to": lambda: relay.broadcast_to(f(1, 3), (2, 3)),
    "collapse_sum_to": lambda: relay.collapse_sum_to(f(2, 3), (3,)),
    "layout_transform": lambda: relay.layout_transform(image_4d(), "NCHW", "NCHW2c"),
    "concatenate": lambda: relay.concatenate([f(2), f(3)], 0),
    "stack": lambda: relay.stack([f(2), f(2)], 0),
    "split": lambda: relay.split(f(4), 2).astuple(),
    "einsum": lambda: relay.einsum((f(3, 4), f(4, 2)), "ij,jk->ik"),
    "meshgrid": lambda: relay.meshgrid([f(2), f(3)]).astuple(),
    "where": lambda: relay.where(b(3), f(3), f(3)),
    "repeat": lambda: relay.repeat(f(3), 2, 0),
    "tile": lambda: relay.tile(f(3), (2,)),
    "reverse": lambda: relay.reverse(f(3), 0),
    "reverse_sequence": lambda: relay.reverse_sequence(f(4, 2), i(2), 0, 1),
    "trilu": lambda: relay.trilu(f(3, 3), relay.const(0)),
    "topk": lambda: relay.topk(f(5), 2).astuple(),
    "searchsorted": lambda: relay.searchsorted(f(8), f(3)),
    "sequence_mask": lambda: relay.sequence_mask(f(4, 2), i(2)),
    "matrix_set_diag": lambda: relay.matrix_set_diag(f(3, 3), f(3)),
    "invert_permutation": lambda: relay.invert_permutation(i(3)),
    "unravel_index": lambda: relay.unravel_index(i(2), i(2)),
    "sliding_window": lambda: relay.sliding_window(f(5), 0, (3,), (2,)),
    "strided_slice": lambda: relay.strided_slice(f(5), (1,), (4,)),
    "strided_set": lambda: relay.strided_set(f(5), f(2), (1,), (3,)),
    "take": lambda: relay.take(f(5), i(2), 0),
    "gather": lambda: relay.gather(f(2, 3), 1, i(2, 2)),
    "gather_nd": lambda: relay.gather_nd(f(2, 3), i(2, 2)),
    "scatter": lambda: make_call("scatter", [f(2, 3), i(2, 2), f(2, 2)], {"axis": 1}),
    "scatter_add": lambda: make_call("scatter_add", [f(2, 3), i(2, 2), f(2, 2)], {"axis": 1}),
    "scatter_elements": lambda: relay.scatter_elements(f(2, 3), i(2, 2), f(2, 2), 1),
    "scatter_nd": lambda: relay.scatter_nd(f(6), i(1, 2), f(2), "add"),
    "adv_index": lambda: relay.adv_index([f(2, 3), i(2), i(2)]),
    "sparse_to_dense": lambda: relay.sparse_to_dense(i(2, 2), (3, 2), f(2)),
    "unique": lambda: relay.unique(i(5))[0],
    "argwhere": lambda: relay.argwhere(b(3, 4)),
    "dft": lambda: relay.dft(f(2, 6), f(2, 6)).astuple(),
    "stft": lambda: relay.stft(f(1, 12), 4, 2),
    # products, sparse matrices
    "nn.dense": lambda: nn.dense(f(3, 5), f(4, 5)),
    "nn.matmul": lambda: nn.matmul(f(3, 5), f(5, 4)),
    "nn.batch_matmul": lambda: nn.batch_matmul(f(2, 3, 5), f(2, 4, 5)),
    "nn.sparse_dense": lambda: nn.sparse_dense(f(3, 4), (f(3), i(3), i(3))),
    "nn.sparse_add": lambda: nn.sparse_add(f(2, 4), (f(3), i(3), i(3))),
    "nn.sparse_transpose": lambda: nn.sparse_transpose((f(3), i(3), i(5))).astuple(),
    "nn.sparse_conv2d": lambda: make_call(
        "nn.sparse_conv2d", [f(1, 5, 5, 4), f(3, 1, 1), i(3), i(4)],
        {"layout": "NHWC", "kernel_size": 1}),
    # convolutions, pools
    "nn.conv1d": lambda: nn.conv1d(f(1, 3, 9), f(4, 3, 3)),
    "nn.conv2d": lambda: nn.conv2d(image_4d(), f(6, 4, 3, 3)),
    "nn.conv3d": lambda: nn.conv3d(volume(), f(3, 2, 2, 2, 2)),
    "nn.conv1d_transpose": lambda: nn.conv1d_transpose(f(1, 3, 5), f(3, 2, 3)),
    "nn.conv2d_transpose": lambda: nn.conv2d_transpose(image_4d(), f(4, 3, 3, 3)),
    "nn.conv3d_transpose": lambda: nn.conv3d_transpose(volume(), f(2, 3, 2, 2, 2)),
    "nn.deformable_conv2d": lambda: nn.deformable_conv2d(
        image_4d(), f(1, 18, 7, 6), f(6, 4, 3, 3), kernel_size=(3, 3), channels=6),
    "nn.correlation": lambda: nn.correlation(image_4d(), image_4d(), 1, 2, 1, 1, 2, True, "NCHW"),
    **{f"nn.{kind}_pool{rank}d": lambda kind=kind, rank=rank: lookup(f"nn.{kind}_pool{rank}d")(
        f(1, 2, *[6] * rank), pool_size=(2,) * rank, strides=(2,) * rank)
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.global_{kind}_pool{rank}d": lambda kind=kind, rank=rank: make_call(
        f"nn.global_{kind}_pool{rank}d", [f(1, 2, *[6] * rank)], {})
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{rank}d": lambda kind=kind, rank=rank: lookup(
        f"nn.adaptive_{kind}_pool{rank}d")(f(1, 2, *[6] * rank), (3,) * rank)
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.{kind}_pool2d_grad": lambda kind=kind: lookup(f"nn.{kind}_pool2d_grad")(
        f(1, 2, 3, 3), f(1, 2, 6, 6), (2, 2), (2, 2)) for kind in ("max", "avg")},
    # normalisation and the rest of nn
    "nn.batch_norm": lambda: nn.batch_norm(image_4d(), f(4), f(4), f(4), f(4)).astuple(),
    "nn.layer_norm": lambda: nn.layer_norm(f(2, 5), f(5), f(5)),
    "nn.group_norm": lambda: nn.group_norm(image_4d(), f(4), f(4), 2),
    "nn.instance_norm": lambda: nn.instance_norm(image_4d(), f(4), f(4)),
    "nn.l2_normalize": lambda: nn.l2_normalize(f(2, 3), 1e-6, [1]),
    "nn.lrn": lambda: nn.lrn(image_4d(), 3),
    "nn.dropout": lambda: nn.dropout(f(3)),
    "nn.bias_add": lambda: nn.bias_add(image_4d(), f(4)),
    "nn.prelu": lambda: nn.prelu(image_4d(), f(4)),
    "nn.pad": lambda: nn.pad(f(2, 3), ((0, 0), (1, 2))),
    "nn.mirror_pad": lambda: nn.mirror_pad(f(2, 3), ((0, 0), (1, 1))),
    "nn.dilate": lambda: nn.dilate(f(2, 2), (1, 2)),
    "nn.depth_to_space": lambda: nn.depth_to_space(image_4d(), 2),
    "nn.space_to_depth": lambda: nn.space_to_depth(f(1, 4, 8, 8), 2),
    "nn.space_to_batch_nd": lambda: nn.space_to_batch_nd(f(1, 4, 4, 1), (2, 2), ((0, 0), (0, 0))),
    "nn.batch_to_space_nd": lambda: nn.batch_to_space_nd(f(4, 2, 2, 1), (2, 2), ((0, 0), (0, 0))),
    "nn.upsampling": lambda: nn.upsampling(image_4d(), 2, 3),
    "nn.upsampling3d": lambda: nn.upsampling3d(volume(), 2, 2, 2),
    "nn.cross_entropy": lambda: nn.cross_entropy(f(3, 4), f(3, 4)),
    "nn.cross_entropy_with_logits": lambda: nn.cross_entropy_with_logits(f(3, 4), f(3, 4)),
    "nn.nll_loss": lambda: nn.nll_loss(f(3, 4), i(3), f(4)),
    # other forms of convolutions and products
    "nn.contrib_conv2d_NCHWc": lambda: nn.contrib_conv2d_nchwc(
        f(1, 1, 6, 6, 4), f(2, 1, 3, 3, 4, 4), channels=8, kernel_size=(3, 3),
        data_layout="NCHW4c", out_layout="NCHW4c"),
    "nn.contrib_depthwise_conv2d_NCHWc": lambda: nn.contrib_depthwise_conv2d_nchwc(
        f(1, 2, 6, 6, 4), f(2, 1, 3, 3, 1, 4), groups=8, channels=8, kernel_size=(3, 3),
        data_layout="NCHW4c", out_layout="NCHW4c"),
    "nn.contrib_dense_pack": lambda: nn.contrib_dense_pack(f(3, 8), f(2, 8, 4), "NC4n"),
    "nn.contrib_conv2d_gemm_weight_transform": lambda: nn.contrib_conv2d_gemm_weight_transform(
        f(3, 3, 4, 8), 4, 4),
    "nn.contrib_conv2d_gemm_without_weight_transform": lambda: (
        nn.contrib_conv2d_gemm_without_weight_transform(
            f(1, 6, 6, 4), nn.contrib_conv2d_gemm_weight_transform(f(3, 3, 4, 8), 4, 4),
            channels=8, kernel_size=(3, 3), data_layout="NHWC")),
    "nn.contrib_conv2d_winograd_weight_transform": lambda: (
        nn.contrib_conv2d_winograd_weight_transform(f(8, 4, 3, 3), 4)),
    "nn.contrib_conv3d_winograd_weight_transform": lambda: (
        nn.contrib_conv3d_winograd_weight_transform(f(8, 4, 3, 3, 3), 4)),
    "nn.contrib_conv2d_winograd_without_weight_transform": lambda: (
        nn.contrib_conv2d_winograd_without_weight_transform(
            f(1, 4, 8, 8), relay.transpose(
                nn.contrib_conv2d_winograd_weight_transform(f(8, 4, 3, 3), 4), (0, 1, 3, 2)), 4,
            channels=8, kernel_size=(3, 3), padding=(1, 1))),
    "nn.conv2d_backward_weight": lambda: nn.conv2d_backward_weight(
        f(1, 6, 7, 6), image_4d(), kernel_size=(3, 3), channels=6),
    "nn.bitpack": lambda: nn.bitpack(f(2, 64, dtype="uint32")),
    "nn.bitserial_conv2d": lambda: nn.bitserial_conv2d(
        f(1, 32, 6, 6, dtype="uint32"), f(2, 32, 3, 3, dtype="uint32"), channels=2),
    "nn.bitserial_dense": lambda: nn.bitserial_dense(
        f(3, 64, dtype="uint32"), f(4, 64, dtype="uint32"), 4),
    "nn.fifo_buffer": lambda: nn.fifo_buffer(f(2, 1), f(2, 4), 1),
    "sparse_fill_empty_rows": lambda: relay.sparse_fill_empty_rows(
        i(3, 2), i(3), i(2), i()).astuple(),
    "sparse_reshape": lambda: relay.sparse_reshape(i(3, 2), i(2), i(2)).astuple(),
    # devices and memory
    "device_copy": lambda: make_call("device_copy", [f(3)], {}),
    "on_device": lambda: make_call("on_device", [f(3)], {}),
    "memory.alloc_storage": lambda: make_call(
        "memory.alloc_storage", [c(64, "int64"), c(64, "int64")], {}),
    "memory.alloc_tensor": lambda: make_call(
        "memory.alloc_tensor",
        [make_call("memory.alloc_storage", [c(64, "int64"), c(64, "int64")], {}), c(0, "int64"),
         c([2, 3], "int64")], {"assert_shape": [2, 3]}),
    "memory.kill": lambda: make_call("memory.kill", [f(3)], {}),
    "vm.invoke_tvm_op": lambda: make_call("vm.invoke_tvm_op", _doubled(), {}),
    "vm.shape_func": lambda: make_call("vm.shape_func", _doubled(), {"is_input": [0]}),
    "vm.reshape_tensor": lambda: make_call(
        "vm.reshape_tensor", [f(2, 3), f(2, dtype="int64")], {"newshape": [3, -1]}),
    "vm.shape_of": lambda: make_call("vm.shape_of", [f(2, 3)], {}),
    # images
    "image.resize1d": lambda: image.resize1d(f(1, 2, 5), (9,)),
    "image.resize2d": lambda: image.resize2d(image_4d(), (13, 5)),
    "image.resize3d": lambda: image.resize3d(volume(), (5, 5, 5)),
    "image.grid_sample": lambda: image.grid_sample(image_4d(), f(1, 2, 3, 3)),
    "image.affine_grid": lambda: image.affine_grid(f(1, 2, 3), (3, 4)),
    "image.crop_and_resize": lambda: image.crop_and_resize(
        image_4d(), f(2, 4), i(2), (3, 3), "NCHW"),
    "image.dilation2d": lambda: image.dilation2d(image_4d(), f(4, 2, 2)),
    # vision
    "vision.roi_pool": lambda: vision.roi_pool(image_4d(), f(2, 5), (2, 2), 1.0),
    "vision.roi_align": lambda: vision.roi_align(image_4d(), f(2, 5), (2, 2), 1.0),
    "vision.yolo_reorg": lambda: vision.yolo_reorg(f(1, 4, 8, 8), 2),
    "vision.multibox_prior": lambda: vision.multibox_prior(image_4d()),
    "vision.multibox_transform_loc": lambda: vision.multibox_transform_loc(
        f(1, 3, 4), f(1, 16), f(1, 4, 4)).astuple(),
    "vision.get_valid_counts": lambda: vision.get_valid_counts(f(1, 5, 6), 0.5).astuple(),
    "vision.non_max_suppression": lambda: vision.non_max_suppression(
        f(1, 5, 6), i(1), i(1, 5), return_indices=False),
    "vision.all_class_non_max_suppression": lambda: vision.all_class_non_max_suppression(
        f(1, 5, 4), f(1, 2, 5), 3).astuple(),
    "vision.regular_non_max_suppression": lambda: make_call(
        "vision.regular_non_max_suppression", [f(1, 5, 4), f(1, 5, 2)],
        {"max_detections_per_class": 3, "max_detections": 4, "num_classes": 2,
         "iou_threshold": 0.5, "score_threshold": 0.1}),
    "vision.proposal": lambda: vision.proposal(
        f(1, 2, 4, 4), f(1, 4, 4, 4), f(1, 3), [8.0], [1.0], 16, 0.7, 10, 4, 4, False),
    # random numbers
    "random.threefry_generate": lambda: random.threefry_generate(
        f(10, dtype="uint64"), (2, 3)).astuple(),
    "random.threefry_split": lambda: random.threefry_split(f(10, dtype="uint64")).astuple(),
    "random.uniform": lambda: random.uniform(f(10, dtype="uint64"), (2, 3)).astuple(),
    "random.normal": lambda: random.normal(f(10, dtype="uint64"), (2, 3)).astuple(),
    "random.multinomial": lambda: random.multinomial(
        f(10, dtype="uint64"), f(4), 3).astuple(),
    # notes
    "annotation.cast_hint": lambda: make_call(
        "annotation.cast_hint", [f(3)], {"dtype": "float32"}),
    "annotation.compiler_begin": lambda: annotation.compiler_begin(f(3), "own"),
    "annotation.compiler_end": lambda: annotation.compiler_end(f(3), "own"),
    "debug": lambda: relay.debug(f(3)),
    "relay.op.annotation.simulated_quantize": lambda: make_call(
        "relay.op.annotation.simulated_quantize", [f(3), scale(), scale(-127.0), scale(127.0)], {}),
    # sizes that the program computes
    "dyn.broadcast_to": lambda: at_run_time("broadcast_to", f(1, 3), i(2)),
    "dyn.expand_dims": lambda: at_run_time("expand_dims", f(2, 3), i()),
    "dyn.full": lambda: at_run_time("full", f(), i(2), dtype="float32"),
    "dyn.image.resize2d": lambda: at_run_time("image.resize2d", image_4d(), i(2)),
    "dyn.nn.pad": lambda: at_run_time("nn.pad", f(2, 3), i(2, 2), f()),
    "dyn.nn.upsampling": lambda: at_run_time("nn.upsampling", image_4d(), f(), f()),
    "dyn.nn.upsampling3d": lambda: at_run_time("nn.upsampling3d", volume(), f(), f(), f()),
    "dyn.one_hot": lambda: at_run_time("one_hot", i(2), f(), f(), i()),
    "dyn.ones": lambda: at_run_time("ones", i(2), dtype="float32"),
    "dyn.zeros": lambda: at_run_time("zeros", i(2), dtype="float32"),
    "dyn.reshape": lambda: at_run_time("reshape", f(2, 3), i(2)),
    "dyn.sparse_to_dense": lambda: at_run_time("sparse_to_dense", i(2, 2), i(2), f(2), f()),
    "dyn.squeeze": lambda: at_run_time("squeeze", f(1, 3), c([0])),
    "dyn.strided_slice": lambda: at_run_time("strided_slice", f(4, 5), i(2), i(2), i(2)),
    "dyn.tile": lambda: at_run_time("tile", f(2, 3), i(2)),
    "dyn.topk": lambda: at_run_time("topk", f(5), i()),
    # quantised
    **{f"qnn.{name}": lambda name=name: make_call(
        f"qnn.{name}", [q(3, 4), scale(), zero(), scale(), zero()], {})
       for name in QUANTISED.split()},
    **{f"qnn.{name}": lambda name=name: lookup(f"qnn.op.{name}")(
        q(3, 4), q(3, 4), *[scale(), zero()] * 3) for name in ("add", "mul", "subtract")},
    "qnn.leaky_relu": lambda: qnn.op.leaky_relu(q(3, 4), 0.1, scale(), zero(), scale(), zero()),
    "qnn.quantize": lambda: qnn.op.quantize(f(3), scale(), zero()),
    "qnn.dequantize": lambda: qnn.op.dequantize(q(3), scale(), zero()),
    "qnn.requantize": lambda: qnn.op.requantize(i(3), scale(), zero(), scale(0.25), zero()),
    "qnn.simulated_quantize": lambda: qnn.op.simulated_quantize(f(3), scale(), zero()),
    "qnn.simulated_dequantize": lambda: qnn.op.simulated_dequantize(f(3), scale(), zero()),
    "qnn.concatenate": lambda: qnn.op.concatenate(
        relay.Tuple([q(2, 3), q(2, 3)]), relay.Tuple([scale(), scale()]),
        relay.Tuple([zero(), zero()]), scale(), zero(), 0),
    "qnn.dense": lambda: qnn.op.dense(q(3, 5), q(4, 5), zero(), zero(), scale(), scale(), 4),
    "qnn.contrib_dense_pack": lambda: make_call(
        "qnn.contrib_dense_pack",
        [q(3, 8), q(4, 8), zero(), zero(), scale(), scale()], {"weight_layout": "NC"}),
    "qnn.batch_matmul": lambda: qnn.op.batch_matmul(
        q(2, 3, 5), q(2, 4, 5), zero(), zero(), scale(), scale()),
    "qnn.conv2d": lambda: qnn.op.conv2d(
        q(1, 4, 9, 8), q(6, 4, 3, 3), zero(), zero(), scale(), scale(), (3, 3), 6),
    "qnn.conv2d_transpose": lambda: qnn.op.conv2d_transpose(
        q(1, 4, 9, 8), q(4, 6, 3, 3), zero(), zero(), scale(), scale(), channels=6,
        kernel_size=(3, 3)),
    "qnn.avg_pool2d": lambda: make_call(
        "qnn.avg_pool2d", [q(1, 6, 6, 2), scale(), zero(), scale(), zero()],
        {"pool_size": (2, 2)}),
}  # fmt: skip
"""Operator → what makes an expression that holds a call of it."""
