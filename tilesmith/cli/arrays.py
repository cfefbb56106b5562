"""Reads and writes arrays as .npy files, and describes an executable's inputs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import (
    ConfigError,
    OutOfMemoryError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.files import write_atomically


@dataclass(frozen=True)
class InputInfo:
    """Name, dtype and sizes of one input; a symbolic size is a string."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


def describe_inputs(executable: Any) -> list[InputInfo]:
    """Describe the inputs of `executable` in order; UnsupportedError if one does not fit a .npy
    file.
    """
    parameters = executable["main"].signature.params
    for parameter in parameters:
        if parameter.kind != "tensor":
            raise UnsupportedError(
                f"input '{parameter.name}' is not a tensor, so it cannot come from a file",
                notes=("call the model from Python: tilesmith.load(path)(…)",),
            )
    return [InputInfo(p.name, str(p.dtype), p.shape) for p in parameters]


def load_array(path: Path) -> np.ndarray:
    """Read one array from a .npy file without unpickling; ConfigError if that fails."""
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except MemoryError:
        raise OutOfMemoryError(f"there is no memory for the array that {path} describes") from None
    except Exception as error:  # numpy reads the head of a file with Python's own parser
        reason = str(error).splitlines()[0] if str(error) else "it is not an .npy file"
        raise ConfigError(
            f"{path} cannot be read as an array: {reason}", notes=("make it with numpy.save",)
        ) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise ConfigError(f"{path} holds several arrays", notes=("save each one with numpy.save",))
    return array


def load_inputs(path: Path) -> Any:
    """Read the inputs of a run: a .npz file gives arrays by name, a .npy file one array."""
    if path.suffix != ".npz":
        return load_array(path)
    try:
        with np.load(path, allow_pickle=False) as found:
            return dict(found)
    except Exception as error:  # zipfile and numpy have many
        raise ConfigError(
            f"{path} cannot be read as arrays: {error}", notes=("make it with numpy.savez",)
        ) from None


def match_inputs(given: Sequence[str], inputs: Sequence[InputInfo]) -> list[np.ndarray]:
    """Load arrays in the order of `inputs`, from texts `x.npy` (in order) and `NAME=x.npy`.

    The call itself checks shapes and dtypes.
    """
    names = [info.name for info in inputs]
    arrays: dict[str, np.ndarray] = {}
    in_order: list[Path] = []
    for text in given:
        name, equals, named = text.partition("=")
        if not equals or Path(text).exists():
            in_order.append(Path(text))
        elif name not in names:
            raise UnknownNameError(
                f"the model has no input '{name}'", notes=("inputs: " + ", ".join(names),)
            )
        elif name in arrays:
            raise ConfigError(f"input '{name}' is given twice")
        else:
            arrays[name] = load_array(Path(named))
    open_names = [name for name in names if name not in arrays]
    if len(in_order) > len(open_names):
        raise ConfigError(
            f"the model has {len(names)} inputs ({', '.join(names)}), got {len(given)}"
        )
    for name, path in zip(open_names, in_order, strict=False):
        arrays[name] = load_array(path)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ConfigError(
            f"input '{missing[0]}' is missing",
            notes=(f"add: --input {missing[0]}=FILE.npy",),
        )
    return [arrays[name] for name in names]


def chosen_sizes(
    inputs: Sequence[InputInfo], batch: int | None = None
) -> tuple[list[InputInfo], dict[str, int]]:
    """Return the inputs with their symbolic sizes filled in, and what was chosen, by name.

    `batch` is the size of symbolic first axes; other sizes, and those without `batch`, become 1.
    """
    chosen: dict[str, int] = {}
    for info in inputs:
        for axis, size in enumerate(info.shape):
            if not isinstance(size, int) and size not in chosen:
                chosen[size] = batch if axis == 0 and batch is not None else 1
    filled = [
        InputInfo(
            info.name,
            info.dtype,
            tuple([size if isinstance(size, int) else chosen[size] for size in info.shape]),
        )
        for info in inputs
    ]
    return filled, chosen


def model_inputs(path: Path) -> list[InputInfo]:
    """Describe the inputs of an ONNX model in order, from its file alone. Open sizes without a name
    get one; inputs of an open rank are left out.
    """
    from tilesmith.relax.frontend.onnx.model import load_model

    graph = load_model(path).proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    found = []
    for item in graph.input:
        if item.name in constants or not item.type.tensor_type.HasField("shape"):
            continue
        shape = tuple(
            [
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"axis {axis}"
                for axis, dim in enumerate(item.type.tensor_type.shape.dim)
            ]
        )
        found.append(InputInfo(item.name, "", shape))
    return found


def random_inputs(inputs: Sequence[InputInfo], seed: int = 0) -> dict[str, np.ndarray]:
    """Make arrays that fit: normally distributed floats, integers 0 and 1 (safe as indices). Open
    sizes are chosen as `chosen_sizes` does.
    """
    rng = np.random.default_rng(seed)
    arrays = {}
    for info in chosen_sizes(inputs)[0]:
        shape = tuple([int(size) for size in info.shape])
        if info.dtype.startswith(("float", "bfloat")):
            dtype = DataType(info.dtype).numpy()
            arrays[info.name] = rng.standard_normal(shape).astype(dtype)
        else:
            arrays[info.name] = rng.integers(0, 2, shape).astype(info.dtype)
    return arrays


def as_arrays(result: Any) -> list[np.ndarray]:
    """Return the outputs of a call, nested or not, as numpy arrays in order."""
    if isinstance(result, list | tuple):
        return [array for part in result for array in as_arrays(part)]
    return [result.numpy()]


def save_array(path: Path, array: np.ndarray) -> None:
    """Write a .npy file atomically: it is complete or does not exist."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    write_atomically(path, stream.getvalue())
