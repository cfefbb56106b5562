"""``tvmc tune``: there is no tuning yet; the verb says so."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tilesmith.compat.tvm.tvmc import frontends
from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.compat.tvm.tvmc.main import register_parser
from tilesmith.compat.tvm.tvmc.shape_parser import parse_shape_string
from tilesmith.compat.tvm.tvmc.target import generate_target_args
from tilesmith.compat.tvm.tvmc.transform import generate_transform_args

_TUNERS = ("ga", "gridsearch", "random", "xgb", "xgb_knob", "xgb-rank")
_NUMBERS = {
    "early-stopping": None, "min-repeat-ms": None, "number": 10, "parallel": 4, "repeat": 1,
    "timeout": 10, "trials": 1000, "cache-line-bytes": None, "num-cores": None,
    "vector-unit-bytes": None, "max-shared-memory-per-block": None,
    "max-local-memory-per-block": None, "max-threads-per-block": None, "max-vthread-extent": None,
    "warp-size": None,
}  # fmt: skip


@register_parser
def add_tune_parser(
    subparsers: Any, _: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]
) -> None:
    """Add the verb ``tune`` to a parser."""
    parser = subparsers.add_parser(
        "tune",
        help="search for faster schedules (not there yet)",
        usage="tvmc tune [options] FILE",
        allow_abbrev=False,
    )
    parser.set_defaults(func=drive_tune)
    generate_target_args(parser)
    generate_transform_args(parser)
    for name, default in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("enable-autoscheduler", "include-simple-tasks", "log-estimated-latency"):
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("rpc-key", "rpc-tracker", "tuning-records", "tasks", "target-host"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--model-format", choices=frontends.get_frontend_names())
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--tuner", choices=_TUNERS, default="xgb")
    parser.add_argument("--input-shapes", type=parse_shape_string)
    parser.add_argument("-v", "--verbose", action="count", default=0)
    parser.add_argument("FILE")
    for entry in json_params:
        parser.set_defaults(**entry)


def drive_tune(args: argparse.Namespace) -> NoReturn:
    """Raise TVMCException: there is no tuning yet."""
    tune_model(None, args.target)


def tune_model(tvmc_model: Any, target: Any, *further: Any, **options: Any) -> NoReturn:
    """Raise TVMCException: there is no tuning yet."""
    raise TVMCException(
        "there is no tuning yet",
        notes=("tvmc compile chooses schedules by rules, without measuring",),
    )
