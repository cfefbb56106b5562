"""Runs every case in a process of its own, with limits of time and memory.

A server (``python -m``) imports everything once, compiles a few models so that passes and tables
are loaded, and runs nothing, so that it has no threads; for each case it forks. The child tells
through a pipe which phase it is in and, at the end, what came of it. One that exceeds its time
first gets a signal that makes it write its Python stack, and is then ended.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilesmith.support.workers import serve
from tilesmith.testing.fuzz.models import actions
from tilesmith.testing.fuzz.models.actions import act, run_case, save_artifacts
from tilesmith.testing.fuzz.models.cases import draw_case
from tilesmith.testing.fuzz.models.verdict import of_signal

__all__ = ["Server"]

Work = Callable[[Path, Callable[[str], None]], dict[str, Any]]

_MOST_FILE = 1 << 20
_WARMING = ("conv", "matmul_dynamic", "reduce", "gather")


class Server:
    """Answers requests by forking; see ``handle`` for what can be asked."""

    def __init__(
        self, saved: Path, seconds: float, memory: int, own_models: bool = False,
        has_torch: bool = False,
    ) -> None:  # fmt: skip
        self.own_models = own_models
        self.has_torch = has_torch
        self.saved = saved
        self.seconds = seconds
        self.memory = memory

    def handle(self, request: dict[str, Any], blobs: list[bytes]) -> tuple[Any, list[bytes]]:
        """Handle a message: ``save`` compiles the artifacts, ``seed`` and ``case`` run a case,
        ``names`` with the files as blobs run it on these files.
        """
        if "save" in request:
            return self._isolated(self._save, 600.0)[0], []
        case = request.get("case")
        if case is None:
            kind, level = request.get("kind"), request.get("level")
            has_command = actions.command is not None
            case = draw_case(
                request["seed"], kind, level, self.own_models, has_command, self.has_torch
            )
        names = request.get("names")

        def work(folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
            if names is None:
                return run_case(case, self.saved, folder, note)
            for name, content in zip(names, blobs):
                (folder / name).write_bytes(content)
            path = folder / names[0] if names else None
            return act(case, path, self.saved, note)

        record, files = self._isolated(work, self.seconds)
        return {**record, "case": case, "names": list(files)}, list(files.values())

    def _save(self, folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
        note("save")
        save_artifacts(self.saved)
        return {"outcome": "ok"}

    def _isolated(self, work: Work, seconds: float) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Run a piece of work in a child; return its record, and its files if it failed."""
        folder = Path(tempfile.mkdtemp(prefix="tilesmith-fuzz-"))
        try:
            return self._in_folder(folder, work, seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _in_folder(
        self, folder: Path, work: Work, seconds: float
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        outside = folder / "output"
        inside = folder / "files"
        inside.mkdir()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(reader)
            self._child(inside, outside, writer, work, seconds)
        os.close(writer)
        try:
            lines, status = _wait(child, reader, seconds)
        except SystemExit:
            _end_group(child)
            raise
        phase, record = "start", None
        for line in lines:
            kind, _, text = line.partition(" ")
            if kind == "phase":
                phase = text
            elif kind == "record":
                record = json.loads(text)
        if record is None:
            output = outside.read_text(errors="replace") if outside.exists() else ""
            if phase in ("compare", "export"):  # the rival died, not we
                record = {"outcome": "ok", "phase": phase, "reason": "the rival dies"}
            else:
                record = of_signal(status, phase, output)
        found = sorted(path for path in inside.iterdir() if path.is_file())
        small = [path for path in found if path.stat().st_size <= _MOST_FILE]
        first = sorted(small, key=lambda path: not path.name.startswith(("model.", "x.")))
        keep = "signature" in record
        return record, {path.name: path.read_bytes() for path in first} if keep else {}

    def _child(self, folder: Path, outside: Path, writer: int, work: Work, seconds: float) -> None:
        """Do the work and end the process, whatever happens."""
        try:
            os.setsid()
            output = os.open(outside, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout = open(1, "w", closefd=False)
            sys.stderr = open(2, "w", closefd=False)
            faulthandler.enable(output)
            faulthandler.register(signal.SIGUSR1, output)
            whole = int(seconds) + 1
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (whole + 5, whole + 5))
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
            os.chdir(folder)
            record = work(folder, lambda phase: _tell(writer, f"phase {phase}"))
            _tell(writer, "record " + json.dumps(record))
        except BaseException as error:  # a bug of the fuzzer itself
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(0)


def _tell(writer: int, line: str) -> None:
    data = line.encode(errors="replace") + b"\n"
    while data:
        data = data[os.write(writer, data) :]


def _wait(child: int, reader: int, seconds: float) -> tuple[list[str], str]:
    """Read what a child tells until it ends or its time is over; return that, and how it ended."""
    end = time.monotonic() + seconds
    data, asked = b"", False
    while True:
        left = end - time.monotonic()
        if left <= 0:
            if asked:
                break
            asked, end = True, time.monotonic() + 1.0
            os.kill(child, signal.SIGUSR1)  # writes the Python stack
            continue
        if not select.select([reader], [], [], left)[0]:
            continue
        part = os.read(reader, 1 << 16)
        if not part:
            break
        data += part
    ended, status = os.waitpid(child, os.WNOHANG)
    deadline = time.monotonic() + (0.0 if asked else 10.0)
    while ended == 0 and time.monotonic() < deadline:
        time.sleep(0.002)
        ended, status = os.waitpid(child, os.WNOHANG)
    if ended == 0:
        _end_group(child)
        _, status = os.waitpid(child, 0)
        asked = True
    else:
        _end_group(child)
    os.close(reader)
    lines = data.decode(errors="replace").splitlines()
    if asked or os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return lines, "time"
    if os.WIFSIGNALED(status):
        return lines, signal.Signals(os.WTERMSIG(status)).name
    return lines, f"exit code {os.WEXITSTATUS(status)}"


def _end_group(child: int) -> None:
    """End a child with the processes that it has started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _warm_up(own_models: bool, has_torch: bool) -> None:
    """Import what cases use and compile a few models, so that children do not have to."""
    from tilesmith.driver.model import compile as compile_model
    from tilesmith.relax.frontend.onnx import supported_operators
    from tilesmith.testing.fuzz.models.bases import load_base, names_of_others

    supported_operators()
    if not own_models:
        names_of_others()
    for module in (
        "click.testing", "onnxruntime", "tilesmith.driver.warm_up",
        "tilesmith.driver.relax_build", "tilesmith.codegen.llvm",
        "tilesmith.relax.interpreter", "tilesmith.runtime.executable",
    ):  # fmt: skip
        try:
            importlib.import_module(module)
        except ImportError:
            if module != "onnxruntime":
                raise
    for name in _WARMING:
        compile_model(load_base(name), cache=False)
    if has_torch:
        from tilesmith.testing.fuzz.models.torch_graph import warm_up

        warm_up()
    gc.freeze()  # the collector of a child does not touch, and so copy, what is here


def _named(place: str) -> Any:
    """Return what a text such as "module:name" names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--memory", type=int, default=3 << 30)
    parser.add_argument("--own-models", action="store_true")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--command")
    parser.add_argument("--patch")
    options = parser.parse_args()

    def start() -> None:
        _warm_up(options.own_models, options.torch)
        if options.command:
            actions.command = _named(options.command)
        if options.patch:
            _named(options.patch)()

    # So that whoever is asked to end ends the child, too, and removes its folder.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    server = Server(
        options.saved, options.seconds, options.memory, options.own_models, options.torch
    )
    serve(server.handle, start)


if __name__ == "__main__":
    main()
