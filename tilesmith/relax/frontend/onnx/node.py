"""A node as its converter sees it: inputs, attributes, and methods that emit into the function."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, RelaxExpr, Tuple, known_struct_info
from tilesmith.relax.frontend.onnx.schemas import describe_attribute
from tilesmith.relax.frontend.onnx.values import (
    Size,
    Sizes,
    Weight,
    as_array,
    dtype_of,
    integer,
    rank_of,
    shape_of,
)
from tilesmith.relax.relations import describe
from tilesmith.relax.struct_info import ShapeStructInfo, TensorStructInfo
from tilesmith.support.errors import (
    FrontendError,
    OpAttributeInvalid,
    OpAttributeRequired,
    OpAttributeUnImplemented,
    ShapeError,
)

__all__ = ["OnnxNode"]


class OnnxNode:
    """One node of an ONNX graph while it is converted.

    ``node[i]`` is input ``i`` as a tensor; ``version`` the opset version of its domain.
    """

    def __init__(
        self,
        importer: Any,
        proto: Any,
        inputs: list[Any],
        attributes: dict[str, Any],
        versions: dict[str, int],
    ) -> None:
        self.importer = importer
        self.proto = proto
        self.operator: str = proto.op_type
        self.domain: str = "" if proto.domain == "ai.onnx" else proto.domain
        self.inputs = inputs
        self.attributes = attributes
        self.versions = versions
        self.version = versions.get(self.domain, 1)
        self.scope: dict[str, Any] = {}  # values that subgraphs of the node may use
        self.around: Any = ()  # the nodes of the graph that it is in

    # Inputs

    def __len__(self) -> int:
        return len(self.inputs)

    def has(self, index: int) -> bool:
        """Return whether an optional input is present."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Any:
        """Return input ``index`` unconverted: see ``values``. Raises FrontendError if it is
        missing.
        """
        if not self.has(index):
            raise FrontendError(f"input {index} is missing")
        return self.inputs[index]

    def __getitem__(self, index: int) -> RelaxExpr:
        return self.importer.tensor(self.value(index))

    def get(self, index: int) -> RelaxExpr | None:
        """Return input ``index`` as a tensor, or None if it is omitted."""
        return self[index] if self.has(index) else None

    def tensors(self) -> list[RelaxExpr]:
        """Return all inputs as tensors."""
        return [self[index] for index in range(len(self.inputs))]

    def known(self, index: int) -> Any:
        """Return the value of an input as a numpy array if it is known at import, else None.

        The array holds numbers, or Python integers and scalar expressions as objects.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, Constant):
            return as_array(value)
        if isinstance(value, Weight):
            return value.array
        return value.values if isinstance(value, Sizes) else None

    def constant(self, index: int, name: str) -> Any:
        """Return the value of an input that has to be known at import, as a numpy array of
        numbers.
        """
        array = self.known(index)
        if array is None or array.dtype == object:
            self.value(index)
            raise OpAttributeUnImplemented(
                f"its input '{name}' has to be a constant, but is computed at run time",
                notes=("fold the model's constants first, for example with onnxsim",),
            )
        return array

    def number(self, index: int, name: str, default: Any = None) -> Any:
        """Return a constant input of one element as a Python number; ``default`` if it is
        omitted.
        """
        if not self.has(index):
            return default
        array = self.constant(index, name)
        if array.size != 1:
            raise ShapeError(f"its input '{name}' has to have one element, got {array.shape}")
        return array.reshape(()).item()

    def count(self, index: int, name: str, default: int | None = None) -> int:
        """Return a constant input of one element that counts something: at least 1."""
        found = self.number(index, name, default)
        if found is None:
            raise OpAttributeRequired(f"it needs the input '{name}'")
        if found < 1:
            raise ShapeError(f"its input '{name}' is {found}, it has to be at least 1")
        return int(found)

    def integers(self, index: int, name: str) -> list[Size]:
        """Return an input that lists sizes; sizes computed at run time become symbolic."""
        array = self.known(index)
        if array is not None:
            return [integer(value) for value in array.ravel()]
        return self.run_time_sizes(self[index], name)

    def run_time_sizes(self, vector: Any, name: str) -> list[Size]:
        """Return the elements of a vector as symbolic sizes that are bound when it is computed."""
        sizes = shape_of(vector)
        if len(sizes) > 1 or not all(isinstance(size, int) for size in sizes):
            raise OpAttributeUnImplemented(
                f"its input '{name}' is computed at run time and has no fixed number of elements"
            )
        count = int(sizes[0]) if sizes else 1
        if count == 0:
            return []
        if not sizes:
            vector = op.reshape(vector, [1])
        if dtype_of(vector) != "int64":
            vector = op.astype(vector, "int64")
        shape = self.emit(op.tensor_to_shape(self.emit(vector)))
        variables = [SymbolicVar(f"{name}_{i}", "int64") for i in range(count)]
        self.importer.builder.match_cast(shape, ShapeStructInfo(variables))
        return list(variables)

    # Attributes

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute: a number, text, list, numpy array or subgraph. It has
        to be of the kind of the default, where there is one.
        """
        if name not in self.attributes:
            return default
        value = self.attributes[name]
        wanted = (int, float) if isinstance(default, float) else type(default)
        if default is not None and not isinstance(value, wanted):
            raise OpAttributeInvalid(
                f"its attribute '{name}' is {describe_attribute(value)}, expected a value such as "
                f"{default!r}"
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return the value of an attribute that is 0 or 1."""
        value = self.attribute(name, int(default))
        if value not in (0, 1):
            raise OpAttributeInvalid(f"its attribute '{name}' is {value}, expected 0 or 1")
        return bool(value)

    def required(self, name: str) -> Any:
        """Return the value of a required attribute."""
        if name not in self.attributes:
            raise OpAttributeRequired(f"it needs the attribute '{name}'")
        return self.attributes[name]

    def choice(self, name: str, default: str, *known: str) -> str:
        """Return a string attribute after checking that it is one of the ``known`` ones."""
        value = str(self.attribute(name, default))
        if value not in known:
            raise OpAttributeInvalid(
                f"its attribute '{name}' is '{value}'", notes=("known: " + ", ".join(known),)
            )
        return value

    def axis(self, default: int, rank: int, name: str = "axis") -> int:
        """Return an attribute that names an axis, counted from the front."""
        return normal_axis(self.attribute(name, default), rank)

    def axes(self, index: int | None, rank: int, name: str = "axes") -> list[int] | None:
        """Return axes, counted from the front, from an attribute or input ``index`` (None: no
        input).
        """
        found = self.attribute(name)
        if found is None and index is not None and self.has(index):
            found = [int(value) for value in self.constant(index, name).ravel()]
        return None if found is None else [normal_axis(axis, rank) for axis in found]

    # Output

    @property
    def outputs(self) -> int:
        """The number of outputs that are asked for (the last one that is used counts)."""
        used = [i for i, name in enumerate(self.proto.output) if name]
        return used[-1] + 1 if used else 0

    def wants(self, index: int) -> bool:
        """Return whether an output is used."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    def emit(self, expr: Any, name: str = "") -> Any:
        """Bind an expression to a variable; small constants are evaluated instead."""
        return self.importer.emit(expr, name)

    def emit_with_sizes(self, expr: Any, sizes: list[Size | None]) -> Any:
        """Bind a tensor whose sizes depend on data; None marks a size unknown before the run."""
        known = [
            SymbolicVar(f"size_{axis}", "int64") if size is None else size
            for axis, size in enumerate(sizes)
        ]
        tensor = self.importer.builder.emit(expr)
        info = TensorStructInfo(known, dtype_of(tensor))
        return self.importer.builder.match_cast(tensor, info)

    def unsupported(self, what: str, *notes: str) -> OpAttributeUnImplemented:
        """Return the error for an unsupported use of the operator."""
        return OpAttributeUnImplemented(f"{what} is not supported", notes=notes)

    # Texts for errors, and helpers

    def describe_inputs(self) -> str:
        """Return the inputs with dtypes and shapes, for errors."""
        shown = []
        for name, value in zip(self.proto.input, self.inputs):
            shown.append(f"{name or '(none)'}: {describe_value(value)}")
        return ", ".join(shown) or "none"


def normal_axis(axis: Any, rank: int) -> int:
    """Return an axis counted from the front; raises ShapeError if there is none."""
    axis = int(axis)
    if not -rank <= axis < rank:
        raise ShapeError(f"there is no axis {axis} in a tensor of rank {rank}")
    return axis % rank


def describe_value(value: Any) -> str:
    """Describe a value of an ONNX graph in few words."""
    if value is None:
        return "absent"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    if isinstance(value, Sizes):
        shown = ", ".join([str(item) for item in value.values.ravel()])
        return f"{value.dtype} values ({shown})"
    if isinstance(value, Weight):
        return f"{value.array.dtype} tensor {tuple(value.array.shape)}"
    return describe(known_struct_info(value))


def stack_sizes(sizes: list[Size]) -> Any:
    """Return sizes as the value of a vector: a Constant, or Sizes if one is symbolic."""
    if any(isinstance(size, PrimExpr) for size in sizes):
        array = numpy.empty(len(sizes), object)
        array[:] = sizes
        return Sizes(array)
    return Constant(numpy.asarray(sizes, "int64"))


def outputs_of(value: Any) -> list[Any]:
    """Return the result of a converter as a list with one entry for each output."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Tuple):
        return list(value.fields)
    return [value]


__all__ += ["describe_value", "normal_axis", "outputs_of", "rank_of", "stack_sizes"]
