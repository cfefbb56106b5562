"""What the tests of the ONNX importer share: small models, and running them both ways."""

import functools
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from tilesmith.relax import interpreter
from tilesmith.relax.frontend.onnx import from_onnx

TYPES = {
    "float16": onnx.TensorProto.FLOAT16, "float32": onnx.TensorProto.FLOAT,
    "float64": onnx.TensorProto.DOUBLE, "int8": onnx.TensorProto.INT8,
    "int32": onnx.TensorProto.INT32, "int64": onnx.TensorProto.INT64,
    "uint8": onnx.TensorProto.UINT8, "bool": onnx.TensorProto.BOOL,
}  # fmt: skip


def make_model(nodes, inputs, outputs, constants=None, opset=17, domains=(), name="test"):
    """A model; `inputs` are name → (dtype, shape), `outputs` names (or name → (dtype, shape))."""
    if not isinstance(outputs, dict):
        outputs = dict.fromkeys(outputs)
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(key, TYPES[d], shape) for key, (d, shape) in inputs.items()],
        [
            onnx.ValueInfoProto(name=key)
            if value is None
            else helper.make_tensor_value_info(key, TYPES[value[0]], value[1])
            for key, value in outputs.items()
        ],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def one_node(
    operator, feed, outputs=1, constants=None, opset=17, shapes=None, domain="", **attributes
):
    """A model of one node whose inputs are those of `feed` and `constants`, in this order."""
    constants = constants or {}
    names = [f"y{i}" for i in range(outputs)]
    inputs = [name or "" for name in [*feed, *constants]]
    node = helper.make_node(operator, inputs, names, name="the_node", domain=domain, **attributes)
    described = {
        name: (str(value.dtype), (shapes or {}).get(name, value.shape))
        for name, value in feed.items()
        if name
    }
    return make_model(
        [node], described, names, {k: v for k, v in constants.items() if k}, opset,
        domains=(domain,) if domain else (),
    )  # fmt: skip


def reference(model, feed):
    """The outputs by onnxruntime, without its rewriting of the graph."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # On CPUs without VNNI the default saturates sums of two products (uint8 by int8).
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {name: value for name, value in feed.items() if name})


def imported(model, feed, **options):
    """The outputs by the importer and the interpreter."""
    module = from_onnx(model, **options)
    values = [value for name, value in feed.items() if name]
    results = interpreter.run(module, "main", *values)
    return list(results) if isinstance(results, tuple) else [results]


def compare(model, feed, rtol=1e-4, atol=1e-5, **options):
    """Check that both ways give the same outputs."""
    actual, expected = imported(model, feed, **options), reference(model, feed)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, a.dtype, b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    return actual


# ONNX's own node tests


def _array(value):
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, list):
        return [_array(item) for item in value]
    return value if value is None else np.asarray(value)


@functools.cache
def node_tests():
    """Name → (model, inputs, outputs, tolerances)."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    found = {}
    for test in tests:
        inputs, outputs = [_array(list(part)) for part in test.data_sets[0]]
        found[test.name] = (test.model, inputs, outputs, test.rtol, test.atol)
    return found


def is_small(value):
    """Whether an input is a number or a list of some, as axes and sizes are."""
    if not isinstance(value, np.ndarray) or value.ndim > 1:
        return False
    return value.size <= 8 or value.dtype.kind in "iub"


def with_constants(model, inputs):
    """The model with its small inputs as constants, and the inputs that are left."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept, feed = [], []
    for item, value in zip(model.graph.input, inputs):
        if is_small(value):
            copy.graph.initializer.append(onnx.numpy_helper.from_array(value, item.name))
        else:
            kept.append(item)
            feed.append(value)
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy, feed


def check_close(actual, expected, rtol, atol):
    if isinstance(expected, list):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected):
            check_close(a, b, rtol, atol)
        return
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if expected.dtype.kind not in "iub":
        actual, expected = actual.astype("float64"), expected.astype("float64")
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
