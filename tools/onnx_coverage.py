"""Measures the importer of ONNX by `onnx.backend.test`, and writes
`docs/coverage/onnx_backend.md`.

    python tools/onnx_coverage.py                   # run what is not in the results, write the page
    python tools/onnx_coverage.py --fresh           # forget earlier results
    python tools/onnx_coverage.py --only 'resize'   # run the tests that match, print outcomes
    python tools/onnx_coverage.py --sample 60       # run that many of the tests that the page
                                                    # counts as passed; fail if one does not (CI)

Every test is compiled to native code by `tilesmith.driver.onnx_backend` and runs in a worker
process with a time limit, of low priority unless it is a sample. Results are kept in a file, line
by line, so that a run that was broken off goes on where it was. `tools/onnx_exclusions.txt` lists
what cannot pass, with reasons.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import hashlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "docs" / "coverage" / "onnx_backend.md"
EXCLUSIONS = ROOT / "tools" / "onnx_exclusions.txt"
RESULTS = Path(tempfile.gettempdir()) / "tilesmith_onnx_coverage.jsonl"
SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator")
PASSED = ("passed", "specialised")


class Outcome(NamedTuple):
    """What became of a test: "passed", "specialised" (passed, compiled for values of inputs),
    "failed", "excluded".
    """

    suite: str
    name: str
    operator: str
    status: str
    reason: str
    seconds: float

    @property
    def key(self) -> str:
        """The name, which is not the same in two suites."""
        return f"{self.suite}/{self.name}"


# The worker


def load_cases(suites: Iterable[str]) -> dict[str, Any]:
    """Return "suite/name" → test case of the package onnx."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            f"{suite}/{case.name}": case
            for suite in suites
            for case in load_model_tests(kind=suite)
        }


def run_case(case: Any) -> tuple[str, str]:
    """Compile and run a test on all its data; return its status and a reason."""
    from tilesmith.driver import onnx_backend

    model, data_sets = _contents(case)
    prepared = onnx_backend.prepare(model)
    status, reason = "passed", ""
    for inputs, expected in data_sets:
        found = prepared.run([_value(item) for item in inputs])
        wanted = [_value(item) for item in expected]
        compare(found, wanted, case)
        if prepared.specialised == "values":
            status = "specialised"
    return status, reason


def compare(found: list[Any], wanted: list[Any], case: Any) -> None:
    """Compare outputs by the rules of the package's runner; sequences element by element."""
    from onnx.backend.test.runner import Runner

    if len(found) != len(wanted):
        raise AssertionError(f"{len(found)} outputs or elements, expected {len(wanted)}")
    for one, other in zip(found, wanted):
        if isinstance(other, list):
            if not isinstance(one, list):
                raise AssertionError("a tensor, expected a sequence")
            compare(one, other, case)
        elif (one is None) != (other is None):
            raise AssertionError("an output is there and should not be, or the reverse")
        elif other is not None:
            Runner.assert_similar_outputs([other], [one], case.rtol, case.atol)


def _contents(case: Any) -> tuple[Any, list[Any]]:
    """Return a test's model and its pairs of inputs and outputs."""
    import onnx

    if case.model is not None:
        return case.model, case.data_sets
    folder = Path(case.model_dir)
    model = onnx.load(str(folder / "model.onnx"))
    kinds = {}
    for item in (*model.graph.input, *model.graph.output):
        kinds[item.name] = item.type
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in stored]
    pairs = []
    for data in sorted(folder.glob("test_data_set_*")):
        pairs.append((_files(data, "input", inputs), _files(data, "output", model.graph.output)))
    return model, pairs


def _files(folder: Path, kind: str, declared: Any) -> list[Any]:
    import onnx

    values = []
    for index in range(len(list(folder.glob(f"{kind}_*.pb")))):
        content = (folder / f"{kind}_{index}.pb").read_bytes()
        which = declared[index].type.WhichOneof("value")
        message = {
            "sequence_type": onnx.SequenceProto,
            "optional_type": onnx.OptionalProto,
        }.get(which, onnx.TensorProto)()
        message.ParseFromString(content)
        values.append(message)
    return values


def _value(item: Any) -> Any:
    import numpy
    import onnx

    if isinstance(item, onnx.TensorProto):
        return onnx.numpy_helper.to_array(item)
    if isinstance(item, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(item)
    if isinstance(item, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(item)
    if isinstance(item, (list, tuple)):
        return [_value(part) for part in item]
    return item if item is None else numpy.asarray(item)


def work() -> None:
    """Answer each name on the standard input with a line of JSON."""
    cases = load_cases(SUITES)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    print(json.dumps({name: _operator(case) for name, case in cases.items()}), file=answers)
    answers.flush()
    for line in sys.stdin:
        begin = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                status, reason = run_case(cases[line.strip()])
        except Exception as error:  # of whatever kind: it is the outcome
            status, reason = "failed", f"{type(error).__name__}: {error}"
        seconds = round(time.perf_counter() - begin, 3)
        print(json.dumps([status, reason, seconds]), file=answers)
        answers.flush()


def _operator(case: Any) -> str:
    """Return the operator that a node test is about, which others may come along with."""
    if case.model is None:
        return case.name.removeprefix("test_")
    wanted = re.sub(r"\W|_", "", case.name).lower()
    kinds = [node.op_type for node in case.model.graph.node]
    named = [kind for kind in kinds if kind.lower() in wanted]
    return max(named, key=len) if named else kinds[-1] if kinds else "none"


# The parent


class Worker:
    """A process that runs tests; it is started anew after a crash or when the time is over."""

    def __init__(self, limit: float, niceness: int) -> None:
        self.limit = limit
        self.niceness = niceness
        self.process: Any = None
        self.cases = self._start()

    def _start(self) -> dict[str, str]:
        environment = {
            **os.environ,
            "TILESMITH_CACHE": "0",
            "TILESMITH_WORKERS": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            preexec_fn=lambda: os.nice(self.niceness),
        )
        found: dict[str, str] = json.loads(self._line(300.0) or "{}")
        return found

    def _line(self, limit: float) -> bytes:
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line: bytes = self.process.stdout.readline() if ready else b""
        return line

    def run(self, name: str) -> tuple[str, str, float]:
        """Return the status of a test, a reason, and seconds."""
        begin = time.perf_counter()
        self.process.stdin.write(name.encode() + b"\n")
        self.process.stdin.flush()
        line = self._line(self.limit)
        if line:
            status, reason, seconds = json.loads(line)
            return status, reason, seconds
        took = time.perf_counter() - begin
        self.close()
        code = self.process.returncode
        self._start()
        reason = f"no answer after {self.limit:.0f} s" if took >= self.limit else f"crash ({code})"
        return "failed", reason, round(took, 3)

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def exclusions() -> list[tuple[str, str]]:
    """Return patterns of "suite/name" with the reasons why such tests cannot pass."""
    found = []
    for line in EXCLUSIONS.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.partition(":")
            found.append((pattern.strip(), reason.strip()))
    return found


def excluded(name: str, patterns: list[tuple[str, str]]) -> str:
    """Return the reason why a test is excluded, or ""."""
    for pattern, reason in patterns:
        if fnmatch.fnmatchcase(name, pattern):
            return reason
    return ""


def earlier(path: Path) -> dict[str, Outcome]:
    """Return the results in a file; a line that was not written whole is left out."""
    found = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                outcome = Outcome(*json.loads(line))
            except (ValueError, TypeError):
                continue
            found[outcome.key] = outcome
    return found


def run_all(
    worker: Worker, names: Iterable[str], known: dict[str, Outcome], path: Path | None
) -> Iterator[Outcome]:
    """Run tests, or take their results from ``known``; new ones are added to the file."""
    patterns = exclusions()
    for name in names:
        if name in known:
            yield known[name]
            continue
        suite, _, short = name.partition("/")
        reason = excluded(name, patterns)
        if reason:
            yield Outcome(suite, short, worker.cases[name], "excluded", reason, 0.0)
            continue
        status, reason, seconds = worker.run(name)
        outcome = Outcome(suite, short, worker.cases[name], status, reason, seconds)
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome) + "\n")
        yield outcome


# The page


def page(outcomes: list[Outcome]) -> str:
    """Return the text of the page."""
    import onnx

    lines = [
        "# ONNX's own tests of backends, compiled",
        "",
        f"Written by `tools/onnx_coverage.py` from onnx {onnx.__version__}. Every test is",
        "compiled to native code (`tilesmith.driver.onnx_backend`) and compared with the expected",
        "outputs by the rules of `onnx.backend.test`. *Specialised* ones pass, but compiled for",
        "the values of small inputs (the length of a transform, for example), once for each value.",
        "The share is of the tests that are not excluded.",
        "",
        "| suite | tests | excluded | passed | specialised | failed | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for suite in SUITES:
        lines.append(_row(suite, [one for one in outcomes if one.suite == suite]))
    lines += ["", "## Node tests by operator", ""]
    lines += ["| operator | tests | excluded | passed | specialised | failed | share |"]
    lines += ["|---|---|---|---|---|---|---|"]
    by_operator = collections.defaultdict(list)
    for one in outcomes:
        if one.suite == "node":
            by_operator[one.operator].append(one)
    lines += [_row(operator, by_operator[operator]) for operator in sorted(by_operator)]
    lines += ["", "## Failures", "", "| test | reason |", "|---|---|"]
    lines += [f"| {one.key} | {_cell(one.reason)} |" for one in outcomes if one.status == "failed"]
    lines += ["", "## Specialised on values", "", "| test |", "|---|"]
    lines += [f"| {one.key} |" for one in outcomes if one.status == "specialised"]
    lines += ["", "## Excluded", "", "| test | reason |", "|---|---|"]
    lines += [
        f"| {one.key} | {_cell(one.reason)} |" for one in outcomes if one.status == "excluded"
    ]
    return "\n".join(lines) + "\n"


def _row(title: str, outcomes: list[Outcome]) -> str:
    counts = collections.Counter(one.status for one in outcomes)
    tried = len(outcomes) - counts["excluded"]
    passed = counts["passed"] + counts["specialised"]
    share = f"{100 * passed / tried:.1f} %" if tried else "-"
    cells = [
        title, len(outcomes), counts["excluded"], counts["passed"], counts["specialised"],
        counts["failed"], share,
    ]  # fmt: skip
    return "| " + " | ".join([str(cell) for cell in cells]) + " |"


def _cell(text: str) -> str:
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= 200 else line[:197] + "..."


def listed_as_passed(names: Iterable[str]) -> list[str]:
    """Return the tests that the page neither lists as failed nor as excluded."""
    text = OUTPUT.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| ([\w-]+/\w+) \| .* \|$", text, re.MULTILINE))
    return [name for name in names if name not in listed]


def sample(names: Iterable[str], count: int) -> list[str]:
    """Return some of the names, always the same ones, spread over all of them."""
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return ordered[:count]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--only", metavar="REGEX", help="run tests whose names match")
    parser.add_argument("--sample", type=int, metavar="N", help="check N tests listed as passed")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each test")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of results")
    parser.add_argument("--width", type=int, default=160, help="characters of a printed reason")
    parser.add_argument("--retry", action="store_true", help="run again what failed")
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    # A check has a time limit; a run of everything shall not be in the way of others.
    worker = Worker(options.limit, niceness=0 if options.sample else 10)
    try:
        return _command(worker, options)
    finally:
        worker.close()


def _command(worker: Worker, options: Any) -> int:
    if options.only or options.sample:
        names = list(worker.cases)
        if options.only:
            names = [name for name in names if re.search(options.only, name)]
        else:
            unused = [
                pattern
                for pattern, _ in exclusions()
                if not any(fnmatch.fnmatchcase(name, pattern) for name in names)
            ]
            if unused:
                print(f"no test is excluded by: {', '.join(unused)}")
                return 1
            names = sample(listed_as_passed(names), options.sample)
        failed = 0
        for one in run_all(worker, names, {}, None):
            failed += one.status == "failed"
            if one.status not in PASSED or (options.only and one.status != "passed"):
                reason = " ".join(one.reason.split())[: options.width]
                print(f"{one.key}: {one.status} {one.seconds} {reason}")
        print(f"{len(names) - failed} of {len(names)} pass")
        return 1 if failed else 0
    if options.fresh:
        options.results.unlink(missing_ok=True)
    known = earlier(options.results)
    if options.retry:
        known = {name: one for name, one in known.items() if one.status in PASSED}
    outcomes = list(run_all(worker, worker.cases, known, options.results))
    OUTPUT.write_text(page(outcomes), encoding="utf-8")
    counts = collections.Counter(one.status for one in outcomes)
    print(OUTPUT, dict(counts), f"{sum(one.seconds for one in outcomes):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
