"""Models that are not valid, as `tilesmith fuzz models` makes them: each is refused by an error
that names the node and says what does not fit.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from tilesmith.relax.frontend.onnx import from_onnx
from tilesmith.support.errors import FrontendError, OpAttributeInvalid, OpError, OutOfMemoryError

HEAD = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g '
BODY = "body = b (float[2] s, float[2] e) => (float[2] t, float[2] o) { t = Add(s, e) o = Neg(t) }"
STEP = "l (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c) t = Neg(s) }"

BROKEN = {
    # text of the graph: words of the error
    "(float[1,1,3,8] x, float[5,4] c, int64[1,3] p) => (float y) "
    "{ y = RotaryEmbedding<interleaved=2>(x, c, c, p) }": "'interleaved' is 2, expected 0 or 1",
    "(float[1,2,6,6] x, float[2,4] r, int64[2] b) => (float y) "
    "{ y = RoiAlign<output_width=4611686018427387904, sampling_ratio=2>(x, r, b) }": (
        "more elements than can be counted"
    ),
    "(float[1,2,5,5] x, float[2,2,3,3] w, float b) => (float y) { y = Conv(x, w, b) }": (
        "a tensor of rank 0 where it needs one of rank 1"
    ),
    "(float[1,2,5,5] x, float w) => (float y) { y = Conv(x, w) }": "constant spatial sizes",
    "(float[9] x) => (float y) <int64 s = {2}, int64 n = {4}> { y = STFT(x, s, , n) }": (
        "a tensor of rank 1 where it needs one of rank 3"
    ),
    "(float[1,9,1] x) => (float y) <int64 s = {0}, int64 n = {4}> { y = STFT(x, s, , n) }": (
        "'frame_step' is 0, it has to be at least 1"
    ),
    "(float[1,9,1] x) => (float y) <int64 s = {2}> { y = STFT(x, s) }": "the input 'frame_length'",
    "(float[1,2,7,7] x) => (float y) "
    "{ y = AveragePool<kernel_shape=[2,2], pads=[0,4611686018427387904,0,1]>(x) }": (
        "no memory holds a tensor of the shape"
    ),
    "(float[3] x) => (float y) <int64[2] n = {2, -3}> { y = ConstantOfShape(n) }": (
        "a negative size"
    ),
    "(float[4,2] x) => (seq(float) y) <int64 n = {0}> { y = SplitToSequence(x, n) }": (
        "'split' is 0, it has to be at least 1"
    ),
    "(float[2] x) => (float y) "
    "{ c = Constant<value_floats=[1.0,2.0], value_float=3.0>() y = Add(c, x) }": "several values",
    "(float[1,2,6] x) => (float y) { y = LpPool<kernel_shape=[2], p=0>(x) }": "'p' is 0",
    "(float[1,2,6] x) => (float y) { y = GlobalLpPool<p=-1>(x) }": "'p' is -1",
    "(float[3] x) => (float y, int64 i) <int64[1] k = {1}> { y, i = TopK<sorted=2>(x, k) }": (
        "'sorted' is 2, expected 0 or 1"
    ),
    "(float[1,1,3,3] x, float[1,1,2,2] w, float[4] o) => (float y) { y = DeformConv(x, w, o) }": (
        "'offset' has the rank 1, 4 needed"
    ),
    "(float[3,4] x) => (float y) <int64[3] s = {0,0,0}> { y = Slice(x, s, s) }": (
        "3 starts for 3 axes of a tensor of rank 2"
    ),
    "(float[3,4] x) => (float y) <int64[2] s = {0,0}, int64[1] a = {1}>"
    "{ y = Slice(x, s, s, a) }": (
        "2 starts for 1 axes"
    ),
    "(float[3] x) => (float y) { y = Einsum<equation=\"ij->i\">(x) }": "2 letters for a tensor",
    "(float[2,3] x) => (float y) { y = Einsum<equation=\"ij->i9\">(x) }": "'9' of the result",
    "(float[3] x) => (float y) { y = Min(, ) }": "it has 0 inputs, the operator needs 1",
    "(float[4] x, float[4] s) => (float y) { y = GroupNormalization<num_groups=2>(x, s, s) }": (
        "of rank 1"
    ),
    "(float[1,3,2] x, float[2] s) => (float y) { y = GroupNormalization<num_groups=2>(x, s, s) }": (
        "3 channels cannot be divided into 2 groups"
    ),
    "(float[2,4] x, int64[2] b) => (float y) { y = RoiAlign(x, x, b) }": r"the ranks \[2, 2, 1\]",
    "(float[2,2] x, int64[2,2] i) => (float y) { y = GatherND<batch_dims=-5>(x, i) }": (
        "'batch_dims' is -5"
    ),
    "(float[1,2,4,4] x, float[2,3,3,0] w) => (float y) { y = ConvTranspose(x, w) }": (
        "its kernel has the sizes"
    ),
    "(float[1,8,2,3] x) => (float y) { y = DepthToSpace<blocksize=0>(x) }": "'blocksize' is 0",
    "(float[1,2,3,4] x) => (float y) { y = SpaceToDepth<blocksize=2>(x) }": "cannot be divided",
    "(int64[3] i) => (float y) <int64 d = {4}, float[0] v = {}> { y = OneHot(i, d, v) }": (
        "'values' has to have the shape"
    ),
    "(float[3] x) => (float y) <float a = {1}, float[2] b = {1,2}> { y = Clip(x, a, b) }": (
        "'max' has to have one element"
    ),
    "(float[3] x) => (float y) { y = EyeLike(x) }": "it needs a matrix",
    "(float[3] x, int64 k) => (float y) { y = Trilu(x, k) }": "a tensor of matrices is needed",
    "(float[1,1,4,4] x) => (float y) <int64[4] n = {1,1,0,-1}>"
    "{ y = Resize<mode=\"linear\">(x, , , n) }": "cannot get the size -1",
    "(float[1,1,4,4] x) => (float y) <float[4] n = {1,1,0,1}>"
    "{ y = Resize<mode=\"linear\">(x, , n) }": "not all positive",
    "(float[1,1,4611686018427387904] x) => (float y) <int64[3] n = {1,1,4}>"
    "{ y = Resize<mode=\"linear\">(x, , , n) }": "not supported",
    "(float[1,2,7,7] x) => (float y, int64 i) { y, i = MaxPool<kernel_shape=[0,3]>(x) }": (
        r"'kernel_shape' is \[0, 3\]; each number has to be at least 1"
    ),
    "(float[2] h, float[3,2] x) => (float f, float y) "
    f"{{ f, y = Scan<num_scan_inputs=7, {BODY}>(h, x) }}": "'num_scan_inputs' is 7",
    "(float[2] h, float[3,2] x) => (float f, float y) "
    f"{{ f, y = Scan<num_scan_inputs=1, scan_input_axes=[0,0], {BODY}>(h, x) }}": (
        "'scan_input_axes' has 2 items, 1 needed"
    ),
    "(float[2] h, float[3,2] x) => (float f, float y) "
    f"{{ f, y = Scan<num_scan_inputs=[1], {BODY}>(h, x) }}": "has to be an integer, got a list",
    "(float[2] h, float[3,2] x) => (float f, float y) "
    "{ f, y = Scan<num_scan_inputs=1, body=3>(h, x) }": "Expected: 'GRAPH', actual: 'INT'",
    "(float[2] x) => (float y) <int64 n = {2}> "
    f"{{ y = Loop<body = {STEP}>(n, , x, x) }}": "has 3 inputs, it gets 4|has 2 outputs",
    "(bool c, float[2] x) => (float y) { y = If<then_branch = t () => (float a, float b) "
    "{ a = Neg(x) b = Neg(x) }, else_branch = e () => (float b) { b = Neg(x) }>(c) }": (
        "its branches have 2 and 1 outputs"
    ),
    "(float[3,2,2] x, float[1,6,2] w, float[1,6,2] r) => (float y) "
    "{ y = GRU<hidden_size=2, direction=\"bidirectional\">(x, w, r) }": (
        r"input 1 \(W\) has to have the shape \(2, 6, 2\)"
    ),
    "(float[N,3] x) => (int64 y) <int64 i = {0}> { s = Shape(x) y = Gather<axis=5>(s, i) }": (
        "its sizes cannot be computed: axis 5"
    ),
    "(int64[1] s) => (float y) { y = ConstantOfShape<value=float[2]{1,2}>(s) }": (
        r"'value' has the shape \(2,\)"
    ),
    "(float[2] x) => (float y) <float a = {0}, float b = {1}> { y = Range(a, b, a) }": (
        "input 'delta' is 0"
    ),
    "(float[2] x) => (float y) { y = ArgMax<keepdims=7>(x) }": "'keepdims' is 7, expected 0 or 1",
    "(float[2] x) => (float y) { y = Softmax<axis: int = @scale>(x) }": "but the node is in none",
    "(float[2] x) => (float y) { y = own.f(x, x) }": "has 2 inputs, the function takes 1",
    "(float[2] x) => (float y) { y = own.again(x) }": "the function 'again' calls itself",
    "(float[2] x) => (float y) { y = own.wrong(x) }": "'value_float' has to be a number, got 'no'",
}  # fmt: skip
FUNCTIONS = (
    '<domain: "own", opset_import: ["" : 17]> f (v) => (r) { r = Neg(v) }',
    '<domain: "own", opset_import: ["" : 17, "own" : 1]> again (v) => (r) { r = own.again(v) }',
    '<domain: "own", opset_import: ["" : 17]> wrong <s: string = "no"> (v) => (r) '
    "{ c = Constant<value_float: float = @s>() r = Mul(v, c) }",
)


def parsed(text):
    opset = "21" if "GroupNorm" in text else "23" if "Rotary" in text or "Deform" in text else "17"
    model = parser.parse_model(HEAD.replace("17", opset) + text)
    model.functions.extend([parser.parse_function(text) for text in FUNCTIONS])
    return model


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_node(text):
    with pytest.raises((FrontendError, OpError), match=BROKEN[text]) as caught:
        from_onnx(parsed(text))
    assert " node '→" in str(caught.value)


def test_a_function_gives_its_attributes_to_subgraphs():
    model = parsed("(float[2] x) => (float[2] y) { y = own.scaled<scale=3.0>(x) }")
    body = (
        '<domain: "own", opset_import: ["" : 17]> scaled <scale: float = 2.0> (v) => (r) {'
        "c = Constant<value_int=1>() b = Cast<to=9>(c) r = If<then_branch = t () => (float[2] a) "
        "{ k = Constant<value_float: float = @scale>() a = Mul(v, k) }, else_branch = e () => "
        "(float[2] n) { n = Neg(v) }>(b) }"
    )
    model.functions.append(parser.parse_function(body))
    assert "3" in str(from_onnx(model))


def sparse(dims, values, indices, shape):
    return helper.make_sparse_tensor(
        helper.make_tensor("w", TensorProto.FLOAT, [len(values)], values),
        helper.make_tensor("", TensorProto.INT64, shape, indices),
        dims,
    )


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (sparse([2], [1.0], [2], [1]), "outside of its sizes"),
        (sparse([2], [1.0], [-1], [1]), "outside of its sizes"),
        (sparse([-1], [1.0], [0], [1]), "has the sizes"),
        (sparse([1 << 62], [1.0], [0], [1]), "there is no memory"),
        (sparse([2], [1.0], [0, 1], [2]), "at places of the shape"),
        (sparse([2, 2], [1.0], [0, 2], [1, 2]), "outside of its sizes"),
    ],
)
def test_a_broken_sparse_weight(tensor, words):
    model = parsed("(float[2] x) => (float y) { y = Add(x, w) }")
    model.graph.sparse_initializer.append(tensor)
    with pytest.raises(FrontendError, match=f"the sparse tensor 'w'.*{words}"):
        from_onnx(model)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"location": "x" * 5000}, "has no usable place"),
        ({"location": "a\0b"}, "has no usable place"),
        ({"location": "data", "offset": str(2**62)}, "wrong offset or length"),
        ({"location": "data", "offset": str(2**62), "length": "8"}, "is truncated"),
        ({"location": "data", "length": str(2**62)}, "is truncated"),
    ],
)
def test_external_data_that_is_not_there(tmp_path, entries, words):
    model = parsed("(float[2] x) => (float y) <float[2] w = {1,2}> { y = Add(x, w) }")
    (weight,) = model.graph.initializer
    weight.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    (tmp_path / "data").write_bytes(bytes(8))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(FrontendError, match=words):
        from_onnx(tmp_path / "model.onnx")


@pytest.mark.parametrize("version", [-1, 1 << 40])
def test_a_version_of_the_format_that_cannot_be(version):
    model = parsed("(float[2] x) => (float y) { y = Neg(x) }")
    model.ir_version = version
    with pytest.raises(FrontendError, match=f"its ir_version is {version}"):
        from_onnx(model)


def test_names_that_are_not_text():
    model = parsed("(float[2] x) => (float yy) { yy = Neg(x) }")
    broken = model.SerializeToString().replace(b"\x02yy", b"\x02\xff\xfe")
    with pytest.raises(FrontendError, match="not text|do not parse"):
        from_onnx(broken)


def test_no_memory(monkeypatch):
    from tilesmith.relax.frontend.onnx import importer

    def full(*_):
        raise MemoryError

    model = parsed("(float[2] x) => (float y) { y = Neg(x) }")
    monkeypatch.setattr(importer.ONNXGraphImporter, "convert", full)
    with pytest.raises(FrontendError, match="Neg node '→y': .* more memory than there is"):
        from_onnx(model)
    monkeypatch.setattr(importer.ONNXGraphImporter, "from_model", full)
    with pytest.raises(OutOfMemoryError):
        from_onnx(model)


def test_attributes_of_operators_without_a_definition():
    node = helper.make_node("FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft", alpha="a")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    graph = helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(OpAttributeInvalid, match="'alpha' is 'a', expected a value such as 1.0"):
        from_onnx(helper.make_model(graph, opset_imports=imports, ir_version=8))


def test_a_dense_sparse_weight():
    model = parsed("(float[2] x) => (float y) { y = Add(x, w) }")
    model.graph.sparse_initializer.append(sparse([2], [5.0], [1], [1]))
    from tilesmith.relax import interpreter

    found = interpreter.run(from_onnx(model), "main", np.ones(2, "float32"))
    np.testing.assert_array_equal(found, [1, 6])
