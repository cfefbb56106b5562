"""ManifestAlloc, ManifestLifetimes: memory and the ends of lives as parts of programs.

    let %y = exp(%x)        becomes        let %s = memory.alloc_storage(24, 64, device)
                                           let %t = memory.alloc_tensor(%s, 0, [2, 3])
                                           let %u = vm.invoke_tvm_op(fn (..) exp, (%x,), (%t,))
                                           let %y = %t

For programs that look at memory or plan it (`memory_plan`). What is compiled is written without it
again (`without_allocations`): the compiler plans the memory of loops itself.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.ir.types import FuncType
from tilesmith.relay.expr import Call, Constant, Let, Tuple, TupleGetItem, Var, const
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.annotation.annotation import virtual_device
from tilesmith.relay.op.memory.memory import (
    alloc_storage,
    alloc_tensor,
    flatten_tuple_type,
    kill,
    to_tuple_type,
)
from tilesmith.relay.op.view import View
from tilesmith.relay.op.vm.vm import invoke_tvm_op, reshape_tensor
from tilesmith.relay.rewriting import substitute
from tilesmith.relay.transform.let_chains import (
    Binding,
    chain_of,
    mk_let,
    variables_in,
    with_scopes,
)
from tilesmith.relay.transform.normal_form import ToANormalForm
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import TensorType, TupleType, is_dynamic
from tilesmith.relay.walks import functions_of, is_closed, post_order
from tilesmith.support.errors import UnsupportedError
from tilesmith.target.compilation_config import CompilationConfig

__all__ = ["ManifestAlloc", "ManifestLifetimes", "is_memory_call", "without_allocations"]

_ALIGNMENT = 64


def is_memory_call(node: Any, *names: str) -> bool:
    """Return whether a node is a call of one of some operators."""
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names


class _Manifest:
    """Writes the memory of one function."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def scope(self, expr: Any) -> Any:
        """Return a scope in which results have memory."""
        bindings, result = chain_of(expr)
        made: list[Binding] = []
        for variable, value in bindings:
            value = with_scopes(value, self.scope)
            made += self.binding(variable, value)
        return mk_let(made, with_scopes(result, self.scope))

    def binding(self, variable: Var, value: Any) -> list[Binding]:
        """Return the bindings in place of one."""
        type_ = variable.checked_type
        if not _is_kernel(value) or not _is_static(type_):
            return [(variable, value)]
        if is_memory_call(value, "reshape", "expand_dims", "squeeze", "reshape_like"):
            shape = [int(size) for size in type_.shape]
            sizes = const(numpy.asarray(shape, "int64"))
            return [(variable, reshape_tensor(value.args[0], sizes, shape))]
        made: list[Binding] = []
        outputs = []
        for number, one in enumerate(flatten_tuple_type(type_)):
            shape = [int(size) for size in one.shape]
            elements = int(numpy.prod(shape, dtype=int))
            size = elements * -(-one.dtype.bits * one.dtype.lanes // 8)
            storage = Var(f"storage_{number}", dialect="relay")
            out = Var(f"tensor_{number}", dialect="relay")
            made.append((storage, alloc_storage(size, _ALIGNMENT, self.device, str(one.dtype))))
            made.append((out, alloc_tensor(storage, 0, shape, str(one.dtype), shape)))
            outputs.append(out)
        kernel, inputs = _kernel(value)
        made.append((Var("invoked", dialect="relay"), invoke_tvm_op(kernel, inputs, outputs)))
        return [*made, (variable, to_tuple_type(type_, outputs))]


def _is_kernel(value: Any) -> bool:
    """Return whether a value is a call that a kernel computes."""
    if not isinstance(value, Call):
        return False
    if isinstance(value.op, Function):
        return bool(value.op.attrs.get("Primitive"))
    if not isinstance(value.op, Op) or not isinstance(value.op.spec, View):
        return False
    name = value.op.name
    is_note = name.startswith(("annotation.", "memory.", "vm.")) or name in _PLAIN
    return value.op.spec.is_pure and not is_note


_PLAIN = ("on_device", "device_copy", "shape_of")


def _is_static(type_: Any) -> bool:
    if isinstance(type_, TupleType):
        return all(_is_static(one) for one in type_.fields)
    return isinstance(type_, TensorType) and not is_dynamic(type_)


def _kernel(call: Call) -> tuple[Function, list[Any]]:
    """Return a function of the values that a call takes, and these; constants stay inside."""
    if isinstance(call.op, Function):
        return call.op, list(call.args)
    inputs = [arg for arg in call.args if not isinstance(arg, Constant)]
    params = [Var(f"p{at}", one.struct_info, dialect="relay") for at, one in enumerate(inputs)]
    given = iter(params)
    args = [arg if isinstance(arg, Constant) else next(given) for arg in call.args]
    return Function(params, call.with_fields(args=args), attrs={"Primitive": 1}), inputs


@relay_pass("ManifestAlloc", 0, ["InferType"])
def ManifestAlloc(mod: IRModule, device: Any = "cpu") -> IRModule:
    """Let each call of an operator write into memory that the program allocates, on a device (or
    the host of a `CompilationConfig`). Results whose sizes are computed stay results.
    """
    host = device.host_virtual_device if isinstance(device, CompilationConfig) else device
    mod = infer_module(ToANormalForm()(infer_module(mod)))
    for variable, function in functions_of(mod):
        if not is_closed(function):
            body = _Manifest(virtual_device(host)).scope(function.body)
            mod[variable] = function.with_fields(body=body)
    return infer_module(mod)


# The ends of lives


def _with_ends(expr: Any) -> Any:
    """Return a scope that says of each variable that it binds where it is used for the last time,
    unless that is the result.
    """
    bindings, result = chain_of(expr)
    last: dict[Var, int] = {}
    bound = {variable for variable, _ in bindings}
    for place, (variable, value) in enumerate(bindings):
        last[variable] = place
        last.update({one: place for one in variables_in(value) if one in bound})
    for one in variables_in(result):
        last.pop(one, None)
    ends: dict[int, list[Var]] = {}
    for variable, place in last.items():
        if _is_killed(variable):
            ends.setdefault(place, []).append(variable)
    made: list[Binding] = []
    for place, (variable, value) in enumerate(bindings):
        made.append((variable, with_scopes(value, _with_ends)))
        made += [(Var("killed", dialect="relay"), kill(one)) for one in ends.get(place, ())]
    return mk_let(made, with_scopes(result, _with_ends))


def _is_killed(variable: Var) -> bool:
    type_ = variable.checked_type
    is_nothing = isinstance(type_, TupleType) and not type_.fields
    return not is_nothing and not isinstance(type_, FuncType)


@relay_pass("ManifestLifetimes", 0, ["InferType"])
def ManifestLifetimes(mod: IRModule) -> IRModule:
    """State after the last use of each variable that a let binds that it is not used any more
    (``memory.kill``).
    """
    mod = infer_module(mod)
    if not all(isinstance(function.body, Let) for _, function in functions_of(mod)):
        mod = infer_module(ToANormalForm()(mod))
    for variable, function in functions_of(mod):
        if not is_closed(function):
            mod[variable] = function.with_fields(body=_with_ends(function.body))
    return infer_module(mod)


# Back


class _Results:
    """Writes a function whose calls give results, where they wrote to memory."""

    def __init__(self) -> None:
        self.values: dict[Var, Any] = {}  # tensors in memory → what was written there
        self.bound: dict[Var, Any] = {}
        self.empty: set[Var] = set()  # tensors to which nothing is written yet
        self.waiting: list[Binding] = []  # what refers to them

    def scope(self, expr: Any) -> Any:
        """Return a scope without memory."""
        bindings, result = chain_of(expr)
        made: list[Binding] = []
        for variable, value in bindings:
            value = with_scopes(value, self.scope)
            if is_memory_call(value, "memory.alloc_tensor"):
                self.empty.add(variable)
            elif is_memory_call(value, "vm.invoke_tvm_op"):
                made += self.invoked(variable, value)
                waiting, self.waiting = self.waiting, []
                for one in waiting:
                    made += self.kept(*one)
            elif is_memory_call(value, "vm.shape_func"):
                raise UnsupportedError(
                    "vm.shape_func: shapes that are written to memory are not compiled",
                    notes=("leave results of computed sizes as they are, as ManifestAlloc does",),
                    span=value.span,
                )
            elif not is_memory_call(value, *_ALLOCATING):
                made += self.kept(variable, value)
        return mk_let(made, substitute(with_scopes(result, self.scope), self.values))

    def kept(self, variable: Var, value: Any) -> list[Binding]:
        """Return a binding that stays; later, if it refers to what is not computed yet."""
        if self.empty and any(one in self.empty for one in variables_in(value)):
            self.bound[variable] = value
            self.waiting.append((variable, value))
            return []
        value = substitute(value, self.values)
        self.bound[variable] = value
        return [(variable, value)]

    def invoked(self, variable: Var, call: Call) -> list[Binding]:
        """Return the call of a kernel, and note what its outputs are."""
        kernel, inputs, outputs = [self.bound.get(arg, arg) for arg in call.args]
        fields = [outputs] if not isinstance(outputs, Tuple) else outputs.fields
        given = inputs.fields if isinstance(inputs, Tuple) else [inputs]
        result = Call(kernel, [substitute(one, self.values) for one in given], span=call.span)
        value = Var(variable.name_hint, dialect="relay")
        made: list[Binding] = [(value, result)]
        is_tuple = len(fields) > 1 or isinstance(
            getattr(kernel.checked_type, "ret_type", None), TupleType
        )
        for place, out in enumerate(fields):
            one = value
            if is_tuple:
                one = Var(out.name_hint, dialect="relay")
                made.append((one, TupleGetItem(value, place)))
            self.values[out] = one
            self.empty.discard(out)
        return made


_ALLOCATING = ("memory.alloc_storage", "memory.alloc_tensor", "memory.kill")


def without_allocations(mod: IRModule) -> IRModule:
    """Return a module whose calls give results: calls that wrote to memory do, and nothing says
    where memory is taken or given back. A module without such calls is returned as it is.
    """
    names = ("vm.invoke_tvm_op", "vm.shape_func", *_ALLOCATING)
    chosen = [
        (variable, function)
        for variable, function in functions_of(mod)
        if any(is_memory_call(node, *names) for node in post_order(function.body))
    ]
    if not chosen:
        return mod
    mod = infer_module(mod.shallow_copy())
    for variable, _ in chosen:
        function: Any = mod[variable]
        mod[variable] = function.with_fields(body=_Results().scope(function.body))
    return mod


