"""Describes what a module exports: its methods, and the inputs of each.

    {
        "prefill": {
            "tokens": spec.Tensor([1, "n"], "int32"),
            "total": int,
            "$": {"param_mode": "packed", "effect_mode": "packed"},
        },
    }

Equal names of sizes in one method are one symbolic size. ``param_mode`` and ``effect_mode`` say how
parameters and states become inputs: each by itself ("plain", the default), as one tuple ("packed"),
or not at all ("none").
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from tilesmith.relax.frontend.nn import core
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TilesmithError, TypeMismatchError, UnknownNameError

__all__ = [
    "ArgSpecType", "Int", "MethodSpec", "MethodSpecType", "ModuleSpec", "ModuleSpecType", "Object",
    "SpecAny", "Tensor", "Tuple",
]  # fmt: skip

MODES = ("plain", "packed", "none")


class Int:
    """An input that is a number, known as a size of type int64."""

    def __repr__(self) -> str:
        return "int"


class Tensor:
    """An input that is a tensor; sizes are numbers, or names of symbolic sizes."""

    def __init__(self, shape: Sequence[Any], dtype: str) -> None:
        self.shape = list(shape)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f'Tensor([{", ".join([repr(size) for size in self.shape])}], "{self.dtype}")'


class Object:
    """An input that is an object; ``object_type`` is the class that stands for it."""

    def __init__(self, object_type: type[core.Object]) -> None:
        self.object_type = object_type

    def __repr__(self) -> str:
        return "object"


class Tuple:
    """An input that is a tuple (or list) of others."""

    def __init__(self, name: str, elements: Sequence[Any]) -> None:
        if not isinstance(elements, (list, tuple)):
            raise TypeMismatchError(f"'{name}': a list of specifications, got {elements!r}")
        self.name = name
        self.elements = elements

    def __repr__(self) -> str:
        return self.elements.__repr__()


SpecAny = Int | Tensor | Object | Tuple
ArgSpecType = Int | Tensor | Object | Tuple
MethodSpecType = Union["MethodSpec", dict[str, ArgSpecType]]
ModuleSpecType = Union["ModuleSpec", dict[str, MethodSpecType]]


class MethodSpec:
    """Describes one method."""

    def __init__(
        self,
        method: Callable[..., Any],
        arg_names: Sequence[str],
        arg_specs: Sequence[Any],
        param_mode: str,
        effect_mode: str,
    ) -> None:
        name = getattr(method, "__name__", str(method))
        for what, mode in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            if mode not in MODES:
                raise TypeMismatchError(
                    f"{what} of '{name}' is {mode!r}",
                    notes=("it is one of " + ", ".join([f"'{one}'" for one in MODES]),),
                )
        if len(arg_names) != len(arg_specs):
            raise TypeMismatchError(
                f"'{name}' has {len(arg_names)} names for {len(arg_specs)} specifications"
            )
        self.method = method
        self.arg_names = list(arg_names)
        self.arg_specs = list(arg_specs)
        self.param_mode = param_mode
        self.effect_mode = effect_mode

    def __repr__(self) -> str:
        inputs = [f"{name}: {spec}" for name, spec in zip(self.arg_names, self.arg_specs)]
        return f"MethodSpec({', '.join(inputs)})"

    @staticmethod
    def from_raw(spec: Any, method: Callable[..., Any]) -> MethodSpec:
        """Make the description of a method from a dictionary of its inputs."""
        if isinstance(spec, MethodSpec):
            return spec
        name = getattr(method, "__name__", str(method))
        if not isinstance(spec, Mapping):
            raise TypeMismatchError(
                f"the specification of '{name}' is {spec!r}",
                notes=('a dictionary is needed: {"x": spec.Tensor(["n", 4], "float32")}',),
            )
        config = dict(spec.get("$", {}))
        unknown = [key for key in config if key not in ("param_mode", "effect_mode")]
        if unknown:
            raise UnknownNameError(
                f"'$' of '{name}' has no setting '{unknown[0]}'",
                notes=("param_mode and effect_mode",),
            )
        inputs = {key: value for key, value in spec.items() if key != "$"}
        names = _input_names(name, method, inputs)
        return MethodSpec(
            method,
            names,
            [_converted(inputs[key], key, f"input '{key}' of '{name}'") for key in names],
            config.get("param_mode", "plain"),
            config.get("effect_mode", "plain"),
        )

    @staticmethod
    def from_torch(args: Sequence[Any], method: Callable[..., Any]) -> MethodSpec:
        """Make the description of a method from examples of its inputs: tensors of torch,
        numbers.
        """
        name = getattr(method, "__name__", str(method))
        names = list(_parameters(method))
        if len(args) > len(names):
            raise TypeMismatchError(f"'{name}' takes {len(names)} inputs, got {len(args)}")
        specs = [
            _from_torch(value, key, f"input '{key}' of '{name}'") for key, value in zip(names, args)
        ]
        return MethodSpec(method, names[: len(args)], specs, "plain", "plain")


class ModuleSpec:
    """Describes what a module exports."""

    def __init__(
        self,
        module: core.Module,
        method_names: Sequence[str],
        method_specs: Sequence[MethodSpec],
    ) -> None:
        self.module = module
        self.method_names = list(method_names)
        self.method_specs = list(method_specs)

    def __repr__(self) -> str:
        lines = [
            f"  {name}: {method}" for name, method in zip(self.method_names, self.method_specs)
        ]
        return "\n".join([f"ModuleSpec({type(self.module).__name__})", *lines])

    @staticmethod
    def from_raw(spec: Any, module: core.Module) -> ModuleSpec:
        """Make the description of a module from a dictionary of its methods."""
        if isinstance(spec, ModuleSpec):
            return spec
        if not isinstance(spec, Mapping):
            raise TypeMismatchError(
                f"the specification of {type(module).__name__} is {spec!r}",
                notes=('a dictionary is needed: {"forward": {"x": spec.Tensor(…)}}',),
            )
        methods = []
        for name, inputs in spec.items():
            method = getattr(module, name, None)
            if not callable(method):
                raise UnknownNameError(f"{type(module).__name__} has no method '{name}'")
            methods.append(MethodSpec.from_raw(inputs, method))
        return ModuleSpec(module, list(spec), methods)


def _parameters(method: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a method that have a name each."""
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = inspect.signature(method).parameters.items()
    return {name: parameter for name, parameter in found if parameter.kind not in several}


def _input_names(name: str, method: Callable[..., Any], inputs: Mapping[str, Any]) -> list[str]:
    """Return the inputs that a specification names, in the order of the method."""
    parameters = _parameters(method)
    unknown = [key for key in inputs if key not in parameters]
    if unknown:
        raise UnknownNameError(
            f"'{name}' has no input '{unknown[0]}'", notes=(f"it has: {', '.join(parameters)}",)
        )
    missing = [
        key
        for key, parameter in parameters.items()
        if key not in inputs and parameter.default is inspect.Parameter.empty
    ]
    if missing:
        raise UnknownNameError(
            f"the specification of '{name}' lacks the input '{missing[0]}'",
            notes=(f"the method takes: {', '.join(parameters)}",),
        )
    return [key for key in parameters if key in inputs]


def _converted(spec: Any, name: str, where: str) -> Any:
    """Return a specification of an input; raise an error that names the input."""
    if spec is int or spec is Int:
        return Int()
    if isinstance(spec, (Int, Object)):
        return spec
    if isinstance(spec, Tensor):
        try:
            DataType(spec.dtype)
            core.sizes_from(spec.shape, {}, where)
        except TilesmithError as error:
            if where not in str(error):
                error.notes += (f"in the specification of {where}",)
            raise
        return spec
    if isinstance(spec, Tuple):
        return Tuple(spec.name, _several(spec.elements, spec.name, where))
    if isinstance(spec, (list, tuple)):
        return Tuple(name, _several(spec, name, where))
    if inspect.isclass(spec) and issubclass(spec, core.Object):
        return Object(spec)
    raise TypeMismatchError(
        f"the specification of {where} is {spec!r}",
        notes=("it is int, or spec.Tensor, spec.Object, spec.Tuple, or a list of them",),
    )


def _several(specs: Any, name: str, where: str) -> Any:
    return type(specs)(
        [_converted(one, f"{name}_{i}", f"element {i} of {where}") for i, one in enumerate(specs)]
    )


def _from_torch(value: Any, name: str, where: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return Int()
    if isinstance(value, (list, tuple)):
        return Tuple(
            name,
            type(value)(
                [
                    _from_torch(v, f"{name}_{i}", f"element {i} of {where}")
                    for i, v in enumerate(value)
                ]
            ),
        )
    dtype = str(getattr(value, "dtype", ""))
    if hasattr(value, "shape") and dtype:
        return Tensor(list(value.shape), dtype.removeprefix("torch."))
    raise TypeMismatchError(f"{where} is {type(value).__name__}: a tensor or a number is needed")
