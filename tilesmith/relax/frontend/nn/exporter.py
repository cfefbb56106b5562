"""Builds the functions that a specification of a module describes.

def _initialize_effect() -> (state, …)          the first states, if there are any
def forward(inputs…, states…, parameters…) -> (result, (states…))    without states: result
"""

from __future__ import annotations

import threading
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Expr, PrimValue, Tuple, TupleGetItem, Var, as_expr
from tilesmith.relax.expr import known_struct_info as info_of
from tilesmith.relax.frontend.nn import core, spec
from tilesmith.relax.frontend.nn.effects import IOEffect
from tilesmith.relax.frontend.nn.extern import ExternModule
from tilesmith.relax.relations import substitute_sizes, symbolic_vars
from tilesmith.relax.struct_info import (
    ObjectStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.errors import DiagnosticError, TypeMismatchError

__all__ = ["Exporter", "add_extern"]

_current = threading.local()


def add_extern(mod: ExternModule) -> None:
    """Add an external module to what is being exported; calling its functions does so as well."""
    Exporter.current().add_external_module(mod)


class Exporter:
    """Exports one module."""

    def __init__(self, debug: bool) -> None:
        self.builder = BlockBuilder()
        self.io_effect = IOEffect() if debug else None
        self.extern_mods: list[ExternModule] = []

    @staticmethod
    def current() -> Exporter:
        """Return the exporter at work in this thread. Raises DiagnosticError if there is none."""
        stack = getattr(_current, "stack", None)
        if not stack:
            raise DiagnosticError(
                "no module is being exported",
                notes=("this belongs into a method that export_tvm or jit calls",),
            )
        found: Exporter = stack[-1]
        return found

    def __enter__(self) -> Exporter:
        if not hasattr(_current, "stack"):
            _current.stack = []
        _current.stack.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _current.stack.pop()

    def add_external_module(self, mod: ExternModule) -> None:
        """Add an external module, once."""
        if all(mod is not one for one in self.extern_mods):
            self.extern_mods.append(mod)

    def build(
        self, spec: spec.ModuleSpec
    ) -> tuple[IRModule, list[tuple[str, core.Parameter]], list[ExternModule]]:
        """Return the module, the parameters in the order of inputs, and the external modules."""
        params = list(spec.module.named_parameters())
        before = [(param, core.as_expression(param)) for _, param in params]
        effects: list[tuple[str, core.Effect]] = []
        if self.io_effect is not None:
            effects.append(("", self.io_effect))
        effects += core.named_attributes(spec.module, "", core.Effect)
        try:
            with self:
                if effects:
                    self._initialize(effects)
                for name, method in zip(spec.method_names, spec.method_specs):
                    _Method(self, name, method, params, effects).build()
        finally:
            for param, expression in before:
                core.set_expression(param, expression)
        mod = self.builder.finalize()
        if self.extern_mods:
            mod = mod.with_attr("external_mods", [one.load() for one in self.extern_mods])
        return mod, params, self.extern_mods

    def _initialize(self, effects: list[tuple[str, core.Effect]]) -> None:
        with self.builder.function("_initialize_effect", []):
            with self.builder.dataflow():
                states = [
                    state
                    for name, effect in effects
                    for state in effect.emit_init(name, self.builder)
                ]
                result = self.builder.emit_output(self.builder.emit(Tuple(states)))
            self.builder.emit_func_output(result)


class _Method:
    """Builds the function of one method."""

    def __init__(
        self,
        exporter: Exporter,
        name: str,
        method: spec.MethodSpec,
        params: list[tuple[str, core.Parameter]],
        effects: list[tuple[str, core.Effect]],
    ) -> None:
        self.builder = exporter.builder
        self.name = name
        self.method = method
        self.params = params
        self.effects = effects if method.effect_mode != "none" else []
        self.sizes: dict[str, SymbolicVar] = {}

    def build(self) -> None:
        """Build the function."""
        arguments, inputs = [], []
        for name, one in zip(self.method.arg_names, self.method.arg_specs):
            arguments.append(self._argument(name, one))
            inputs.append(_as_input(arguments[-1], name))
        states = [self.create(name, effect) for name, effect in self.effects]
        flat_states = [state for group in states for state in group]
        weights = self._weights()
        packed: list[tuple[Var, list[Any]]] = []
        if self.effects:
            inputs += self._inputs(
                "packed_effects", flat_states, self.method.effect_mode, packed
            )  # fmt: skip
        attrs = {"num_input": len(inputs)}
        if self.method.param_mode != "none":
            inputs += self._inputs("packed_params", weights, self.method.param_mode, packed)
        with self.builder.function(self.name, inputs, attrs):
            with self.builder.dataflow():
                values = self._unpacked(packed)
                for (_, param), weight in zip(self.params, weights):
                    core.set_expression(param, values.get(weight, weight))
                for (_, effect), group in zip(self.effects, states):
                    effect.set_state([values.get(state, state) for state in group])
                given = [self._unwrapped(one) for one in arguments]
                named = dict(zip(self.method.arg_names, given))
                result = self._result(self.method.method(**named))
                if self.effects:
                    after = [state for _, one in self.effects for state in one.finalize()]
                    result = Tuple([result, Tuple(after)])
                output = self.builder.emit_output(result)
            self.builder.emit_func_output(output)

    @staticmethod
    def create(name: str, effect: core.Effect) -> list[Var]:
        """Make the variables of a state."""
        return effect.create(name)

    def _argument(self, name: str, one: Any) -> Any:
        """Make what a method is called with."""
        where = f"input '{name}' of '{self.name}'"
        if isinstance(one, spec.Int):
            return self.sizes.setdefault(name, SymbolicVar(name, "int64"))
        if isinstance(one, spec.Tensor):
            shape = core.sizes_from(one.shape, self.sizes, where)
            return core.Tensor(_expr=Var(name, TensorStructInfo(shape, one.dtype)))
        if isinstance(one, spec.Object):
            return one.object_type(_expr=Var(name, ObjectStructInfo()), _name=name)
        return _TupleArgument(
            type(one.elements),
            [self._argument(f"{name}_{i}", item) for i, item in enumerate(one.elements)],
        )

    def _weights(self) -> list[Var]:
        """Make variables for the parameters; names of their sizes are those of the method."""
        made = []
        for name, param in self.params:
            info: Any = info_of(core.as_expression(param))
            own = {size: size for size in symbolic_vars(info)}
            shared = {size: self.sizes.setdefault(size.name, size) for size in own}
            shape = [substitute_sizes(size, shared) for size in info.shape.values]
            made.append(Var(name, TensorStructInfo(shape, info.dtype)))
        return made

    def _inputs(self, name: str, variables: list[Var], mode: str, packed: list[Any]) -> list[Var]:
        if mode == "plain":
            return variables
        whole = Var(name, TupleStructInfo(tuple([info_of(one) for one in variables])))
        packed.append((whole, variables))
        return [whole]

    def _unpacked(self, packed: list[tuple[Var, list[Any]]]) -> dict[Var, Var]:
        """Bind the fields of tuples of parameters or states."""
        return {
            variable: self.builder.emit(TupleGetItem(whole, number), variable.name_hint)
            for whole, variables in packed
            for number, variable in enumerate(variables)
        }

    def _unwrapped(self, argument: Any) -> Any:
        if not isinstance(argument, _TupleArgument):
            return argument
        fields = [self._field(argument, number, item) for number, item in enumerate(argument.items)]
        return argument.kind(fields)

    def _field(self, whole: _TupleArgument, number: int, item: Any) -> Any:
        name = f"{whole.var.name_hint}_{number}"
        if isinstance(item, SymbolicVar):
            return item
        field = self.builder.emit(TupleGetItem(whole.var, number), name)
        if isinstance(item, _TupleArgument):
            item.var = field
            return self._unwrapped(item)
        if isinstance(item, core.Tensor):
            return core.Tensor(_expr=field)
        return type(item)(_expr=field, _name=name)

    def _result(self, value: Any) -> Any:
        """Return the expression of what a method returned."""
        if isinstance(value, (core.Tensor, core.Object)):
            return core.as_expression(value)
        if isinstance(value, (list, tuple)):
            return Tuple([self._result(item) for item in value])
        if value is None:
            return Tuple([])
        if isinstance(value, SymbolicVar):
            return PrimValue(value)
        if isinstance(value, (bool, int, float)):
            return PrimValue(as_expr(value).value)  # type: ignore[attr-defined]
        if isinstance(value, Expr):
            return value
        raise TypeMismatchError(
            f"'{self.name}' returned {type(value).__name__}",
            notes=("methods return tensors, objects, numbers, and tuples of them",),
        )


class _TupleArgument:
    """A tuple that a method is called with, before its fields are bound."""

    def __init__(self, kind: Any, items: list[Any]) -> None:
        self.kind = kind
        self.items = items
        self.var: Any = None


def _as_input(argument: Any, name: str) -> Var:
    """Return the variable of an input."""
    if isinstance(argument, SymbolicVar):
        return Var(name, ShapeStructInfo([argument]))
    if isinstance(argument, _TupleArgument):
        fields = [_as_input(item, f"{name}_{i}") for i, item in enumerate(argument.items)]
        argument.var = Var(name, TupleStructInfo(tuple([info_of(one) for one in fields])))
        whole: Var = argument.var
        return whole
    variable: Var = core.as_expression(argument)
    return variable
