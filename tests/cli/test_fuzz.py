"""`tilesmith fuzz`: a short run, its counts, one that is interrupted, and the replay of files."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
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


def processes_of(group):
    """The processes that this one and its children started: those with its process as ancestor."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = open(f"/proc/{name}/stat").read()
        except OSError:
            continue
        parents[int(name)] = int(text.rpartition(")")[2].split()[1])
    found, more = {group}, True
    while more:
        more = {one for one, parent in parents.items() if parent in found} - found
        found |= more
    return found - {group}


def is_running(process):
    try:
        return open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("command", "most", "counted"),
    [(["tir", "--only", "pass"], 2, "programs"), (["models", "--kind", "arguments"], 1, "cases")],
)
def test_an_interrupted_run_says_what_it_did(command, most, counted, number, tmp_path):
    option = "--workers" if command[0] == "tir" else "--jobs"
    process = subprocess.Popen(
        [sys.executable, "-m", "tilesmith", "fuzz", *command, "--minutes", "10", "--json",
         "--seed", "1000", option, str(most), "--output", str(tmp_path)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    started = set()
    while time.monotonic() < end and len(started) < most:
        time.sleep(0.1)
        started = processes_of(process.pid)
    time.sleep(5)
    started |= processes_of(process.pid)
    process.send_signal(number)
    said, _ = process.communicate(timeout=100)
    record = json.loads(said)
    assert process.returncode == 128 + number
    assert record["interrupted_by"] == signal.Signals(number).name
    assert record["seed"] == 1000 and counted in record and record["seconds"] < 100
    assert not [one for one in started if is_running(one)]


def test_replay(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PASSES)
    bad.write_text(FAILS)
    result = invoke("replay", good)
    assert result.exit_code == 0 and "passes" in result.output
    result = invoke("replay", bad)
    assert result.exit_code == 1 and "still broken" in result.output
    assert invoke("replay", tmp_path / "missing.py").exit_code == 1
