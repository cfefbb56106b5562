"""``TILESMITH_CHECK_GPU=1``: runs the kernels of every build for a GPU on a part of the grid.

``kernels_of`` lowers programs to the point where kernels are still parts of their functions and all
barriers have been inserted, ``run_checks`` runs them in lockstep (see ``tir.interpreter.lockstep``)
and falls back to the interpreter's own checks where lockstep has no rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.ir.transform import Sequential
from tilesmith.lowering.check_inputs import argument_choices, calls_outside, promised_statements
from tilesmith.lowering.pipelines import device_passes
from tilesmith.support.errors import (
    ExecutionError,
    OutOfBoundsError,
    TypeMismatchError,
    UnsupportedError,
)  # fmt: skip
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.knobs import knobs
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.target.gpu_machine import gpu_limits, refused_above_threads
from tilesmith.tir import transform as passes
from tilesmith.tir.analysis.verify_gpu_code import GPUViolation, gpu_violations
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.cooperation import launches_threads
from tilesmith.tir.interpreter.lockstep import (
    Finding,
    LockstepOptions,
    LockstepResult,
    Observer,
    run_kernels,
)
from tilesmith.tir.interpreter.program import warp_size_of
from tilesmith.tir.transform.threads.verify_gpu_code import refuse_violations

__all__ = ["check_build", "exceeded_limits", "kernels_of", "run_checks"]

_MOST_STATEMENTS = 100_000
_AFTER = "tir.AnnotateDeviceRegions"  # from this pass on, kernels are functions of their own


def kernels_of(lowered: IRModule, target: Target) -> IRModule:
    """Return lowered functions with all barriers, before kernels become functions of their own."""
    host = target.host or Target(back_end_of(target).host)
    steps = []
    for step in device_passes(target.with_host(host)):
        if step.info.name == _AFTER:
            break
        steps.append(step)
    return Sequential(steps, name="tir.kernels")(lowered)


def exceeded_limits(name: str, func: PrimFunc, target: Target) -> list[GPUViolation]:
    """Return the limits of a target that the kernels of a lowered function exceed.

    Buffers in dynamic shared memory whose live ranges are disjoint share it, which is known only
    when all barriers are there.
    """
    limits = gpu_limits(target)
    if refused_above_threads(target) is None:
        limits.pop("max_threads_per_block", None)
    found = gpu_violations(func, limits, needs_constant_threads=False)
    if any("shared_memory" in one.limit for one in found):
        merged = passes.MergeSharedMemoryAllocations()(kernels_of(IRModule({name: func}), target))
        found = [
            violation
            for merged_func in merged.functions.values()
            if isinstance(merged_func, PrimFunc)
            for violation in gpu_violations(merged_func, limits, needs_constant_threads=False)
        ]
    return found


def _own_limits(found: Sequence[GPUViolation], target: Target) -> tuple[str, ...]:
    """Return the advice to name a device's own limits; those of CUDA are what the GPUs have."""
    options = " ".join([f"-{one.limit}=…" for one in found if one.limit in target.attrs])
    if not options or "cuda" in target.keys:
        return ()
    return (f"or name the device's own limits: Target('{target.kind.name} {options}')",)


def run_checks(
    func: PrimFunc,
    name: str,
    arguments: Sequence[Any] | None = None,
    options: LockstepOptions | None = None,
    observers: Sequence[Observer] = (),
) -> tuple[LockstepResult | None, list[str]]:
    """Run the kernels of a function on arguments (small whole numbers where none are given); return
    what is found (None where they could not be run), and notes about what was not looked at.

    Raises UnsupportedError if no arguments can be made for the function.
    """
    options = options or LockstepOptions(warp_size=warp_size_of(func))
    given = list(arguments) if arguments is not None else _arguments(func, name)
    try:
        return run_kernels(func, [_copied(one) for one in given], options, observers, name), []
    except UnsupportedError as error:
        record_fallback("check", name, error)
        note = f"{name}: checked thread by thread, without counters ({error.message})"
    outside = calls_outside(func)
    if outside is not None:
        return None, [f"{name}: not run, it calls {outside}"]
    if promised_statements(func, {}) > _MOST_STATEMENTS:
        return None, [f"{note}; not run: its loops are too long for that"]
    checked = Options(check_races=True, check_undefined=True, warp_size=options.warp_size)
    try:
        run(func, *[_copied(one) for one in given], options=checked)
    except UnsupportedError as error:
        record_fallback("check", name, error)
        return None, [f"{name}: not run: {error.message}"]
    except ExecutionError as error:
        if options.raise_first:
            raise
        return LockstepResult((_finding(error, name),), (), ()), [note]
    return LockstepResult((), (), ()), [note]


def _arguments(func: PrimFunc, name: str) -> list[Any]:
    for _, arguments in argument_choices(func):
        return arguments
    raise UnsupportedError(f"no arguments can be made for '{name}'", notes=("pass args=[…]",))


def _copied(argument: Any) -> Any:
    if hasattr(argument, "numpy") and not isinstance(argument, numpy.ndarray):
        argument = argument.numpy()
    if isinstance(argument, numpy.ndarray):
        return argument.copy()
    return argument


def _finding(error: ExecutionError, name: str) -> Finding:
    """Return an error of the interpreter as a finding."""
    kind = "undefined read"
    if isinstance(error, OutOfBoundsError):
        kind = "out of bounds"
    elif error.message.startswith("race"):
        kind = "race"
    elif "threads of a" in error.message:
        kind = "divergent barrier"
    elif "waits forever" in error.message or "before ptx_init_barrier" in error.message:
        kind = "endless wait"
    elif "lane" in error.message:
        kind = "shuffle mask"
    from tilesmith.tir.interpreter.lockstep.observers import Site
    from tilesmith.tir.interpreter.lockstep.state import ADVICE

    site = Site(0, "statement", "", "", "", (), error.span)
    return Finding(kind, error.message, name, site, "; ".join(error.notes) or ADVICE[kind])


def check_build(lowered: IRModule, target: Target) -> None:
    """Refuse kernels that exceed the limits of a GPU; run them in checks, if
    ``TILESMITH_CHECK_GPU`` is set.

    Raises VerifyError for kernels that do not fit, ExecutionError or OutOfBoundsError for the first
    thing that is wrong.
    """
    if "gpu" in target.keys:
        for variable, func in lowered.functions.items():
            if isinstance(func, PrimFunc) and launches_threads(func):
                found = exceeded_limits(variable.name_hint, func, target)
                refuse_violations(func, found, _own_limits(found, target))
    if not knobs.check_gpu:
        return
    module = kernels_of(lowered, target)
    for variable, func in module.functions.items():
        if not isinstance(func, PrimFunc) or not launches_threads(func):
            continue
        options = LockstepOptions(
            blocks=4, statements=3000, raise_first=True, warp_size=warp_size_of(func)
        )
        try:
            run_checks(func, variable.name_hint, None, options)
        except (OutOfBoundsError, ExecutionError):
            raise
        except (UnsupportedError, TypeMismatchError) as error:
            record_fallback("check", variable.name_hint, error)
