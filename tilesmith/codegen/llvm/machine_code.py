"""Compiles LLVM text to optimised text, assembly, object code. Uses llvmlite and nothing of
Tilesmith.

The file is also a program: the parent writes requests to its standard input (one line of JSON, then
the text) and reads the answers. LLVM ends the whole process when it cannot select instructions for
some code ("Cannot select"), so code for foreign targets is compiled in such a child.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

_initialised = False
_options_set = False
_lock = threading.Lock()
_emission_lock = threading.Lock()
_IN_ORDER = ("atom", "bonnell")
"""CPUs of the family x86 that run instructions in the order of the code."""


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


PACKS_SCALARS = "-vectorize-slp"


def optimise(module: Any, machine: Any, opt_level: int, packs_scalars: bool = False) -> None:
    """Run LLVM's standard pipeline in place.

    ``packs_scalars``: also make vectors of adjacent scalars ("superword-level parallelism"). LLVM
    22 makes some of those for which it has no instructions, which ends the process, or puts uses in
    front of definitions; so this is done on request only (``-cl-opt=-vectorize-slp``).
    """
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


def without_single_lane_stores(text: str) -> str:
    """Return a module's text with masked stores of one fixed lane of integers replaced by plain
    stores.

    LLVM 22 compiles a truncating one (``trunc <8 x i32> to <8 x i16>``) to a store of the wide
    element, which overwrites the memory after it.
    """
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

    return _SINGLE_LANE_STORE.sub(plain, text) if "llvm.masked.store" in text else text


_FUNCTION = re.compile(r"^define [^\n]* #(?P<group>\d+) [^\n]*\{\n.*?^\}", re.MULTILINE | re.DOTALL)
_SIGNS = re.compile(
    r"(?P<mask>%\S+) = (?:icmp slt <\d+ x (?P<type>i\d+)> %\S+, zeroinitializer"
    r"|icmp sgt <\d+ x (?P<inverted>i\d+)> %\S+, splat \(i\d+ -1\)"
    r"|trunc <\d+ x (?P<bits>i\d+)> %\S+ to <\d+ x i1>)"
)
_SAME_LANES = re.compile(r"(?P<name>%\S+) = (?:freeze|xor) <\d+ x i1> (?P<mask>%[^\s,]+)")
_MASK_AS_INTEGER = re.compile(
    r"(?:extractelement|bitcast|@llvm\.vector\.reduce\.\w+\.v\d+i1\()"
    r"[ ]?<\d+ x i1> (?P<mask>%[^\s,)]+)"
)
_MASK_INSTRUCTIONS = {"i8": "avx512bw", "i32": "avx512dq", "i64": "avx512dq"}


def without_lost_masks(text: str) -> str:
    """Return a module's text in which functions that use the signs of a vector as an integer, too,
    do without the instructions of AVX-512 that make masks of signs.

    LLVM 22 replaces ``vpmovd2m %xmm0, %k0; kmovd %k0, %eax`` by ``vmovmskps %xmm0, %eax`` although
    a later instruction reads k0, if that instruction overwrites k0, too: its mask is then
    undefined. Functions that call instructions by name stay, since these may be missing then.
    """
    if " x i1>" not in text:
        return text
    made: dict[str, str] = {}
    groups = dict(re.findall(r"^attributes #(\d+) = (.*)$", text, re.MULTILINE))

    def guarded(found: re.Match[str]) -> str:
        body, group = found[0], found["group"]
        without = [] if "@llvm.x86." in body else sorted(_sign_instructions(body))
        if not without or group not in groups:
            return body
        new = str(1 + max(int(one) for one in (*groups, *made)))
        names = "".join([f",-{name}" for name in without])
        made[new] = re.sub(r'("target-features"="[^"]*)"', rf'\1{names}"', groups[group])
        return body.replace(f" #{group} ", f" #{new} ", 1)

    new_text = _FUNCTION.sub(guarded, text)
    return new_text + "".join([f"attributes #{new} = {words}\n" for new, words in made.items()])


def _sign_instructions(function: str) -> set[str]:
    """Return the features of the instructions that would make masks of signs which the function
    uses as integers.
    """
    signs = {
        one["mask"]: one["type"] or one["inverted"] or one["bits"]
        for one in _SIGNS.finditer(function)
    }
    if not signs:
        return set()
    for one in _SAME_LANES.finditer(function):
        if one["mask"] in signs:
            signs[one["name"]] = signs[one["mask"]]
    types = [signs.get(one["mask"], "") for one in _MASK_AS_INTEGER.finditer(function)]
    return {_MASK_INSTRUCTIONS[one] for one in types if one in _MASK_INSTRUCTIONS}


_BYTE_DIVISION = re.compile(
    r"^(?P<indent> +)(?P<name>%\S+) = (?P<operation>[us](?:div|rem))(?: exact)? "
    r"(?P<lanes><\d+ x )i8> (?P<dividend>%[^\s,]+), (?P<divisor>splat [^)]*\)|<[^>]*>)",
    re.MULTILINE,
)


def without_byte_divisions(text: str) -> str:
    """Return a module's text in which vectors of bytes are divided by constants in 16 bits.

    LLVM 22 takes the product of a reordered quotient or remainder and something else for 0 if they
    are vectors of less than 16 bytes. For others, 16 bits take fewer instructions, too.
    """

    def wide(found: re.Match[str]) -> str:
        indent, name, lanes = found["indent"], found["name"], found["lanes"]
        plain = name.strip('%"')
        made = [f'{indent}%"{plain}.{part}" = ' for part in ("dividend", "divisor", "wide")]
        values = [f'%"{plain}.{part}"' for part in ("dividend", "divisor", "wide")]
        extended = "zext" if found["operation"].startswith("u") else "sext"
        return "\n".join(
            [
                f"{made[0]}{extended} {lanes}i8> {found['dividend']} to {lanes}i16>",
                f"{made[1]}{extended} {lanes}i8> {found['divisor']} to {lanes}i16>",
                f"{made[2]}{found['operation']} {lanes}i16> {values[0]}, {values[1]}",
                f"{indent}{name} = trunc {lanes}i16> {values[2]} to {lanes}i8>",
            ]
        )

    return _BYTE_DIVISION.sub(wide, text) if " x i8> " in text else text


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


@contextlib.contextmanager
def _order_of_instructions(machine: dict[str, str]) -> Iterator[None]:
    """Leave instructions in the order in which registers were allocated, where that is better.

    After the allocation LLVM sorts them once more by their latency, for some CPUs, Zen among them.
    These look far ahead themselves. What the sort does is to put the stores of a register tile
    side by side, which then keep multiply-adds from their ports: tiles of few steps take up to
    6 % longer, depthwise convolutions 9 % (measured on Zen 5). LLVM has an option of the process
    for it only, so it holds while one thread emits.
    """
    is_in_order = machine.get("cpu") in _IN_ORDER
    if is_in_order or not machine["triple"].startswith(("x86_64", "i386", "i686")):
        yield
        return
    from llvmlite import binding

    with _emission_lock:
        binding.set_option("tilesmith", "-disable-post-ra=true")
        try:
            yield
        finally:
            binding.set_option("tilesmith", "-disable-post-ra=false")


def compile_text(request: dict[str, Any], text: str) -> dict[str, bytes]:
    """Return the formats that `request["formats"]` names: "o", "asm", "ll" (optimised text), "bc"
    (bitcode).
    """
    _set_options(request.get("options", ()))
    level = int(request.get("opt_level", 3))
    machine = target_machine(request["machine"], level)
    module = parse(text, request.get("imported", []))
    optimise(module, machine, level, PACKS_SCALARS in request.get("options", ()))
    optimised = str(module)
    text = without_single_lane_stores(optimised)
    if request["machine"]["triple"].startswith("x86_64"):  # other CPUs compile these as they should
        text = without_byte_divisions(without_lost_masks(text))
    if text != optimised:
        module = parse(text, [])
    made: dict[str, bytes] = {}
    with _order_of_instructions(request["machine"]):
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
