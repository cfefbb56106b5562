"""Struct info in the syntax of the ``R`` dialect: ``R.Tensor(("n", 784), "float32")``.

A string among the sizes names a symbolic size (or is an expression over such names). With strings
the result is a proxy that becomes struct info once the names are resolved: within one function
equal names are one variable. Without strings the result is struct info at once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable as Function
from typing import Any

from tilesmith.ir import PrimExpr, convert
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.base import StructInfo
from tilesmith.relax.expr import as_struct_info
from tilesmith.relax.sharding import DeviceMesh, DTensorStructInfo
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.script.ir import lookup_global_info, lookup_vdevice
from tilesmith.script.parsing import modules
from tilesmith.support.errors import ScriptError, TypeMismatchError
from tilesmith.support.lazy import resolve

__all__ = [
    "WORDS", "Callable", "DTensor", "Object", "Prim", "Shape", "StructInfoProxy", "Tensor", "Tuple",
]  # fmt: skip

WORDS = ("Callable", "DTensor", "Object", "Prim", "Shape", "Tensor", "Tuple")
"""What annotations are made of."""

Names = dict[str, Any]


class StructInfoProxy:
    """Struct info that contains names still to be resolved."""

    def __init__(self, build: Function[[Names], StructInfo], texts: list[str]) -> None:
        self.build = build
        self.texts = texts

    def get_symbolic_vars(self) -> list[str]:
        """Return the names that stand alone as a size, in order."""
        return [text for text in dict.fromkeys(self.texts) if text.isidentifier()]

    def as_struct_info(self, dict_globals: Names | None = None) -> StructInfo:
        """Return the struct info with names resolved; an unknown name becomes a new size."""
        names = dict_globals if dict_globals is not None else {}
        for name in self.get_symbolic_vars():
            if not isinstance(names.get(name), (PrimExpr, int)):
                names[name] = SymbolicVar(name, "int64")
        return self.build(names)

    asobject = as_struct_info


def _evaluate(text: str, names: Names) -> PrimExpr:
    """Evaluate a string as an expression over known names."""
    if text in names:
        return convert(names[text])
    if text.strip().lstrip("+-").isdigit():
        raise ScriptError(
            f"the size '{text}' is a text", notes=(f"a number is written as one: {text.strip()}",)
        )
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise ScriptError(f"'{text}' is not an expression of sizes") from None
    scope = {"T": resolve("tilesmith.script.tir")} if "T." in text else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in scope:
            if node.id not in names:
                raise ScriptError(
                    f"the size '{node.id}' in '{text}' is not known here",
                    notes=("a name is bound where it stands alone as a size of a parameter",),
                )
            scope[node.id] = names[node.id]
    return convert(eval(compile(tree, "<size>", "eval"), {"__builtins__": {}}, scope))


def _size(value: Any, names: Names) -> Any:
    return _evaluate(value, names) if isinstance(value, str) else value


def _texts(values: Any) -> list[str]:
    """Return the strings in sizes and struct infos, in order."""
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, StructInfoProxy):
            found += value.texts
    return found


def _resolve(value: Any, names: Names) -> StructInfo:
    if isinstance(value, StructInfoProxy):
        return value.as_struct_info(names)
    return as_struct_info(value)


def _finish(build: Function[[Names], StructInfo], texts: list[str]) -> Any:
    return StructInfoProxy(build, texts) if texts else build({})


def Object() -> ObjectStructInfo:
    """Describe any value."""
    return ObjectStructInfo()


def Tensor(shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: int = -1) -> Any:
    """Describe a tensor; ``R.Tensor("float32")`` gives the dtype alone."""
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    if not isinstance(ndim, int) or isinstance(ndim, bool) or ndim < -1:
        raise TypeMismatchError(f"the rank of a tensor is an integer, or -1: got {ndim!r}")
    if isinstance(shape, (int, PrimExpr)):
        raise TypeMismatchError(f"a shape is a tuple of sizes, got {shape}: write ({shape},)")
    vdevice = named_vdevice(vdevice)
    if not isinstance(shape, (list, tuple)):
        return TensorStructInfo(shape, dtype, vdevice, ndim)
    values = tuple(shape)

    def build(names: Names) -> StructInfo:
        return TensorStructInfo([_size(value, names) for value in values], dtype, vdevice, ndim)

    return _finish(build, _texts(values))


def DTensor(
    shape: Any = None,
    dtype: Any = None,
    device_mesh: Any = None,
    placement: Any = "",
    *,
    ndim: int = -1,
) -> Any:
    """Describe a tensor that is spread over the workers of a mesh (``"mesh[0]"``: one of the
    module), by a placement such as ``"S[0], R"``.
    """
    if not isinstance(device_mesh, (str, DeviceMesh)):
        raise TypeMismatchError(f'a mesh is needed, or its place: "mesh[0]"; got {device_mesh!r}')
    whole = Tensor(shape, dtype, None, ndim)

    def build(names: Names) -> StructInfo:
        mesh = lookup_global_info(device_mesh) if isinstance(device_mesh, str) else device_mesh
        info: Any = _resolve(whole, names)
        return DTensorStructInfo(info, mesh, placement)

    if isinstance(device_mesh, str) and not modules.stack:
        # Python runs the body of a module before the module is read
        return StructInfoProxy(build, _texts([whole]))
    return _finish(build, _texts([whole]))


def named_vdevice(vdevice: Any) -> Any:
    """Return the device of the module in work that a text names ("cuda:1"), others as they are."""
    if isinstance(vdevice, str) and modules.stack:
        return lookup_vdevice(*_kind_and_index(vdevice))
    return vdevice


def _kind_and_index(vdevice: str) -> tuple[str, int]:
    """Return the parts of "cuda:1": a kind of target, and which device of that kind."""
    kind, _, rest = vdevice.partition(":")
    index = rest.partition(":")[0] or "0"
    if not index.isdigit():
        raise ScriptError(f"a device is written kind:index, as 'cuda:1', got '{vdevice}'")
    return kind, int(index)


def Shape(values: Any = None, ndim: int = -1) -> Any:
    """Describe a shape as a value."""
    if values is None:
        return ShapeStructInfo(None, ndim)
    sizes = tuple(values)

    def build(names: Names) -> StructInfo:
        return ShapeStructInfo([_size(value, names) for value in sizes], ndim)

    return _finish(build, _texts(sizes))


def Prim(dtype: Any = None, value: Any = None) -> Any:
    """Describe a scalar."""
    if isinstance(value, str):
        return _finish(lambda names: PrimStructInfo(dtype, _evaluate(value, names)), [value])
    return PrimStructInfo(dtype, value)


def Tuple(*fields: Any) -> Any:
    """Describe a tuple of values."""
    if len(fields) == 1 and isinstance(fields[0], (list, tuple)):
        fields = tuple(fields[0])

    def build(names: Names) -> StructInfo:
        return TupleStructInfo(tuple([_resolve(field, names) for field in fields]))

    return _finish(build, _texts(fields))


def Callable(
    params: Any = None, ret: Any = None, purity: Any = None, derive_func: Any = None
) -> Any:
    """Describe a function."""
    given = (
        None if params is None else list(params if isinstance(params, (list, tuple)) else [params])
    )

    def build(names: Names) -> StructInfo:
        result = None if ret is None else _resolve(ret, names)
        if given is None:
            return FuncStructInfo(None, result, bool(purity), None, derive_func)
        resolved = [_resolve(param, names) for param in given]
        return FuncStructInfo(resolved, result, True if purity is None else bool(purity))

    return _finish(build, _texts([*(given or ()), ret]))
