"""Reads the inputs of a model as parameters: names, dtypes, shapes with symbolic sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.expr import ShapeExpr, Var
from tilesmith.relax.frontend.onnx.tensors import dtype_name
from tilesmith.relax.scopes import NameSupply
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import FrontendError, UnsupportedError

__all__ = ["InputReader"]


class InputReader:
    """Reads the inputs of a graph; ``variables`` are the parameters, in order."""

    def __init__(
        self, shapes: Mapping[str, Any], dtypes: str | Mapping[str, str], sanitize: bool
    ) -> None:
        self.shapes = shapes
        self.dtypes = dtypes
        self.sanitize = sanitize
        self.variables: list[Var] = []
        self.named_sizes: dict[str, Any] = {}

    def read(self, graph: Any) -> dict[str, Any]:
        """Read the inputs and return name → variable; initializers are not inputs.

        A sequence is a list with a variable for each element, for which ``shape_dict`` lists the
        shapes; an optional input that ``shape_dict`` says is None is absent.
        """
        stored = {tensor.name for tensor in graph.initializer}
        stored |= {sparse.values.name for sparse in graph.sparse_initializer}
        inputs = [item for item in graph.input if item.name not in stored]
        self._check_names([item.name for item in inputs])
        kinds = {item.name: _plain_type(item, self.shapes) for item in inputs}
        for item in inputs:
            if kinds[item.name] == "tensor":
                self._bind_named_sizes(item)
        supply = NameSupply()
        found: dict[str, Any] = {}
        for item in inputs:
            kind = kinds[item.name]
            if kind == "absent":
                found[item.name] = None
            elif kind == "sequence":
                found[item.name] = [
                    self._variable(
                        f"{item.name}_{index}", self._sizes(shape, item.name), item, supply
                    )
                    for index, shape in enumerate(self.shapes[item.name])
                ]
            else:
                found[item.name] = self._variable(item.name, self._shape(item), item, supply)
        return found

    def _variable(self, name: str, shape: Any, item: Any, supply: NameSupply) -> Var:
        name = supply.fresh(_identifier(name)) if self.sanitize else name
        sizes = None if shape is None else ShapeExpr(shape)
        self.variables.append(Var(name, TensorStructInfo(sizes, self._dtype(item))))
        return self.variables[-1]

    def _sizes(self, shape: Any, name: str) -> list[Any]:
        return [self._given_size(size, name) for size in shape]

    def _check_names(self, names: list[str]) -> None:
        for kind, given in (("shape_dict", self.shapes), ("dtype_dict", self.dtypes)):
            unknown = (
                [] if isinstance(given, str) else [name for name in given if name not in names]
            )
            if unknown:
                raise FrontendError(
                    f"{kind} names '{unknown[0]}', which is not an input of the model",
                    notes=("inputs: " + ", ".join(names),),
                )

    def _given_shape(self, name: str) -> list[Any] | None:
        shape = self.shapes.get(name)
        if shape is None:
            return None
        if not isinstance(shape, (Sequence, ShapeExpr)) or isinstance(shape, str):
            raise FrontendError(
                f"shape_dict: the shape of '{name}' is a list of sizes, got {shape!r}"
            )
        return list(shape)

    def _declared_sizes(self, item: Any) -> list[Any] | None:
        tensor = _tensor_type(item)
        return list(tensor.shape.dim) if tensor.HasField("shape") else None

    def _bind_named_sizes(self, item: Any) -> None:
        """Bind the model's size names to the sizes that ``shape_dict`` gives."""
        given, declared = self._given_shape(item.name), self._declared_sizes(item)
        if given is None or declared is None:
            return
        if len(given) != len(declared):
            raise FrontendError(
                f"shape_dict gives {len(given)} sizes for '{item.name}', "
                f"the model has {len(declared)}"
            )
        for size, dim in zip(given, declared):
            if not dim.dim_param or not isinstance(size, int):
                continue
            known = self.named_sizes.setdefault(dim.dim_param, size)
            if known != size:
                raise FrontendError(
                    f"shape_dict gives both {known} and {size} for the size '{dim.dim_param}' "
                    f"(in '{item.name}')"
                )

    def _shape(self, item: Any) -> list[Any] | None:
        given, declared = self._given_shape(item.name), self._declared_sizes(item)
        if given is not None:
            return [self._given_size(size, item.name) for size in given]
        if declared is None:
            return None
        return [self._declared_size(dim, item.name, i) for i, dim in enumerate(declared)]

    def _given_size(self, size: Any, name: str) -> Any:
        if isinstance(size, str):
            if not size.strip() or size.strip().lstrip("+-").isdigit():
                raise FrontendError(
                    f"shape_dict: a size of '{name}' is the text '{size}'",
                    notes=("write a number without quotes; a text names a size known later: 'n'",),
                )
            return self._named(size)
        if isinstance(size, IntImm):
            size = int(size.value)
        if isinstance(size, PrimExpr):
            return size
        if size is None or int(size) < 0:
            return SymbolicVar(f"{_identifier(name)}_size", "int64")
        return int(size)

    def _declared_size(self, dim: Any, name: str, axis: int) -> Any:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return int(dim.dim_value)
        if dim.dim_param:
            return self._named(dim.dim_param)
        return SymbolicVar(f"{_identifier(name)}_{axis}", "int64")

    def _named(self, name: str) -> Any:
        if name not in self.named_sizes:
            self.named_sizes[name] = SymbolicVar(_identifier(name), "int64")
        return self.named_sizes[name]

    def _dtype(self, item: Any) -> str:
        if not isinstance(self.dtypes, str) and item.name in self.dtypes:
            return self.dtypes[item.name]
        element = _tensor_type(item).elem_type
        if element == 0:
            return self.dtypes if isinstance(self.dtypes, str) else "float32"
        return dtype_name(element, f"the input '{item.name}'")


def _plain_type(item: Any, shapes: Mapping[str, Any]) -> str:
    """Return what an input is, by its declaration and ``shape_dict``: "tensor", "sequence", or
    "absent".
    """
    declared, kind = item.type, item.type.WhichOneof("value")
    is_optional = kind == "optional_type"
    if is_optional:
        declared = declared.optional_type.elem_type
        kind = declared.WhichOneof("value")
    if is_optional and item.name in shapes and shapes[item.name] is None:
        return "absent"
    if kind in ("tensor_type", None):
        if not is_optional or item.name in shapes or declared.tensor_type.HasField("shape"):
            return "tensor"
    if kind == "sequence_type" and item.name in shapes:
        inner = declared.sequence_type.elem_type.WhichOneof("value")
        given = shapes[item.name]
        if inner == "tensor_type" and all(not isinstance(shape, int) for shape in given):
            return "sequence"
    what = "optional value" if is_optional else str(kind).removesuffix("_type").replace("_", " ")
    raise UnsupportedError(
        f"the input '{item.name}' is a {what} of which the model does not say what it consists",
        notes=(
            f"say it with shape_dict: {{'{item.name}': [(2, 3), (4,)]}} for a sequence of two "
            "tensors, None for an optional input that is absent",
            "or build the sequence inside of the model",
        ),
    )


def _tensor_type(item: Any) -> Any:
    declared = item.type
    if declared.WhichOneof("value") == "optional_type":
        declared = declared.optional_type.elem_type
    if declared.WhichOneof("value") == "sequence_type":
        declared = declared.sequence_type.elem_type
    return declared.tensor_type


def _identifier(name: str) -> str:
    found = re.sub(r"\W", "_", name)
    return found if found and (found[0].isalpha() or found[0] == "_") else f"input_{found}"
