"""A fixed part of what tools/torch_coverage.py measures still holds, and its table is kept."""

import importlib.util
import itertools
import pathlib
import re
import zlib

import pytest
import torch

from tilesmith.relax.frontend.torch.registry import supported_operators

ROOT = pathlib.Path(__file__).parents[4]
LEAST_PASSED = 0.95
FEW = 1
"""So many samples of each OpInfo and dtype are judged here."""
CHOSEN = (
    "_softmax", "abs", "add", "addmm", "amax", "any", "arange", "argmax", "avg_pool2d", "bmm",
    "cat", "clamp", "constant_pad_nd", "convolution", "cumsum", "div", "embedding", "expand",
    "floor", "gather", "ge", "gelu", "index", "index_put", "index_select", "max",
    "max_pool2d_with_indices", "mean", "native_group_norm", "native_layer_norm", "nonzero",
    "permute", "pow", "prod", "remainder", "scatter", "scatter_reduce", "select_scatter",
    "slice", "slice_scatter", "sort", "sum", "topk", "upsample_bilinear2d", "var", "where",
)  # fmt: skip


@pytest.fixture(scope="module")
def tool():
    path = ROOT / "tools" / "torch_coverage.py"
    spec = importlib.util.spec_from_file_location("torch_coverage", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("operator", CHOSEN)
def test_samples_of_torch_agree(tool, operator):
    outcomes = []
    for info in tool.opinfos_of(operator, tool.database()):
        for dtype in tool.DTYPES:
            if dtype not in info.dtypes:
                continue
            torch.manual_seed(zlib.crc32(info.formatted_name.encode()))
            samples = info.sample_inputs("cpu", dtype, requires_grad=False)
            outcomes += [
                tool.judge(operator, info, dtype, sample, False)
                for sample in itertools.islice(samples, FEW)
            ]
    assert outcomes and not [o for o in outcomes if o.verdict != "pass"]


def test_the_table_has_every_core_operator_and_few_failures(tool):
    text = (ROOT / "docs" / "coverage" / "torch.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| \d+ \| (\d+) \| (\d+) \| \d+ \| \d+/\d+ \|$", text, re.M)
    measured = {name: (int(passed), int(failed)) for name, passed, failed in rows}
    for operator in tool.core_operators():
        reason = tool.WITHOUT_SAMPLES.get(operator)
        assert operator in measured if reason is None else f"| {operator} | {reason} |" in text
    passed = sum([row[0] for row in measured.values()])
    failed = sum([row[1] for row in measured.values()])
    assert passed > 8000 and passed / (passed + failed) >= LEAST_PASSED


def test_measured_operators_have_a_converter(tool):
    known = {name.partition(".")[0] for name in supported_operators()}
    measured = set(tool.core_operators()) - set(tool.WITHOUT_SAMPLES)
    assert measured <= known
