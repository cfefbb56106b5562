"""Importers, and parts of importers, that have no meaning here: (reason, what to do instead)."""

from __future__ import annotations

__all__ = ["FRONTENDS"]

_THEN = "; then relay.frontend.from_onnx('model.onnx')"

_FORMATS: dict[str, tuple[str, str]] = {
    "caffe": (
        "Caffe models are not read",
        "python -m caffe2onnx.convert --prototxt net.prototxt --caffemodel net.caffemodel"
        " --onnx model.onnx",
    ),
    "caffe2": (
        "Caffe2 models are not read",
        "convert-caffe2-to-onnx predict_net.pb --caffe2-init-net init_net.pb --value-info"
        " '{\"data\": [1, [1, 3, 224, 224]]}' -o model.onnx (a tool of torch 1.x)",
    ),
    "coreml": (
        "Core ML models are not read",
        "onnxmltools.utils.save_model(onnxmltools.convert_coreml(model), 'model.onnx')",
    ),
    "darknet": (
        "Darknet models are not read",
        "python demo_darknet2onnx.py net.cfg net.names net.weights image.jpg 1"
        " (of the repository pytorch-YOLOv4)",
    ),
    "mxnet": (
        "MXNet models are not read",
        "mxnet.onnx.export_model('net-symbol.json', 'net-0000.params', [(1, 3, 224, 224)],"
        " numpy.float32, 'model.onnx') (of MXNet 1.9, with a numpy below 1.24)",
    ),
    "oneflow": (
        "OneFlow models are not read",
        "oneflow_onnx.oneflow2onnx.util.convert_to_onnx_and_check(graph,"
        " onnx_model_path='model.onnx')",
    ),
    "paddle": (
        "Paddle models are not read",
        "paddle2onnx --model_dir DIR --model_filename model.pdmodel --params_filename"
        " model.pdiparams --save_file model.onnx",
    ),
}
"""Format → why it is not read, and the command that makes an ONNX model."""

_MODULES = {
    "caffe": "caffe",
    "caffe2": "caffe2",
    "coreml": "coreml",
    "darknet": "darknet",
    "mxnet": "mxnet",
    "mxnet_qnn_op_utils": "mxnet",
    "nnvm_common": "mxnet",
    "oneflow": "oneflow",
    "paddlepaddle": "paddle",
}
"""Module of an importer → format."""

_CONVERTERS = (
    "converters of nodes are functions that give graphs of relax, one for each version",
    "tilesmith.relax.frontend.onnx.registry.converter registers one; "
    "relay.frontend.common has tools for importers of one's own",
)
_TORCH_CONVERTERS = (
    "torch itself writes TorchScript in ONNX's words, so that there are no converters here",
    "torch.onnx.register_custom_op_symbolic tells torch how an operator is written",
)
_DETECTION = (
    "detection models come with ONNX's NonMaxSuppression, which needs no rewriting",
    "relay.frontend.from_pytorch; relay.dataflow_pattern.rewrite for rewriting of one's own",
)

_FREEZE = (
    "graphs of TensorFlow are read when they are frozen",
    "tensorflow.python.framework.convert_to_constants.convert_variables_to_constants_v2(function)"
    ".graph.as_graph_def() freezes a function of TensorFlow 2; then"
    " relay.frontend.from_tensorflow(graph_def)",
)
_TENSORFLOW_CONVERTERS = (
    "converters of nodes are functions, one for each operator",
    "tilesmith.relay.frontend.tensorflow.registry.operator registers one",
)
_FLEXBUFFERS = (
    "the package flatbuffers reads them",
    "flatbuffers.flexbuffers.Loads(data) of pip install flatbuffers",
)
_SPARSE = (
    "weights that are stored sparsely are not imported",
    "convert the model without pruning's sparse storage (DENSIFY)",
)

_ONNX = """
Absolute Adagrad Adam Add Affine And ArgMax ArgMin Attention ATen AveragePool BatchNorm Bernoulli
BiasGelu BitShift BitwiseAnd BitwiseBase BitwiseNot BitwiseOr BitwiseXor Cast CastLike Celu Clip
Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger ConvTranspose CumSum
DFT DepthToSpace DequantizeLinear Div DynamicQuantizeLinear Einsum Elemwise Elu
EmbedLayerNormalization Equal Erf Expand EyeLike FastGelu Flatten GRU Gather GatherElements GatherND
Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool GraphProto GridSample HardSigmoid HardSwish
Hardmax If InstanceNorm IsInf LRN LSTM LayerNormalization LinearRegressor LogSoftmax Loop LpPool
MatMul MatMulInteger MatMulInteger16 MaxPool MaxRoiPool MaxUnpool Maximum Mean
MeanVarianceNormalization Minimum Mish Mod Momentum Mul Multinomial NegativeLogLikelihoodLoss
NonMaxSuppression NonZero Not OneHot OnnxOpConverter OptionalGetElement OptionalHasElement Optional_
Or OrtAttentionBase Pad ParametricSoftPlus Pool Pow Prelu QAttention QGemm QLinearAdd
QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMatMul
QLinearMul QLinearSigmoid QLinearSoftmax QuantizeLinear RNN RandomNormal RandomNormalLike
RandomUniform RandomUniformLike Range Reciprocal Reduce ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape Resize
ReverseSequence RoiAlign Round Scale ScaledTanh Scan Scatter ScatterElements ScatterND Selu
SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink
Sign SkipLayerNormalization Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth
Split SplitToSequence Squeeze Sub Sum ThresholdedRelu Tile TopK Trilu Unary Unique Unsqueeze
Upsample Where dimension_constraint dimension_picker flatten_to_nd get_pad_pair get_scalar
get_scalar_or_1d_tensor get_source_name get_source_name_from_parameter is_ort_version_greater_than
layer_norm make_parameter_span matmul_out_dtype normalize_gather_indices onnx_default_layout
onnx_input onnx_storage_order2layout qmatmul revert_caffe2_pad
""".split()

_PYTORCH = """
DefaultNodeKindNamer NodeNamer PyTorchOpConverter PytorchScopePreservingNamer convert_params
get_attr_chains get_use_chains
""".split()

_PYTORCH_UTILS = """
MulticlassNMSRewrite PostNMSTopKRewrite ScatterRewrite batched_nms_pattern dyn_strided_slice_pattern
rewrite_batched_nms_with_max_out_size rewrite_nms_to_batched_nms rewrite_scatter_to_gather
scatter_roi_align_result_pattern topk_after_batch_nms_pattern
""".split()

_WHERE = "tvm.relay.frontend"

FRONTENDS: dict[str, tuple[str, str]] = {
    **{
        f"{_WHERE}:from_{name}": (reason, advice + _THEN)
        for name, (reason, advice) in _FORMATS.items()
    },
    f"{_WHERE}:quantize_conv_bias_mkldnn_from_var": (
        "it is a part of the importer of MXNet models, which are not read",
        _FORMATS["mxnet"][1] + _THEN,
    ),
    **{
        f"{_WHERE}.{module}": (_FORMATS[name][0], _FORMATS[name][1] + _THEN)
        for module, name in _MODULES.items()
    },
    f"{_WHERE}.tensorflow2": _FREEZE,
    f"{_WHERE}.tensorflow2_ops": _TENSORFLOW_CONVERTERS,
    f"{_WHERE}.tensorflow_ops": _TENSORFLOW_CONVERTERS,
    f"{_WHERE}.tensorflow_parser": _FREEZE,
    f"{_WHERE}.tflite_flexbuffer": _FLEXBUFFERS,
    f"{_WHERE}.tflite:prepare_dense_matrix_from_sparse": _SPARSE,
    f"{_WHERE}.qnn_torch": (
        "models that torch has quantised are not imported",
        "import the model of floats, then quantise it: relay.quantize.quantize",
    ),
    **{f"{_WHERE}.onnx:{name}": _CONVERTERS for name in _ONNX},
    **{f"{_WHERE}.pytorch:{name}": _TORCH_CONVERTERS for name in _PYTORCH},
    **{f"{_WHERE}.pytorch_utils:{name}": _DETECTION for name in _PYTORCH_UTILS},
}
"""Name or module → reason and advice, as in ``refusals.REFUSALS``."""
