"""Which blocks programs reach, and that only those that reach a mutant are run."""

import builtins
import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from mutation_reach import Blocks, Instrument, block_lines  # noqa: E402
from mutation_records import Reach  # noqa: E402
from mutation_tree import Settings, Stopped, Tree  # noqa: E402

SOURCE = '''\
LIMIT = 3


def part(a, b=LIMIT):
    """Return something."""
    total = 0
    for n in range(a):
        if n == b:
            break
        total += 1
    try:
        total += 1 // a
    except ZeroDivisionError:
        total = -1
    return total


class Pair:
    def first(self):
        def inner():
            return 1

        match LIMIT:
            case 3:
                return inner
        return None

    def plain(self): return 2
'''


def test_a_block_ends_at_branches_and_after_what_may_leave():
    assert block_lines(SOURCE) == [
        (6, 15), (8, 10), (9, 9), (10, 10), (11, 15), (12, 12), (14, 14),
        (20, 26), (21, 21), (25, 25), (26, 26),
    ]  # fmt: skip


@pytest.fixture
def instrument(tmp_path, monkeypatch):
    place = tmp_path / "tilesmith" / "te" / "part.py"
    place.parent.mkdir(parents=True)
    place.write_text(SOURCE)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    made = Instrument(tmp_path, Blocks(tmp_path, ["tilesmith/te"]))
    monkeypatch.setattr(builtins, "__tilesmith_blocks__", made.hits, raising=False)
    return made


def lines_reached(instrument):
    reached = int(instrument.reached(), 16)
    at = instrument.blocks.at
    lines = range(1, len(SOURCE.splitlines()) + 1)
    return {line for line in lines if reached >> at("tilesmith/te/part.py", line) & 1}


OUTSIDE = {*range(1, 6), 16, 17, 18, 19, 27, 28}


@pytest.mark.parametrize(
    "call, lines",
    [
        (lambda module: None, set()),
        (lambda module: module.part(0), {6, 7, 11, 12, 13, 14, 15}),
        (lambda module: module.part(2), {6, 7, 8, 10, 11, 12, 13, 15}),
        (lambda module: module.part(2, 0), {6, 7, 8, 9, 11, 12, 13, 15}),
        (lambda module: module.Pair().first(), {20, 22, 23, 24, 25}),
        (lambda module: module.Pair().first()(), {20, 21, 22, 23, 24, 25}),
    ],
)
def test_lines_that_a_call_reaches(instrument, call, lines):
    folder = instrument.root / "tilesmith" / "te"
    spec = instrument.find_spec("tilesmith.te.part", [str(folder)])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.part.__doc__ == "Return something."
    call(module)
    assert lines_reached(instrument) == OUTSIDE | lines


def test_only_programs_that_reach_a_block_run_within_the_time():
    fuzzing = [
        {"seed": 10 + n, "seconds": 2.0, "reached": bits} for n, bits in enumerate([5, 3, 7, -1, 3])
    ]
    reach = Reach(None, ["a", "b", "c"], [3, 1, 2], fuzzing, {"a.py::x": 3, "b.py::y": 2})
    assert reach.of_probe(1) == {"0": "a", "2": "c"}
    assert reach.of_tests(0, ["a.py", "b.py"]) == ["a.py::x"]
    assert reach.of_tests(1, ["b.py"]) == ["b.py::y"]
    assert reach.seeds(1, 8.0) == [11, 12, 13]
    assert reach.seeds(0, 100.0) == [10, 11, 12, 13, 14]
    assert reach.seeds(0, 100.0, after=4.0) == [12, 13, 14]
    assert reach.seeds(2, 100.0) == [10, 12, 13]


def test_a_run_that_is_stopped_says_nothing_about_its_mutant(tmp_path):
    tree = Tree(Settings(tmp_path / "source", tmp_path / "output", ()))
    tree.place.mkdir(parents=True)
    timer = threading.Timer(0.5, tree.stop)
    timer.start()
    with pytest.raises(Stopped):
        tree.run(["-c", "import time; time.sleep(60)"], 60)
    with pytest.raises(Stopped):
        tree.run(["-c", "pass"], 60)


def run_tool(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=ROOT, env=environment, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_the_probe_ends_at_the_first_difference(tmp_path):
    """Marking blocks changes no digest; a digest does not depend on what ran before."""
    probe, lists = ROOT / "tools" / "mutation_probe.py", tmp_path / "reach.json"
    packages = ("--package", "tilesmith/tir/transform")
    digests = run_tool(probe, "--programs", 3, "--reach", lists, *packages)
    reached = [int(text, 16) for text in json.loads(lists.read_text())]
    assert len(set(digests)) == len(reached) == 3 and all(bits > 1 for bits in reached)
    expected = tmp_path / "expected.json"
    expected.write_text(json.dumps({"2": digests[2], "1": "other", "0": digests[0]}))
    assert run_tool(probe, "--expected", expected) == [digests[2], digests[1]]


def test_programs_of_the_fuzzer_are_recorded(tmp_path):
    output = tmp_path / "piece.jsonl"
    words = ("--first", 9000, "--count", 2, "--output", output)
    run_tool(ROOT / "tools" / "mutation_reach.py", "--package", "tilesmith/tir/transform", *words)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["seed"] for line in lines] == [9000, 9001]
    assert all(line["seconds"] > 0 and line["finding"] is None for line in lines)
    reached = [int(line["reached"], 16) for line in lines]
    assert reached[0] != reached[1] and all(bits & 1 for bits in reached)


TESTS = """
import subprocess
import sys

import pytest

from tilesmith.te import part


@pytest.fixture(scope="module")
def shared():
    return part.part(2, 0)


def test_pair():
    assert part.Pair().first()


def test_shared(shared):
    assert shared


def test_shared_again(shared):
    assert part.part(0)


def test_process():
    subprocess.run([sys.executable, "-c", "pass"], check=True)
"""


def test_tests_are_recorded_and_only_some_run(instrument, tmp_path, monkeypatch):
    (tmp_path / "tilesmith" / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "test_part.py").write_text(TESTS)
    output, wanted = tmp_path / "tests.jsonl", tmp_path / "wanted.json"
    asked = {"packages": ["tilesmith/te"], "output": str(output)}
    path = os.pathsep.join([str(tmp_path), str(ROOT / "tools")])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "mutation_tests", "-p", "no:cacheprovider"]

    def pytest_says(*more, **environment):
        done = subprocess.run(
            [*words, *more], cwd=tmp_path, text=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": path, **environment},
        )  # fmt: skip
        return done.stdout

    assert "1 failed, 3 passed" in pytest_says(TILESMITH_REACH=json.dumps(asked))
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    reached = {}
    for line in lines:
        monkeypatch.setattr(instrument, "reached", lambda line=line: line["reached"] or "0")
        reached[line["test"].partition("::")[2]] = lines_reached(instrument) - OUTSIDE
    shared = {6, 7, 8, 9, 11, 12, 13, 15}
    assert reached == {
        "test_pair": {20, 22, 23, 24, 25}, "test_shared": shared,
        "test_shared_again": shared | {14}, "test_process": set(),
    }  # fmt: skip
    assert lines[3]["reached"] is None
    wanted.write_text(json.dumps(["test_part.py::test_pair"]))
    assert "1 passed, 3 deselected" in pytest_says("--only-tests", str(wanted))
