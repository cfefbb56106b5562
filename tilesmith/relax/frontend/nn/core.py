"""The pieces that models are made of: tensors, parameters, objects, effects, modules.

    class Layer(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(16, 32)

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return nn.op.relu(self.fc(x))

    module, params = Layer().export_tvm({"forward": {"x": spec.Tensor(["n", 16], "float32")}})

A tensor is a value of the function that is being built; `export_tvm` builds one function per method
of its specification by calling the method with tensors that stand for its inputs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Expr, ShapeExpr, TupleGetItem, Var, const, known_struct_info
from tilesmith.relax.frontend.nn.subroutine import SubroutineMixin
from tilesmith.relax.frontend.nn.tensor_operators import TensorOperators
from tilesmith.relax.relations import describe
from tilesmith.relax.struct_info import (
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    DiagnosticError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.lazy import resolve

__all__ = [
    "Effect", "Module", "ModuleList", "Object", "Parameter", "Tensor", "as_expression",
    "current_builder", "get_default_dtype", "named_attributes", "set_default_dtype",
    "set_expression", "sizes_from",
    "wrap_nested",
]  # fmt: skip

_ABOVE = "tilesmith.relax.frontend.nn."
"""Modules that stand above this one: what exports and compiles."""

_default = {"dtype": "float32"}


def get_default_dtype() -> str:
    """Return the data type of parameters that are made without one."""
    return _default["dtype"]


def set_default_dtype(dtype: str) -> None:
    """Set the data type of parameters that are made without one."""
    _default["dtype"] = str(DataType(dtype))


def current_builder() -> BlockBuilder:
    """Return the builder of the function under construction. Raises DiagnosticError if there is
    none.
    """
    found = BlockBuilder.current()
    if found is None:
        raise DiagnosticError(
            "operators of nn work while a method is exported",
            notes=(
                "call them in a module's forward, and the module's export_tvm or jit; or write "
                "`with builder.function(name, params):` around them",
            ),
        )
    return found


def sizes_from(shape: Iterable[Any], known: dict[str, SymbolicVar], where: str) -> list[Any]:
    """Return sizes as expressions: numbers, expressions, and names, which stand for one variable of
    ``known`` each.
    """
    made = []
    for size in shape:
        if isinstance(size, str):
            if not size.isidentifier():
                raise ShapeError(
                    f"{where}: '{size}' is not the name of a size",
                    notes=('a size is a number, a name such as "n", or an expression of tir',),
                )
            size = known.setdefault(size, SymbolicVar(size, "int64"))
        elif isinstance(size, bool) or not isinstance(size, (int, numpy.integer, PrimExpr)):
            raise ShapeError(
                f"{where}: {size!r} is no size", notes=('a size is a number or a name such as "n"',)
            )
        elif isinstance(size, (int, numpy.integer)) and size < 0:
            raise ShapeError(f"{where}: the size {size} is negative")
        made.append(size if isinstance(size, PrimExpr) else IntImm("int64", int(size)))
    return made


class Tensor(TensorOperators):
    """A tensor of the function under construction."""

    _expr: Any

    def __init__(self, *, _expr: Expr) -> None:
        info = known_struct_info(_expr)
        if not isinstance(info, TensorStructInfo):
            raise TypeMismatchError(f"a tensor is needed, got {describe(info)}")
        self._expr = _expr

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """Make a tensor of an array that is known now."""
        return Tensor(_expr=const(data))

    @staticmethod
    def from_scalar(data: int | float, dtype: str) -> Tensor:
        """Make a tensor without axes of a number."""
        return Tensor(_expr=const(data, dtype))

    @staticmethod
    def from_struct_info(struct_info: TensorStructInfo, name: str = "tensor") -> Tensor:
        """Make a new variable of a known struct info."""
        return Tensor(_expr=Var(name, struct_info))

    @staticmethod
    def placeholder(shape: Iterable[Any], dtype: str, name: str = "tensor") -> Tensor:
        """Make a new variable; sizes may be names, which stand for symbolic sizes."""
        return Tensor(_expr=Var(name, TensorStructInfo(sizes_from(shape, {}, name), dtype)))

    @property
    def shape(self) -> list[Any]:
        """The sizes: numbers where they are known, else expressions."""
        shape = known_struct_info(self._expr).shape  # type: ignore[attr-defined]
        if not isinstance(shape, ShapeExpr):
            raise ShapeError(
                f"the shape of {describe(known_struct_info(self._expr))} is not known",
                notes=("state it in the specification, or with op.reshape",),
            )
        return [int(s.value) if isinstance(s, IntImm) else s for s in shape.values]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(known_struct_info(self._expr).ndim)  # type: ignore[attr-defined]

    @property
    def dtype(self) -> str:
        """The data type."""
        return str(known_struct_info(self._expr).dtype)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        info: Any = known_struct_info(self._expr)
        sizes = "?" if info.shape is None else ", ".join([str(size) for size in self.shape])
        return f'Tensor([{sizes}], "{info.dtype}")'


class Parameter(Tensor):
    """A weight of a module; ``data`` may hold its value."""

    _data: NDArray | None

    def __init__(self, shape: Iterable[Any], dtype: str | None = None) -> None:
        sizes = sizes_from(shape, {}, "Parameter")
        info = TensorStructInfo(sizes, DataType(dtype or get_default_dtype()))
        super().__init__(_expr=Var("param", info))
        self._data = None

    @property
    def data(self) -> NDArray | None:
        """The value, or None while it is not known."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        value = None if data is None else _as_array(data)
        if value is not None:
            fits = len(value.shape) == self.ndim and all(
                not isinstance(size, int) or size == given
                for size, given in zip(self.shape, value.shape)
            )
            if not fits:
                raise ShapeError(f"a parameter of shape {self.shape} got data of {value.shape}")
            if str(value.dtype) != self.dtype:
                raise TypeMismatchError(
                    f"a parameter of {self.dtype} got data of {value.dtype}",
                    notes=(f'convert it, or make the module .to("{value.dtype}") first',),
                )
        self._data = value

    def to(self, dtype: str | None = None) -> None:
        """Change the data type; data that is there already is converted."""
        if dtype is None or str(DataType(dtype)) == self.dtype:
            return
        if self._data is not None:
            kind = DataType(dtype).numpy()
            self._data = array(self._data.numpy().astype(kind))
        info: Any = known_struct_info(self._expr)
        self._expr = Var(self._expr.name_hint, TensorStructInfo(info.shape, dtype))


def _as_array(data: Any) -> NDArray:
    if isinstance(data, NDArray):
        return data
    if hasattr(data, "detach"):  # a tensor of torch
        data = data.detach().cpu().contiguous()
        return array(data.numpy()) if str(data.dtype) != "torch.bfloat16" else array(data)
    return array(numpy.asarray(data))


class Object:
    """A value that only the runtime knows, such as a key-value cache."""

    _expr: Any

    def __init__(self, *, _expr: Expr, _name: str) -> None:
        if not isinstance(_expr, Var):
            _expr = current_builder().emit(_expr, _name)
        self._expr = _expr
        info = known_struct_info(_expr)
        if not isinstance(info, ObjectStructInfo):
            raise TypeMismatchError(f"an object is needed, got {describe(info)}")


class Effect:
    """A state that a module keeps from call to call.

    `emit_init` emits the first state in the function ``_initialize_effect``; in each method
    `create` makes the inputs that stand for the state, and `finalize` gives the state at its end.
    """

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Emit the first state."""
        raise NotImplementedError(f"{type(self).__name__} defines no emit_init")

    def create(self, name_hint: str) -> list[Var]:
        """Make the inputs of a method for the state."""
        raise NotImplementedError(f"{type(self).__name__} defines no create")

    def set_state(self, state_vars: list[Var]) -> None:
        """Set the values that the state has at the beginning of a method."""
        raise NotImplementedError(f"{type(self).__name__} defines no set_state")

    def finalize(self) -> list[Var]:
        """Return the state at the end of a method, and forget it."""
        raise NotImplementedError(f"{type(self).__name__} defines no finalize")

    def to(self, dtype: str | None = None) -> None:
        """Change the data type; an effect without tensors has none."""


class Module(SubroutineMixin):
    """A layer, or a model made of layers; classes derived from it define ``forward``."""

    forward: Callable[..., Any]

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield names and parameters; one that has several names comes once."""
        seen: set[int] = set()
        for name, item in named_attributes(self, prefix, Parameter):
            if id(item) not in seen:
                seen.add(id(item))
                yield name, item

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters."""
        for _, item in self.named_parameters():
            yield item

    def state_dict(
        self, *, prefix: str = "", destination: dict[str, Parameter] | None = None
    ) -> dict[str, Parameter]:
        """Return all parameters by name."""
        found = OrderedDict() if destination is None else destination
        found.update(named_attributes(self, prefix, Parameter))
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Set the parameters' data; return the names that are missing in it, and those that no
        parameter has. Raises UnknownNameError for such names if ``strict``.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and (missing or unexpected):
            raise UnknownNameError(
                f"the data do not fit {type(self).__name__}: missing {missing}, "
                f"unexpected {unexpected}",
                notes=("strict=False loads what fits",),
            )
        for name, value in state_dict.items():
            if name in own:
                own[name].data = value.data if isinstance(value, Parameter) else value
        return missing, unexpected

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "forward"):
            raise UnsupportedError(f"{type(self).__name__} defines no forward")
        return self.forward(*args, **kwargs)

    def to(self, dtype: str | None = None) -> None:
        """Change the data type of all that has one inside of the module."""
        for item in list(self.__dict__.values()):
            if isinstance(item, (Module, Parameter, Effect)):
                item.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype

    def export_tvm(
        self, spec: Any, debug: bool = False, allow_extern: bool = False
    ) -> tuple[Any, ...]:
        """Build the functions that a specification describes.

        Returns the module of the graph IR and the parameters, as names and `Parameter` objects in
        the order of the functions' inputs; with ``allow_extern`` the external modules, too. With
        ``debug``, functions have a state that orders what `op.print_` and `op.debug_func` do.
        """
        module_spec = resolve(_ABOVE + "spec:ModuleSpec").from_raw(spec, self)
        mod, params, external = resolve(_ABOVE + "exporter:Exporter")(debug).build(module_spec)
        if allow_extern:
            return mod, params, external
        if external:
            raise UnsupportedError(
                "the module uses external modules: "
                + ", ".join([type(one).__name__ for one in external]),
                notes=("export_tvm(…, allow_extern=True) returns them, too",),
            )
        return mod, params

    def jit(
        self,
        spec: Any,
        device: Any = "cpu",
        pipeline: Any = "default_build",
        out_format: str = "torch",
        debug: bool = False,
    ) -> Any:
        """Compile the module with its parameters' data.

        ``out_format`` "torch" gives a `TorchModule`, whose methods take and give tensors of torch;
        "raw" the specification, the virtual machine and the parameters' data.
        """
        if out_format not in ("torch", "raw"):
            raise UnsupportedError(f"out_format is 'torch' or 'raw', got '{out_format}'")
        module_spec = resolve(_ABOVE + "spec:ModuleSpec").from_raw(spec, self)
        mod, params, _ = resolve(_ABOVE + "exporter:Exporter")(debug).build(module_spec)
        compiler = resolve(_ABOVE + "jit:compile_module")
        return compiler(module_spec, mod, params, device, pipeline, out_format)


class ModuleList(Module):
    """Modules by number."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __getitem__(self, index: int) -> Module:
        return self.modules[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.modules[index] = module

    def __len__(self) -> int:
        return len(self.modules)

    def append(self, module: Module) -> None:
        """Add a module at the end."""
        self.modules.append(module)

    def to(self, dtype: str | None = None) -> None:
        """Change the data type of all modules."""
        for module in self.modules:
            module.to(dtype=dtype)

    def forward(self, x: Any) -> Any:
        """Return what the modules compute one after the other."""
        for module in self.modules:
            x = module(x)
        return x


def named_attributes(root: Any, prefix: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a module, and of the modules inside of it, that are of a class."""
    items: Iterable[tuple[str, Any]]
    items = enumerate(root) if isinstance(root, ModuleList) else root.__dict__.items()  # type: ignore[assignment]
    for name, item in items:
        if isinstance(item, kind):
            yield f"{prefix}{name}", item
        elif isinstance(item, Module):
            yield from named_attributes(item, f"{prefix}{name}.", kind)


def wrap_nested(expr: Any, name: str) -> Any:
    """Bind an expression in the function under construction; return a tensor, or tuples of them."""
    if not isinstance(expr, Var):
        expr = current_builder().emit(expr, name)
    info: StructInfo | None = known_struct_info(expr)
    if isinstance(info, TensorStructInfo):
        return Tensor(_expr=expr)
    if isinstance(info, TupleStructInfo):
        return tuple(
            [
                wrap_nested(TupleGetItem(expr, number), f"{name}.{number}")
                for number in range(len(info.fields))
            ]
        )
    raise TypeMismatchError(f"a tensor or a tuple of tensors is needed, got {describe(info)}")


def set_expression(parameter: Parameter, expression: Any) -> None:
    """Let a parameter stand for an expression of the function under construction."""
    parameter._expr = expression


def as_expression(value: Any) -> Any:
    """Return the expression of a tensor or object; other values as they are."""
    if isinstance(value, (Tensor, Object)):
        return value._expr
    if isinstance(value, (list, tuple)):
        return type(value)([as_expression(item) for item in value])
    return value
