"""Compiles whole models for devices: what differs from models for the host.

A graph function stays one function of the host, which launches kernels one after the other, on one
stream or on several (`graph_streams`); its tensors, constants and workspace are in the device's
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.driver.graph_memory import FunctionMemory, SlotMemory
from tilesmith.driver.graph_program import Programs
from tilesmith.driver.graph_signature import GraphFunction
from tilesmith.driver.graph_streams import stream_count
from tilesmith.driver.kernels import KernelTable, compile_kernels, scheduled_jobs
from tilesmith.driver.observed import KernelMarks
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.lowering.device_models import build_model_for_device
from tilesmith.lowering.devices import host_of
from tilesmith.runtime.devices import type_name
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.module import Module
from tilesmith.runtime.refusals import only_on_hosts
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.target.back_end import BackEnd, back_end_of, part
from tilesmith.tir.transform.functions.make_packed_api import ANY_DEVICE

__all__ = [
    "HostParts", "compile_for_device", "device_name", "device_type_of", "external_on_device",
    "host_record", "refuse_on_device", "texts_of",
]  # fmt: skip


def device_name(target: Target) -> str:
    """Return the name of the type of devices that a target is for."""
    return type_name(target.get_target_device_type())


def device_type_of(target: Target) -> int | None:
    """Return the number of the type of devices that a target is for; None: the host."""
    return target.get_target_device_type() if back_end_of(target).is_device else None


class HostParts:
    """The native functions of a model that compute on the host, where it is for a device."""

    def __init__(self, divided: Programs, target: Target, marks: KernelMarks | None = None) -> None:
        self.names = divided.on_host
        self._places = divided.places
        self._device_type = device_type_of(target)
        self._host = target if self._device_type is None else host_of(target)
        self._kernels = KernelTable(divided.module, self._host, marks)
        self._streams = stream_count(target)

    def kernels_of(self, name: GlobalVar, kernels: KernelTable) -> KernelTable:
        """Return the table of the kernels that a function calls; ``kernels`` is the model's own."""
        return self._kernels if name.name_hint in self.names else kernels

    def memory_of(self, name: GlobalVar) -> FunctionMemory | None:
        """Return where the tensors of a function lie; None: in the host's memory, as usual."""
        if self._device_type is None or name.name_hint in self.names:
            return None
        return SlotMemory(self._device_type, self._streams)

    def describe(self, lowered: Sequence[GraphFunction]) -> None:
        """Mark the functions in their metadata."""
        for one in lowered:
            name = str(one.function.attrs["global_symbol"])
            if name in self.names:
                one.metadata["on_host"] = True
            elif self._places.get(name, 0) > 0:
                one.metadata["device"] = self._places[name]

    def objects(self) -> list[bytes]:
        """Compile the kernels of the host, with what they share."""
        jobs = self._kernels.jobs
        if not jobs:
            return []
        record = back_end_of(self._host)
        if record.kernel_object is None:
            raise UnsupportedError(
                f"parts of a model on the host '{self._host.kind.name}' beside a device cannot be "
                "compiled",
                notes=("use the host 'llvm'",),
            )
        shared = () if record.shared_objects is None else part(record.shared_objects)(self._host)
        return [*dict.fromkeys(compile_kernels(jobs.values()).values()), *shared]


def host_record(target: Target) -> BackEnd:
    """Return the back end of the functions that launch kernels."""
    return back_end_of(host_of(target))


def external_on_device(target: Target) -> UnsupportedError:
    """Return the error for parts of a model that an external code generator compiled."""
    return UnsupportedError(
        f"a model for '{target.kind.name}' cannot have parts that external code generators "
        "compile: these run on the host",
        notes=("compile it for 'llvm', or leave the partitioning out",),
    )


def refuse_on_device(executable: Executable) -> None:
    """Let an executable refuse what only models for the host can do."""
    kind = executable.device_type
    executable.c_interface = only_on_hosts(
        kind, "exported to C", "export_library writes a library that load_module reads"
    )


def compile_for_device(
    kernels: KernelTable, entries: IRModule, target: Target, parts: HostParts
) -> Module:
    """Compile a model's kernels and the functions that call them into one module of the host."""
    scheduled = scheduled_jobs(kernels.jobs.values(), target)
    # The others read sizes only, or nothing.
    functions: dict[str, Any] = {v.name_hint: one for v, one in entries.items()}
    on_host = [
        name
        for name, function in functions.items()
        if function.attrs.get(ANY_DEVICE) or not function.params or name in parts.names
    ]
    return build_model_for_device(scheduled, entries, on_host, target)


def texts_of(module: Module) -> Mapping[str, Any]:
    """Return the code of a model by format: that of its kernels first, then the host's."""
    found: dict[str, Any] = {}
    for one in (*module.imported_modules, module):
        for name in one.formats:
            found.setdefault(name, lambda m=one, n=name: m.get_source(n))
    return found
