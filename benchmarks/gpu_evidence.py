"""Runs everything that wants a GPU, what matters most first, and writes one report.

python -m benchmarks.gpu_evidence                # an estimated 9 minutes on one H100
python -m benchmarks.gpu_evidence wgmma ladder   # these parts only
python -m benchmarks.gpu_evidence --minutes 9    # where no longer time can be had: call it again
python -m benchmarks.gpu_evidence --list         # the parts; needs no device

Each part is a process with a time limit of its own, and what fails does not keep the next one from
its turn. After each part there is a newer ``report.json`` in the folder (``--folder``, by default
benchmarks/out/gpu_evidence), and what the part printed (the end of it) beside. A run that was cut
short goes on where it ended: parts in the report are left out, unless ``--again`` asks for them.
Tests come first, several processes at once, as compilers take most of their time; meanwhile others
fill NVRTC's cache for the measurements, which run alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click

import tilesmith as ts
from benchmarks.report import machine, show
from tilesmith.support.errors import DeviceError
from tilesmith.support.files import replace_file

ROOT = Path(__file__).resolve().parents[1]
MINUTES = 12.0
SHORTEST = 10.0
"""Seconds below which no part is begun."""
KEPT = 1 << 18
"""Bytes that are kept of what a part prints."""
SHOWN = 20
"""Lines of that in the report."""
PYTHON = sys.executable

TESTS, MEASUREMENT, AHEAD = "tests", "measurement", "ahead"


@dataclass(frozen=True)
class Part:
    """A process: its command, the seconds that it takes on an H100, and those that it may take.

    ``{folder}``, ``{name}`` and ``{workers}`` in a command are replaced. A measurement writes
    ``NAME.json``, tests write ``NAME.xml``; what is done ``ahead`` runs beside the tests.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    seconds: float
    limit: float


_AT_ONCE = ("-n", "{workers}") if importlib.util.find_spec("xdist") else ()


def _tests(name: str, seconds: float, limit: float, at_once: tuple[str, ...] = _AT_ONCE) -> Part:
    command = (
        PYTHON, "-m", "pytest", f"tests/gpu/test_{name}_on_gpu.py", "-q", "-s",
        "-p", "no:cacheprovider", "--junitxml={folder}/{name}.xml", *at_once,
    )  # fmt: skip
    return Part(name.replace("_", "-"), TESTS, command, seconds, limit)


def _measured(name: str, seconds: float, limit: float, *command: str) -> Part:
    written = (PYTHON, *command, "--json", "{folder}/{name}.json")
    return Part(name, MEASUREMENT, written, seconds, limit)


PARTS: tuple[Part, ...] = (
    Part("kernels-compiled", AHEAD, (PYTHON, "-m", "benchmarks.gpu", "--compile-only"), 60, 240),
    Part("ladder-compiled", AHEAD, (PYTHON, "-m", "examples.gemm_ladder.sweep", "--compile-only"),
         60, 240),
    _tests("wgmma", 50, 150, ()),
    _tests("tensor_copies", 25, 90, ()),
    _tests("launch", 40, 120),
    _tests("tensor_cores", 40, 120),
    _measured("ladder", 60, 150, "-m", "examples.gemm_ladder.sweep"),
    _measured("streams", 45, 100, "-m", "benchmarks.gpu_streams"),
    _tests("models", 40, 120),
    _measured("kernels", 75, 150, "-m", "benchmarks.gpu"),
    _measured("convolutions", 60, 120, "examples/gpu_convolution/measure.py"),
    _tests("devices", 30, 90),
    _tests("fuzzed", 60, 150),
)  # fmt: skip
"""All parts, what has to be known first in front. The seconds are estimates."""


class Report:
    """What is known of the parts so far, in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "report.json"
        self.content: dict[str, Any] = {"parts": {}}
        if self.path.exists():
            self.content = json.loads(self.path.read_text(encoding="utf-8"))

    def has(self, name: str) -> bool:
        """Return whether a part was run."""
        return name in self.content["parts"]

    def add(self, name: str, found: dict[str, Any]) -> None:
        """Add a part, and write the file."""
        self.content["parts"][name] = found
        self.write()

    def write(self, **facts: Any) -> None:
        """Write the file, with more facts."""
        self.content.update(facts)
        with replace_file(self.path) as file:
            file.write((json.dumps(self.content, indent=1) + "\n").encode())


class Running:
    """A part that runs: in a group of processes of its own, which ends with it."""

    def __init__(self, part: Part, folder: Path, workers: int) -> None:
        self.part, self.folder, self.begun = part, folder, time.monotonic()
        words = {"folder": str(folder), "name": part.name, "workers": str(workers)}
        command = [_filled(word, words) for word in part.command]
        for suffix in ("json", "xml"):
            (folder / f"{part.name}.{suffix}").unlink(missing_ok=True)
        self.log = folder / f"{part.name}.txt"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": _path()},
            )  # fmt: skip

    def ended(self, seconds: float) -> dict[str, Any]:
        """Wait until the part ends, at most so long; return what it found."""
        is_late = False
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            _end_group(self.process)
        taken = time.monotonic() - self.begun
        text = _kept(self.log)
        found: dict[str, Any] = {
            "status": "late" if is_late else "passed" if self.process.returncode == 0 else "failed",
            "seconds": round(taken, 1),
            "returncode": self.process.returncode,
            "end": text.splitlines()[-SHOWN:],
        }
        if self.part.kind == TESTS:
            found.update(_counted(self.folder / f"{self.part.name}.xml"))
            if found["status"] == "passed" and not found["tests"]["passed"]:
                found["status"] = "nothing ran"
        elif self.part.kind == MEASUREMENT:
            found["results"] = _read(self.folder / f"{self.part.name}.json")
            if found["status"] == "passed" and found["results"] is None:
                found["status"] = "nothing measured"
        return found


def _filled(word: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        word = word.replace("{" + name + "}", value)
    return word


def _path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a part: the process that was started and those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _kept(log: Path) -> str:
    """Cut what a part printed to its end; return that."""
    content = log.read_bytes()
    if len(content) > KEPT:
        content = b"(the end only)\n" + content[-KEPT:]
        log.write_bytes(content)
    return content.decode(errors="replace")


def _read(path: Path) -> Any:
    """Return the content of a file of JSON; None where there is none, or half of one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _counted(path: Path) -> dict[str, Any]:
    """Return how many tests passed, failed and were skipped, which failed, and why which were
    skipped.
    """
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    failures: list[str] = []
    skips: dict[str, int] = {}
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        cases = []
    for case in cases:
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
            failures.append(str(case.get("name")))
        elif skipped is not None:
            counts["skipped"] += 1
            reason = str(skipped.get("message"))
            skips[reason] = skips.get(reason, 0) + 1
        else:
            counts["passed"] += 1
    return {"tests": counts, "failures": failures, "skips": skips}


def chosen_parts(names: Sequence[str], parts: Iterable[Part]) -> list[Part]:
    """Return the parts of these names, or all. Raises BadParameter for a name that is unknown."""
    known = {part.name: part for part in parts}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"there is no part '{name}'; parts: {', '.join(known)}")
    return [part for part in known.values() if not names or part.name in names]


def check_device() -> str:
    """Return the name of the device. Raises DeviceError where there is none."""
    device = ts.cuda(0)
    if not device.exist:
        raise DeviceError(
            "there is no CUDA device here",
            notes=(
                "run it on a machine with an NVIDIA GPU and its driver; --list shows the parts",
            ),
        )
    return str(device.device_name)


def line_of(part: Part, found: dict[str, Any]) -> str:
    """Return what is printed of a part that has ended."""
    text = f"{part.name}: {found['status']} in {found['seconds']:.0f} s"
    if "tests" in found:
        counts = [f"{count} {word}" for word, count in found["tests"].items()]
        text += f" ({', '.join(counts)})"
    return text


def run_parts(parts: Sequence[Part], report: Report, seconds: float, workers: int) -> None:
    """Run parts one after the other within some seconds; what is done ahead runs beside tests."""
    end = time.monotonic() + seconds
    beside: list[Running] = []
    try:
        for part in parts:
            if part.kind == AHEAD:
                beside.append(Running(part, report.folder, workers))
                continue
            if part.kind == MEASUREMENT:
                _finish(beside, report, end)
            left = end - time.monotonic()
            if left < SHORTEST:
                click.echo(f"{part.name}: left out, no time is left")
                continue
            found = Running(part, report.folder, workers).ended(min(part.limit, left))
            report.add(part.name, found)
            click.echo(line_of(part, found))
    except BaseException:
        end = time.monotonic()
        raise
    finally:
        _finish(beside, report, end)


def _finish(beside: list[Running], report: Report, end: float) -> None:
    """Wait for what runs beside, within its limits; the list is empty afterwards."""
    while beside:
        one = beside.pop(0)
        left = min(one.begun + one.part.limit, end) - time.monotonic()
        found = one.ended(left)
        report.add(one.part.name, found)
        click.echo(line_of(one.part, found))


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(__file__).with_name("out") / "gpu_evidence",
    help="For the report.",
)
@click.option("--minutes", default=MINUTES, help="For all parts together.")
@click.option("--workers", default=min(8, os.cpu_count() or 1), help="Processes of tests.")
@click.option("--again", is_flag=True, help="Also run parts that the report has.")
@click.option("--list", "is_listed", is_flag=True, help="Show the parts; needs no device.")
def main(
    names: tuple[str, ...], folder: Path, minutes: float, workers: int, again: bool, is_listed: bool
) -> None:
    """Run the parts NAMES (all of them without names) on a CUDA device."""
    parts = chosen_parts(names, PARTS)
    if is_listed:
        rows = [[one.name, one.kind, f"{one.seconds:.0f}", f"{one.limit:.0f}"] for one in parts]
        alone = sum(one.seconds for one in parts if one.kind != AHEAD)
        show(f"{alone:.0f} s expected", ["part", "kind", "seconds", "limit"], rows)
        return
    try:
        device = check_device()
    except DeviceError as error:
        raise click.ClickException(
            f"DeviceError: {error.message}: {'; '.join(error.notes)}"
        ) from None
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder)
    report.write(device=device, machine=machine())
    waiting = [part for part in parts if again or not report.has(part.name)]
    if not [part for part in waiting if part.kind == MEASUREMENT] and not names:
        waiting = [part for part in waiting if part.kind != AHEAD]  # they only serve measurements
    run_parts(waiting, report, 60 * minutes, workers)
    click.echo(f"report: {report.path}")
    wrong = [
        one.name for one in parts
        if report.content["parts"].get(one.name, {}).get("status") != "passed"
    ]  # fmt: skip
    if wrong:
        raise click.ClickException(f"not passed: {', '.join(wrong)}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.gpu_evidence")
