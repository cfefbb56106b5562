"""Checks of functions on threads of a device: the kernels in lockstep, and the code for OpenCL and
CUDA, run where there is such a device.

``check_in_lockstep`` runs the kernels with all barriers once more, with all threads of a block at
once, which looks for races, undefined reads, accesses outside of buffers and barriers that not all
threads reach, and has to compute what the interpreter does. ``check_code_for_devices`` builds the
function for OpenCL and calls it on the first device (PoCL on machines without a GPU), and for CUDA
where there is a GPU; a share of the cases is compiled by NVRTC without one.
"""

from __future__ import annotations

import os
from typing import Any

import numpy

from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassContext
from tilesmith.lowering.devices import generate_with_kernels
from tilesmith.runtime.devices import cuda, opencl
from tilesmith.runtime.nd import array as as_tensor
from tilesmith.support.errors import (
    CodegenError,
    MissingDependencyError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.testing.fuzz.finding import Finding
from tilesmith.testing.fuzz.layouts import copied
from tilesmith.tir import PrimFunc
from tilesmith.tir.interpreter.cooperation import launches_threads
from tilesmith.tir.interpreter.lockstep import LockstepOptions, run_kernels
from tilesmith.tir.interpreter.program import warp_size_of

__all__ = ["ARCHITECTURES", "check_code_for_devices", "check_in_lockstep", "code_targets", "run_on"]

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
"""What NVRTC compiles for, in turns."""

_COMPILED_SHARE = 6
"""One of so many cases is compiled by NVRTC."""

_ALL = 1 << 40


def check_in_lockstep(checker: Any, module: IRModule) -> None:
    """Check that the kernels of "main" have no races and the like, and compute in lockstep what the
    program does.
    """
    func = module["main"]
    if not isinstance(func, PrimFunc) or not launches_threads(func):
        return
    options = LockstepOptions(_ALL, _ALL, False, warp_size_of(func))
    with checker.guarded("pass", "in lockstep"):
        for arrays, want in zip(checker.inputs, checker.expected):
            given = [copied(one) if isinstance(one, numpy.ndarray) else one for one in arrays]
            try:
                result = run_kernels(func, given, options, (), "main")
            except UnsupportedError as error:
                checker.counts[f"unsupported lockstep: {error.message[:80]}"] += 1
                return
            for found in result.findings:
                raise Finding("", "", f"a {found.kind}", _told(found))
            text = checker.differ(given, want, True)
            if text is not None:
                raise Finding("", "", "wrong result", text)
        checker.counts["device lockstep"] += 1


def _told(found: Any) -> str:
    text = f"{found.message}\nin {found.kernel}: {found.place}"
    return text if found.other is None else f"{text}\nthe other access: {found.other.place}"


def check_code_for_devices(checker: Any, module: IRModule, lowered: IRModule) -> None:
    """Check the code of a scheduled function for each kind of device; ``lowered`` is lowered for
    the checker's own.
    """
    for target, device, is_compiled in code_targets(checker.device, checker.seed):
        if target.kind.name in checker.without:
            continue
        kind = target.kind.name
        again = lowered if kind == checker.device else _lowered(checker, module, target)
        if again is None:
            continue
        with checker.guarded("codegen", kind):
            try:
                built = generated(again, target)
                if is_compiled:
                    compiled(built, target)
            except (UnsupportedError, MissingDependencyError, CodegenError) as error:
                if isinstance(error, CodegenError) and not _says_what_is_missing(error):
                    raise
                checker.counts[f"unsupported {kind}: {error.message[:80]}"] += 1
                continue
            checker.counts[f"code {kind}"] += 1
            if is_compiled:
                checker.counts[f"code {target.attrs['arch']}"] += 1
            if device is None:
                continue
            for arrays, want in zip(checker.inputs, checker.expected):
                text = checker.differ(run_on(built, device, arrays), want, True)
                if text is None:
                    continue
                if not _is_of_its_optimiser(checker, again, target, device):
                    raise Finding("", "", "wrong result", text)
                checker.counts[f"unsupported {kind}: the driver's optimiser errs"] += 1
                break
            checker.counts[f"device {kind}: run"] += 1


def _is_of_its_optimiser(checker: Any, lowered: IRModule, target: Target, device: Any) -> bool:
    """Return whether wrong results come from the optimiser of an OpenCL driver: they are right
    without it, and wrong with it although no pointer promises anything (``restrict``). PoCL 3.0
    reads behind the end of A where a loop of 9 steps computes ``B[i] = A[i * 3 % 16]``.
    """

    def is_right(options: str) -> bool:
        before = os.environ.get(_BUILD_OPTIONS)
        os.environ[_BUILD_OPTIONS] = options
        try:
            built = generated(lowered, target)
            return all(
                checker.differ(run_on(built, device, arrays), want, True) is None
                for arrays, want in zip(checker.inputs, checker.expected)
            )
        finally:
            del os.environ[_BUILD_OPTIONS]
            if before is not None:
                os.environ[_BUILD_OPTIONS] = before

    if device.device_type != opencl(0).device_type:
        return False
    return is_right("-cl-opt-disable") and not is_right("-D restrict=")


_BUILD_OPTIONS = "PYOPENCL_BUILD_OPTIONS"


_MISSING = (
    "has a size that is not constant", "a barrier of all blocks", "has no translation into",
    "has no translation for",
    "threads; the target allows", "bytes of shared memory", "has no words for",
    "needs the architecture", "so its shape is not known", "a shuffle moves 32 bits",
)  # fmt: skip


def _says_what_is_missing(error: CodegenError) -> bool:
    """Return whether code is refused because a kind of device does not have something."""
    return any(text in error.message for text in _MISSING)


_OF_PTX = ("tir.use_async_copy", "tir.ptx_ldg32")
"""Options that make instructions which only NVIDIA's devices have."""


def _lowered(checker: Any, module: IRModule, target: Target) -> IRModule | None:
    """Return the function lowered for another kind of device, whose passes are not compared."""
    config = {key: value for key, value in checker.config.items() if key not in _OF_PTX}
    with PassContext(config=checker.config if "cuda" in target.keys else config):
        lowered: IRModule | None = checker.check_passes(module, target, False)
    return lowered


def code_targets(device: str, seed: int) -> list[tuple[Target, Any, bool]]:
    """Return the targets that a function is built for, each with the device to call it on (None:
    there is none here), and whether its text is compiled by the device's compiler then.
    """
    made: list[tuple[Target, Any, bool]] = []
    if opencl(0).exist:
        made.append((Target("opencl", host="llvm"), opencl(0), False))
    else:
        record_fallback("check", "opencl", "there is no OpenCL device: code for it is not run")
    if cuda(0).exist:
        version = cuda(0).compute_version.replace(".", "")
        for words in ("cuda -arch", "nvptx -mcpu"):
            made.append((Target(f"{words}=sm_{version}", host="llvm"), cuda(0), False))
    elif device == "cuda":
        record_fallback("check", "cuda", "there is no CUDA device: code for it is not run")
        chosen = ARCHITECTURES[seed // _COMPILED_SHARE % len(ARCHITECTURES)]
        is_compiled = seed % _COMPILED_SHARE == 0
        made.append((Target(f"cuda -arch={chosen}", host="llvm"), None, is_compiled))
    return made


def compiled(built: Any, target: Target) -> None:
    """Compile the text of a built function's kernels by NVRTC. Raises what that raises."""
    for code in built.imported_modules:
        compile_source(code.get_source("cu"), str(target.attrs["arch"]))


def generated(lowered: IRModule, target: Target) -> Any:
    """Return a lowered function, with its kernels, as code for a target; raises UnsupportedError
    for what the target does not have.
    """
    host = target.host or Target("llvm")
    return generate_with_kernels(lowered, target, host)


def run_on(built: Any, device: Any, arrays: list[Any]) -> list[Any]:
    """Call a built function with copies of arguments on a device; return them as they are then."""
    given = [as_tensor(one, device) if isinstance(one, numpy.ndarray) else one for one in arrays]
    built["main"](*given)
    return [one.numpy() if hasattr(one, "numpy") else one for one in given]
