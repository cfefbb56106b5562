"""Drawn graphs are the same in torch as in ONNX, and are exported with the sizes that they name."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from tilesmith.testing.fuzz.models import cases
from tilesmith.testing.fuzz.models.actions import run_case
from tilesmith.testing.fuzz.models.campaign import Options
from tilesmith.testing.fuzz.models.graph import GROWERS, Graph
from tilesmith.testing.fuzz.models.pick import NotApplicable, Pick
from tilesmith.testing.fuzz.models.reference import difference
from tilesmith.testing.fuzz.models.torch_graph import (
    TorchGraph,
    exported,
    graph_inputs,
)


def check(model, size):
    """Compare torch with onnxruntime; the module is returned."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    arrays = graph_inputs(model, {"N": size, "M": size})
    expected = session.run(None, dict(zip([one.name for one in session.get_inputs()], arrays)))
    module = TorchGraph(model).eval()
    with torch.no_grad():
        found = [one.numpy() for one in module(*[torch.from_numpy(array) for array in arrays])]
    assert difference(found, expected) is None
    return module


@pytest.mark.parametrize("seed", range(10))
def test_a_graph_in_torch_is_the_graph(seed, tmp_path):
    case = cases.draw_case(seed, "torch")
    model = onnx.load(cases.make_graph(case, tmp_path))
    check(model, cases.size_of(case))


@pytest.mark.parametrize("name", GROWERS)
def test_every_operator_is_there(name):
    drawn = 0
    for seed in range(40):
        graph = Graph(Pick(seed), size=3)
        try:
            GROWERS[name](graph, Pick(seed))
        except NotApplicable:
            continue
        check(graph.model(), 3)
        drawn += 1
    assert drawn


@pytest.mark.parametrize("seed", [2, 5])
def test_named_sizes_are_dynamic(seed):
    graph = next(
        graph
        for graph in [Graph(Pick(seed + count), size=3) for count in range(40)]
        if any("N" in one.shape for one in graph.inputs)
    )
    GROWERS["unary"](graph, Pick(seed))
    model = graph.model()
    program, sizes = exported(TorchGraph(model).eval(), model, 3)
    assert sizes == "dynamic" and program.range_constraints
    arrays = graph_inputs(model, {"N": 4, "M": 6})
    found = program.module()(*[torch.from_numpy(array) for array in arrays])
    assert found[0].shape[0] == 4


def test_a_case_is_compiled_and_compared(tmp_path):
    case = {**cases.draw_case(3, "torch"), "mutations": [["grow", 11], ["grow", 12]]}
    phases = []
    record = run_case(case, tmp_path, tmp_path, phases.append)
    assert record["outcome"] == "same" and record["sizes"] in ("dynamic", "static")
    assert phases == ["draw", "export", "import", "compile", "run", "compare"]


def test_without_torch_none_are_drawn():
    kinds = [cases.draw_case(seed, own_models=True)["kind"] for seed in range(300)]
    without = [
        cases.draw_case(seed, own_models=True, has_torch=False)["kind"] for seed in range(300)
    ]
    assert "torch" in kinds and without == ["graph" if k == "torch" else k for k in kinds]
    assert Options(kind="torch").has_torch and Options().has_torch
    assert not Options(own_models=True).has_torch and not Options(kind="graph").has_torch
    assert np.unique(kinds).size == len(cases.KINDS)
