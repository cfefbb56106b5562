"""Counts the instructions of a kernel's innermost loop that multiplies, by what they are for."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tilesmith.codegen.gpu import kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source

KINDS = {
    "multiply-adds": r"FFMA|FMUL|FADD",
    "integers": r"IMAD|IADD|LEA|SHF|LOP3|ISETP|IABS|IMNMX|PRMT|BFE|POPC|VIADD|SEL|PLOP3|VIMNMX",
    "uniform": r"U[A-Z]|R2UR|S2UR|LDC|ULDC",
    "memory": r"LD|ST|ATOM|RED",
    "moves": r"MOV|CS2R|S2R",
}
"""Kinds of instructions, by how their names begin; the first that fits."""


def find_disassembler() -> str | None:
    """Return the path of nvdisasm; None without one (pip install nvidia-cuda-nvdisasm)."""
    package = importlib.util.find_spec("nvidia")
    for place in package.submodule_search_locations or () if package else ():
        for found in Path(place).glob("*/bin/nvdisasm"):
            return str(found)
    return shutil.which("nvdisasm")


def kind_of(name: str) -> str:
    """Return what an instruction is for."""
    for kind, pattern in KINDS.items():
        if re.match(pattern, name):
            return kind
    return "other"


def loop_instructions(text: str) -> Counter[str]:
    """Return the kinds of instructions in the largest loop of a disassembly."""
    lines = text.splitlines()
    labels = {match[1]: number for number, line in enumerate(lines)
              if (match := re.match(r"\s*(\.L_\w+):", line))}  # fmt: skip
    best = (0, 0)
    for number, line in enumerate(lines):
        jump = re.search(r"\bBRA\b.*`\((\.L_\w+)\)", line)
        start = labels.get(jump[1], number) if jump else number
        if number - start > best[1] - best[0]:
            best = start, number
    found: Counter[str] = Counter()
    for line in lines[best[0] : best[1] + 1]:
        name = re.search(r"\*/\s+(?:@!?U?P\d+\s+)?([A-Z][A-Z0-9_]*)", line)
        if name:
            found[kind_of(name[1])] += 1
    return found


def machine_code(built: Any, arch: str = "sm_90") -> dict[str, Any]:
    """Return registers, bytes of stack, and the instructions of the loop over steps."""
    cubin = compile_source(built.imported_modules[0].get_source(), arch, "cubin")
    (needs,) = kernel_resources(cubin).values()
    found = {"registers": needs.registers, "stack_bytes": needs.local_bytes}
    tool = find_disassembler()
    if tool is None:
        return found
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True)
    return found | {"loop": dict(loop_instructions(text.stdout))}
