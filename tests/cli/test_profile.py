"""`tilesmith profile` shows the kernels of a model."""

import json

import pytest
from click.testing import CliRunner

from tests.cli.test_commands import DIGITS, assert_fails
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


def test_json_has_all_columns():
    result = invoke("--json")
    record = json.loads(result.stdout)
    assert record["sizes"] == {"batch": 1}
    assert all({"Name", "Operators", "GFLOP/s", "Percent of Peak"} <= set(row)
               for row in record["calls"])  # fmt: skip


def test_options_that_exclude_each_other(tmp_path):
    assert_fails(invoke("--no-peak", "--roofline", tmp_path / "a.svg"), "--roofline needs")
    assert_fails(invoke("--trace", tmp_path / "none" / "a.json"), "does not exist")
