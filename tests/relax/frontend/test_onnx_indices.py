"""Operators that read or write by index: an index out of range is an error that names the operator
and the node, also inside of fused kernels; negative ones count from the end."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilesmith
from tilesmith.codegen.c_compiler import find_compiler
from tilesmith.support.errors import DivisionByZeroError, FrontendError, OutOfBoundsError

DATA = np.random.default_rng(0).random((8, 4)).astype("float32")


def model(nodes, inputs, outputs, constants=()):
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "l": TensorProto.INT32}
    infos = [
        [helper.make_tensor_value_info(name, kinds[kind], shape) for name, kind, shape in values]
        for values in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants]
    graph = helper.make_graph(nodes, "g", *infos, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def gather(indices):
    return np.take(DATA, indices, 0)


def gather_elements(indices):
    return np.take_along_axis(DATA, indices, 0)


def gather_nd(indices):
    return DATA[tuple(np.moveaxis(indices, -1, 0))]


CASES = {
    "Gather": ([3], {}, gather, [1, 7, -8], [3, 4]),
    "GatherElements": ([2, 4], {"axis": 0}, gather_elements, [[0, 1, 7, -8], [3, 2, 1, 0]], [2, 4]),
    "GatherND": ([2, 2], {}, gather_nd, [[-8, 3], [7, -4]], [2]),
}
WRONG = [8, -9, 10**9, -(10**12)]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("operator", CASES)
def test_indices_out_of_range(operator, fused, target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    shape, attributes, reference, good, result = CASES[operator]
    nodes = [helper.make_node(operator, ["x", "i"], ["y"], name="look_up", **attributes)]
    if fused:
        nodes.append(helper.make_node("Mul", ["y", "y"], ["z"], name="square"))
    made = model(nodes, [("x", "f", [8, 4]), ("i", "i", shape)],
                 [("z" if fused else "y", "f", result)])  # fmt: skip
    run = tilesmith.compile(made, target=target)
    good = np.array(good)
    wanted = reference(good)
    np.testing.assert_array_equal(run(DATA, good).numpy(), wanted**2 if fused else wanted)
    for wrong in WRONG:
        bad = good.copy()
        bad.ravel()[-2] = wrong
        with pytest.raises(OutOfBoundsError) as caught:
            run(DATA, bad)
        assert f"the index {wrong} is outside of an axis of size 8" in str(caught.value)
        assert f"{operator} node 'look_up'" in str(caught.value)
    with pytest.raises(IndexError):  # also of Python's kind
        run(DATA, bad)


SCATTERS = {
    "ScatterElements": ([[0, 1, 7, -8], [3, 2, 1, 0]], {"axis": 0, "reduction": "add"}),
    "ScatterND": ([[[-8, 3], [7, -4], [0, 1], [2, 2]]] * 2, {"reduction": "add"}),
}


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("operator", SCATTERS)
def test_updates_out_of_range(operator, target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    good, attributes = SCATTERS[operator]
    good = np.array(good)
    node = helper.make_node(operator, ["x", "i", "u"], ["y"], name="update", **attributes)
    inputs = [("x", "f", [8, 4]), ("i", "i", good.shape), ("u", "f", [2, 4])]
    run = tilesmith.compile(model([node], inputs, [("y", "f", [8, 4])]), target=target)
    updates = np.random.default_rng(1).random((2, 4)).astype("float32")
    wanted = DATA.copy()
    rows, columns = (good, np.arange(4)[None]) if operator == "ScatterElements" else (
        good[..., 0], good[..., 1]
    )  # fmt: skip
    np.add.at(wanted, (rows, columns), updates)
    np.testing.assert_allclose(run(DATA, good, updates).numpy(), wanted, rtol=1e-6)
    for wrong in WRONG:
        bad = good.copy()
        bad[(1, 0, 0) if operator == "ScatterND" else (1, 3)] = wrong
        with pytest.raises(OutOfBoundsError) as caught:
            run(DATA, bad, updates)
        assert f"the index {wrong} is outside of an axis of size 8" in str(caught.value)
        assert f"{operator} node 'update'" in str(caught.value)


def test_one_hot_gives_off_values_out_of_range():
    node = helper.make_node("OneHot", ["i", "d", "v"], ["y"])
    constants = [("d", np.array([3])), ("v", np.array([5, 7]))]
    run = tilesmith.compile(model([node], [("i", "i", [4])], [("y", "i", [4, 3])], constants))
    wanted = [[5, 5, 5], [5, 5, 7], [5, 5, 5], [7, 5, 5]]
    np.testing.assert_array_equal(run(np.array([3, -1, -4, 0])).numpy(), wanted)


def test_symbolic_sizes():
    node = helper.make_node("GatherND", ["x", "i"], ["y"], name="look_up")
    run = tilesmith.compile(
        model([node], [("x", "f", ["n", 4]), ("i", "i", ["k", 2])], [("y", "f", ["k"])])
    )
    places = np.array([[-5, 3], [4, 0], [0, -4]])
    np.testing.assert_array_equal(run(DATA[:5], places).numpy(), gather_nd(places % [5, 4]))
    with pytest.raises(OutOfBoundsError, match="the index 5 is outside of an axis of size 5"):
        run(DATA[:5], np.array([[5, 0]]))


def test_constant_indices_fail_when_compiled():
    node = helper.make_node("GatherElements", ["c", "i"], ["y"], name="look_up")
    constants = [("c", DATA), ("i", np.full((1, 4), 9))]
    last = helper.make_node("Add", ["y", "x"], ["z"])
    made = model([node, last], [("x", "f", [1, 4])], [("z", "f", [1, 4])], constants)
    with pytest.raises(Exception, match="index 9 is out of bounds"):
        tilesmith.compile(made)


@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_division_by_zero(operator):
    node = helper.make_node(operator, ["x", "d"], ["y"], name="quotient")
    run = tilesmith.compile(model([node], [("x", "i", [4]), ("d", "i", [4])], [("y", "i", [4])]))
    x, d = np.array([7, 8, 9, -(2**63)]), np.array([2, 3, 4, -1])
    wanted = {"Div": [3, 2, 2, -(2**63)], "Mod": [1, 2, 1, 0]}[operator]
    np.testing.assert_array_equal(run(x, d).numpy(), wanted)
    d[1] = 0
    with pytest.raises(DivisionByZeroError, match=f"{operator} node 'quotient'"):
        run(x, d)


SEQUENCES = {
    "LSTM": ({"hidden_size": 2}, [("w", [1, 8, 4]), ("r", [1, 8, 2])]),
    "GRU": ({"hidden_size": 2, "direction": "reverse"}, [("w", [1, 6, 4]), ("r", [1, 6, 2])]),
    "ReverseSequence": ({"batch_axis": 1, "time_axis": 0}, []),
}


@pytest.mark.parametrize(
    ("operator", "steps"),
    [("LSTM", 3), ("GRU", 3), ("ReverseSequence", 3), ("ReverseSequence", "steps")],
)
def test_lengths_of_sequences_out_of_range(operator, steps):
    """Also where the lengths are constants, and where the number of steps is not known before."""
    attributes, weights = SEQUENCES[operator]
    rng = np.random.default_rng(0)
    constants = [(name, rng.random(shape).astype("float32")) for name, shape in weights]
    inputs = ["x", "w", "r", "", "lengths"] if weights else ["x", "lengths"]
    node = helper.make_node(operator, inputs, ["y"], name="sequences", **attributes)
    given = [("x", "f", [steps, 2, 4]), ("lengths", "l" if weights else "i", [2])]
    result = ("y", "f", [steps, 1, 2, 2] if weights else [steps, 2, 4])

    def compiled(lengths=None):
        stored = [] if lengths is None else [("lengths", lengths)]
        made = model([node], given[: 2 - len(stored)], [result], [*constants, *stored])
        return tilesmith.compile(made)

    x = rng.random((3, 2, 4)).astype("float32")
    run = compiled()
    for good in ([3, 1], [0, 2]):
        lengths = np.array(good, "int32" if weights else "int64")
        found = run(x, lengths).numpy()
        if weights:
            assert not found[good[0] :, :, 0].any() and not found[good[1] :, :, 1].any()
    for wrong in (4, -1, 10**6):
        lengths[1] = wrong
        with pytest.raises(OutOfBoundsError, match=f"the length {wrong} is not between") as caught:
            run(x, lengths)
        assert f"{operator} node 'sequences'" in str(caught.value)
        known = FrontendError if steps == 3 else OutOfBoundsError  # refused when it is imported
        with pytest.raises(known, match=f"the length {wrong} is not between"):
            compiled(lengths)(x)
