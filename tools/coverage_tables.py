"""Writes `docs/coverage/*.md`: which names of the API that users know answer through `import tvm`.

    python tools/coverage_tables.py                            # the names that the pages list
    python tools/coverage_tables.py --names LIST tvm.contrib   # those of a list, for a prefix

A line of LIST is `module: name(parameters); Class{method, method}; …`. The page of `tvm.contrib` is
`docs/coverage/contrib.md`; prefixes that are joined by commas share one. Names are looked up in a
fresh process; why one is refused comes from
`compat/tvm/refusals.py` and, for the names of schedules, `topi/schedules/reasons.py`.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import tilesmith.compat.tvm as alias
from tilesmith.compat.tvm.refusals import REFUSALS as NAMES_REFUSED
from tilesmith.compat.tvm.refusals import Refusal, refusal_of
from tilesmith.support.errors import UnsupportedModuleError
from tilesmith.topi.schedules.reasons import reasons_by_name

REFUSALS = {
    **NAMES_REFUSED,
    **{f"tvm.{name}": Refusal(*reason) for name, reason in reasons_by_name().items()},
}
"""Why names are refused: those of schedules stand beside the table of their functions."""
HEADING = "# Names of "
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "coverage"


@dataclass
class Item:
    """A name of a module: its parameters as text, or the methods of a class."""

    name: str
    parameters: str = ""
    methods: list[str] = field(default_factory=list)
    is_class: bool = False

    @property
    def text(self) -> str:
        """The item as pages write it."""
        if self.is_class:
            return f"{self.name}{{{', '.join(self.methods)}}}"
        return self.name + self.parameters

    @property
    def count(self) -> int:
        return 1 + len(self.methods)


Names = dict[str, list[Item]]


def parse_item(text: str) -> Item:
    """Read `name`, `name(a, b=1)` or `Class{method, method}`."""
    found = re.fullmatch(r"(\w+)(.*)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"'{text}' is not a name")
    name, rest = found.groups()
    if rest.startswith("{"):
        methods = sorted([word.strip() for word in rest[1:-1].split(",") if word.strip()])
        return Item(name, methods=methods, is_class=True)
    return Item(name, rest)


def split_items(text: str) -> list[str]:
    """Split at the semicolons outside of brackets."""
    items, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == ";" and depth == 0:
            items.append(text[start:place].strip())
            start = place + 1
    return [item for item in [*items, text[start:].strip()] if item]


def names_of_list(path: Path, prefix: str) -> Names:
    """Return the names of a list whose modules begin with a prefix, or one of several (`a,b`)."""
    found: Names = {}
    starts = tuple([one + "." for one in prefix.split(",")])
    for line in path.read_text(encoding="utf-8").splitlines():
        module, colon, text = line.partition(": ")
        if colon and not line.startswith("#") and (module + ".").startswith(starts):
            found[module] = [parse_item(item) for item in split_items(text)]
    return found


def in_order(names: Names) -> Names:
    """Return names in the order of pages: by module, then by name."""
    return {module: sorted(names[module], key=lambda item: item.name) for module in sorted(names)}


ROW = re.compile(r"^- \*\*([\w.]+)\*\*: (.*)$")


def names_of_page(text: str) -> Names:
    """Return the names that a page lists."""
    found: Names = {}
    for line in text.splitlines():
        match = ROW.match(line)
        if match is None:
            continue
        items = found.setdefault(match[1], [])
        for word in re.findall(r"`([^`]+)`", match[2]):
            item = parse_item(word)
            known = next((one for one in items if one.name == item.name), None)
            if known is None:
                items.append(item)
            else:  # a class whose methods stand in several lists
                known.methods = sorted({*known.methods, *item.methods})
    return found


@dataclass
class Answers:
    """The names of one prefix, sorted by what becomes of them."""

    answering: Names = field(default_factory=dict)
    refused: Names = field(default_factory=dict)
    absent: Names = field(default_factory=dict)
    missing: Names = field(default_factory=dict)

    def add(self, module: str, item: Item, found: ModuleType | None) -> None:
        """Put a name, and each of its methods, into the lists."""
        if found is None:
            self.absent.setdefault(module, []).append(item)
        elif f"{module}:{item.name}" in REFUSALS:
            self.refused.setdefault(module, []).append(item)
        elif not hasattr(found, item.name) or lost_parameters(item, getattr(found, item.name)):
            self.missing.setdefault(module, []).append(item)
        else:
            self._add_methods(module, item, getattr(found, item.name))

    def _add_methods(self, module: str, item: Item, value: object) -> None:
        parts = {"answering": [], "refused": [], "missing": []}
        for method in item.methods:
            is_refused = f"{module}:{item.name}.{method}" in REFUSALS
            kind = "refused" if is_refused else "answering" if hasattr(value, method) else "missing"
            parts[kind].append(method)
        for kind, methods in parts.items():
            if methods or kind == "answering":
                made = Item(item.name, item.parameters, methods, item.is_class)
                getattr(self, kind).setdefault(module, []).append(made)


def lost_parameters(item: Item, value: object) -> list[str]:
    """Return the parameters that a function here does not have."""
    if not item.parameters or not callable(value):
        return []
    try:
        have = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return []  # a function of C without a signature
    kinds = {one.kind for one in have.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        return []
    words = re.split(r",\s*(?![^(\[]*[)\]])", item.parameters[1:-1])
    names = [word.partition("=")[0].strip() for word in words if not word.strip().startswith("*")]
    return [name for name in names if name and name not in have]


def module_named(name: str) -> ModuleType | None:
    """Import a module of users' programs; None where it is refused as a whole."""
    try:
        return importlib.import_module(name)
    except UnsupportedModuleError:
        return None
    except ModuleNotFoundError:
        return ModuleType(name)  # its names are missing


def look_up(names: Names) -> Answers:
    """Look up all names."""
    alias.install()
    found = Answers()
    for module, items in names.items():
        value = module_named(module)
        for item in items:
            found.add(module, item, value)
    return found


def total(names: Names, own_names: bool = True) -> int:
    """Return the number of names; without those of classes if these stand elsewhere."""
    return sum(
        item.count if own_names else len(item.methods) or 1
        for items in names.values()
        for item in items
    )


def rows(names: Names) -> list[str]:
    """Return one line for each module."""
    return [
        f"- **{module}**: " + " ".join([f"`{item.text}`" for item in items])
        for module, items in names.items()
    ]


def refused_rows(names: Names) -> list[str]:
    """Return one line for each reason in a module."""
    lines = []
    for module, items in names.items():
        reasons: dict[tuple[str, str], list[Item]] = {}
        for item in items:
            keys = [f"{module}:{item.name}"]
            keys += [f"{module}:{item.name}.{method}" for method in item.methods]
            refusal = next(REFUSALS[key] for key in keys if key in REFUSALS)
            reasons.setdefault((refusal.reason, refusal.advice), []).append(item)
        for (reason, advice), group in reasons.items():
            lines += rows({module: group}) + [f"  Because {reason}. Instead: {advice}."]
    return lines


def absent_rows(names: Names) -> list[str]:
    """Return the modules that are refused as a whole, by reason."""
    groups: dict[str, Names] = {}
    for module, items in names.items():
        parts = module.split(".")
        key = next(
            ".".join(parts[:count])
            for count in range(len(parts), 1, -1)
            if ".".join(parts[:count]) in REFUSALS
        )
        groups.setdefault(key, {})[module] = items
    lines = []
    for key, modules in groups.items():
        refusal = refusal_of(key)
        assert refusal is not None
        lines += [
            "", f"### {key}", "",
            f"{total(modules)} names. Because {refusal.reason}. Instead: {refusal.advice}.", "",
            *rows(modules),
        ]  # fmt: skip
    return lines


def page(prefix: str, names: Names) -> str:
    """Return the text of a page."""
    found = look_up(in_order(names))
    answering = total(found.answering)
    refused = total(found.refused, own_names=False)
    lines = [
        HEADING + prefix.replace(",", ", "), "",
        "Written by `tools/coverage_tables.py`: which of the names that users know can be used"
        " after", "`import tvm` (`tilesmith.compat.tvm`).", "",
        "| names | |", "|---|---|",
        f"| answer | {answering} |",
        f"| can be imported, and raise an error that says what to do instead | {refused} |",
        f"| stand in modules whose import says why they are not there | {total(found.absent)} |",
        f"| are missing | {total(found.missing, own_names=False)} |",
        "", "## Names that answer", "", *rows(found.answering),
    ]  # fmt: skip
    if found.refused:
        lines += ["", "## Names that say what to do instead", "", *refused_rows(found.refused)]
    if found.absent:
        lines += ["", "## Modules that are not there", *absent_rows(found.absent)]
    if found.missing:
        lines += ["", "## Names that are missing", "", *rows(found.missing)]
    return "\n".join(lines) + "\n"


def page_path(prefix: str) -> Path:
    """Return the file of a prefix: `docs/coverage/contrib.md` of `tvm.contrib`; that of several is
    named after the first.
    """
    return FOLDER / (prefix.partition(",")[0].removeprefix("tvm.").replace(".", "_") + ".md")


def prefix_of(text: str) -> str:
    """Return the prefix that a page is about."""
    return text.partition("\n")[0].removeprefix(HEADING).replace(", ", ",")


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=Path, help="a list of names; else those of the pages")
    parser.add_argument("--check", action="store_true", help="write nothing, fail at a difference")
    parser.add_argument("prefixes", nargs="*")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if options.names is not None:
        found = {prefix: names_of_list(options.names, prefix) for prefix in options.prefixes}
    else:
        texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))]
        found = {prefix_of(text): names_of_page(text) for text in texts if text.startswith(HEADING)}
    for prefix, names in found.items():
        path, text = page_path(prefix), page(prefix, names)
        if not options.check:
            path.write_text(text, encoding="utf-8")
            print(path)
        elif path.read_text(encoding="utf-8") != text:
            old = path.read_text(encoding="utf-8").splitlines()
            print("\n".join(difflib.unified_diff(old, text.splitlines(), lineterm="", n=0)))
            sys.exit("run: python tools/coverage_tables.py")


if __name__ == "__main__":
    main()
