"""LegalizeOps: turns calls of operators into calls of PrimFuncs.

    lv = R.add(x, y)    ->    lv = R.call_tir(cls.add, (x, y), R.Tensor((2, 3), "float32"))

The tensor expression is that of the operator's record (`OpSpec.compute`). Operators whose sizes
depend on data become two calls, with sizes between them that are read when the model runs. A call
whose shapes or dtypes are not known stays as it is, and so does one that the executor carries out
itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import IntImm, IRModule, Op, PrimExpr, const, operators_at
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis import bindings_of
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataflowVar,
    Function,
    MatchCast,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator, same_struct_info
from tilesmith.relax.op import call_tir, tensor_to_shape
from tilesmith.relax.op.common import number_of_elements
from tilesmith.relax.relations import describe, prove_equal, sizes_of
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import OpNotImplemented, TilesmithError
from tilesmith.support.fallbacks import fallbacks_within, record_fallback

Legalizer = Callable[[Any, Call], Any]


def is_known(info: Any) -> bool:
    """Return whether a tensor expression can be written for a value: its sizes (maybe symbolic) and
    dtype are known.
    """
    if isinstance(info, TensorStructInfo):
        return isinstance(info.shape, ShapeExpr) and not info.dtype.is_void
    if isinstance(info, TupleStructInfo):
        return all(is_known(field) for field in info.fields)
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    return True


def scalar_operand(arg: Any) -> Any:
    """Return a constant of rank 0 as a scalar expression, so that it becomes part of the loop
    body.
    """
    if isinstance(arg, Constant) and not arg.data.shape:
        dtype = arg.data.dtype
        if dtype.is_float and dtype.bits in (16, 32, 64) or dtype.is_integer or dtype.is_bool:
            value = arg.data.numpy_view().item()
            return const(value, dtype)
    return arg


def legalize_call(builder: Any, call: Call) -> Any:
    """Return the call of the PrimFunc that replaces an operator's call; None if there is no
    compute.
    """
    spec = call.op.spec
    compute = spec.compute_function()
    if compute is None:
        return None
    args: list[Any] = list(call.args)
    tensors = [arg for arg in args if isinstance(known_struct_info(arg), TensorStructInfo)]
    if len(tensors) > 1 and not all(isinstance(arg, Constant) for arg in tensors):
        for position, argument in enumerate(spec.arguments[: len(args)]):
            if argument.kind == "number":
                args[position] = scalar_operand(args[position])
    attrs = call.attrs

    def expression(*inputs: Any) -> Any:
        return compute(attrs, *inputs)

    return builder.call_te(expression, *args, primfunc_name_hint=spec.short_name)


def count_and_compute(builder: Any, call: Call) -> Any:
    """Return the call that replaces an operator's call whose sizes depend on data.

    A first program counts; its result becomes sizes when the model runs, and a second program fills
    a tensor of these sizes.
    """
    spec, attrs = call.op.spec, call.attrs
    name = spec.short_name

    def count(*inputs: Any) -> Any:
        return spec.counts(attrs, *inputs)

    counted = builder.call_te(count, *call.args, primfunc_name_hint=f"{name}_sizes")
    counted = Call(counted.op, list(counted.args), counted.attrs, counted.sinfo_args, call.span)
    found, rest = builder.emit(counted), []
    info = known_struct_info(found)
    if isinstance(info, TupleStructInfo):
        parts = [builder.emit(TupleGetItem(found, place)) for place in range(len(info.fields))]
        found, rest = parts[0], parts[1:]
    length = tensor_sizes(known_struct_info(found))[0]
    sizes = [SymbolicVar(f"{name}_size_{place}", "int64") for place in range(int(length))]
    builder.match_cast(builder.emit(tensor_to_shape(found)), ShapeStructInfo(sizes))

    def fill(*inputs: Any) -> Any:
        return spec.compute_function()(attrs, sizes, *inputs)

    return builder.call_te(fill, *call.args, *rest, primfunc_name_hint=name)


def _is_operand(arg: Any, info: Any) -> bool:
    """Return whether an argument is passed to the program (rather than compiled into it)."""
    return isinstance(info, TensorStructInfo)


def _program_key(call: Call) -> Any:
    """Return a key for the program of a call whose tensors have constant shapes: equal keys, equal
    programs. None if a constant scalar or a symbolic size becomes part of the program.
    """
    parts: list[Any] = []
    for arg in call.args:
        info = known_struct_info(arg)
        if isinstance(info, TensorStructInfo):
            shape = info.concrete_shape
            if shape is None or (isinstance(arg, Constant) and not shape):
                return None
            parts.append((shape, info.dtype))
        elif isinstance(arg, ShapeExpr) and arg.concrete is not None:
            parts.append(arg.concrete)
        else:
            return None
    attrs = tuple(call.attrs.items()) if call.attrs is not None else ()
    try:
        key = (call.op.name, tuple(parts), attrs)
        hash(key)
    except TypeError:
        return None
    return key


def _is_plain(result: Any, call: Call, infos: list[Any]) -> bool:
    """Return whether a program takes the tensors of the call in their order and nothing else."""
    if not isinstance(result, Call) or len(result.args) != 2 or result.op is call.op:
        return False
    if result.op is not call_tir.op:
        return False
    operands = [arg for arg, info in zip(call.args, infos) if _is_operand(arg, info)]
    given = result.args[1].fields if isinstance(result.args[1], Tuple) else ()
    return len(given) == len(operands) and all(a is b for a, b in zip(given, operands))


def tensor_sizes(info: Any) -> Any:
    """Return the sizes of a tensor; None if they are not known."""
    return sizes_of(info) if isinstance(info, TensorStructInfo) else None


def all_constant(sizes: list[Any]) -> bool:
    """Return whether all sizes are known at compile time."""
    return all(isinstance(size, IntImm) for size in sizes)


class _Legalizer(PyExprMutator):
    def __init__(self, mod: IRModule, custom: Mapping[str, Legalizer], warn: bool) -> None:
        super().__init__(mod)
        self.custom = custom
        self.warn = warn
        self.made: dict[Any, Call] = {}  # calls of operators by the key of their program

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not (isinstance(call, Call) and isinstance(call.op, Op)):
            return call
        custom = self.custom.get(call.op.name) or call.op.get_attr("FLegalize")
        if custom is not None:
            return custom(self.builder_, call)
        spec = call.op.spec
        if spec is None or spec.execution is not Execution.KERNEL:
            return call
        if spec.is_identity:
            return call.args[0]
        infos = [known_struct_info(arg) for arg in call.args]
        results = [] if spec.counts is not None else [call.struct_info]
        if not all(is_known(info) for info in [*infos, *results]):
            self._leave(call, "its shapes or dtypes are not known")
            return call
        if spec.counts is not None:
            return self._in_place_of(call, count_and_compute(self.builder_, call))
        key = _program_key(call)
        if key is not None and key in self.made:
            known = self.made[key]
            operands = [arg for arg, info in zip(call.args, infos) if _is_operand(arg, info)]
            arguments = [known.args[0], Tuple(operands)]
            return Call(known.op, arguments, None, known.sinfo_args, call.span)
        if spec.view_of is not None:
            self._check_elements(call, infos[spec.view_of])
        for _, given, wanted in spec.agreeing(call) if spec.agreeing is not None else ():
            self._check_size(call, "size", given, wanted)
        try:
            result = legalize_call(self.builder_, call)
        except TilesmithError as error:
            error.notes = (*error.notes, f"while {call.op.name} was turned into a tensor program")
            raise
        if result is None:
            self._leave(call, "it has no tensor expression")
            return call
        if key is not None and _is_plain(result, call, infos):
            self.made[key] = result
        return self._keep_tuple(call, self._in_place_of(call, result))

    def _check_elements(self, call: Call, source: Any) -> None:
        """Compare the number of elements of a view with its source's when the program runs."""
        before, after = tensor_sizes(source), tensor_sizes(call.struct_info)
        if before is None or after is None or all_constant([*before, *after]):
            return
        self._check_size(call, "elements", number_of_elements(before), number_of_elements(after))

    def _check_size(self, call: Call, what: str, given: PrimExpr, wanted: PrimExpr) -> None:
        """Compare a size with the one that it has to be when the program runs."""
        if prove_equal(given, wanted):
            return
        info = ShapeStructInfo((wanted,))
        kind = DataflowVar if self.builder_.current_block_is_dataflow() else Var
        var = kind(self.builder_.get_unique_name(f"{what}_of_{call.op.spec.short_name}"), info)
        self.builder_.emit_normalized(MatchCast(var, ShapeExpr([given]), info, call.span))

    def _in_place_of(self, call: Call, result: Any) -> Any:
        """Return the result at the place of a call: with its span, and with sizes written as its
        struct info writes them, which variables and later calls have taken over.
        """
        if not isinstance(result, Call):
            return result
        span, infos = result.span or call.span, tuple(result.sinfo_args)
        if len(infos) == 1 and same_struct_info(infos[0], call.struct_info):
            infos = (call.struct_info,)
        if span is result.span and all(a is b for a, b in zip(infos, result.sinfo_args)):
            return result
        return Call(result.op, list(result.args), result.attrs, infos, span)

    def _keep_tuple(self, call: Call, result: Any) -> Any:
        """Wrap the tensor from the compute of a one-field tuple into a tuple again."""
        info = call.struct_info
        if isinstance(info, TupleStructInfo) and len(info.fields) == 1:
            if isinstance(known_struct_info(result), TensorStructInfo):
                return Tuple([self.builder_.emit(result)])
        return result

    def _leave(self, call: Call, reason: str) -> None:
        record_fallback("legalization", call.op.name, reason)
        if self.warn:
            warnings.warn(f"{call.op.name} stays as it is: {reason}", stacklevel=2)


@compiler_pass("LegalizeOps")
def legalize_ops(
    mod: IRModule,
    customize_legalize_map: Mapping[str, Legalizer] | None = None,
    enable_warning: bool = False,
) -> IRModule:
    """Turns operators into calls of PrimFuncs. ``customize_legalize_map``: operator's name →
    function ``(builder, call)`` that returns the replacement.
    """
    mutator = _Legalizer(mod, customize_legalize_map or {}, enable_warning)
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            if "Codegen" in function.attrs or "Composite" in function.attrs:
                continue
            with fallbacks_within(name.name_hint):
                updated = mutator.visit_expr(function)
            if updated is not function:
                mutator.builder_.update_func(name, updated)
    return mutator.builder_.get()


def is_executed(op: Op) -> bool:
    """Return whether an executor carries out calls of an operator as they are."""
    return op.spec is not None and op.spec.execution is not Execution.KERNEL


@dataclass(frozen=True)
class OperatorLeft:
    """A call that no executor can carry out: its arguments, its place in the model, and why."""

    arguments: str
    place: str
    reason: str

    def describe(self, name: str) -> str:
        """Return one line for errors."""
        place = f", of {self.place}" if self.place else ""
        return f"{name}({self.arguments}){place}: {self.reason}"


_NO_PROGRAM = "it has no tensor program; give one with LegalizeOps({name: function})"
_NO_SHAPE = (
    "the sizes of an argument are not known; bind it with R.match_cast, or import the model with"
    " the shapes of its inputs (shape_dict)"
)
_NO_RESULT = "the sizes of its result are not known; bind the shape that it gets with R.match_cast"


def _reason(call: Call) -> str:
    spec = call.op.spec
    if spec is None or spec.compute is None:
        return _NO_PROGRAM
    if not all(is_known(known_struct_info(arg)) for arg in call.args):
        return _NO_SHAPE
    return _NO_RESULT


def operators_left(mod: IRModule) -> dict[str, OperatorLeft]:
    """Return the operators that no executor can carry out: name → one call."""
    found: dict[str, OperatorLeft] = {}
    for function in mod.functions.values():
        if not isinstance(function, Function) or function.body is None:
            continue
        if "Codegen" in function.attrs:
            continue
        for binding in bindings_of(function):
            value = binding.value
            if isinstance(value, Call) and isinstance(value.op, Op):
                if not is_executed(value.op):
                    shown = ", ".join([describe(known_struct_info(arg)) for arg in value.args])
                    left = OperatorLeft(shown, operators_at(value.span), _reason(value))
                    found.setdefault(value.op.name, left)
    return found


@compiler_pass("CheckLegalized")
def check_legalized(mod: IRModule) -> IRModule:
    """Raise OpNotImplemented, naming all of them, if operators are left that no executor can carry
    out.
    """
    left = operators_left(mod)
    if left:
        raise OpNotImplemented(
            f"no tensor program for {len(left)} operator{'s' if len(left) > 1 else ''}: "
            + ", ".join(left),
            notes=tuple([one.describe(name) for name, one in left.items()]),
        )
    return mod
