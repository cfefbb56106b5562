"""Reports a measurement: a table on the terminal and a JSON file with a description of the
machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).with_name("out")
"""Where a run writes unless told otherwise; not kept."""
RESULTS = Path(__file__).with_name("results")
"""The figures of the tables in README.md; kept. CPUs have a folder each, as ratios differ much."""
PACKAGES = (
    "tilesmith", "llvmlite", "numpy", "onnxruntime", "torch", "openvino", "jax", "apache-tvm",
)  # fmt: skip
# Output that goes to a file is not cut at 80 columns.
console = Console(width=None if sys.stdout.isatty() else 180)


def machine() -> dict[str, Any]:
    """Return the machine and the versions, without which figures mean little."""
    from tilesmith.target import Target, host_cores, host_cpu, machine_model

    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "commit": _commit(),
        "cpu": host_cpu().name,
        "class": machine_model(Target("llvm")).name,
        "cores": host_cores(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": versions,
    }


def _commit() -> str:
    """Return the commit that is measured, with a + if files differ from it; "" where there is no
    git.
    """
    command = ["git", "-C", str(OUT.parent), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others figures."""
    table = Table(title=title)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def save(name: str, records: Any, path: Path | None, **settings: Any) -> Path:
    """Write `records` with machine and settings as JSON; by default below benchmarks/out."""
    path = path or OUT / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {"benchmark": name, "machine": machine(), "settings": settings, "results": records},
        indent=2,
    )
    path.write_text(text + "\n", encoding="utf-8")
    return path


def record_folder(folder: Path = RESULTS) -> Path:
    """Return where the records of CPUs such as this one are, by LLVM's name for it."""
    return folder / machine()["cpu"]


def add_to_record(
    name: str, records: dict[str, Any], folder: Path = RESULTS, **settings: Any
) -> Path:
    """Add records to those that the tables of README.md are made of. There is a file for each kind
    of CPU, precision, batch and number of threads.
    """
    parts = [name, settings["precision"], f"batch{settings['batch']}", f"{settings['threads']}t"]
    path, kept = record_folder(folder) / f"{'-'.join(parts)}.json", {}
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))["results"]
    return save(name, {**kept, **records}, path, **settings)
