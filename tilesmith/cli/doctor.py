"""`tilesmith doctor`: what is installed, which targets work, what installs the rest."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
import platform
import sys
from dataclasses import asdict, dataclass
from typing import Any

import click

from tilesmith import __version__
from tilesmith.cli.options import json_option, print_json


def has_module(name: str) -> bool:
    """Whether a module can be found, without importing it (its parents are imported)."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # a parent is missing
        return False


def has_back_end(kind: str) -> bool:
    """Whether this version can generate code for a kind of target."""
    return has_module(f"tilesmith.codegen.{kind}")


@dataclass(frozen=True)
class Package:
    """One package: its name for pip, its module, what it is for, the extra it comes with."""

    name: str
    module: str
    purpose: str
    extra: str = ""
    back_end: str = ""
    """The only back end that needs it: of no use in a version without that one."""

    def version(self) -> str | None:
        """The installed version; None where the module is missing."""
        if not has_module(self.module):
            return None
        try:
            return importlib.metadata.version(self.name)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    @property
    def command(self) -> str:
        """What installs it."""
        wanted = f"'tilesmith[{self.extra}]'" if self.extra else self.name
        return f"pip install {wanted}"


PACKAGES = (
    Package("apache-tvm-ffi", "tvm_ffi", "calling compiled functions"),
    Package("llvmlite", "llvmlite", "code for CPUs"),
    Package("numpy", "numpy", "arrays"),
    Package("ml_dtypes", "ml_dtypes", "bfloat16 and other small types"),
    Package("safetensors", "safetensors", "parameters in files"),
    Package("click", "click", "this command"),
    Package("rich", "rich", "tables and progress"),
    Package("onnx", "onnx", "reading ONNX models", "onnx"),
    Package("onnxruntime", "onnxruntime", "comparing with it (bench)", "demo"),
    Package("torch", "torch", "sharing tensors with torch", "torch"),
    Package("cuda-bindings", "cuda.bindings", "code for NVIDIA GPUs", "cuda", "cuda"),
    Package("pyopencl", "pyopencl", "code for OpenCL devices", "opencl", "opencl"),
)


@dataclass(frozen=True)
class TargetState:
    """Whether code for a kind of target can be made and run here."""

    kind: str
    works: bool
    detail: str


def check_llvm() -> TargetState:
    """Compile and run a function of one loop."""
    try:
        import numpy as np

        from tilesmith import te
        from tilesmith.lowering import build
        from tilesmith.runtime import nd

        x = te.placeholder((4,), name="x")
        y = te.compute((4,), lambda i: x[i] + x[i], name="y")
        built = build(te.create_prim_func([x, y]), target="llvm")
        source = nd.array(np.arange(4, dtype="float32"))
        result = nd.array(np.zeros(4, dtype="float32"))
        built(source, result)
        if result.numpy().tolist() != [0, 2, 4, 6]:
            return TargetState("llvm", False, f"wrong result: {result.numpy().tolist()}")
        from tilesmith.target import Target, host_cpu, machine_model

        model = machine_model(Target("llvm"))
        detail = f"{host_cpu().name}, {model.name}, {8 * model.vector_bytes}-bit vectors"
        return TargetState("llvm", True, f"{detail}, {model.cores} cores")
    except Exception as error:  # a report about what is broken must not break itself
        return TargetState("llvm", False, " ".join(f"{type(error).__name__}: {error}".split()))


def check_target(kind: str) -> TargetState:
    """One kind of target other than llvm: is there a back end, and what it needs?"""
    if not has_back_end(kind):
        return TargetState(kind, False, "this version has no back end for it")
    for package in PACKAGES:
        if package.back_end == kind and package.version() is None:
            return TargetState(kind, False, package.command)
    if kind == "cuda" and ctypes.util.find_library("cuda") is None:
        return TargetState(kind, False, "compiles, but there is no NVIDIA driver to run on")
    return TargetState(kind, True, "back end installed")


def examine() -> dict[str, Any]:
    """Everything that the command reports, as JSON's values."""
    from tilesmith.runtime.threads import num_threads
    from tilesmith.support.knobs import knobs

    packages = [
        {
            "package": package.name,
            "version": package.version(),
            "purpose": package.purpose,
            "required": not package.extra,
            "install": package.command,
        }
        for package in PACKAGES
        if not package.back_end or has_back_end(package.back_end)
    ]
    kinds = ("c", "cuda", "opencl", "vulkan", "metal", "rocm", "webgpu", "hexagon")
    states = [check_llvm(), *(check_target(kind) for kind in kinds)]
    return {
        "tilesmith": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": num_threads(),
        "thread_runtime": "pool" if knobs.thread_runtime == "auto" else knobs.thread_runtime,
        "cache": bool(knobs.cache),
        "packages": packages,
        "targets": [asdict(state) for state in states],
    }


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> None:
    """Say what is installed, which targets work, and what installs the rest.

    Ends with exit code 1 when a required package is missing or this machine's CPU does not work.
    """
    found = examine()
    missing = [p for p in found["packages"] if p["required"] and p["version"] is None]
    cpu = found["targets"][0]
    if as_json:
        print_json(found)
    else:
        _print(found)
    if missing or not cpu["works"]:
        sys.exit(1)


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"tilesmith {found['tilesmith']}, Python {found['python']}, {found['platform']}; "
        f"{found['threads']} threads ({found['thread_runtime']})",
        highlight=False,
    )
    packages = Table("package", "version", "for", "install")
    for package in found["packages"]:
        version = package["version"]
        packages.add_row(
            package["package"],
            version or ("missing" if package["required"] else "not installed"),
            package["purpose"],
            "" if version else package["install"],
        )
    targets = Table("target", "works", "")
    for state in found["targets"]:
        targets.add_row(state["kind"], "yes" if state["works"] else "no", state["detail"])
    console.print(packages, targets, markup=False)
