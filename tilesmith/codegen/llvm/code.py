"""Implements the parts that the record of the LLVM back end names: code, kernels, shared
threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.codegen.c_compiler import compile_source
from tilesmith.codegen.llvm.compile import compile_formats, compile_text
from tilesmith.codegen.llvm.module import (
    PACKED_PREFIX,
    ModuleEmitter,
    emit_text,
    thread_runtime_text,
    wants_debug_information,
)
from tilesmith.codegen.outcomes import called_functions
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.module import BaseFunc
from tilesmith.support.summary import step
from tilesmith.target import Target
from tilesmith.target.back_end import Code
from tilesmith.target.features import architecture_of_triple, is_host, llvm_machine
from tilesmith.target.host import host_cpu
from tilesmith.target.machine import machine_model
from tilesmith.target.requirements import requirements_of
from tilesmith.tir.function import PrimFunc

__all__ = [
    "describe_host",
    "generate",
    "is_runnable",
    "kernel_object",
    "shared_objects",
    "thread_runtime_object",
]


def is_runnable(target: Target) -> bool:
    """True if this machine can run code for `target`: the same platform, no feature missing."""
    if is_host(target):
        return True
    host = host_cpu()
    machine = llvm_machine(target)
    if architecture_of_triple(machine.triple) != architecture_of_triple(host.triple):
        return False
    first, own = machine.triple.partition("-")[0], host.triple.partition("-")[0]
    if ("64" in first) != ("64" in own):
        return False  # pointers of another size: not for this process
    same_system = ("linux", "darwin", "macos", "windows")
    systems = [name for name in same_system if name in host.triple.lower()]
    if target.mtriple and not any(name in machine.triple.lower() for name in systems):
        return False
    return not requirements_of(target).missing()


def generate(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """Return the code of a lowered module in the formats "ll" (as written), "ll.opt", "asm", "bc",
    "o".

    Raises CodegenError, at the latest when object files are requested, for code that cannot be
    translated.
    """
    debug = wants_debug_information()

    def in_form(form: str) -> bytes | str:
        whole = ModuleEmitter(module, target, debug)
        text = whole.text()
        if form == "written":
            return text
        imported = [_text_of(source) for source in whole.imported]
        made = compile_formats(text, target, (form,), opt_level, imported)[form]
        return made if form in ("o", "bc") else made.decode()

    formats = {
        "ll": lambda: in_form("written"),
        "ll.opt": lambda: in_form("ll"),
        "asm": lambda: in_form("asm"),
        "bc": lambda: in_form("bc"),
        "o": lambda: in_form("o"),
    }
    return Code(formats, lambda: _objects(module, target, opt_level))


def _objects(module: IRModule, target: Target, opt_level: int | None) -> list[bytes]:
    objects, needs_threads = [], False
    parts = _parts(module, opt_level) if is_host(target) else [(module, opt_level)]
    for part, level in parts:
        emitter = ModuleEmitter(part, target)
        text = emitter.text(thread_runtime=not is_host(target))
        needs_threads = needs_threads or emitter.needs_threads
        imported = [_text_of(source) for source in emitter.imported]
        objects.append(compile_formats(text, target, ("o",), level, imported)["o"])
        for source in dict.fromkeys(emitter.imported_c):
            objects.append(compile_source(_text_of(source), target, level, "gnu11"))
    if needs_threads and is_host(target):
        objects.append(thread_runtime_object(target))
    return objects


def kernel_object(module: IRModule, target: Target) -> bytes:
    """Return the object file of lowered kernels; the functions that launch parallel loops are only
    declared.
    """
    with step("writing LLVM's text"):
        text = emit_text(module, target, thread_runtime=False)
    return compile_text(text, target)


def shared_objects(target: Target) -> Sequence[bytes]:
    """Return the object files that are linked once with the kernels of a model."""
    return (thread_runtime_object(target),)


_runtime_objects: dict[str, bytes] = {}


def thread_runtime_object(target: Target) -> bytes:
    """Return the object file with the functions that launch parallel loops, made once per target.

    Link it with objects made from `emit_text(..., thread_runtime=False)`.
    """
    key = str(target)
    if key not in _runtime_objects:
        _runtime_objects[key] = compile_text(thread_runtime_text(target), target)
    return _runtime_objects[key]


def _parts(module: IRModule, opt_level: int | None) -> list[tuple[IRModule, int | None]]:
    """Split the module for compilation: kernels, and the wrappers around kernels.

    A wrapper has about a hundred tests that run once per call: optimising it takes longer than
    optimising a kernel, and saves a few nanoseconds.
    """
    symbols = {function.attrs.get("global_symbol") for function in module.functions.values()}
    wrappers: dict[GlobalVar, BaseFunc] = {}
    kernels: dict[GlobalVar, BaseFunc] = {}
    for variable, function in module.functions.items():
        name = str(function.attrs.get("global_symbol", ""))
        is_wrapper = name.startswith(PACKED_PREFIX) and name[len(PACKED_PREFIX) :] in symbols
        (wrappers if is_wrapper else kernels)[variable] = function
    callees = {
        name
        for function in wrappers.values()
        if isinstance(function, PrimFunc)
        for name in called_functions(function)
    }
    private = [v for v, f in kernels.items() if "global_symbol" not in f.attrs]
    if not wrappers or not kernels or callees & {v.name_hint for v in private}:
        return [(module, opt_level)]
    return [
        (IRModule(kernels, attrs=module.attrs), opt_level),
        (IRModule(wrappers, attrs=module.attrs), 0),
    ]


def _text_of(part: str) -> str:
    """Return LLVM text or C that a pragma imports: the text itself or the name of a file with
    it.
    """
    if "\n" in part or "define" in part or "{" in part or ";" in part:
        return part
    with open(part, encoding="utf-8") as file:
        return file.read()


def describe_host() -> str:
    """Describe this machine's CPU as schedules see it, for `tilesmith doctor`."""
    model = machine_model(Target("llvm"))
    vectors = f"{8 * model.vector_bytes}-bit vectors"
    return f"{host_cpu().name}, {model.name}, {vectors}, {model.cores} cores"
