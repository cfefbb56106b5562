"""Drawn graphs of operators are valid, and grow by one operator at a time."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

from tilesmith.driver import model
from tilesmith.support.errors import UnsupportedError
from tilesmith.testing.fuzz.models import actions, cases, graph_operators
from tilesmith.testing.fuzz.models.graph import GROWERS, Graph, combined
from tilesmith.testing.fuzz.models.pick import NotApplicable, Pick

SEEDS = range(60)


def drawn(seed, monkeypatch=None, folder=None):
    case = cases.draw_case(seed, "graph")
    return case, onnx.load(cases.make_graph(case, folder))


@pytest.mark.parametrize("seed", SEEDS)
def test_graphs_are_valid_and_bounded(seed, tmp_path):
    case, drawn_model = drawn(seed, folder=tmp_path)
    onnx.checker.check_model(drawn_model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(drawn_model.SerializeToString(), options)
    random = np.random.default_rng(seed)
    size = cases.size_of(case)
    feed = {
        one.name: random.standard_normal(
            [each if isinstance(each, int) else size for each in one.shape]
        ).astype("float32")
        for one in session.get_inputs()
    }
    for result in session.run(None, feed):
        assert np.isfinite(result).all() and np.abs(result).max(initial=0) < 1e9


def test_shapes_are_those_that_onnx_infers():
    grown = Counter()
    for seed in range(300):
        pick, graph = Pick(seed), Graph(Pick(seed), 2)
        for _ in range(8):
            before = len(graph.nodes)
            name = pick.one(list(GROWERS))
            try:
                GROWERS[name](graph, pick)
            except NotApplicable:
                del graph.nodes[before:]
                continue
            grown[name] += 1
        inferred = onnx.shape_inference.infer_shapes(graph.model(), strict_mode=True)
        shapes = {
            one.name: [each.dim_value for each in one.type.tensor_type.shape.dim]
            for one in inferred.graph.value_info
        }
        for value in graph.values:
            for ours, theirs in zip(value.shape, shapes.get(value.name, value.shape)):
                assert not isinstance(theirs, int) or theirs in (0, graph.number(ours)), value
    assert set(grown) == set(GROWERS)  # each of them fits something


def test_a_graph_without_a_step_is_a_graph(tmp_path):
    case, _ = drawn(3, folder=tmp_path)
    for place in range(len(case["mutations"])):
        left = [one for number, one in enumerate(case["mutations"]) if number != place]
        path = cases.make_graph({**case, "mutations": left}, tmp_path)
        onnx.checker.check_model(onnx.load(path))


def test_labels_of_sizes():
    graph = Graph(Pick(0), size=3)
    assert combined("*", 2, 5) == 10 and combined("+", 2, 5) == 7 and combined("/", 7, 2) == 3
    product = combined("*", "N", combined("+", "M", 4))
    assert product == "(* N,(+ M,4))" and graph.number(product) == 3 * 7
    assert graph_operators.broadcast(("N", 1, 3), (4, 1)) == ("N", 4, 3)
    with pytest.raises(NotApplicable):
        graph_operators.broadcast(("N", 2), ("M", 2))


def test_a_valid_graph_that_is_refused_is_a_finding(tmp_path, monkeypatch):
    def refuse(path):
        raise UnsupportedError("no such operator")

    monkeypatch.setattr(model, "import_model", refuse)
    case = cases.draw_case(3, "graph")
    record = actions.run_case(case, tmp_path, tmp_path, lambda phase: None)
    assert record["outcome"] == "refused" and "no such operator" in record["signature"]
