"""``relay.op.op_attrs``: the kinds of attributes by the names that users know.

    isinstance(call.attrs, op_attrs.Conv2DAttrs)                        # those of nn.conv2d
    op_attrs.Conv2DAttrs(kernel_size=(3, 3), channels=8).strides        # (1, 1)

Attributes are one class (`Attrs`), checked against the schema of an operator. A kind stands for the
schemas of some operators.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.attrs import Attrs
from tilesmith.support.errors import UnknownMemberError, UnsupportedError

__all__ = ["OPERATORS", "AttrsKind"]

_TABLE = """
AdaptivePool1DAttrs: nn.adaptive_avg_pool1d nn.adaptive_max_pool1d
AdaptivePool2DAttrs: nn.adaptive_avg_pool2d nn.adaptive_max_pool2d
AdaptivePool3DAttrs: nn.adaptive_avg_pool3d nn.adaptive_max_pool3d
AffineGridAttrs: image.affine_grid
AllClassNonMaximumSuppressionAttrs: vision.all_class_non_max_suppression
ArangeAttrs: arange
ArgReduceAttrs: argmax argmin
ArgsortAttrs: argsort
AutoSchedulerLayoutTransformAttrs: auto_scheduler_layout_transform
AvgPool1DAttrs: nn.avg_pool1d
AvgPool2DAttrs: nn.avg_pool2d nn.avg_pool2d_grad
AvgPool3DAttrs: nn.avg_pool3d
BatchMatmulAttrs: nn.batch_matmul
BatchNormAttrs: nn.batch_norm
BatchToSpaceNDAttrs: nn.batch_to_space_nd
BiasAddAttrs: nn.bias_add
BinaryConv2DAttrs: nn.bitserial_conv2d
BinaryDenseAttrs: nn.bitserial_dense
BitPackAttrs: nn.bitpack
BroadcastAttrs: broadcast_to
CastAttrs: cast
CastHintAttrs: annotation.cast_hint
ClipAttrs: clip
CompilerAttrs: annotation.compiler_begin annotation.compiler_end
ConcatenateAttrs: concatenate
Conv1DAttrs: nn.conv1d
Conv1DTransposeAttrs: nn.conv1d_transpose
Conv2DAttrs: nn.conv2d nn.contrib_conv2d_NCHWc nn.contrib_depthwise_conv2d_NCHWc
Conv2DTransposeAttrs: nn.conv2d_transpose
Conv2DWinogradAttrs: nn.contrib_conv2d_winograd_without_weight_transform
Conv2DWinogradNNPACKWeightTransformAttrs: nn.contrib_conv2d_winograd_nnpack_weight_transform
Conv3DAttrs: nn.conv3d
Conv3DTransposeAttrs: nn.conv3d_transpose
Conv3DWinogradAttrs: nn.contrib_conv3d_winograd_without_weight_transform
ConvGemmWeightTransformAttrs: nn.contrib_conv2d_gemm_weight_transform
ConvWinogradWeightTransformAttrs: nn.contrib_conv2d_winograd_weight_transform nn.contrib_conv3d_winograd_weight_transform
CorrelationAttrs: nn.correlation
CropAndResizeAttrs: image.crop_and_resize
DebugAttrs: debug
DeformableConv2DAttrs: nn.deformable_conv2d
DenseAttrs: nn.dense
DensePackAttrs: nn.contrib_dense_pack
DequantizeAttrs: qnn.dequantize
DeviceCopyAttrs: device_copy
DilateAttrs: nn.dilate
Dilation2DAttrs: image.dilation2d
DropoutAttrs: nn.dropout
DynExpandDimsAttrs: dyn.expand_dims
EinsumAttrs: einsum
ExpandDimsAttrs: expand_dims
FIFOBufferAttrs: nn.fifo_buffer
FixedPointMultiplyAttrs: fixed_point_multiply
GatherAttrs: gather
GatherNDAttrs: gather_nd
GetValidCountsAttrs: vision.get_valid_counts
GlobalPool2DAttrs: nn.global_avg_pool2d nn.global_max_pool2d
GridSampleAttrs: image.grid_sample
GroupNormAttrs: nn.group_norm
InitOpAttrs: full zeros ones
InstanceNormAttrs: nn.instance_norm
L2NormalizeAttrs: nn.l2_normalize
LRNAttrs: nn.lrn
LayerNormAttrs: nn.layer_norm
LayoutTransformAttrs: layout_transform
LeakyReluAttrs: nn.leaky_relu
MatmulAttrs: nn.matmul
MatrixSetDiagAttrs: matrix_set_diag
MaxPool1DAttrs: nn.max_pool1d
MaxPool2DAttrs: nn.max_pool2d nn.max_pool2d_grad
MaxPool3DAttrs: nn.max_pool3d
MeshgridAttrs: meshgrid
MetaScheduleLayoutTransformAttrs: meta_schedule_layout_transform
MirrorPadAttrs: nn.mirror_pad
MultiBoxPriorAttrs: vision.multibox_prior
MultiBoxTransformLocAttrs: vision.multibox_transform_loc
NLLLossAttrs: nn.nll_loss
NdarraySizeAttrs: ndarray_size
NonMaximumSuppressionAttrs: vision.non_max_suppression
OnDeviceAttrs: on_device
OneHotAttrs: one_hot
PReluAttrs: nn.prelu
PadAttrs: nn.pad
ProposalAttrs: vision.proposal
QuantizeAttrs: qnn.quantize
ROIAlignAttrs: vision.roi_align
ROIPoolAttrs: vision.roi_pool
ReduceAttrs: sum mean max min prod all any
RepeatAttrs: repeat
RequantizeAttrs: qnn.requantize
ReshapeAttrs: reshape
ReshapeLikeAttrs: reshape_like
Resize1DAttrs: image.resize1d
Resize2DAttrs: image.resize2d
Resize3DAttrs: image.resize3d
ReverseAttrs: reverse
ReverseSequenceAttrs: reverse_sequence
ScanopAttrs: cumsum cumprod
ScatterElementsAttrs: scatter_elements
ScatterNDAttrs: scatter_nd
SearchSortedAttrs: searchsorted
SequenceMaskAttrs: sequence_mask
ShapeFuncAttrs: vm.shape_func
ShapeOfAttrs: shape_of
SimulatedQuantizeAttrs: relay.op.annotation.simulated_quantize
SliceLikeAttrs: slice_like
SlidingWindowAttrs: sliding_window
SoftmaxAttrs: nn.softmax nn.log_softmax nn.fast_softmax
SpaceToBatchNDAttrs: nn.space_to_batch_nd
SparseConv2DAttrs: nn.sparse_conv2d
SparseDenseAttrs: nn.sparse_dense
SparseToDenseAttrs: sparse_to_dense
SparseTransposeAttrs: nn.sparse_transpose
SplitAttrs: split
SqueezeAttrs: squeeze
StackAttrs: stack
StftAttrs: stft
StridedSliceAttrs: strided_slice
SubPixelAttrs: nn.depth_to_space nn.space_to_depth
TakeAttrs: take
ThreefryGenerateAttrs: random.threefry_generate
TileAttrs: tile
TopkAttrs: topk
TransposeAttrs: transpose
TriluAttrs: trilu
TupleGetItemAttrs:
UniformAttrs: random.uniform
UniqueAttrs: unique
UpSampling3DAttrs: nn.upsampling3d
UpSamplingAttrs: nn.upsampling
VarianceAttrs: variance
WithFuncIdAttrs: annotation.with_funcid
YoloReorgAttrs: vision.yolo_reorg
"""  # noqa: E501 - one row for each kind

OPERATORS: dict[str, tuple[str, ...]] = {
    name: tuple(operators.split())
    for name, _, operators in [line.partition(":") for line in _TABLE.strip().splitlines()]
}
"""Name of a kind → the operators whose calls have attributes of this kind."""


class AttrsKind:
    """Stands for the attributes of some operators: ``isinstance(call.attrs, kind)``."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.operators = OPERATORS[name]

    def _schemas(self) -> list[Any]:
        found = [Op.get(name).spec for name in self.operators if Op.exists(name)]
        return [spec.schema for spec in found if spec is not None and spec.schema is not None]

    def __instancecheck__(self, instance: Any) -> bool:
        if not isinstance(instance, Attrs) or instance.schema is None:
            return False
        return any(instance.schema is schema for schema in self._schemas())

    def __call__(self, **values: Any) -> Attrs:
        """Return attributes of this kind: values that are checked, and defaults."""
        schemas = self._schemas()
        if not schemas:
            raise UnsupportedError(
                f"no operator has {self.__name__}",
                notes=("calls take a plain dict: relay.Call(op, args, {...})",),
            )
        made: Attrs = schemas[0].check(self.operators[0], values)
        return made

    def __repr__(self) -> str:
        return f"relay.op.op_attrs.{self.__name__}"


_KINDS = {name: AttrsKind(name) for name in OPERATORS}


def __getattr__(name: str) -> AttrsKind:
    """Find a kind by its name."""
    if name not in _KINDS:
        raise UnknownMemberError(f"relay.op.op_attrs has no '{name}'")
    return _KINDS[name]


def __dir__() -> list[str]:
    return [*_KINDS, *__all__]
