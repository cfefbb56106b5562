"""Calls compiled modules with tensors of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.relax.frontend.nn import spec as specs
from tilesmith.runtime.container import ShapeTuple
from tilesmith.runtime.ndarray import NDArray, from_dlpack
from tilesmith.runtime.relax_vm import VirtualMachine
from tilesmith.support.errors import (
    MissingDependencyError,
    TypeMismatchError,
    UnknownMemberError,
)

__all__ = ["TorchModule"]

_EFFECTS = "_initialize_effect"


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            "torch", purpose="calling a module with torch tensors"
        ) from None
    return torch


class TorchModule:
    """A compiled module: `module["forward"](x)`; it keeps the states between calls."""

    def __init__(
        self, spec: specs.ModuleSpec, vm: VirtualMachine, params: Sequence[NDArray]
    ) -> None:
        self.spec = spec
        self.vm = vm
        self.params = list(params)
        names = getattr(vm.module, "function_names", ())
        self.effects: Any = vm[_EFFECTS]() if _EFFECTS in names else None

    def __getattr__(self, item_name: str) -> Any:
        if item_name in self.__dict__.get("spec", specs.ModuleSpec(None, [], [])).method_names:  # type: ignore[arg-type]
            return self[item_name]
        raise UnknownMemberError(f"the module has no method '{item_name}'")

    def __getitem__(self, method_name: str) -> Callable[..., Any]:
        names = self.spec.method_names
        if method_name not in names:
            raise UnknownMemberError(
                f"the module has no method '{method_name}'", notes=("it has: " + ", ".join(names),)
            )
        method = self.spec.method_specs[names.index(method_name)]

        def run(*args: Any) -> Any:
            return self._run(method_name, method, args)

        return run

    def _run(self, name: str, method: specs.MethodSpec, args: Sequence[Any]) -> Any:
        if len(args) != len(method.arg_names):
            raise TypeMismatchError(
                f"'{name}' takes {len(method.arg_names)} inputs, got {len(args)}",
                notes=(f"inputs: {', '.join(method.arg_names)}",),
            )
        inputs = [
            _from_torch(value, one, key)
            for value, one, key in zip(args, method.arg_specs, method.arg_names)
        ]
        has_states = self.effects is not None and method.effect_mode != "none"
        if has_states:
            inputs += _given(tuple(self.effects), method.effect_mode)
        inputs += _given(tuple(self.params), method.param_mode)
        result = self.vm[name](*inputs)
        if has_states:
            result, self.effects = result
        return _to_torch(result)


def _given(values: tuple[Any, ...], mode: str) -> list[Any]:
    if mode == "packed":
        return [values]
    return list(values) if mode == "plain" else []


def _from_torch(value: Any, spec: Any, name: str) -> Any:
    """Return an input of the machine for one of a caller."""
    if isinstance(spec, specs.Tensor):
        if not isinstance(value, _torch().Tensor):
            raise TypeMismatchError(
                f"input '{name}' is a {type(value).__name__}, a tensor of torch is needed"
            )
        return from_dlpack(value.detach().contiguous())
    if isinstance(spec, specs.Int):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeMismatchError(f"input '{name}' is {value!r}, a number is needed")
        return ShapeTuple([value])
    if isinstance(spec, specs.Tuple):
        if not isinstance(value, (list, tuple)) or len(value) != len(spec.elements):
            raise TypeMismatchError(f"input '{name}' is not a tuple of {len(spec.elements)} values")
        return tuple(
            [
                _from_torch(item, one, f"{name}[{number}]")
                for number, (item, one) in enumerate(zip(value, spec.elements))
            ]
        )
    return value


def _to_torch(value: Any) -> Any:
    """Return what a caller gets."""
    if isinstance(value, NDArray):
        return _torch().from_dlpack(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, ShapeTuple):
        return tuple([_to_torch(item) for item in value])
    return value
