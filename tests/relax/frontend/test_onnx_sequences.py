"""Recurrent operators and scans over sequences whose length is known only when the model runs, or
that are long: compiled as loops, against onnxruntime.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilesmith
from tests.relax.frontend.onnx_reference import make_model, reference
from tests.relax.frontend.test_onnx_run_time_sizes import check, f32
from tilesmith.error import ShapeError
from tilesmith.relax.frontend.onnx.ops import recurrent

N = helper.make_node
HIDDEN, INPUTS = 5, 3


def recurrence(operator, gates, direction, steps="steps", lengths=False, layout=0, **attributes):
    count = 2 if direction == "bidirectional" else 1
    constants = {
        "w": f32(count, gates * HIDDEN, INPUTS), "r": f32(count, gates * HIDDEN, HIDDEN),
        "b": f32(count, 2 * gates * HIDDEN),
    }  # fmt: skip
    outputs = ["y", "h", "c"][: 3 if operator == "LSTM" else 2]
    inputs = {"x": ("float32", ["batch", steps, INPUTS] if layout else [steps, "batch", INPUTS])}
    names = ["x", "w", "r", "b"]
    if lengths:
        inputs["lengths"] = ("int32", ["batch"])
        names.append("lengths")
    node = N(
        operator, names, outputs, hidden_size=HIDDEN, direction=direction, layout=layout,
        **attributes,
    )  # fmt: skip
    return make_model([node], inputs, dict.fromkeys(outputs, ("float32", None)), constants)


@pytest.mark.parametrize(
    ("operator", "gates", "direction"),
    [("RNN", 1, "reverse"), ("GRU", 3, "forward"), ("GRU", 3, "reverse"),
     ("LSTM", 4, "bidirectional")],
)  # fmt: skip
def test_any_length(operator, gates, direction):
    model = recurrence(operator, gates, direction)
    check(model, [f32(4, 2, INPUTS)], [f32(1, 3, INPUTS)], [f32(7, 1, INPUTS)])


@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
def test_sequences_that_end_early(operator):
    model = recurrence(operator, {"GRU": 3, "LSTM": 4}[operator], "bidirectional", lengths=True)
    check(
        model,
        [f32(4, 3, INPUTS), np.array([4, 0, 3], "int32")],
        [f32(2, 1, INPUTS), np.array([2], "int32")],
    )


def test_lengths_beyond_the_sequence_are_refused():
    executable = tilesmith.compile(recurrence("GRU", 3, "forward", lengths=True))
    with pytest.raises(Exception, match="length"):
        executable(f32(2, 1, INPUTS), np.array([3], "int32"))


def test_a_long_sequence_is_no_longer_unrolled(monkeypatch):
    steps = recurrent.MOST_STEPS + 6
    model = recurrence("LSTM", 4, "bidirectional", steps=steps)
    executable = tilesmith.compile(model)
    x = f32(steps, 2, INPUTS)
    for found, expected in zip(executable(x), reference(model, {"x": x})):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert len(executable.metadata["kernels"]) < 30


def test_two_layers_of_one_model():
    first = recurrence("LSTM", 4, "forward")
    second = N("GRU", ["rows", "w2", "r2"], ["z", ""], hidden_size=4)
    nodes = [first.graph.node[0], N("Squeeze", ["y", "one"], ["rows"]), second]
    constants = {one.name: one for one in first.graph.initializer}
    model = make_model(
        nodes, {"x": ("float32", ["steps", "batch", INPUTS])}, {"z": ("float32", None)},
        {"one": np.array([1]), "w2": f32(1, 12, HIDDEN), "r2": f32(1, 12, 4)},
    )  # fmt: skip
    model.graph.initializer.extend(constants.values())
    check(model, [f32(5, 2, INPUTS)], [f32(3, 1, INPUTS)])


def scan_body():
    """s' = s + x * 2; o = s' * x."""
    nodes = [
        N("Mul", ["e", "two"], ["d"]),
        N("Add", ["s", "d"], ["t"]),
        N("Mul", ["t", "e"], ["o"]),
    ]
    value = helper.make_tensor_value_info
    two = helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])
    return helper.make_graph(
        nodes, "body",
        [value("s", TensorProto.FLOAT, [3]), value("e", TensorProto.FLOAT, [3])],
        [value("t", TensorProto.FLOAT, [3]), value("o", TensorProto.FLOAT, [3])], [two],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("in_axis", "out_axis", "directions"),
    [(0, 0, (0, 0)), (1, 1, (1, 0)), (0, -1, (0, 1)), (1, 0, (1, 1))],
)
def test_scans_of_any_length(in_axis, out_axis, directions):
    node = N(
        "Scan", ["h", "x"], ["f", "y"], num_scan_inputs=1, body=scan_body(),
        scan_input_axes=[in_axis], scan_output_axes=[out_axis],
        scan_input_directions=[directions[0]], scan_output_directions=[directions[1]],
    )  # fmt: skip
    shape = [3, 3]
    shape[in_axis] = "steps"
    inputs = {"h": ("float32", [3]), "x": ("float32", shape)}
    model = make_model([node], inputs, {"f": ("float32", None), "y": ("float32", None)})
    rows = [f32(steps, 3) if in_axis == 0 else f32(3, steps) for steps in (4, 1, 6)]
    check(model, *[[f32(3), one] for one in rows])


def test_what_does_not_fit_is_refused():
    executable = tilesmith.compile(recurrence("GRU", 3, "forward"))
    with pytest.raises(ShapeError, match="x"):
        executable(f32(2, 1, INPUTS + 1))
