"""``relay.op.op``: finds and registers operators, and states what programs know about them.

    @register_compute("my_scale")
    def compute(attrs, inputs, out_type):
        return [topi.multiply(inputs[0], 2.0)]

Each function sets one attribute of an operator (``FTVMCompute``, ``TOpPattern``, …), which the
passes read; of several values the one with the highest level stays. Those that take a function are
decorators without it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from tilesmith.ir import Op, register_op_attr
from tilesmith.relax.attrs import Schema, text
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.op import call_dps_packed
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relay.op.op_strategy import OpImplementation, OpSpecialization, OpStrategy
from tilesmith.relay.op.view import define, function
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.lazy import resolve
from tilesmith.target.generic_func import GenericFunc

__all__ = [
    "OpImplementation", "OpPattern", "OpSpecialization", "OpStrategy", "debug", "get", "register",
    "register_alter_op_layout", "register_broadcast_schedule", "register_compute",
    "register_convert_op_layout", "register_external_compiler",
    "register_fake_quantization_to_integer", "register_gradient",
    "register_infer_correct_layout", "register_injective_schedule", "register_legalize",
    "register_mixed_precision_conversion", "register_optional_fake_quantization_to_integer",
    "register_pattern", "register_reduce_schedule", "register_schedule", "register_shape_func",
    "register_stateful", "register_strategy",
]  # fmt: skip

_GENERIC = "tilesmith.relay.op.strategy.generic"


class OpPattern:
    """How an operator fuses with its neighbours: the values of ``TOpPattern``."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


def get(op_name: str) -> Op:
    """Return the operator of a name; the error for an unknown one suggests the nearest."""
    return Op.get(op_name)


def register(op_name: str, describe: str = "") -> Op:
    """Make and register an operator, which a program describes by its attributes."""
    return Op.register(op_name, description=describe)


# How an operator is computed.


def register_compute(op_name: str, compute: Any = None, level: int = 10) -> Any:
    """State the compute of an operator: ``(attrs, inputs, out_type)`` → a list of tensors."""
    return register_op_attr(op_name, "FTVMCompute", compute, level)


def register_strategy(op_name: str, fstrategy: Any = None, level: int = 10) -> Any:
    """State the strategy of an operator: ``(attrs, inputs, out_type, target)`` → `OpStrategy`; a
    generic function has one for each target.
    """
    if fstrategy is None:
        return lambda given: register_strategy(op_name, given, level)
    if not isinstance(fstrategy, GenericFunc):
        fstrategy = GenericFunc(f"{op_name}_strategy", fstrategy)
    return register_op_attr(op_name, "FTVMStrategy", fstrategy, level)


def register_schedule(op_name: str, schedule: Any, level: int = 10) -> Any:
    """State the schedule of an operator, ``(attrs, outs, target)``, together with which its compute
    makes its strategy.
    """
    register_op_attr(op_name, "FTVMSchedule", schedule, level)
    compute = _compute_of(op_name)
    known = schedule.name if isinstance(schedule, GenericFunc) else schedule.__name__
    name = known.removeprefix("schedule_")

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
        made = OpStrategy()
        made.add_implementation(compute, schedule, name=f"{name}.generic")
        return made

    return register_strategy(op_name, strategy, level)


def _compute_of(op_name: str) -> Callable[..., Any]:
    compute: Callable[..., Any] | None = Op.get(op_name).get_attr("FTVMCompute")
    if compute is None:
        raise UnsupportedError(
            f"the operator '{op_name}' has no compute that its schedule could be for",
            notes=("register_compute(name, compute) comes first",),
        )
    return compute


def register_injective_schedule(op_name: str, level: int = 10) -> Any:
    """State that an operator is scheduled as a map from elements to elements."""
    return register_schedule(op_name, resolve(f"{_GENERIC}:schedule_injective"), level)


def register_broadcast_schedule(op_name: str, level: int = 10) -> Any:
    """State that an operator is scheduled as one that repeats elements of smaller operands."""
    return register_schedule(op_name, resolve(f"{_GENERIC}:schedule_injective"), level)


def register_reduce_schedule(op_name: str, level: int = 10) -> Any:
    """State that an operator is scheduled as a reduction."""
    return register_schedule(op_name, resolve(f"{_GENERIC}:schedule_reduce"), level)


def register_pattern(op_name: str, pattern: int, level: int = 10) -> Any:
    """State how an operator fuses (a value of `OpPattern`)."""
    return register_op_attr(op_name, "TOpPattern", pattern, level)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> Any:
    """State whether calls of an operator have effects."""
    return register_op_attr(op_name, "TOpIsStateful", stateful, level)


def register_shape_func(
    op_name: str, data_dependent: Any, shape_func: Any = None, level: int = 10
) -> Any:
    """State the shape function of an operator: ``(attrs, inputs, out_ndims)`` → tensors of sizes.
    ``data_dependent``, for all or for each of the inputs, says whether it gets values or shapes.
    """
    depends = list(data_dependent) if isinstance(data_dependent, (list, tuple)) else data_dependent
    depends = depends if isinstance(depends, list) else [depends]
    register_op_attr(op_name, "TShapeDataDependent", depends, level)
    return register_op_attr(op_name, "FShapeFunc", shape_func, level)


# What passes ask.


def register_alter_op_layout(op_name: str, alter_layout: Any = None, level: int = 10) -> Any:
    """State what AlterOpLayout puts in place of a call: ``(attrs, inputs, tinfos, out_type)`` → an
    expression, or None.
    """
    return register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)


def register_convert_op_layout(op_name: str, convert_layout: Any = None, level: int = 10) -> Any:
    """State what ConvertLayout puts in place of a call: ``(attrs, inputs, tinfos, layouts)`` → an
    expression.
    """
    return register_op_attr(op_name, "FTVMConvertOpLayout", convert_layout, level)


def register_infer_correct_layout(op_name: str, infer_layout: Any = None, level: int = 10) -> Any:
    """State which layouts an operator takes and gives: ``(attrs, new_in_layouts, old_in_layouts,
    old_in_types)``.
    """
    return register_op_attr(op_name, "FInferCorrectLayout", infer_layout, level)


def register_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """State what Legalize puts in place of a call: ``(attrs, inputs, types)`` → an expression, or
    None.
    """
    return register_op_attr(op_name, "FTVMLegalize", legal_op, level)


def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """State the gradients of a call: ``(call, gradient of the result)`` → one for each argument."""
    return register_op_attr(op_name, "FPrimalGradient", fgradient, level)


def register_external_compiler(op_name: str, fexternal: Any = None, level: int = 10) -> Any:
    """State the external compiler of an operator: ``(attrs, inputs)`` → whether it takes a call."""
    return register_op_attr(op_name, "FTVMExternalCompiler", fexternal, level)


def register_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """State how a call of real numbers becomes one of integers: ``(expr, type_map)`` → a list of
    the expression and its quantisation.
    """
    return register_op_attr(op_name, "FTVMFakeQuantizationToInteger", func, level)


def register_optional_fake_quantization_to_integer(
    op_name: str, func: Any = None, level: int = 10
) -> Any:
    """Like `register_fake_quantization_to_integer`, for rules that are applied only where asked."""
    return register_op_attr(op_name, "FTVMOptionalFakeQuantizationToInteger", func, level)


def register_mixed_precision_conversion(op_name: str, func: Any = None, level: int = 10) -> Any:
    """State what ToMixedPrecision does with calls: ``(call, mixed_precision_type)`` → a list of the
    category, the dtype of accumulators and that of the result.
    """
    return register_op_attr(op_name, "FTVMMixedPrecisionConversionType", func, level)


# The operator that shows a value while a program runs.

_watched = count()


def _translate_debug(attrs: Any, value: Any) -> Any:
    info = known_struct_info(value)
    if not isinstance(info, TensorStructInfo):
        raise UnsupportedError("debug shows tensors", notes=("show the fields of a tuple",))
    return call_dps_packed(attrs.debug_func, [value], info)


_debug = define(
    "debug",
    "code",
    _translate_debug,
    schema=Schema(debug_func=text("")),
    description="the value, which a Python function gets to see when the program runs",
    level=1,
)


@function("debug")
def debug(expr: Any, debug_func: Callable[[Any], Any] | None = None) -> Any:
    """Return an expression that has the value of ``expr``, a tensor, and shows it to a Python
    function when the program runs; without a function Python's debugger opens there.
    """
    name = f"relay.debug.{next(_watched)}"

    def watch(value: Any, result: Any) -> None:
        if debug_func is None:
            breakpoint()
        else:
            debug_func(value)
        result.copyfrom(value)

    register_func(name, watch)
    return _debug(expr, debug_func=name)
