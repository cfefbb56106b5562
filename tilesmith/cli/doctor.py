"""`tilesmith doctor`: reports what is installed, which targets work, and how to install the
rest.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from tilesmith import __version__
from tilesmith.cli.console import table_console
from tilesmith.cli.options import json_option, print_json
from tilesmith.support.errors import reason_of
from tilesmith.support.packages import Package, install_command

if TYPE_CHECKING:
    from rich.table import Table

    from tilesmith.runtime.devices import Device


def has_module(name: str) -> bool:
    """Return whether a module can be found; imports its parents, but not the module itself."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # a parent is missing
        return False


def installed_version(package: Package) -> str | None:
    """Return the installed version of a package; None if its module is missing."""
    if not has_module(package.module):
        return None
    try:
        return importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


PACKAGES = (
    Package("apache-tvm-ffi", "tvm_ffi", "calling compiled functions"),
    Package("numpy", "numpy", "arrays"),
    Package("ml_dtypes", "ml_dtypes", "bfloat16 and other small types"),
    Package("safetensors", "safetensors", "parameters in files"),
    Package("click", "click", "this command"),
    Package("rich", "rich", "tables and progress"),
    Package("onnx", "onnx", "reading ONNX models", "onnx"),
    Package("onnxruntime", "onnxruntime", "comparing with it (bench)", "demo"),
    Package("torch", "torch", "sharing tensors with torch", "torch"),
)
"""What all targets need or may use; the records of the back ends name the rest."""


@dataclass(frozen=True)
class TargetState:
    """State of one kind of target: whether its code can be made and run here."""

    kind: str
    works: bool
    detail: str


def check_target(kind: str) -> TargetState:
    """Check one kind of target: its back end, its tools, and that its code runs."""
    from tilesmith.target.back_end import BACK_ENDS, part

    record = BACK_ENDS.get(kind, None)
    if record is None:
        return TargetState(kind, False, "this version has no back end for it")
    for package in record.packages:
        if installed_version(package) is None:
            return TargetState(kind, False, install_command(package.name, package.extra))
    try:
        detail = "back end installed" if record.describe is None else part(record.describe)()
        wrong = "" if record.is_device else _run_a_loop(kind)
        return TargetState(kind, not wrong, wrong or detail)
    except Exception as error:  # the report must not fail because of what it reports
        return TargetState(
            kind, False, " ".join(f"{type(error).__name__}: {reason_of(error)}".split())
        )


def _run_a_loop(kind: str) -> str:
    """Compile and run a function of one loop; return a description of the failure, if any."""
    import numpy as np

    from tilesmith import te
    from tilesmith.lowering import build
    from tilesmith.runtime import nd

    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + x[i], name="y")
    built = build(te.create_prim_func([x, y]), target=kind)
    if not built.is_runnable:
        return ""  # the detail says that only source is made
    source = nd.array(np.arange(4, dtype="float32"))
    result = nd.array(np.zeros(4, dtype="float32"))
    built(source, result)
    values = result.numpy().tolist()
    return "" if values == [0, 2, 4, 6] else f"wrong result: {values}"


DEVICE_KINDS = ("cuda", "opencl")
"""Kinds of devices that have a runtime, besides the CPU."""


def examine_devices() -> list[dict[str, Any]]:
    """Return the devices of each kind; for a kind without any, why that is so."""
    from tilesmith.runtime.devices import DEVICE_APIS, device

    found: list[dict[str, Any]] = []
    for kind in DEVICE_KINDS:
        try:
            api = DEVICE_APIS[kind]
            problem = api.problem()
            found += [_device_row(device(kind, number)) for number in range(api.count())]
        except Exception as error:  # the report must not fail because of what it reports
            problem = f"{type(error).__name__}: {reason_of(error)}"
        if problem:
            found.append({"device": kind, "problem": " ".join(problem.split())})
    return found


def _device_row(one: Device) -> dict[str, Any]:
    return {
        "device": f"{one.type}({one.device_id})",
        "problem": "",
        "name": one.device_name,
        "kind": one.device_kind,
        "compute_version": one.compute_version,
        "driver_version": one.driver_version,
        "processors": one.multi_processor_count,
        "memory_bytes": one.total_global_memory,
    }


def examine_cache() -> dict[str, Any]:
    """Return where the caches are, their size, and why they cannot be used, if so."""
    from tilesmith.support.cache import cache_folder, cache_problem, disk_caches
    from tilesmith.support.knobs import knobs

    try:
        path = str(cache_folder())
    except OSError:
        path = ""  # the problem says why
    problem = cache_problem() if knobs.cache else "switched off by TILESMITH_CACHE=0"
    size = sum([cache.size() for cache in disk_caches()])
    return {"path": path, "bytes": size, "usable": not problem, "problem": problem}


_NOT_FIGURES = ("name",)


def examine_machine() -> dict[str, Any]:
    """Return the figures of this machine's model, each with where it comes from."""
    from tilesmith.target import Target, machine_model
    from tilesmith.target.calibration import calibration
    from tilesmith.target.machine import sources

    target = Target("llvm")
    model, found = machine_model(target), calibration()
    origins = sources(target)
    return {
        "class": model.name,
        "calibrated": None if found is None else found.time,
        "measured": {} if found is None else {**dict(found.figures), **dict(found.facts)},
        "figures": [
            {"figure": name, "value": value, "source": origins[name]}
            for name, value in asdict(model).items()
            if name not in _NOT_FIGURES
        ],
    }


def calibrate_machine() -> str:
    """Measure this machine and keep what was found; return where, and whether others disturbed."""
    from tilesmith.inspect.machine_speed import calibrate
    from tilesmith.support.progress import status
    from tilesmith.target.calibration import store

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    with status("measuring this machine"):
        found = calibrate()
    busy = f" (the load was {load:.1f}: measure again when it is quiet)" if load > 1 else ""
    return f"{store(found)}{busy}"


def examine() -> dict[str, Any]:
    """Return everything that the command reports, as JSON values."""
    from tilesmith.runtime.threads import num_threads
    from tilesmith.support.knobs import knobs
    from tilesmith.target.back_end import BACK_ENDS
    from tilesmith.target.kind import CPU, KINDS

    served = BACK_ENDS.names(load=True)
    records = [BACK_ENDS[kind] for kind in served]
    packages = [
        {
            "package": package.name,
            "version": installed_version(package),
            "purpose": package.purpose,
            "required": not package.extra,
            "install": install_command(package.name, package.extra),
        }
        for package in dict.fromkeys([*PACKAGES, *[p for r in records for p in r.packages]])
    ]
    others = [kind for kind in KINDS if kind not in served and KINDS[kind].device_type != CPU]
    # this machine's CPU first: it has to work
    kinds = sorted([*served, *others], key=lambda kind: not KINDS[kind].means_host)
    states = [check_target(kind) for kind in kinds]
    return {
        "tilesmith": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": num_threads(),
        "thread_runtime": "pool" if knobs.thread_runtime == "auto" else knobs.thread_runtime,
        "cache": examine_cache(),
        "machine": examine_machine(),
        "devices": examine_devices(),
        "packages": packages,
        "targets": [asdict(state) for state in states],
    }


@click.command("doctor")
@click.option(
    "--calibrate", "is_calibration", is_flag=True,
    help="Measure this machine first (some seconds, best while it is quiet): schedules are then "
    "chosen by its own figures. They are kept in the folder of the caches.",
)  # fmt: skip
@json_option
def doctor_command(is_calibration: bool, as_json: bool) -> None:
    """Say what is installed, which targets work, what installs the rest, and by which figures of
    this machine schedules are chosen.

    Ends with exit code 1 when a required package is missing or this machine's CPU does not work.
    """
    if is_calibration:
        place = calibrate_machine()
        click.echo(f"calibrated: {place}", err=True)
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
    from rich.table import Table

    console = table_console()
    console.print(
        f"tilesmith {found['tilesmith']}, Python {found['python']}, {found['platform']}; "
        f"{found['threads']} threads ({found['thread_runtime']})",
        highlight=False,
    )
    cache = found["cache"]
    state = f"unusable: {cache['problem']}" if cache["problem"] else "usable"
    place = cache["path"] or "none"
    console.print(
        f"cache {place}: {state}, {cache['bytes'] / 1e6:.1f} MB", highlight=False, soft_wrap=True
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
    devices = _device_table(found["devices"])
    console.print(packages, targets, devices, _machine_table(found["machine"]), markup=False)


def _device_table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("device", "name", "version", "driver", "processors", "memory")
    for row in rows:
        if row["problem"]:
            table.add_row(row["device"], row["problem"], "", "", "", "")
            continue
        table.add_row(
            row["device"], f"{row['name']} ({row['kind']})", row["compute_version"],
            row["driver_version"], str(row["processors"]), f"{row['memory_bytes'] / 2**30:.1f} GiB",
        )  # fmt: skip
    return table


def _machine_table(machine: dict[str, Any]) -> Table:
    from rich.table import Table

    when = machine["calibrated"]
    advice = f"calibrated {when}" if when else "not calibrated: tilesmith doctor --calibrate"
    table = Table("figure", "value", "from", title=f"machine model ({machine['class']}; {advice})")
    for one in machine["figures"]:
        value = one["value"]
        shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else f"{value:g}"
        if one["figure"].endswith("_bytes") and value >= 1024:
            shown = f"{value / 1024:g} KiB"
        table.add_row(one["figure"], shown, one["source"])
    known = {one["figure"] for one in machine["figures"]}
    for name, value in machine["measured"].items():
        if name not in known:
            table.add_row(name, f"{value:g}", "measured; schedules do not use it")
    return table
