"""Models run operator by operator, and the first operator that is wrong is found."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import tilesmith
from tilesmith import relax
from tilesmith.inspect import StepExecutor
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, ExecutionError, UnknownNameError

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((16, 24)).astype("float32")
X = RANDOM.standard_normal((5, 16)).astype("float32")


def network(rows="n"):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "projection"),
        helper.make_node("Split", ["product"], ["left", "right"], "halves", axis=1, num_outputs=2),
        helper.make_node("Mul", ["left", "right"], ["gated"], "gate"),
        helper.make_node("Softmax", ["gated"], ["y"], "scores"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 12])],
        [from_array(WEIGHT, "w")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture(params=["compiled", "numpy"])
def steps(request):
    made = StepExecutor(network(), engine=request.param)
    made.set_inputs(X)
    return made


def test_it_stops_at_operators_nodes_and_variables(steps):
    for name in ("scores", "Mul"):
        steps.add_breakpoint(name)
    stop = steps.run()
    assert stop.operator == "relax.multiply" and stop.output is None
    np.testing.assert_allclose(np.hstack(stop.inputs), X @ WEIGHT, rtol=1e-4, atol=1e-5)
    made = steps.step()
    np.testing.assert_allclose(made.output, stop.inputs[0] * stop.inputs[1], rtol=1e-5)
    assert "Mul node 'gate'" in str(made)
    assert steps.run().nodes == "Softmax node 'scores'"
    steps.remove_breakpoint("scores")
    assert steps.run() is None and steps.step() is None
    expected = tilesmith.compile(network())(X).numpy()
    np.testing.assert_allclose(steps.result(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(steps.values["y"], steps.result())


def test_correct_models_differ_from_no_reference(steps):
    assert steps.first_difference("numpy") is None
    assert steps.first_difference("onnxruntime") is None


def test_the_first_operator_that_differs(steps):
    steps.result()
    known = dict(steps.values)
    known["gated"] = known["gated"].copy()
    known["gated"][2, 3] += 0.5
    known["y"] = known["y"] + 1
    found = steps.first_difference(known)
    assert found.step.name == "gated" and found.place == (2, 3)
    assert found.largest == pytest.approx(0.5, rel=1e-4) and "0.5 at [2, 3]" in str(found)
    nothing = steps.first_difference(lambda name: known[name] * np.nan if name == "y" else None)
    assert nothing.step.name == "y" and nothing.largest == float("inf")


def test_branches_are_one_step():
    @tilesmith.script.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            (4,), "float32"
        ):
            if c:
                y = R.exp(x)
            else:
                y = R.negative(x)
            z = R.add(y, x)
            return z

    x = np.arange(4, dtype="float32")
    for condition, expected in ((True, np.exp(x) + x), (False, x - x)):
        steps = StepExecutor(Module)
        steps.set_inputs(x=x, c=np.array(condition))
        first = steps.step()
        assert first.operator == "If" and steps.step().operator == "relax.add"
        np.testing.assert_allclose(steps.result(), expected, rtol=1e-5)


def test_mistakes_are_explained():
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with block.function("main", [x]):
        block.emit_func_output(block.emit(relax.op.exp(x)))
    with pytest.raises(ConfigError, match="'compiled' or 'numpy'"):
        StepExecutor(block.get(), engine="magic")
    steps = StepExecutor(block.get())
    with pytest.raises(ExecutionError, match="the input 'x' is not set"):
        steps.run()
    with pytest.raises(UnknownNameError, match="no input 'z'"):
        steps.set_inputs(z=1)
    with pytest.raises(UnknownNameError, match="no operator, node or variable"):
        steps.add_breakpoint("conv")
    steps.set_inputs(np.zeros(4, "float32"))
    with pytest.raises(ConfigError, match="onnxruntime runs ONNX models"):
        steps.first_difference("onnxruntime")


def test_operators_that_need_more_than_tensors_are_evaluated_by_numpy():
    @tilesmith.script.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["m"])) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            y = R.zeros(R.shape([m]), dtype="float32")
            z = R.add(y, y)
            return z

    steps = StepExecutor(Module)
    steps.set_inputs(np.ones(2, "float32"), (3,))
    np.testing.assert_array_equal(steps.result(), np.zeros(3, "float32"))
