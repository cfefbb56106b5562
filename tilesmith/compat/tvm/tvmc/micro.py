"""``tvmc micro``: projects around programs for boards are not made; the verb says so."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.compat.tvm.tvmc.main import register_parser

SUPPORT_MICRO = False


@register_parser
def add_micro_parser(
    subparsers: Any,
    main_parser: argparse.ArgumentParser,
    json_params: Sequence[Mapping[str, Any]],
) -> None:
    """Add the verb ``micro`` to a parser, with what users give to it."""
    parser = subparsers.add_parser("micro", help="make projects for boards (not there)")
    parser.set_defaults(func=drive_micro)
    parser.add_argument("subcommand", nargs="?", choices=["create-project", "build", "flash"])
    parser.add_argument("further", nargs=argparse.REMAINDER)


def drive_micro(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made."""
    raise TVMCException(
        "projects around programs for boards are not made here: each board has its own builds",
        notes=("tvmc compile -f mlf --target c --executor aot --runtime crt packs the C files of a "
               "model",),
    )  # fmt: skip


def create_project_handler(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made."""
    drive_micro(args)


def build_handler(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made."""
    drive_micro(args)


def flash_handler(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made."""
    drive_micro(args)
