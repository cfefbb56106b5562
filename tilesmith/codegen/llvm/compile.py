"""Compiles LLVM text to object code: in this process or, for foreign CPUs, in a child process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilesmith.codegen.llvm import machine_code
from tilesmith.support.errors import CodegenError, MissingDependencyError
from tilesmith.support.summary import step
from tilesmith.target import Target
from tilesmith.target.features import architecture_of_triple, is_host, llvm_machine
from tilesmith.target.host import host_cpu

_CHILD = Path(machine_code.__file__)
_SPECIAL = re.compile(r"@llvm\.((?:x86|aarch64|arm|riscv)\.[\w.]+)")
_HARMLESS = ("x86.sse2.pause", "aarch64.hint")
_LINE = re.compile(r"<string>:(\d+):(\d+): ")


def optimisation_level(target: Target, opt_level: int | None = None) -> int:
    """Return the requested level, else the target's `-opt-level`, else 3."""
    if opt_level is None:
        opt_level = int(target.attrs.get("opt-level", 3))
    return max(0, min(3, opt_level))


def llvm_options(target: Target) -> list[str]:
    """Return the target's `-cl-opt` in the form of LLVM's command line: `-unroll-count:uint=3`
    names the type of its value, which LLVM knows.
    """
    found = []
    for option in target.attrs.get("cl-opt", ()):
        name, equals, value = option.partition("=")
        found.append("-" + name.partition(":")[0].lstrip("-") + equals + value)
    return found


def compile_text(
    text: str, target: Target, opt_level: int | None = None, imported: Sequence[str] = ()
) -> bytes:
    """Return the object file of an LLVM text.

    `imported` are further texts to link in. Raises CodegenError with the lines that LLVM refused.
    """
    return compile_formats(text, target, ("o",), opt_level, imported)["o"]


def assembly(
    text: str, target: Target, opt_level: int | None = None, imported: Sequence[str] = ()
) -> str:
    """Return the assembly of an LLVM text."""
    return compile_formats(text, target, ("asm",), opt_level, imported)["asm"].decode()


def compile_formats(
    text: str,
    target: Target,
    formats: Sequence[str],
    opt_level: int | None = None,
    imported: Sequence[str] = (),
) -> dict[str, bytes]:
    """Return several formats of an LLVM text at once: "o", "asm", "ll" (optimised)."""
    machine = llvm_machine(target)
    request = {
        "machine": {
            "triple": machine.triple,
            "cpu": machine.cpu,
            "features": machine.features,
            "abi": machine.abi,
        },
        "opt_level": optimisation_level(target, opt_level),
        "options": llvm_options(target),
        "formats": list(formats),
        "imported": list(imported),
    }
    is_safe = not request["options"] and _is_safe("\n".join([text, *imported]), target)
    with step("LLVM"):
        return _compiled(request, text) if is_safe else _compile_in_child(request, text)


def _compiled(request: dict[str, Any], text: str) -> dict[str, bytes]:
    """Return several formats of a text, made in this process."""
    try:
        return machine_code.compile_text(request, text)
    except machine_code.TextError as error:
        raise _refused(str(error), text) from error
    except ImportError as error:
        raise MissingDependencyError("llvmlite", purpose="the target 'llvm'") from error
    except RuntimeError as error:
        raise CodegenError(f"LLVM: {error}") from error


class _Child:
    """A compiler process, started at the first request and again after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._owner = 0
        self._lock = threading.Lock()

    def ask(self, request: dict[str, Any], text: str) -> tuple[dict[str, Any], bytes]:
        """Return the answer's head and contents. Raises ChildProcessError when the process dies."""
        data = text.encode()
        head = json.dumps({**request, "size": len(data)}).encode() + b"\n"
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(head + data)
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = b""
            if not line:
                raise ChildProcessError(self._last_words())
            answer = json.loads(line)
            size = sum(answer.get("sizes", {}).values())
            return answer, process.stdout.read(size)

    def _running(self) -> subprocess.Popen[bytes]:
        # a forked child of ours must not share the pipes with its parent
        if self._process is None or self._process.poll() is not None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._errors = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    str(_CHILD),
                ],  # -P: modules of the script's folder must not hide those of the library
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                process_group=0,  # Ctrl-C reaches only the parent
            )
        return self._process

    def _last_words(self) -> str:
        """Return the output of the process before it died."""
        assert self._process is not None
        status = self._process.wait()
        self._process = None
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return "\n".join(said[-3:]) or f"the compiler ended with status {status}"


_children: dict[tuple[str, ...], _Child] = {}
"""Processes by the options of LLVM that they were started for: those hold for a whole process."""


def _compile_in_child(request: dict[str, Any], text: str) -> dict[str, bytes]:
    child = _children.setdefault(tuple(request["options"]), _Child())
    try:
        answer, content = child.ask(request, text)
    except ChildProcessError as error:
        machine = request["machine"]
        raise CodegenError(
            f"LLVM could not make code for '{machine['triple']}' ({machine['cpu'] or 'generic'})",
            notes=(str(error),),
        ) from None
    if "error" in answer:
        if answer["is_text"]:
            raise _refused(answer["error"], text)
        raise CodegenError(f"LLVM: {answer['error']}")
    made, start = {}, 0
    for form, size in answer["sizes"].items():
        made[form] = content[start : start + size]
        start += size
    return made


def _is_safe(text: str, target: Target) -> bool:
    """True if LLVM cannot fail to select instructions: for this machine, or for another CPU of its
    family if the text has no target-specific instructions.
    """
    if is_host(target):
        return True
    if architecture_of_triple(target.mtriple or host_cpu().triple) != architecture_of_triple(
        host_cpu().triple
    ):
        return False
    special = _SPECIAL.findall(text)
    return all(name in _HARMLESS for name in special)


def _refused(message: str, text: str) -> CodegenError:
    """Return LLVM's error message with the lines of the text around its position."""
    found = _LINE.search(message)
    if found is None:
        return CodegenError(f"LLVM refused the generated text: {message.strip()}")
    number = int(found.group(1))
    lines = text.split("\n")
    shown = [
        f"{'>' if line == number else ' '} {line:5}: {lines[line - 1]}"
        for line in range(max(1, number - 2), min(len(lines), number + 1) + 1)
    ]
    what = message.strip().splitlines()[-3 if len(message.strip().splitlines()) >= 3 else 0]
    return CodegenError(
        f"LLVM refused the generated text at line {number}: {what}", notes=("\n".join(shown),)
    )
