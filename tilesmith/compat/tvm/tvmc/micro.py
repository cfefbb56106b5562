"""``tvmc micro``: projects for boards are not made yet; the verb says so."""

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
    parser = subparsers.add_parser("micro", help="make programs for boards (not there yet)")
    parser.set_defaults(func=drive_micro)
    parser.add_argument("subcommand", nargs="?", choices=["create-project", "build", "flash"])
    parser.add_argument("further", nargs=argparse.REMAINDER)


def drive_micro(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made yet."""
    raise TVMCException(
        "projects for boards are not made yet",
        notes=("tvmc compile --target c --dump-code c writes the C code of a model",),
    )


def create_project_handler(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made yet."""
    drive_micro(args)


def build_handler(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made yet."""
    drive_micro(args)


def flash_handler(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: projects for boards are not made yet."""
    drive_micro(args)
