"""From LLVM text to object code: in this process or, for foreign CPUs, in a child process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilesmith.codegen.llvm import machine_code
from tilesmith.support.errors import CodegenError, MissingDependencyError
from tilesmith.target import Target
from tilesmith.target.features import is_host, llvm_machine

_CHILD = Path(machine_code.__file__)
_LINE = re.compile(r"<string>:(\d+):(\d+): ")


def optimisation_level(target: Target, opt_level: int | None = None) -> int:
    """The level asked for, else the target's `-opt-level`, else 3."""
    if opt_level is None:
        opt_level = int(target.attrs.get("opt-level", 3))
    return max(0, min(3, opt_level))


def compile_text(
    text: str, target: Target, opt_level: int | None = None, imported: Sequence[str] = ()
) -> bytes:
    """The object file of an LLVM text.

    `imported` are further texts to link in. Raises CodegenError with the lines that LLVM refused.
    """
    return compile_formats(text, target, ("o",), opt_level, imported)["o"]


def assembly(
    text: str, target: Target, opt_level: int | None = None, imported: Sequence[str] = ()
) -> str:
    """The assembly of an LLVM text."""
    return compile_formats(text, target, ("asm",), opt_level, imported)["asm"].decode()


def compile_formats(
    text: str,
    target: Target,
    formats: Sequence[str],
    opt_level: int | None = None,
    imported: Sequence[str] = (),
) -> dict[str, bytes]:
    """Several forms of an LLVM text at once: "o", "asm", "ll" (as optimised)."""
    machine = llvm_machine(target)
    request = {
        "machine": {
            "triple": machine.triple,
            "cpu": machine.cpu,
            "features": machine.features,
            "abi": machine.abi,
        },
        "opt_level": optimisation_level(target, opt_level),
        "formats": list(formats),
        "imported": list(imported),
    }
    if not is_host(target):
        return _compile_in_child(request, text)
    try:
        return machine_code.compile_text(request, text)
    except machine_code.TextError as error:
        raise _refused(str(error), text) from error
    except ImportError as error:
        raise MissingDependencyError("llvmlite", purpose="the target 'llvm'") from error
    except RuntimeError as error:
        raise CodegenError(f"LLVM: {error}") from error


def _compile_in_child(request: dict[str, Any], text: str) -> dict[str, bytes]:
    data = text.encode()
    head = json.dumps({**request, "size": len(data)}).encode() + b"\n"
    # -P: the file's folder must not come before the standard library
    command = [sys.executable, "-P", str(_CHILD)]
    done = subprocess.run(command, input=head + data, capture_output=True, check=False)
    line, _, content = done.stdout.partition(b"\n")
    if done.returncode != 0 or not line:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        machine = request["machine"]
        raise CodegenError(
            f"LLVM could not make code for '{machine['triple']}' ({machine['cpu'] or 'generic'})",
            notes=tuple(said[-3:]) or (f"the compiler ended with status {done.returncode}",),
        )
    answer = json.loads(line)
    if "error" in answer:
        raise _refused(answer["error"], text)
    made, start = {}, 0
    for form, size in answer["sizes"].items():
        made[form] = content[start : start + size]
        start += size
    return made


def _refused(message: str, text: str) -> CodegenError:
    """LLVM's complaint with the lines of the text around the place."""
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
