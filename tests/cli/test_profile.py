"""`tilesmith profile` shows the kernels of a model."""

import json
import re

import pytest
from click.testing import CliRunner

from tests.cli.test_commands import DIGITS, assert_fails
from tilesmith import opencl
from tilesmith.cli.main import tilesmith
from tilesmith.inspect import kernel_profile


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(kernel_profile, "_peak_operations", lambda *_: 1e11)
    monkeypatch.setattr(kernel_profile, "_peak_bytes", lambda *_: 1e10)


def invoke(*arguments):
    given = ["profile", DIGITS, "--runs", 1, *arguments]
    return CliRunner().invoke(tilesmith, [str(argument) for argument in given])


def test_a_table_a_trace_and_a_picture(tmp_path):
    trace, picture = tmp_path / "trace.json", tmp_path / "roofline.svg"
    result = invoke("--trace", trace, "--roofline", picture)
    assert result.exit_code == 0, result.output + result.stderr
    assert "batch = 1" in result.output and "its kernels alone" in result.output
    assert json.loads(trace.read_text())["traceEvents"] and picture.read_text().startswith("<svg")


@pytest.mark.skipif(not opencl(0).exist, reason="there is no OpenCL device here")
def test_a_model_for_a_device():
    result = invoke("--target", "opencl")
    assert result.exit_code == 0, result.output + result.stderr
    assert "on opencl(0), batch = 1" in result.output and "its kernels alone" in result.output
    assert "fused_conv2d_add_relu" in result.output
    assert_fails(invoke("--target", "opencl", "--roofline", "a.svg"), "peak is not known")


@pytest.mark.parametrize("columns", [70, 200])
def test_figures_are_never_cut_off(columns, monkeypatch):
    monkeypatch.setattr("tilesmith.cli.console._WIDTH_OF_FILES", columns)
    names = ("fused", "max_pool", "softmax")
    rows = [line for line in invoke().output.splitlines() if line.strip().startswith(names)]
    assert len(rows) >= 4 and all(len(line) <= columns for line in rows)
    assert not any(re.search(r"[0-9.]…", line) for line in rows)


def test_json_has_all_columns():
    result = invoke("--json")
    record = json.loads(result.stdout)
    assert record["sizes"] == {"batch": 1}
    assert all({"Name", "Operators", "GFLOP/s", "Percent of Peak"} <= set(row)
               for row in record["calls"])  # fmt: skip


def test_options_that_exclude_each_other(tmp_path):
    assert_fails(invoke("--no-peak", "--roofline", tmp_path / "a.svg"), "--roofline needs")
    assert_fails(invoke("--trace", tmp_path / "none" / "a.json"), "does not exist")


@pytest.mark.parametrize("stage", ["graph", "fused"])
@pytest.mark.parametrize("form", ["dot", "html"])
def test_graphs_are_drawn(stage, form, tmp_path):
    path = tmp_path / f"graph.{form}"
    given = ["inspect", str(DIGITS), "--stage", stage, "--format", form, "-o", str(path)]
    result = CliRunner().invoke(tilesmith, given)
    assert result.exit_code == 0, result.output + result.stderr
    text = path.read_text()
    assert "input image" in text and "softmax" in text and "Softmax node" in text
    assert text.startswith('digraph "main" {' if form == "dot" else "<!")
    if form == "dot":
        nodes = [line for line in text.splitlines() if "label=" in line]
        ends = {line.split(" -> ")[0].strip() for line in text.splitlines() if " -> " in line}
        assert len(ends) == len(nodes) - 1  # every node but the result is used


def test_only_graphs_are_drawn():
    given = ["inspect", str(DIGITS), "--stage", "tir", "--format", "dot"]
    assert_fails(CliRunner().invoke(tilesmith, given), "draws whole graphs")
