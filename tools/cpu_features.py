"""Writes the tables of CPUs: the instruction set extensions of each, and their names.

`tilesmith/target/cpu_features.json` holds the extensions of each CPU of LLVM. LLVM reports the
features of the host only, so the table is generated once and committed. The source is the copy of
LLVM's CPU definitions in the standard library of Zig (`pip install ziglang`), which is plain text:

    python tools/cpu_features.py

`tilesmith/target/feature_names.json` holds every name that `-mattr` may have, by architecture. LLVM
prints them, but does not return them:

    python tools/cpu_features.py --names

Features that only tune code (costs, fusion of instruction pairs, register reservations) are left
out: LLVM applies them by itself when it is given the CPU's name.
"""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[1] / "tilesmith" / "target" / "cpu_features.json"

NAMES = OUTPUT.with_name("feature_names.json")

# Architecture → a triple for which LLVM prints the names of its features.
TRIPLES = {
    "x86": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "arm": "armv7a-linux-gnueabihf",
    "riscv": "riscv64-linux-gnu", "wasm32": "wasm32", "hexagon": "hexagon",
    "powerpc64le": "powerpc64le-linux-gnu", "s390x": "s390x-linux-gnu", "mips": "mips-linux-gnu",
}  # fmt: skip
PRINT = """
import sys
from llvmlite import binding
binding.initialize_all_targets()
binding.initialize_all_asmprinters()
binding.Target.from_triple(sys.argv[1]).create_target_machine(features="+help")
"""

# Architecture → the CPUs that the table keeps.
CPUS = {
    "x86": r"x86-64.*|core2|penryn|nehalem|westmere|sandybridge|ivybridge|haswell|broadwell"
    r"|sky.*|skx"
    r"|cannonlake|.*lake.*|knl|knm|.*rapids.*|.*forest|atom|bonnell|silvermont|goldmont.*"
    r"|tremont|gracemont"
    r"|bdver.|btver.|znver.|k8-sse3|barcelona|amdfam10",
    "aarch64": r".*",
    "arm": r"generic|cortex-[amr].*|swift|krait|neoverse.*",
    "riscv": r"generic.*|rocket.*|sifive.*|spacemit.*|tt-.*|veyron.*|xiangshan.*",
}
TUNING = re.compile(
    r"(fast|slow|faster|prefer|use|reserve|call-saved|fuse|false-deps|no|disable|enable|idiv|avoid|harden|zc[mz]|shifted"
    r"|aggressive|cheap|dont|fix|ldp|stp|lea|lvi|optimized|short-forward|predictable|allow|ascend|force|branch"
    r"|alternate|alu|arith|cmp-bcc|addr|balance|single-element|max-interleave|vmlx|wide-stride|ret-addr|vldn|muxed"
    r"|nonpipelined|splat|loop-align|auipc|ld-add|lui|addi|add-load|shxadd|bfext|conditional|dlen|log|vl-dependent"
    r"|vxrm|unaligned|zext[hw]|zexth|relax|save-restore|tuning|execute-only|exynos|store-pair|retpoline|outline)-.*"
    r"|.*-fusion|macrofusion|branchfusion|vzeroupper|sbb-dep-breaking|tagged-globals|soft-float|pad-short-functions"
    r"|bsf-bsr.*|16bit-mode|32bit-mode|cortex-.*|olympus|ventana-veyron|andes45|mips-p8700|fujitsu-monaka|a320|m55|m85"
    r"|exact-asm|forced-atomics|inline-asm.*|big-endian.*|sse-unaligned-mem"
)

FEATURE = re.compile(
    r"result\[@\w+\(Feature\.(?P<name>@\"[^\"]+\"|\w+)\)\] = \.\{\s*"
    r"\.llvm_name = \"(?P<llvm>[^\"]+)\","
    r".*?\.dependencies = featureSet\(&\[_\]Feature\{(?P<needs>[^}]*)\}\)",
    re.S,
)
CPU = re.compile(
    r"\.llvm_name = \"(?P<llvm>[^\"]+)\",\s*"
    r"\.features = featureSet\(&\[_\]Feature\{(?P<features>[^}]*)\}\)",
    re.S,
)


def names(text: str) -> list[str]:
    """Return the enumeration's words in a list such as `.avx, .@"64bit",`."""
    return [
        word.strip().removeprefix(".").replace('@"', '"').strip('"')
        for word in text.split(",")
        if word.strip()
    ]


def closed(features: list[str], needs: dict[str, list[str]]) -> set[str]:
    """Return `features` and everything that they imply."""
    found: set[str] = set()
    waiting = list(features)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needs.get(name, [])
    return found


def table(source: str, wanted: str) -> dict[str, str]:
    """Return for each CPU name its features, sorted and separated by blanks."""
    llvm_names: dict[str, str] = {}
    needs: dict[str, list[str]] = {}
    for match in FEATURE.finditer(source):
        name = match["name"].replace('@"', "").strip('"')
        llvm_names[name] = match["llvm"]
        needs[name] = names(match["needs"])
    result = {}
    for match in CPU.finditer(source):
        if re.fullmatch(wanted, match["llvm"]):
            features = {
                llvm_names[name]
                for name in closed(names(match["features"]), needs)
                if name in llvm_names
            }
            result[match["llvm"]] = " ".join(sorted(f for f in features if not TUNING.fullmatch(f)))
    return dict(sorted(result.items()))


def write_names() -> None:
    """Ask LLVM for the names of all features and write them, one architecture per line."""
    lines = []
    for architecture, triple in TRIPLES.items():
        command = [sys.executable, "-c", PRINT, triple]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        features = printed.partition("Available features")[2]
        found = sorted(set(re.findall(r"^  (\S+) +- ", features, re.MULTILINE)))
        lines.append(f"  {json.dumps(architecture)}: {json.dumps(' '.join(found))}")
        print(f"{architecture}: {len(found)} features")
    NAMES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    """Read Zig's definitions and write the table, one CPU per line."""
    if "--names" in sys.argv[1:]:
        write_names()
        return
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        sys.exit("the package 'ziglang' is not installed; install it: pip install ziglang")
    folder = Path(package.origin).parent / "lib" / "std" / "Target"
    tables = {
        name: table((folder / f"{name}.zig").read_text(encoding="utf-8"), cpus)
        for name, cpus in CPUS.items()
    }
    blocks = []
    for architecture, records in tables.items():
        lines = [
            f"    {json.dumps(cpu)}: {json.dumps(features)}" for cpu, features in records.items()
        ]
        blocks.append(f"  {json.dumps(architecture)}: {{\n" + ",\n".join(lines) + "\n  }")
    OUTPUT.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
    print(f"{OUTPUT}: {sum(len(records) for records in tables.values())} CPUs")


if __name__ == "__main__":
    main()
