"""Compiles LLVM text to optimised text, assembly, object code. Uses llvmlite and nothing of
Tilesmith.

The file is also a program: the parent writes requests to its standard input (one line of JSON, then
the text) and reads the answers. LLVM ends the whole process when it cannot select instructions for
some code ("Cannot select"), so code for foreign targets is compiled in such a child.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from typing import Any

_initialised = False
_options_set = False
_lock = threading.Lock()


class TextError(ValueError):
    """LLVM's parser or verifier refused the text; the message is LLVM's."""


def initialise() -> None:
    """Make all targets known to LLVM, once."""
    global _initialised
    with _lock:
        if _initialised:
            return
        from llvmlite import binding

        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        binding.initialize_native_asmparser()
        _initialised = True


def target_machine(machine: dict[str, str], opt_level: int, codemodel: str = "default") -> Any:
    """Return LLVM's target machine for {triple, cpu, features, abi}."""
    from llvmlite import binding

    initialise()
    target = binding.Target.from_triple(machine["triple"])
    return target.create_target_machine(
        cpu=machine.get("cpu", ""),
        features=machine.get("features", ""),
        opt=opt_level,
        reloc=machine.get("reloc") or "pic",
        codemodel=codemodel,
        abiname=machine.get("abi", ""),
    )


def parse(text: str, imported: list[str]) -> Any:
    """Parse a text into a module, with further texts linked into it. Raises TextError."""
    from llvmlite import binding

    initialise()
    try:
        module = binding.parse_assembly(text)
        module.verify()
        for part in imported:
            other = binding.parse_assembly(part)
            other.triple = module.triple
            other.data_layout = module.data_layout
            module.link_in(other)
    except RuntimeError as error:
        raise TextError(str(error)) from error
    return module


_STORES_TRUTH = re.compile(r"zext i1 %\S+ to i8\b")


def optimise(module: Any, machine: Any, opt_level: int, packs_scalars: bool = True) -> None:
    """Run LLVM's standard pipeline in place; ``packs_scalars``: also vectorise adjacent scalars."""
    from llvmlite import binding

    module.data_layout = str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=opt_level)
    options.loop_vectorization = opt_level >= 2
    options.slp_vectorization = opt_level >= 2 and packs_scalars
    options.loop_interleaving = opt_level >= 2
    options.loop_unrolling = opt_level >= 2
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


_SINGLE_LANE_STORE = re.compile(
    r"^(?P<indent>\s+)(?:tail )?call void @llvm\.masked\.store\.[\w.]+\("
    r"(?P<vector><\d+ x (?P<element>i\d+)>) (?P<value>[^,]+), "
    r"ptr (?P<attributes>(?:align \d+ |[a-z_]+(?:\(\d+\))? )*)(?P<place>[%@][^,]+), "
    r"<\d+ x i1> <(?P<mask>[^>]*)>\).*$",
    re.MULTILINE,
)

_ALIGNMENT = re.compile(r"align \d+")


def is_valid(module: Any) -> bool:
    """Return whether LLVM's verifier accepts a module."""
    try:
        module.verify()
    except RuntimeError:
        return False
    return True


def without_single_lane_stores(module: Any) -> Any:
    """Return the module with masked stores of one fixed lane of integers replaced by plain stores.

    LLVM 22 compiles a truncating one (``trunc <8 x i32> to <8 x i16>``) to a store of the wide
    element, which overwrites the memory after it.
    """
    if not any(function.name.startswith("llvm.masked.store") for function in module.functions):
        return module
    number = 0

    def plain(found: re.Match[str]) -> str:
        nonlocal number
        lanes = [lane.strip() == "i1 true" for lane in found["mask"].split(",")]
        if sum(lanes) != 1:
            return found[0]
        number += 1
        indent, element = found["indent"], found["element"]
        lane, name, pointer = lanes.index(True), f"%single.lane.{number}", found["place"]
        lines = [f"{indent}{name} = extractelement {found['vector']} {found['value']}, i64 {lane}"]
        if lane:
            pointer = f"{name}.place"
            lines.append(
                f"{indent}{pointer} = getelementptr {element}, ptr {found['place']}, i64 {lane}"
            )
        alignment = _ALIGNMENT.search(found["attributes"]) if not lane else None
        aligned = alignment[0] if alignment else "align 1"
        lines.append(f"{indent}store {element} {name}, ptr {pointer}, {aligned}")
        return "\n".join(lines)

    text = _SINGLE_LANE_STORE.sub(plain, str(module))
    return parse(text, []) if number else module


def _set_options(options: list[str]) -> None:
    """Set LLVM's own options, once: they hold for the whole process, so only a child gets any.

    LLVM does not report unknown names, and has no way to query them.
    """
    global _options_set
    if options and not _options_set:
        from llvmlite import binding

        for option in options:
            binding.set_option("tilesmith", option)
        _options_set = True


def compile_text(request: dict[str, Any], text: str) -> dict[str, bytes]:
    """Return the formats that `request["formats"]` names: "o", "asm", "ll" (optimised text), "bc"
    (bitcode).
    """
    _set_options(request.get("options", ()))
    level = int(request.get("opt_level", 3))
    machine = target_machine(request["machine"], level)
    module = parse(text, request.get("imported", []))
    # From adjacent stores of booleans LLVM 22 makes vectors for which it has no instructions.
    packs_scalars = _STORES_TRUTH.search(text) is None
    optimise(module, machine, level, packs_scalars)
    # It may also put a use in front of its definition, on which instruction selection aborts
    # ("Already set a value for this node").
    if packs_scalars and not is_valid(module):
        module = parse(text, request.get("imported", []))
        optimise(module, machine, level, packs_scalars=False)
    module = without_single_lane_stores(module)
    made: dict[str, bytes] = {}
    for form in request["formats"]:
        if form == "ll":
            made[form] = str(module).encode()
        elif form == "asm":
            made[form] = machine.emit_assembly(module).encode()
        elif form == "bc":
            made[form] = module.as_bitcode()
        else:
            made[form] = machine.emit_object(module)
    return made


def answer(line: bytes) -> bool:
    """Answer one request, whose first line has been read; False at the end of the input."""
    if not line:
        return False
    request = json.loads(line)
    text = sys.stdin.buffer.read(request["size"]).decode()
    try:
        made = compile_text(request, text)
    except (TextError, RuntimeError) as error:
        head, made = {"error": str(error), "is_text": isinstance(error, TextError)}, {}
    else:
        head = {"sizes": {form: len(content) for form, content in made.items()}}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + b"".join(made.values()))
    sys.stdout.buffer.flush()
    return True


def main() -> None:
    """Answer requests (a line of JSON with the size of the text, then the text) until the end."""
    while answer(sys.stdin.buffer.readline()):
        pass


if __name__ == "__main__":
    main()
