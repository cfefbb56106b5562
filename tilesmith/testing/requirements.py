"""Skips tests, with the reason, where the machine lacks what they need.

    @tilesmith.testing.requires_x86_vnni
    def test_dot_product(): ...

Each is a ``Feature`` of the table at the end. A feature without support here says so in the reason.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.runtime.devices import device
from tilesmith.support.errors import MissingDependencyError, TilesmithError, UnknownNameError
from tilesmith.support.registry import Registry
from tilesmith.target import Target, host_cpu
from tilesmith.target.back_end import find_back_end

__all__ = [
    "FEATURES", "IS_IN_CI", "SKIP_SLOW_TESTS", "Feature", "requires_cuda_compute_version",
    "requires_nvcc_version", "requires_package", "skip_if_32bit", "skip_if_no_reference_system",
    "skip_if_wheel_test", "slow", "uses_gpu", "uses_multi_gpu",
]  # fmt: skip

FEATURES: Registry[Feature] = Registry("feature for tests")
"""Features by name; ``requires_NAME`` is one of them."""

IS_IN_CI = os.environ.get("CI", "").lower() in ("1", "true")
"""Whether these tests are run by a CI service, as far as the environment says."""
SKIP_SLOW_TESTS = os.environ.get("SKIP_SLOW_TESTS", "").lower() in ("1", "true", "yes")
"""Whether the environment asks for tests marked `slow` to be skipped."""


class Feature:
    """A property that a machine or an installation may lack.

    ``target_kind_enabled`` is a kind of target that must have a back end, ``target_kind_hardware``
    one whose device must be there. ``compile_time_check`` and ``run_time_check`` return True, or
    False or a text that says what is missing. ``parent_features`` names features needed besides.
    ``cmake_flag`` is accepted and ignored: there is no CMake configuration here.
    """

    def __init__(
        self,
        name: str,
        long_name: str | None = None,
        cmake_flag: str | None = None,
        target_kind_enabled: str | None = None,
        compile_time_check: Callable[[], bool | str] | None = None,
        target_kind_hardware: str | None = None,
        run_time_check: Callable[[], bool | str] | None = None,
        parent_features: str | Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.long_name = long_name or name
        self.target_kind_enabled = target_kind_enabled
        self.compile_time_check = compile_time_check
        self.target_kind_hardware = target_kind_hardware
        self.run_time_check = run_time_check
        if isinstance(parent_features, str):
            parent_features = (parent_features,)
        self.parent_features = tuple(parent_features or ())
        FEATURES.register(name, self, override=True)

    def missing(self, support_required: str = "compile-and-run") -> str:
        """Return the name of the missing part of this feature, or an empty text.

        ``support_required`` is "compile-and-run", "compile-only" (no device needed) or "optional"
        (nothing needed).
        """
        if support_required not in ("compile-and-run", "compile-only", "optional"):
            raise UnknownNameError(
                f"support_required is 'compile-and-run', 'compile-only' or 'optional', "
                f"got '{support_required}'"
            )
        if support_required == "optional":
            return ""
        for name in self.parent_features:
            reason = FEATURES.get(name).missing(support_required)
            if reason:
                return reason
        if self.target_kind_enabled and not _has_back_end(self.target_kind_enabled):
            return f"there is no back end for '{self.target_kind_enabled}' yet"
        reason = self._refusal(self.compile_time_check)
        if reason or support_required == "compile-only":
            return reason
        if self.target_kind_hardware and not device(self.target_kind_hardware).exist:
            return f"this machine has no {self.long_name} device"
        return self._refusal(self.run_time_check)

    def _refusal(self, check: Callable[[], bool | str] | None) -> str:
        found = check() if check is not None else True
        if isinstance(found, str):
            return found
        return "" if found else f"{self.long_name} is missing here"

    def marks(self, support_required: str = "compile-and-run") -> list[Any]:
        """Return the marks of a test that needs this feature, for ``pytest.param(...,
        marks=...)``.
        """
        pytest = _pytest()
        made = [pytest.mark.gpu] if self._on_gpu() else []
        reason = self.missing(support_required)
        if reason:
            made.append(pytest.mark.skip(reason=reason))
        return made

    def _on_gpu(self) -> bool:
        parents = (FEATURES.get(name) for name in self.parent_features)
        return self.name == "gpu" or any(parent._on_gpu() for parent in parents)

    def __call__(self, func: Any = None, *, support_required: str = "compile-and-run") -> Any:
        """Decorate a test with the marks."""
        if isinstance(func, str):
            func, support_required = None, func

        def decorate(test: Any) -> Any:
            for mark in self.marks(support_required):
                test = mark(test)
            return test

        return decorate if func is None else decorate(func)

    @classmethod
    def require(cls, name: str, support_required: str = "compile-and-run") -> Callable[[Any], Any]:
        """Return the decorator for a feature by name. Raises UnknownNameError for unknown ones."""
        return FEATURES.get(name)(support_required=support_required)


def _pytest() -> Any:
    try:
        import pytest
    except ImportError:
        raise MissingDependencyError("pytest", "dev") from None
    return pytest


def _skip_if(condition: bool, reason: str) -> Any:
    return _pytest().mark.skipif(condition, reason=reason)


def _has_back_end(kind: str) -> bool:
    try:
        return find_back_end(Target(kind)) is not None
    except TilesmithError:
        return False


def _cpu_has(*features: str) -> Callable[[], bool | str]:
    def check() -> bool | str:
        missing = [name for name in features if name not in host_cpu().features]
        return not missing or f"this CPU has no {', '.join(missing)}"

    return check


def _machine_is(*names: str) -> Callable[[], bool | str]:
    def check() -> bool | str:
        return platform.machine().lower() in names or f"this machine is a {platform.machine()}"

    return check


def _package(name: str) -> Callable[[], bool | str]:
    return lambda: importlib.util.find_spec(name) is not None or f"needs the package {name}"


def _program(name: str) -> Callable[[], bool | str]:
    return lambda: shutil.which(name) is not None or f"needs the program {name}"


def _not_yet() -> str:
    return "not supported by Tilesmith yet"


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Return a decorator for tests that need Python packages; without them they are skipped, with
    the reason.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return _skip_if(bool(missing), f"needs {', '.join(missing)}")


def requires_nvcc_version(
    major_version: int, minor_version: int = 0, release_version: int = 0
) -> Callable[[Any], Any]:
    """Return a decorator for tests that need at least this version of CUDA's compiler."""
    return FEATURES.get("cuda")(support_required="compile-only")


def requires_cuda_compute_version(
    major_version: int, minor_version: int = 0
) -> Callable[[Any], Any]:
    """Return a decorator for tests that need a CUDA device of at least this compute capability."""
    found = device("cuda")
    text = str(found.compute_version) if found.exist else "0.0"
    has = tuple(int(part) for part in text.split(".")[:2])
    enough = has >= (int(major_version), int(minor_version))
    return _skip_if(not enough, f"needs compute capability {major_version}.{minor_version}")


def skip_if_32bit(reason: str) -> Callable[[Any], Any]:
    """Skip a test in 32-bit processes."""
    return _skip_if(sys.maxsize < 2**32, reason)


def skip_if_no_reference_system(func: Any) -> Any:
    """Return a decorator for tests of simulated boards."""
    return FEATURES.get("corstone300")(func)


def skip_if_wheel_test(func: Any) -> Any:
    """Return a test that needs a build from sources as it is: every installation is one."""
    return func


def uses_gpu(*args: Any) -> Any:
    """Mark a test that may use a GPU but does not need one."""
    mark = _pytest().mark.gpu
    return mark(args[0]) if args and callable(args[0]) else mark


def uses_multi_gpu(*args: Any) -> Any:
    """Mark a test that may use several GPUs but does not need them."""
    return uses_gpu(*args)


def slow(func: Any) -> Any:
    """Skip a test where the environment asks for it (``SKIP_SLOW_TESTS=1``)."""
    return _skip_if(SKIP_SLOW_TESTS, "SKIP_SLOW_TESTS is set")(func)


def _is_gpu(number: int) -> bool:
    """True if there is a GPU of this number; OpenCL's devices may be CPUs, which come later."""
    of_opencl = device("opencl", number)
    return device("cuda", number).exist or of_opencl.device_kind == "gpu"


Feature("llvm", "LLVM", target_kind_enabled="llvm")
Feature("c", "the C back end", target_kind_enabled="c")
Feature("gpu", "a GPU", run_time_check=lambda: _is_gpu(0))
for _kind, _text, _parent in (
    ("cuda", "CUDA", "gpu"), ("opencl", "OpenCL", None), ("rocm", "ROCm", "gpu"),
    ("metal", "Metal", "gpu"), ("vulkan", "Vulkan", "gpu"), ("webgpu", "WebGPU", "gpu"),
):  # fmt: skip
    Feature(
        _kind,
        _text,
        target_kind_enabled=_kind,
        target_kind_hardware=_kind,
        parent_features=_parent,
    )
Feature("nvptx", "NVPTX", target_kind_hardware="cuda", parent_features=("llvm", "gpu"))
Feature("multi_gpu", "two GPUs", run_time_check=lambda: _is_gpu(1), parent_features="gpu")
Feature("aarch64", "an AArch64 CPU", run_time_check=_machine_is("aarch64", "arm64"))
Feature("arm_fp16", "Arm float16 arithmetic", run_time_check=_cpu_has("fullfp16"))
Feature("x86", "an x86 CPU", run_time_check=_machine_is("x86_64", "amd64"))
Feature("x86_avx512", "AVX-512", run_time_check=_cpu_has("avx512f"), parent_features="x86")
Feature("x86_vnni", "AVX-512 VNNI", run_time_check=_cpu_has("avx512vnni"), parent_features="x86")
Feature("x86_amx", "AMX", run_time_check=_cpu_has("amx-int8"), parent_features="x86")
Feature("arm_dot", "Arm dot products", run_time_check=_cpu_has("dotprod"))
Feature("libtorch", "PyTorch", run_time_check=_package("torch"))
Feature("tflite", "TensorFlow Lite", run_time_check=_package("tflite"))
Feature("rpc", "sessions on other machines")
Feature("c_compiler", "a C compiler", run_time_check=_program("cc"))
Feature("qemu", "QEMU for Arm", run_time_check=_program("qemu-system-arm"))
for _name in (
    "aarch64_sme", "aarch64_sve", "aprofile_aem_fvp", "cmsisnn", "corstone300", "cublas",
    "cudagraph", "cudnn", "cutlass", "ethosn", "ethosu", "hexagon", "hexagon_toolchain", "hipblas",
    "matrixcore", "micro", "microtvm", "mps", "mrvl", "nccl",
    "nnapi", "openclml", "tensorcore", "vitis_ai", "wgpu",
):  # fmt: skip
    Feature(_name, run_time_check=_not_yet)


def __getattr__(name: str) -> Any:
    """Return the feature NAME for ``requires_NAME``."""
    feature = FEATURES.get(name.removeprefix("requires_"), None)
    if feature is not None and name.startswith(("requires_", "skip_if_")):
        return feature
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
