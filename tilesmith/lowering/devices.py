"""Builds for devices: kernels for the device, and host functions that launch them.

The host's module has object files with the launchers of the kernels and with their code
(`codegen/gpu/launchers.py`), so that a library which is written from it needs nothing else; it
imports a module that shows the code. Building needs no device: a call without one says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.codegen import build, generate, module_of
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.lowering.device_calls import call_launchers
from tilesmith.lowering.pipelines import device_passes
from tilesmith.runtime.device_code import has_loader
from tilesmith.runtime.device_container import CodeContainer
from tilesmith.runtime.devices import type_name
from tilesmith.runtime.module import Module, add_objects, content_of
from tilesmith.runtime.packed_func import convert_to_packed
from tilesmith.support.errors import MissingDependencyError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.tir.transform.functions.device_functions import DEVICE_FUNCTION

if TYPE_CHECKING:
    from tilesmith.codegen.gpu.launchers import Launchers

__all__ = ["build_for_device", "generate_with_kernels", "host_of"]

_MACHINE_CODE, _TEXTS = ("cubin", "fatbin"), ("cu", "ptx", "cl")
"""Formats that a library carries: code that is made for it, and one text for other devices."""
_WITHOUT_MACHINE_CODE = ("ptx", "cu", "cl")
"""The texts in their order where no compiler of machine code is known: PTX that the user's own
compiler made comes before the source."""


def build_for_device(module: IRModule, target: Target) -> Module:
    """Compile lowered functions with threads; return the host module, which imports the kernels.

    For a kind of device without a runtime, the kernels can be inspected and saved, but calling a
    function raises UnsupportedError.
    """
    host = host_of(target)
    module = Sequential(device_passes(target.with_host(host)), name="tir.device")(module)
    return generate_with_kernels(module, target, host)


def host_of(target: Target) -> Target:
    """Return the target of the functions that launch a device's kernels."""
    return target.host or Target(back_end_of(target).host)


def generate_with_kernels(module: IRModule, target: Target, host: Target) -> Module:
    """Generate code for functions of the host and the kernels that they launch."""
    kernels: dict[GlobalVar, Any] = {}
    called: dict[GlobalVar, Any] = {}
    others: dict[GlobalVar, Any] = {}
    for variable, function in module.functions.items():
        is_kernel = function.attrs.get("calling_conv") == CallingConv.DEVICE_KERNEL_LAUNCH
        is_called = function.attrs.get(DEVICE_FUNCTION)
        (kernels if is_kernel else called if is_called else others)[variable] = function
    level = PassContext.current().opt_level
    opt_level = level if level < 2 else None
    device_type = target.get_target_device_type()
    if not kernels:
        others = dict(call_launchers(others, device_type, None).functions)
        return build(IRModule(others, attrs=module.attrs), host, opt_level)
    on_device = IRModule({**kernels, **called}, attrs=module.attrs)
    generated = generate(on_device, target, opt_level)
    code = module_of(generated, on_device, target)
    kind = type_name(device_type)
    can_launch = has_loader(kind) and back_end_of(host).kernel_object is not None
    if can_launch:
        from tilesmith.codegen.gpu.launchers import launchers_of  # it needs the parts of LLVM

        functions = list(kernels.values())
        launchers = launchers_of(
            kind, functions, code.get_source(), generated.alignments, generated.tensor_maps
        )
        others = dict(call_launchers(others, device_type, launchers).functions)
    built = build(IRModule(others, attrs=module.attrs), host, opt_level)
    if can_launch and built.is_dso_exportable:
        add_objects(built, _objects(launchers, code, target, _machine_of_host(host)))
        built.import_module(code, is_embedded=True)
    else:
        built.import_module(code)
        for name in built.function_names:
            built.set_function(name, convert_to_packed(_without_runtime(name, kind)))
    return built


def _machine_of_host(host: Target) -> Target:
    """Return the LLVM target with the machine of a host's target."""
    given = {"mtriple": host.mtriple, "mcpu": host.mcpu}
    return Target({"kind": "llvm", **{key: value for key, value in given.items() if value}})


def _objects(
    launchers: Launchers, code: Module, target: Target, host: Target
) -> Callable[[], Sequence[bytes]]:
    """Return a function that makes the object file with the launchers and the code of kernels."""

    def make() -> list[bytes]:
        architecture = str(target.attrs.get("arch", ""))
        container = CodeContainer(
            launchers.kind, architecture, launchers.kernels, _parts(code), _options(target)
        )
        return [launchers.object(container, host)]

    return make


def _parts(code: Module) -> dict[str, bytes]:
    """Return the code of kernels in the formats that a library carries.

    Machine code needs the device's compiler. Where that is not installed, the text is all: the
    machine with the device compiles it.
    """
    parts: dict[str, bytes] = {}
    has_machine_code = any(name in code.formats for name in _MACHINE_CODE)
    texts = _TEXTS if has_machine_code else _WITHOUT_MACHINE_CODE
    for name in (*_MACHINE_CODE, *texts):
        if name not in code.formats or (name in texts and any(text in parts for text in texts)):
            continue
        try:
            parts[name] = content_of(code, name)
        except MissingDependencyError as error:
            record_fallback("device code", "CUDA C", str(error))
    return parts


def _without_runtime(name: str, kind: str) -> Any:
    """Return a function that raises UnsupportedError, in place of one that launches kernels."""

    def call(*arguments: Any) -> None:
        raise UnsupportedError(
            f"'{name}' launches kernels, and no runtime for devices of type '{kind}' is loaded",
            notes=(
                "the kernels can be seen and saved: module.imported_modules[0].get_source()",
                "`tilesmith doctor` shows what is installed and what is missing",
            ),
        )

    return call


def _options(target: Target) -> tuple[str, ...]:
    """Return what the compiler of CUDA C was told, for when it has to compile again."""
    is_fast = str(target.attrs.get("fast-math", "")).lower() in ("1", "true")
    return ("--use_fast_math",) if is_fast else ()
