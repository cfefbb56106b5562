"""The LLVM back end: PrimFuncs → LLVM text → object code.

`emit_text(module, target)` writes the text, `compile_text(text, target)` makes object code of it,
`build(module, target)` does both and gives a `runtime.Module`.
"""

from __future__ import annotations

from tilesmith.codegen.llvm.compile import assembly, compile_formats, compile_text
from tilesmith.codegen.llvm.module import PACKED_PREFIX, ModuleEmitter, emit_text, kernel_symbol
from tilesmith.codegen.registry import BACK_ENDS
from tilesmith.ir import IRModule
from tilesmith.runtime.module import Module
from tilesmith.target import Target
from tilesmith.target.features import is_host, llvm_machine
from tilesmith.target.host import host_cpu

__all__ = [
    "assembly",
    "build",
    "compile_formats",
    "compile_text",
    "emit_text",
    "is_runnable",
    "kernel_symbol",
]


def is_runnable(target: Target) -> bool:
    """Whether this machine can run code for `target`: the same platform, no feature missing."""
    if is_host(target):
        return True
    from tilesmith.target.features import architecture_of_triple, target_features

    host = host_cpu()
    machine = llvm_machine(target)
    if architecture_of_triple(machine.triple) != architecture_of_triple(host.triple):
        return False
    same_system = ("linux", "darwin", "macos", "windows")
    systems = [name for name in same_system if name in host.triple.lower()]
    if target.mtriple and not any(name in machine.triple.lower() for name in systems):
        return False
    # LLVM counts tuning words as features: only what the host is known to lack matters
    lacking = {change[1:] for change in host.changes if change.startswith("-")}
    return not (target_features(target) & lacking)


@BACK_ENDS.register("llvm")
def build(module: IRModule, target: Target, opt_level: int | None = None) -> Module:
    """Compile a lowered module. Its sources are "ll" (as written), "ll.opt" and "asm".

    Raises CodegenError for what cannot be translated.
    """
    emitter = ModuleEmitter(module, target)
    text = emitter.text()
    imported = [_text_of(part) for part in emitter.imported]
    code = compile_formats(text, target, ("o",), opt_level, imported)["o"]

    def in_form(form: str) -> str:
        return compile_formats(text, target, (form,), opt_level, imported)[form].decode()

    names = [
        str(function.attrs["global_symbol"]).removeprefix(PACKED_PREFIX)
        for function in emitter.functions.values()
        if str(function.attrs.get("global_symbol", "")).startswith(PACKED_PREFIX)
    ]
    entry = next(
        (
            str(function.attrs["global_symbol"]).removeprefix(PACKED_PREFIX)
            for function in emitter.functions.values()
            if function.attrs.get("tir.is_entry_func")
        ),
        None,
    )
    return Module(
        "llvm",
        objects=[code],
        function_names=list(dict.fromkeys(names)),
        entry_name=entry,
        formats={"ll": text, "ll.opt": lambda: in_form("ll"), "asm": lambda: in_form("asm")},
        runnable=is_runnable(target),
    )


def _text_of(part: str) -> str:
    """LLVM text that a pragma brings: the text itself or the name of a file with it."""
    if "\n" in part or "define" in part:
        return part
    with open(part, encoding="utf-8") as file:
        return file.read()
