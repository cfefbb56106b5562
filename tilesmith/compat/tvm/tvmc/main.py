"""The command tvmc: ``python -m tilesmith.compat.tvm -m tvm.driver.tvmc VERB …``.

Exit codes: 0 success, 1 what was asked for cannot be done (one line on standard error says what to
do), 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.cli.main import one_line
from tilesmith.compat.tvm.aliases import VERSION
from tilesmith.compat.tvm.tvmc.arguments import TVMCSuppressedArgumentParser
from tilesmith.compat.tvm.tvmc.config_options import (
    convert_config_json_to_cli,
    read_and_convert_json_into_dict,
)
from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.support.errors import InternalError, TilesmithError

logger = logging.getLogger("TVMC")

MakeSubparser = Callable[[Any, argparse.ArgumentParser, Sequence[Mapping[str, Any]]], None]

REGISTERED_PARSER: list[MakeSubparser] = []
"""The functions that add verbs, in the order in which they were registered."""

_VERBS = ("autotuner", "compiler", "runner", "micro")
_LEAST_LEVEL = 10


def register_parser(make_subparser: MakeSubparser) -> MakeSubparser:
    """Register a function that adds a verb: ``make(subparsers, main_parser, json_params)``."""
    REGISTERED_PARSER.append(make_subparser)
    return make_subparser


def _settings(argv: Sequence[str]) -> list[dict[str, Any]]:
    """Return the settings of the file that the command line names."""
    early = TVMCSuppressedArgumentParser(add_help=False)
    early.add_argument("--config", default="default")
    try:
        chosen, _ = early.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise TVMCException(str(error)) from None
    return convert_config_json_to_cli(read_and_convert_json_into_dict(chosen))


def _parser(settings: Sequence[Mapping[str, Any]]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tvmc", description="Compiles models, and runs them.", allow_abbrev=False
    )
    parser.add_argument("--config", default="default", help="a file of settings, in JSON")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; repeatable")
    parser.add_argument("--version", action="store_true", help="print the version")
    for name in _VERBS:  # which register themselves
        importlib.import_module(f"tilesmith.compat.tvm.tvmc.{name}")
    subparsers = parser.add_subparsers(title="verbs")
    for make_subparser in REGISTERED_PARSER:
        make_subparser(subparsers, parser, settings)
    return parser


def _main(argv: Sequence[str]) -> int:
    """Carry out a command line; return the exit code."""
    try:
        parser = _parser(_settings(argv))
        args = parser.parse_args(argv)
        logger.setLevel(max(_LEAST_LEVEL, logging.ERROR - 10 * args.verbose))
        if args.version:
            print(VERSION)
            return 0
        if not hasattr(args, "func"):
            parser.print_help(sys.stderr)
            return 1
        code: int = args.func(args)
        return code
    except InternalError:
        raise
    except (TilesmithError, OSError) as error:
        print(f"Error: {one_line(error)}", file=sys.stderr)
        return 1


def main() -> None:
    """Carry out the command line of this process, and end it."""
    sys.exit(_main(sys.argv[1:]))
