"""`tilesmith fuzz`: a short run, its counts, and the replay of files."""

import json

from click.testing import CliRunner

from tilesmith.cli.main import tilesmith

PASSES = """
def test_replay():
    pass
"""
FAILS = """
def test_replay():
    raise ValueError("still broken")
"""


def invoke(*arguments):
    return CliRunner().invoke(tilesmith, ["fuzz", *[str(argument) for argument in arguments]])


def test_a_short_run_counts(tmp_path):
    result = invoke("tir", "--minutes", 0.05, "--seed", 3, "--only", "pass", "--json",
                    "--output", tmp_path)  # fmt: skip
    record = json.loads(result.stdout)
    assert record["seed"] == 3 and record["programs"] > 0 and record["passes"]
    assert not record["broken_cases"] and not record["code"]
    assert result.exit_code == (1 if record["findings"] else 0)
    assert len(list(tmp_path.glob("test_*_script.py"))) == len(record["findings"])


def test_replay(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PASSES)
    bad.write_text(FAILS)
    result = invoke("replay", good)
    assert result.exit_code == 0 and "passes" in result.output
    result = invoke("replay", bad)
    assert result.exit_code == 1 and "still broken" in result.output
    assert invoke("replay", tmp_path / "missing.py").exit_code == 1
