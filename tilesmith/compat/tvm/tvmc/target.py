"""Targets on the command line: ``--target "llvm -mcpu=skylake, dnnl" --target-llvm-num-cores 4``.

Each option of each kind of target is an argument of its own, ``--target-KIND-OPTION``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilesmith.compat.tvm.tvmc import registry
from tilesmith.compat.tvm.tvmc.composite_target import get_codegen_names
from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.target import Target
from tilesmith.target.kind import TargetKind

logger = logging.getLogger("TVMC")

INTERNAL_TO_NATIVE_TYPE = {**registry.INTERNAL_TO_NATIVE_TYPE, "strings": str, "Array": str}
INTERNAL_TO_HELP = {
    **registry.INTERNAL_TO_HELP,
    "strings": "texts with commas between them",
    "Array": "texts with commas between them",
}

_TOKEN = re.compile(
    r"""-(?:"[^"]*"|'[^']*'|,(?=[^\s,])|[^\s,"'])+"""  # an option, whose value may have commas
    r"|,|[^\s,]+"
)


def _options_of(kind: str) -> dict[str, str]:
    """Return the options of a kind that can be given on the command line, with their types."""
    options = TargetKind.options_from_name(kind)
    return {name: one for name, one in options.items() if one in INTERNAL_TO_NATIVE_TYPE}


def generate_target_args(parser: argparse.ArgumentParser) -> None:
    """Add ``--target`` to a parser, and an argument for each option of each kind of target."""
    parser.add_argument(
        "--target",
        required=False,
        help='the target, such as "llvm -mcpu=skylake", its JSON, or a file that holds either; '
        "compilers of others follow after commas",
    )
    for kind in Target.list_kinds():
        group = parser.add_argument_group(f"options of the target {kind}")
        for option, value_type in _options_of(kind).items():
            group.add_argument(
                f"--target-{kind}-{option}",
                type=INTERNAL_TO_NATIVE_TYPE[value_type],
                help=f"option {option} of {kind}: {INTERNAL_TO_HELP[value_type]}",
            )


def reconstruct_target_args(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the options of targets among the arguments: kind → option → value."""
    found: dict[str, dict[str, Any]] = {}
    for kind in Target.list_kinds():
        for option in _options_of(kind):
            value = getattr(args, f"target_{kind}_{option}".replace("-", "_"), None)
            if value is not None:
                found.setdefault(kind, {})[option] = value
    return found


def tokenize_target(target: str) -> list[str]:
    """Return the words of a text of targets: names, options and commas between targets."""
    return _TOKEN.findall(target)


def parse_target(target: str) -> list[dict[str, Any]]:
    """Return the targets in a text, each with its name, options, own text, and whether it is a
    target (or a compiler of others).
    """
    if not target or not target.strip():
        raise TVMCException("no target is given", notes=('add: --target "llvm"',))
    groups: list[list[str]] = [[]]
    for token in tokenize_target(target):
        if token == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    if not all(groups):
        raise TVMCException(f"in '{target}' a comma has no target on one of its sides")
    return [_described(words, target) for words in groups]


def _described(words: Sequence[str], whole: str) -> dict[str, Any]:
    name, options = words[0], {}
    if name.startswith("-"):
        raise TVMCException(f"'{whole}' has the option '{name}' before any name of a target")
    for word in words[1:]:
        if not word.startswith("-"):
            raise TVMCException(
                f"'{word}' in the target '{whole}' is neither an option nor a target",
                notes=("options begin with '-'; commas separate targets",),
            )
        option, equals, value = word.lstrip("-").partition("=")
        value = value[1:-1] if value[:1] in ("'", '"') and value[-1:] == value[:1] else value
        options[option] = value if equals else "1"
    return {
        "name": name,
        "opts": options,
        "raw": " ".join(words),
        "is_tvm_target": name in Target.list_kinds() or "/" in name,
    }


def validate_targets(
    parse_targets: Sequence[Mapping[str, Any]],
    additional_target_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Raise TVMCException unless one is a target, the others are compilers of others that are
    known, and further options belong to one of them.
    """
    names = [one["name"] for one in parse_targets]
    targets = [one["name"] for one in parse_targets if one["is_tvm_target"]]
    known = get_codegen_names()
    for one in parse_targets:
        if not one["is_tvm_target"] and one["name"] not in known:
            raise TVMCException(
                f"there is no target '{one['name']}'",
                notes=(
                    "targets: " + ", ".join(Target.list_kinds()),
                    "compilers beside them: " + ", ".join(known),
                ),
            )
    if len(targets) != 1:
        raise TVMCException(
            f"a program has one target, got {', '.join(targets) or 'none'}",
            notes=('such as --target "llvm", or "llvm, dnnl"',),
        )
    for name in additional_target_options or {}:
        if name not in names:
            raise TVMCException(
                f"there are options of the target '{name}' (--target-{name}-…), which is not "
                f"chosen: {', '.join(names)}",
            )


def is_inline_json(target: str) -> bool:
    """Return whether a text is JSON."""
    try:
        json.loads(target)
    except json.JSONDecodeError:
        return False
    return True


def target_from_cli(
    target: Any, additional_target_options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Target, list[dict[str, Any]]]:
    """Return the target of a text, a file or JSON, and the compilers of others beside it, each with
    its name and options. Further options, by kind, come from arguments of their own.
    """
    if isinstance(target, Target):
        return target, []
    if not isinstance(target, str):
        return Target(target), []
    if os.path.isfile(target):
        target = Path(target).read_text(encoding="utf-8").strip()
        logger.debug("the target of the file: %s", target)
    if is_inline_json(target):
        return Target(json.loads(target)), []
    parsed = parse_target(target)
    validate_targets(parsed, additional_target_options)
    for one in parsed:
        one["opts"].update((additional_target_options or {}).get(one["name"], {}))
    chosen = next(one for one in parsed if one["is_tvm_target"])
    words = [chosen["name"], *[_option_text(*pair) for pair in chosen["opts"].items()]]
    return Target(" ".join(words)), [one for one in parsed if one is not chosen]


def _option_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        value = int(value)
    text = str(value)
    return f'-{name}="{text}"' if re.search(r"\s", text) else f"-{name}={text}"
