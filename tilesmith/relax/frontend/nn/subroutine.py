"""Exports modules as functions of their own."""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from collections.abc import Callable
from typing import Any

from tilesmith.ir.structural import structural_equal
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call, Expr, Tuple, Var, known_struct_info
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.lazy import resolve

__all__ = ["SubroutineMixin"]


_PLAIN = (bool, int, float, str, tuple, type(None))


class SubroutineMixin:
    """Classes with ``define_subroutine = True`` become private functions that are called, once for
    each kind of arguments, instead of being written out at each call.
    """

    define_subroutine: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("forward")
        if inspect.isfunction(own):
            cls.forward = _as_subroutine(own)  # type: ignore[attr-defined]


def _as_subroutine(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method such that it calls a function where its class wants one."""

    @functools.wraps(forward)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        builder = BlockBuilder.current()
        if builder is None or not type(self).define_subroutine:
            return forward(self, *args, **kwargs)
        return _call_subroutine(builder, self, forward, args, kwargs)

    return run


def _core() -> Any:
    return resolve("tilesmith.relax.frontend.nn.core")


def _call_subroutine(
    builder: BlockBuilder, module: Any, forward: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    core = _core()
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(module).__name__).lower()
    states = list(core.named_attributes(module, "", core.Effect))
    if states:
        raise UnsupportedError(
            f"the subroutine '{name}' has the state '{states[0][0]}'",
            notes=("states belong to the exported method; leave define_subroutine out",),
        )
    bound = inspect.signature(forward).bind(module, *args, **kwargs)
    given = {key: value for key, value in bound.arguments.items() if value is not module}
    for key, value in given.items():
        if not isinstance(value, (core.Tensor, core.Object, type(None), bool, int, float, str)):
            raise UnsupportedError(
                f"the subroutine '{name}' cannot be called with {key}={value!r}",
                notes=("its arguments are tensors, objects, numbers, texts and None",),
            )
    is_value = {key: isinstance(value, (core.Tensor, core.Object)) for key, value in given.items()}
    inputs = [core.as_expression(value) for key, value in given.items() if is_value[key]]
    parameters = list(module.named_parameters())
    actual = [*inputs, *[core.as_expression(parameter) for _, parameter in parameters]]
    plain = tuple([(key, value) for key, value in given.items() if not is_value[key]])
    known = _known(builder, module, plain, actual)
    if known is None:
        known = _build(builder, module, forward, name, given, is_value, parameters)
        _tables.setdefault(builder, []).append(
            (module, plain, [known_struct_info(one) for one in actual], known)
        )
    return core.wrap_nested(Call(known, actual), name)


_tables: weakref.WeakKeyDictionary[BlockBuilder, list[Any]] = weakref.WeakKeyDictionary()
"""The functions that were made in each builder."""


def _known(builder: BlockBuilder, module: Any, plain: Any, actual: list[Expr]) -> Any:
    """Return the function made for a module of the same class with the same state and arguments."""
    for other, settings, infos, variable in _tables.get(builder, ()):
        alike = type(other) is type(module) and settings == plain and len(infos) == len(actual)
        if alike and _settings(other) == _settings(module):
            if all(structural_equal(a, known_struct_info(b)) for a, b in zip(infos, actual)):
                return variable
    return None


def _settings(module: Any) -> Any:
    """Return the attributes that decide what forward does, besides parameters."""
    core = _core()
    found: list[tuple[str, Any]] = []
    for key, value in module.__dict__.items():
        if isinstance(value, core.Module):
            items = list(value) if isinstance(value, core.ModuleList) else [value]
            found.append((key, [(type(item), _settings(item)) for item in items]))
        elif isinstance(value, core.Effect):
            found.append((key, id(value)))
        elif isinstance(value, _PLAIN):
            found.append((key, value))
        elif not isinstance(value, core.Parameter):
            found.append((key, id(value)))
    return found


def _build(
    builder: BlockBuilder,
    module: Any,
    forward: Callable[..., Any],
    name: str,
    given: dict[str, Any],
    is_value: dict[str, bool],
    parameters: list[Any],
) -> Any:
    """Build the private function of a module; return its variable."""
    core = _core()
    params: list[Var] = []
    arguments = dict(given)
    for key, value in given.items():
        if is_value[key]:
            params.append(Var(key, known_struct_info(core.as_expression(value))))
            arguments[key] = _stands_for(value, params[-1])
    outer = [(parameter, core.as_expression(parameter)) for _, parameter in parameters]
    for path, parameter in parameters:
        params.append(Var(path, known_struct_info(core.as_expression(parameter))))
        core.set_expression(parameter, params[-1])
    is_dataflow = builder.current_block_is_dataflow()
    try:
        with builder.function(name, params, private=True):
            if is_dataflow:
                with builder.dataflow():
                    result = builder.emit_output(_result(forward(module, **arguments)))
            else:
                result = _result(forward(module, **arguments))
            return builder.emit_func_output(result)
    finally:
        for parameter, expression in outer:
            core.set_expression(parameter, expression)


def _stands_for(value: Any, var: Var) -> Any:
    core = _core()
    if isinstance(value, core.Tensor):
        return core.Tensor(_expr=var)
    return type(value)(_expr=var, _name=var.name_hint)


def _result(value: Any) -> Any:
    expression = _core().as_expression(value)
    if isinstance(expression, (list, tuple)):
        return Tuple([_result(item) for item in expression])
    if isinstance(known_struct_info(expression), TupleStructInfo) or isinstance(expression, Expr):
        return expression
    raise UnsupportedError(f"a subroutine returns tensors, got {value!r}")
