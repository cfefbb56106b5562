"""Reads the parts of a model: tensors, their values and quantisation, options of operators."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy

from tilesmith.relay.expr import Constant
from tilesmith.support.errors import (
    FileError,
    FrontendError,
    MissingDependencyError,
    TypeMismatchError,
    UnsupportedError,
)

__all__ = [
    "Options", "TensorWrapper", "build_str_map", "dtype_name", "get_pad_value",
    "get_scalar_from_constant", "get_tensor_from_constant", "get_tensor_name", "load_model",
    "quantisation",
    "require_tflite", "tensor_values",
]  # fmt: skip

_IDENTIFIER = b"TFL3"
_DTYPES = (
    "bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int4", "int64", "int8",
    "uint16", "uint32", "uint64", "uint8",
)  # fmt: skip


def require_tflite() -> Any:
    """Return the package tflite (the schema of models); raises MissingDependencyError if it is not
    installed.
    """
    try:
        import tflite
    except ImportError:
        raise MissingDependencyError(
            "tflite", extra="tflite", purpose="reading models of TensorFlow Lite"
        ) from None
    return tflite


def load_model(model: Any) -> Any:
    """Return a model (of the package tflite) that is given as itself, as bytes, or as a path."""
    tflite = require_tflite()
    if isinstance(model, (str, os.PathLike)):
        try:
            model = Path(model).read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise FileError(f"the model cannot be read from '{model}': {reason}") from None
    if isinstance(model, (bytes, bytearray, memoryview)):
        held = bytes(model)
        if held[4:8] != _IDENTIFIER:
            raise FrontendError(
                "this is no model of TensorFlow Lite: its identifier TFL3 is missing",
                notes=("a SavedModel or a GraphDef has to be converted to .tflite before",),
            )
        return tflite.Model.GetRootAs(held, 0)
    if hasattr(model, "SubgraphsLength"):
        return model
    raise TypeMismatchError(
        f"from_tflite takes bytes, a path or a tflite.Model, got {type(model).__name__}"
    )


def build_str_map(obj: Any) -> dict[int, str]:
    """Return value → name of an enumeration of the package tflite."""
    return {getattr(obj, name): name for name in dir(obj) if name[0] != "_" and name.isupper()}


def dtype_name(kind: int) -> str:
    """Return the dtype of a TensorType; raises UnsupportedError for what is no number."""
    name = build_str_map(require_tflite().TensorType).get(kind, str(kind)).lower()
    if name not in _DTYPES:
        raise UnsupportedError(f"tensors of the type {name.upper()} are not imported")
    return name


class TensorWrapper:
    """A tensor of a model: its number, description, buffer, and quantisation.

    ``qnn_params`` has "scale" and "zero_point" (arrays of one element, or one for each channel) and
    "axis", if the tensor's integers stand for numbers.
    """

    def __init__(
        self, tensor_idx: int, tensor: Any, buffer: Any, qnn_params: dict[str, Any] | None = None
    ) -> None:
        self.tensor_idx = tensor_idx
        self.tensor = tensor
        self.buffer = buffer
        self.qnn_params = qnn_params

    @property
    def name(self) -> str:
        """The tensor's name in the model."""
        return (self.tensor.Name() or b"").decode() or f"tensor_{self.tensor_idx}"

    @property
    def dtype(self) -> str:
        """The tensor's dtype."""
        return dtype_name(self.tensor.Type())

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes that the model gives (1 where it does not know better)."""
        return tuple([int(self.tensor.Shape(i)) for i in range(self.tensor.ShapeLength())])

    @property
    def is_constant(self) -> bool:
        """Whether the model has the tensor's values."""
        return self.buffer is not None and self.buffer.DataLength() > 0


def quantisation(tensor: Any) -> dict[str, Any] | None:
    """Return the quantisation of a tensor, None if it has none."""
    given = tensor.Quantization()
    if given is None or given.ScaleLength() == 0:
        return None
    scale = numpy.array([given.Scale(i) for i in range(given.ScaleLength())], "float32")
    zero = numpy.array([given.ZeroPoint(i) for i in range(given.ZeroPointLength())], "int32")
    if not zero.size:
        zero = numpy.zeros(1, "int32")
    if scale.size > 1 and zero.size == 1:
        zero = numpy.repeat(zero, scale.size)
    return {"scale": scale, "zero_point": zero, "axis": int(given.QuantizedDimension())}


def tensor_values(wrapper: TensorWrapper) -> numpy.ndarray:
    """Return the values of a constant tensor."""
    dtype, shape = wrapper.dtype, wrapper.shape
    raw = wrapper.buffer.DataAsNumpy()
    data = raw.tobytes()
    if dtype == "int4":
        both = numpy.frombuffer(data, "uint8")
        halves = numpy.stack([both & 15, both >> 4], 1).ravel()[: int(numpy.prod(shape))]
        return ((halves.astype("int8") ^ 8) - 8).reshape(shape)
    if dtype == "bfloat16":
        wide = numpy.frombuffer(data, "<u2").astype("uint32") << 16
        return wide.view("float32").reshape(shape)
    found = numpy.frombuffer(data, numpy.dtype(dtype).newbyteorder("<"))
    if found.size != int(numpy.prod(shape)):
        raise FrontendError(
            f"the tensor '{wrapper.name}' of the shape {shape} has {found.size} values"
        )
    return found.reshape(shape).astype(dtype)


def get_tensor_name(subgraph: Any, tensor_idx: int) -> str:
    """Return the name of a tensor."""
    return (subgraph.Tensors(tensor_idx).Name() or b"").decode() or f"tensor_{tensor_idx}"


def get_scalar_from_constant(expr: Any) -> Any:
    """Return the number that a constant holds."""
    values = get_tensor_from_constant(expr)
    if values.ndim:
        raise TypeMismatchError(f"a constant of the shape {values.shape} is no number")
    return values.item()


def get_tensor_from_constant(expr: Any) -> numpy.ndarray:
    """Return the values that a constant holds."""
    if not isinstance(expr, Constant):
        raise TypeMismatchError(f"a constant was expected, got {type(expr).__name__}")
    return numpy.asarray(expr.data.numpy())


def get_pad_value(data: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the padding "same" before and after an axis of a size."""
    total = max((-(-data // stride) - 1) * stride + kernel - data, 0)
    return total // 2, total - total // 2


class Options:
    """The options of an operator by the names of the schema: ``options.StrideH``."""

    def __init__(self, tflite: Any, operator: Any) -> None:
        self._held: Any = None
        kind = operator.BuiltinOptionsType()
        names = {
            getattr(tflite.BuiltinOptions, name): name
            for name in dir(tflite.BuiltinOptions)
            if name[0] != "_"
        }
        table = operator.BuiltinOptions()
        if kind and table is not None and names.get(kind, "NONE") != "NONE":
            self._held = getattr(tflite, names[kind])()
            self._held.Init(table.Bytes, table.Pos)

    def get(self, name: str, default: Any = 0) -> Any:
        """Return an option, or the default where the operator has none."""
        return getattr(self._held, name)() if self._held is not None else default

    def __getattr__(self, name: str) -> Any:
        return self.get(name)
