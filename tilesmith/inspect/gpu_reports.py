"""Reports on the kernels of a GPU schedule, without a GPU: what is wrong, and what it will cost.

    report = tilesmith.inspect.gpu_report(schedule, target="cuda -arch=sm_90")
    print(report)                     # tables
    report.findings                   # races, undefined reads, accesses outside of buffers, ...
    report.kernels[0].occupancy       # a model, see target.gpu_machine
    report.to_json()

The kernels are run on small numbers with all threads of a block in lockstep; of a large grid only
some blocks are run and long loops are cut, which the report says. docs/gpu_report.md explains how
to read it, and where the models come from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith.codegen.gpu.cubin import KernelResources, kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.inspect.gpu_kernel_report import KernelReport, kernel_report
from tilesmith.inspect.gpu_report_text import report_text
from tilesmith.ir import IRModule
from tilesmith.lowering import build, lower
from tilesmith.lowering.gpu_checks import exceeded_limits, kernels_of, run_checks
from tilesmith.support.errors import (
    ConfigError,
    TilesmithError,
    TypeMismatchError,
    UnsupportedError,
)  # fmt: skip
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.knobs import knobs
from tilesmith.target import Target
from tilesmith.target.gpu_machine import GPU_MACHINES, GPUMachine, gpu_machine
from tilesmith.tir.analysis.verify_gpu_code import GPUViolation
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter.cooperation import is_kernel_program, launches_threads
from tilesmith.tir.interpreter.lockstep import Finding, LockstepOptions, Observer
from tilesmith.tir.interpreter.lockstep.counters import KernelCounters
from tilesmith.tir.interpreter.program import warp_size_of

__all__ = ["GPUReport", "gpu_report"]


@dataclass(frozen=True)
class GPUReport:
    """What was found in the kernels of a program, and what each of them costs on a machine.

    ``violations``: limits of the machine that kernels exceed, as `VerifyGPUCode` says them;
    ``notes``: what was not looked at; ``not_run``: the functions whose kernels could not be run.
    """

    machine: GPUMachine
    target: str
    kernels: tuple[KernelReport, ...]
    findings: tuple[Finding, ...]
    violations: tuple[GPUViolation, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)
    not_run: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether all functions were run and nothing wrong was found."""
        return not self.findings and not self.violations and not self.not_run

    def raise_findings(self) -> None:
        """Raise the first finding as an error, if there is one."""
        for finding in self.findings:
            raise finding.error()

    def as_json(self) -> dict[str, Any]:
        """Return the report as numbers, texts, lists and dicts."""
        return {
            "machine": self.machine.name,
            "target": self.target,
            "findings": [
                {
                    "kind": one.kind, "message": one.message, "kernel": one.kernel,
                    "place": one.place, "advice": one.advice, "count": one.count,
                    "other": None if one.other is None else one.other.place,
                }
                for one in self.findings
            ],
            "violations": [
                {"limit": one.limit, "message": one.text, "advice": one.advice}
                for one in self.violations
            ],
            "kernels": [kernel.as_json() for kernel in self.kernels],
            "notes": list(self.notes),
            "not_run": list(self.not_run),
        }  # fmt: skip

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self.as_json(), indent=2)

    def __str__(self) -> str:
        return report_text(self)


def gpu_report(
    program: Any,
    args: Sequence[Any] | None = None,
    target: Any = None,
    *,
    blocks: int = 6,
    statements: int = 10_000,
    observers: Sequence[Observer] = (),
    compile_kernels: bool = True,
) -> GPUReport:
    """Run the kernels of a schedule, function or module on a model of a GPU and report on them.

    ``args``: arrays for the only function (small whole numbers are made without). ``target``: a GPU
    target, its text, or a board's name ("H100"); without one the functions' own, else an A100.
    ``blocks``: how many blocks of each grid are run; ``statements``: above how many a thread's
    loops are cut. ``observers`` get every access, too. ``compile_kernels``: registers are those of
    NVRTC's code, for targets of kind "cuda" where it is installed; else they are estimated.

    A function that launches threads and has no blocks with iterators is run as it stands, its
    barriers included; any other is lowered first, which inserts the barriers.

    Raises UnsupportedError for programs without kernels, and what lowering raises.
    """
    module = _module(program)
    chosen = _target(target, module)
    machine = gpu_machine(target if _is_board(target) else chosen)
    counters = KernelCounters()
    findings: list[Finding] = []
    violations: list[GPUViolation] = []
    notes: list[str] = []
    not_run: list[str] = []
    functions = _kernels(module, chosen)
    if args is not None and len(functions) != 1:
        raise ConfigError("args are those of one function", notes=("pass a PrimFunc",))
    for name, func in functions.items():
        violations += _violations(name, func, chosen)
        options = LockstepOptions(blocks, statements, False, warp_size_of(func))
        result, found = run_checks(func, name, args, options, [counters, *observers])
        notes += found
        if result is None:
            not_run.append(name)
            continue
        findings += result.findings
        notes += [
            f"{kernel}: long loops were cut; what they do between is counted, not run"
            for kernel in result.cut
        ]
    resources, why = _resources(module, chosen, machine) if compile_kernels else ({}, "")
    if why:
        notes.append(f"registers are estimated: {why}")
    kernels = tuple(
        [kernel_report(one, machine, resources.get(one.launch.name)) for one in counters.kernels]
    )
    for kernel in kernels:
        if kernel.blocks_run < kernel.blocks_total:
            notes.append(
                f"{kernel.name}: {kernel.blocks_run} of {kernel.blocks_total} blocks were run; "
                "races with other blocks, and accesses that only those make, are not found"
            )
    return GPUReport(
        machine,
        str(chosen),
        kernels,
        tuple(findings),
        tuple(violations),
        tuple(dict.fromkeys(notes)),
        tuple(not_run),
    )


def _violations(name: str, func: PrimFunc, target: Target) -> list[GPUViolation]:
    """Return the limits that a function exceeds. One that is run as it stands is lowered before
    they are compared, as that says what its memory takes.
    """
    target = _with_back_end(target)
    if is_kernel_program(func):
        try:
            lowered = lower(IRModule({name: func}))[name]
            func = lowered if isinstance(lowered, PrimFunc) else func
        except TilesmithError as error:
            record_fallback("check", "limits", error)
    return exceeded_limits(name, func, target)


def _is_board(target: Any) -> bool:
    return isinstance(target, str) and target.upper() in GPU_MACHINES


def _module(program: Any) -> IRModule:
    module = getattr(program, "mod", program)
    if isinstance(module, PrimFunc):
        return IRModule({str(module.attrs.get("global_symbol", "main")): module})
    if isinstance(module, IRModule):
        return module
    raise TypeMismatchError(
        f"gpu_report takes a tir.Schedule, a PrimFunc or an IRModule, not {type(program).__name__}",
        notes=("a classic schedule: tilesmith.lower(schedule, args) first",),
    )


def _target(target: Any, module: IRModule) -> Target:
    if _is_board(target):
        return Target(f"cuda -arch=sm_{GPU_MACHINES[target.upper()].arch}")
    if target is not None:
        chosen = Target(target) if isinstance(target, str) else target
    else:
        own = [f.attrs["target"] for f in module.functions.values() if "target" in f.attrs]
        current = Target.current(allow_none=True)
        chosen = Target(own[0]) if own else current or Target("cuda -arch=sm_80")
    if "gpu" not in chosen.keys:
        raise ConfigError(
            f"'{chosen.kind.name}' is no target with kernels",
            notes=('for example target="cuda -arch=sm_90", or a board: "H100"',),
        )
    return chosen


def _kernels(module: IRModule, target: Target) -> dict[str, PrimFunc]:
    """Return the functions with kernels, with all their barriers."""
    given = {
        variable.name_hint: func
        for variable, func in module.functions.items()
        if isinstance(func, PrimFunc)
    }
    as_they_stand = {name: func for name, func in given.items() if is_kernel_program(func)}
    others = {name: func for name, func in given.items() if name not in as_they_stand}
    found = dict(as_they_stand)
    if others:
        lowered = kernels_of(lower(IRModule(others)), _with_back_end(target))
        for variable, func in lowered.functions.items():
            if isinstance(func, PrimFunc) and launches_threads(func):
                found[variable.name_hint] = func
    if not found:
        raise UnsupportedError(
            "the program launches no threads",
            notes=('bind loops: sch.bind(loop, "blockIdx.x") and sch.bind(loop, "threadIdx.x")',),
        )
    return {name: found[name] for name in given if name in found} or found


def _resources(
    module: IRModule, target: Target, machine: GPUMachine
) -> tuple[dict[str, KernelResources], str]:
    """Return what the machine code of kernels needs, by name, or why that is not known."""
    if "cuda" not in target.keys:
        return {}, "machine code is made for NVIDIA's GPUs only"
    arch = target.attrs.get("arch") or f"sm_{machine.arch}"
    try:
        with knobs.override(check_gpu=False):
            built = build(module, target=Target({"kind": "cuda", "arch": arch}))
        (kernels,) = built.imported_modules
        return kernel_resources(compile_source(kernels.get_source("cu"), arch)), ""
    except TilesmithError as error:
        record_fallback("check", "registers", error)
        return {}, error.message.partition("\n")[0]


def _with_back_end(target: Target) -> Target:
    """Return a target whose passes are known here: those of another GPU lower the same way."""
    from tilesmith.target.back_end import find_back_end

    if find_back_end(target) is not None:
        return target
    return Target("nvptx")
