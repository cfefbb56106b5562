"""Options that several subcommands share, and the parsing of their values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tilesmith.support.errors import ConfigError

InputShapes = tuple[tuple[str, tuple[int, ...]], ...]
"""The value of the option `--input-shape`."""


class InputShape(click.ParamType):
    """Parameter type: `NAME:1,3,224,224` (also `NAME:1x3x224x224`) → (NAME, shape)."""

    name = "NAME:SIZES"

    def convert(self, value: Any, param: Any, context: Any) -> tuple[str, tuple[int, ...]]:
        """Split at the last colon, since names may contain colons."""
        if isinstance(value, tuple):
            return value
        name, colon, sizes = value.rpartition(":")
        words = sizes.replace("x", ",").split(",") if sizes else []
        if not colon or not name or not all(word.strip().isdigit() for word in words):
            self.fail(f"'{value}' is not of the form NAME:1,3,224,224", param, context)
        return name, tuple(int(word) for word in words)


MODEL = click.Path(path_type=Path)

model_argument = click.argument("model", type=MODEL, metavar="MODEL.onnx")
target_option = click.option(
    "--target",
    default="llvm",
    show_default=True,
    help='Such as "llvm -mcpu=skylake-avx512 -num-cores=4"; plain "llvm" is this machine.',
)
input_shape_option = click.option(
    "--input-shape",
    "input_shapes",
    multiple=True,
    type=InputShape(),
    help="Size of an input that the model leaves open; repeatable.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)


def precision_options(command: Any) -> Any:
    """Add the options that `compile_options` reads to a command."""
    for option in reversed(_PRECISION_OPTIONS):
        command = option(command)
    return command


_PRECISION_OPTIONS = (
    click.option(
        "--precision", type=click.Choice(["bf16", "fp16", "int8"]),
        help="Compute products in bfloat16 or integers, or store weights as float16, where the"
        " target is faster for it.",
    ),
    click.option(
        "--calibration", "calibration", type=click.Path(path_type=Path), multiple=True,
        metavar="FILE.npz",
        help="For --precision int8: typical inputs, arrays by name (or a .npy file for a model of"
        " one input); repeatable.",
    ),
    click.option(
        "--calibration-method", "method", default="mse", show_default=True,
        type=click.Choice(["mse", "percentile", "kl_divergence", "max"]),
        help="How ranges of integers are chosen.",
    ),
    click.option(
        "--force-precision", "is_forced", is_flag=True,
        help="Use --precision also where the target is slower with it.",
    ),
)  # fmt: skip


def compile_options(
    precision: str | None, calibration: tuple[Path, ...], method: str, is_forced: bool
) -> dict[str, Any]:
    """Return the arguments of `tilesmith.compile` for the options about precision."""
    from tilesmith.cli.arrays import load_inputs

    data = [load_inputs(existing_file(path, "an array file")) for path in calibration]
    return {
        "precision": precision,
        "calibration": data or None,
        "calibration_method": method,
        "force_precision": is_forced,
    }


def shapes(pairs: InputShapes) -> dict[str, tuple[int, ...]] | None:
    """Return the `--input-shape` options as a dictionary, None if there are none."""
    return dict(pairs) or None


def existing_file(path: Path, what: str) -> Path:
    """Return `path` if it is a file that can be opened; else raise ConfigError."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder, not {what}")
    if not path.exists():
        raise ConfigError(f"there is no file {path}")
    return path


def writable_place(path: Path, *inputs: Path) -> Path:
    """Return `path` if a file can be made there without overwriting an input; else raise
    ConfigError.

    Called before the long work begins.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give the name of a file in it")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist")
    if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
        raise ConfigError(f"{path} would overwrite what is read", notes=("choose another output",))
    return path


def print_json(record: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    click.echo(json.dumps(record))
