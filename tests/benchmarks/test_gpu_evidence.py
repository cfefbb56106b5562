"""The run of everything that wants a GPU: its parts, limits, failures, and a run that goes on."""

import importlib.util
import json
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import tilesmith as ts
from benchmarks import gpu_evidence, gpu_streams
from benchmarks.gpu_evidence import AHEAD, MEASUREMENT, PARTS, ROOT, TESTS, Part

SUITE = """<testsuites><testsuite><testcase name="one"/><testcase name="two"/>
<testcase name="three"><failure message="no"/></testcase>
<testcase name="four"><skipped message="no torch"/></testcase></testsuite></testsuites>"""


def python(name, code, kind=MEASUREMENT, limit=20.0):
    """A part that runs some code, with the places of its files as arguments."""
    command = (sys.executable, "-c", code, "{folder}/{name}", "{workers}")
    return Part(name, kind, command, 1, limit)


WRITES = "import sys; open(sys.argv[1] + '.json', 'w').write('{\"fast\": 2}'); print('written')"
# what a part starts ends with it: the inner process would leave a file
HANGS = """import subprocess, sys, time
inner = "import sys, time; time.sleep(2); open(sys.argv[1], 'w')"
subprocess.Popen([sys.executable, "-c", inner, sys.argv[1] + ".left"])
print("begun", flush=True)
time.sleep(60)"""
FAKE = (
    python("ahead", "import time; time.sleep(0.5); print('warm')", AHEAD),
    python("suite", f"import sys; open(sys.argv[1] + '.xml', 'w').write({SUITE!r}); sys.exit(1)",
           TESTS),
    python("skipped", "import sys; open(sys.argv[1] + '.xml', 'w').write("
           "'<s><testcase name=\"a\"><skipped message=\"b\"/></testcase></s>')", TESTS),
    python("fast", WRITES),
    python("silent", "print('x' * 2000000)"),
    python("hangs", HANGS, limit=1.0),
    python("raises", "print('said'); raise ValueError('why')"),
)  # fmt: skip


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the fake parts; return the result and the report."""
    monkeypatch.setattr(gpu_evidence, "PARTS", FAKE)
    monkeypatch.setattr(gpu_evidence, "SHORTEST", 0.05)
    monkeypatch.setattr(gpu_evidence, "check_device", lambda: "a fake")

    def made(*arguments):
        result = CliRunner().invoke(gpu_evidence.main, ["--folder", str(tmp_path), *arguments])
        path = tmp_path / "report.json"
        return result, json.loads(path.read_text()) if path.exists() else None

    return made


def test_all_parts(run, tmp_path):
    result, report = run()
    parts = report["parts"]
    assert report["device"] == "a fake" and report["machine"]["python"]
    assert {name: one["status"] for name, one in parts.items()} == {
        "suite": "failed", "skipped": "nothing ran", "ahead": "passed", "fast": "passed",
        "silent": "nothing measured", "hangs": "late", "raises": "failed",
    }  # fmt: skip
    assert result.exit_code == 1 and "not passed: suite, skipped, silent" in result.output
    assert "suite: failed in 0 s (2 passed, 1 failed, 1 skipped)" in result.output
    assert (parts["suite"]["failures"], parts["suite"]["skips"]) == (["three"], {"no torch": 1})
    assert parts["fast"]["results"] == {"fast": 2} and parts["fast"]["end"] == ["written"]
    assert parts["raises"]["end"][-1] == "ValueError: why"
    assert (tmp_path / "raises.txt").read_text().startswith("said")
    assert (tmp_path / "silent.txt").stat().st_size < 300_000
    assert 1 <= parts["hangs"]["seconds"] < 10 and parts["hangs"]["end"] == ["begun"]
    time.sleep(2)
    assert not (tmp_path / "hangs.left").exists()


def test_a_run_goes_on_where_it_ended(run):
    result, report = run("fast")
    assert result.exit_code == 0 and list(report["parts"]) == ["fast"]
    result, report = run("fast", "raises")
    assert "fast:" not in result.output and list(report["parts"]) == ["fast", "raises"]
    result, _ = run("fast", "--again")
    assert "fast: passed" in result.output


def test_no_time_is_left(run):
    result, report = run("fast", "--minutes", "0")
    assert result.exit_code == 1 and "fast: left out, no time is left" in result.output
    assert report["parts"] == {}
    result, report = run("hangs", "--minutes", "0.005")
    assert report["parts"]["hangs"]["status"] == "late"
    assert report["parts"]["hangs"]["seconds"] < 1


def test_a_part_that_does_not_exist(run):
    result, report = run("fats")
    assert result.exit_code == 2 and report is None
    assert "there is no part 'fats'; parts: ahead, suite" in result.output


def test_without_a_device():
    if ts.cuda(0).exist:
        pytest.skip("there is a CUDA device")
    result = CliRunner().invoke(gpu_evidence.main, [])
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert "DeviceError: there is no CUDA device here" in line and "--list" in line


def test_the_list():
    result = CliRunner().invoke(gpu_evidence.main, ["--list"])
    assert result.exit_code == 0
    assert all(part.name in result.output for part in PARTS)


def test_parts_are_what_there_is():
    """Every test of CUDA is in a part, every program exists, and the whole fits into its time."""
    words = {word for part in PARTS for word in part.command}
    files = {
        str(path.relative_to(ROOT)) for path in Path(ROOT, "tests/gpu").glob("test_*_on_gpu.py")
    }
    assert files == {word for word in words if word.startswith("tests/")}
    for part in PARTS:
        _, *command = part.command
        if command[0] == "-m":
            assert importlib.util.find_spec(command[1]) is not None
        else:
            assert (ROOT / command[0]).is_file()
        assert part.seconds < part.limit
    alone = [part.seconds for part in PARTS if part.kind != AHEAD]
    assert sum(alone) < 60 * gpu_evidence.MINUTES


def test_streams_of_branches(tmp_path):
    """The gain of streams is measured beside OpenCL, too, and results are compared."""
    if not ts.opencl(0).exist:
        pytest.skip("no OpenCL device")
    path = tmp_path / "streams.json"
    arguments = ["--kind", "opencl", "--size", "16", "--rounds", "2", "--json", str(path)]
    result = CliRunner().invoke(gpu_streams.main, arguments)
    assert result.exit_code == 0, result.output
    one = json.loads(path.read_text())["results"]["16"]
    assert set(one["latency"]) == {"1 stream", "2 streams", "4 streams"}
    assert set(one["times_as_fast"]) == {"2 streams", "4 streams"} and not one["failures"]
