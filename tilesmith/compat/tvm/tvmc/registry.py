"""Options of executors and runtimes on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from tilesmith.compat.tvm.tvmc.errors import TVMCException

# How the kinds of options are read, by the names that they have here and elsewhere.
INTERNAL_TO_NATIVE_TYPE: dict[str, Any] = {}
INTERNAL_TO_HELP: dict[str, str] = {}


def _boolean(text: str) -> bool:
    if text.lower() in ("1", "true", "on"):
        return True
    if text.lower() in ("0", "false", "off"):
        return False
    raise argparse.ArgumentTypeError(f"'{text}' is neither 1 (true) nor 0 (false)")


for _names, _type, _help in (
    (("str", "runtime.String"), str, "a text"),
    (("int", "IntImm"), int, "a whole number"),
    (("bool", "Boolean", "runtime.BoxBool"), _boolean, "0 or 1"),
):
    for _name in _names:
        INTERNAL_TO_NATIVE_TYPE[_name] = _type
        INTERNAL_TO_HELP[_name] = _help


def _flag(registry: Any) -> str:
    return str(registry.WHAT)


def generate_registry_args(
    parser: argparse.ArgumentParser, registry: Any, default: str | None = None
) -> None:
    """Add ``--executor NAME`` (or ``--runtime NAME``) to a parser, and an option for each option of
    each name: ``--executor-graph-link-params``.
    """
    flag = _flag(registry)
    group = parser.add_argument_group(f"options of the {flag}")
    group.add_argument(
        f"--{flag}",
        required=False,
        default=default,
        help=f"one of {', '.join(registry.list_registered())}",
    )
    for name in registry.list_registered():
        for option, kind in registry.list_registered_options(name).items():
            group.add_argument(
                f"--{flag}-{name}-{option}",
                type=INTERNAL_TO_NATIVE_TYPE[kind],
                help=f"option {option} of {name}: {INTERNAL_TO_HELP[kind]}",
            )


def reconstruct_registry_entity(args: argparse.Namespace, registry: Any) -> Any:
    """Return the executor (or runtime) that the arguments name, None where they name none.

    Raises TVMCException for an unknown name, or for options of another one.
    """
    flag = _flag(registry)
    chosen = getattr(args, flag, None)
    if chosen is None:
        return None
    names = registry.list_registered()
    if chosen not in names:
        raise TVMCException(
            f"there is no {flag} '{chosen}'", notes=("it is one of " + ", ".join(names),)
        )
    given = {
        (name, option): getattr(args, f"{flag}_{name}_{option}".replace("-", "_"), None)
        for name in names
        for option in registry.list_registered_options(name)
    }
    for (name, option), value in given.items():
        if value is not None and name != chosen:
            raise TVMCException(
                f"--{flag}-{name}-{option} is an option of the {flag} '{name}', "
                f"'{chosen}' is chosen",
                notes=(f"add --{flag} {name}, or leave the option out",),
            )
    return registry(
        chosen,
        {
            option: value
            for (name, option), value in given.items()
            if name == chosen and value is not None
        },
    )
