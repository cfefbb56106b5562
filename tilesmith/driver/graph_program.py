"""Functions that only the runtime can carry out: programs of steps (`runtime.program`).

    main(x: R.Object, y: R.Tensor(ndim=-1)):          main: steps
        a = R.call_packed("env.decode", x)                call registered "env.decode"
        b = R.match_cast(y, R.Tensor((n, 4)))      →      check y, learn n
        c = R.call_tir(cls.add, (b, b), …)                part main__part0(b)
        d = R.call_tir(cls.exp, (c,), …)
        return (a, d)                                     return (a, d)

Runs of bindings whose shapes are known become native functions of their own, the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith import relax
from tilesmith.driver.graph_errors import cast_text, not_lowered
from tilesmith.driver.graph_liveness import KEPT_PARAMS
from tilesmith.driver.graph_loop import find_loop
from tilesmith.driver.graph_places import HOST, Places, is_on_host
from tilesmith.driver.graph_values import ConstantTable, static_shape
from tilesmith.ir import FloatImm, GlobalVar, IntImm, IRModule, Op, OperatorSpan, PrimExpr, Var
from tilesmith.ir import expr as scalar
from tilesmith.ir.queries import nodes
from tilesmith.relax import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.relax.analysis import used_vars
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.relations import definable_symbolic_vars, symbolic_vars
from tilesmith.relax.spec import Execution
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import PrimFunc, Select

__all__ = ["Programs", "divide", "reason_for_program"]

_NATIVE = (Execution.CALL_TIR, Execution.CALL_DPS_PACKED, Execution.KERNEL)
"""Calls that native code carries out; an operator without a kernel is reported there."""
_ALSO_NATIVE = (
    *_NATIVE, Execution.SHAPE_OF, Execution.TENSOR_TO_SHAPE, Execution.SHAPE_TO_TENSOR,
    Execution.APPEND,
)  # fmt: skip
_RUNTIME_VALUES = (GlobalVar, relax.ExternFunc, relax.StringImm, relax.DataTypeImm)

_SIZE_WORDS: dict[type, str] = {
    scalar.Add: "add", scalar.Sub: "sub", scalar.Mul: "mul", scalar.FloorDiv: "floordiv",
    scalar.FloorMod: "floormod", scalar.Div: "div", scalar.Mod: "mod", scalar.Min: "min",
    scalar.Max: "max", scalar.EQ: "eq", scalar.Or: "or",
}  # fmt: skip

_HOST_WORDS = {
    Execution.SHAPE_OF: "shape_of",
    Execution.TENSOR_TO_SHAPE: "tensor_to_shape",
    Execution.SHAPE_TO_TENSOR: "shape_to_tensor",
    Execution.APPEND: "append",
    Execution.ALLOC_STORAGE: "alloc_storage",
    Execution.ALLOC_TENSOR: "alloc_tensor",
    Execution.TENSOR_IN_STORAGE: "tensor_in_storage",
}


_KERNELS = (Execution.CALL_TIR, Execution.KERNEL, Execution.CALL_KERNEL)
_ON_DEVICES = (*_KERNELS, Execution.SHAPE_OF)
"""Those that need no value of the host's, which native code for devices carries out."""


@dataclass
class Programs:
    """A module divided into native functions and programs."""

    module: IRModule
    device_type: int | None = None
    """The type of the devices on which tensors are, unless they name the host: native code of the
    host cannot read them."""
    where: Places | None = None
    """What the tensors of a model for devices say of their places."""
    places: dict[str, int] = field(default_factory=dict)
    """The position of the device of those native functions that are not on the first one."""
    on_host: set[str] = field(default_factory=set)
    """Those of the native functions of a model for a device that compute on the host."""
    native: list[GlobalVar] = field(default_factory=list)
    """The functions that become native code."""
    entries: dict[str, Any] = field(default_factory=dict)
    """The programs by name, as `runtime.program` reads them."""
    parts: list[str] = field(default_factory=list)
    """The functions that only programs call."""


def divide(
    module: IRModule,
    names: list[GlobalVar],
    constants: ConstantTable,
    device_type: int | None = None,
) -> Programs:
    """Decide for each public function (``names``) whether it becomes native code or a program.
    ``device_type``: its tensors are in the memory of such a device.
    """
    where = None if device_type is None else Places(module, names, device_type)
    made = Programs(module.shallow_copy(), device_type, where)
    reasons = {name: reason_for_program(module, name) for name in names}
    if where is not None:
        for name, reason in reasons.items():
            reasons[name] = reason or _reason_on_device(module, name, where)
            if reasons[name] is None:
                made.places[name.name_hint] = max(where.of_function(module[name]), default=0)
    made.native += [name for name, reason in reasons.items() if reason is None]
    for name, reason in reasons.items():
        if reason is not None:
            record_fallback("code", f"'{name.name_hint}'", f"it runs step by step: {reason}")
            _write(made, name, constants)
    public = {name.name_hint for name in names}
    made.parts += [name for name in made.entries if name not in public]
    return made


# What native code cannot do


def is_plain(info: StructInfo | None) -> bool:
    """Return whether native code can hold a value: a tensor of known shape, a shape, a number."""
    if isinstance(info, TensorStructInfo):
        return static_shape(info) is not None and not info.dtype.is_void
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    if isinstance(info, TupleStructInfo):
        return all(is_plain(one) for one in info.fields)
    return isinstance(info, PrimStructInfo)


def reason_for_program(module: IRModule, name: GlobalVar) -> str | None:
    """Return why a function cannot become native code, or None."""
    function: Any = module[name]
    for param in function.params:
        if not is_plain(param.struct_info):
            return f"the parameter '{param.name_hint}' is {param.struct_info}"
    return _reason_inside(module, name, ())


def _reason_inside(module: IRModule, name: GlobalVar, open_: tuple[GlobalVar, ...]) -> str | None:
    function: Any = module[name]
    calls: list[Any] = [b.value for b in nodes(function.body, relax.Binding)]
    own = [call for call in calls if isinstance(call, relax.Call) and call.op is name]
    is_loop = len(own) == 1 and find_loop(name, function) is not None
    for value in [*calls, *[one.body for one in nodes(function.body, relax.SeqExpr)]]:
        if isinstance(value, relax.Call):
            if value.op is name and is_loop:
                continue
            reason = _reason_of_call(module, value, (*open_, name))
        else:
            held = next((one for one in _leaves(value) if isinstance(one, _RUNTIME_VALUES)), None)
            reason = None if held is None else f"a value is a {type(held).__name__}"
        if reason is not None:
            return reason
    return None


def _reason_on_device(module: IRModule, name: GlobalVar, where: Places) -> str | None:
    """Return why the host has to see values of a function that runs on a device, or None."""
    function: Any = module[name]
    if not has_memory(function.ret_struct_info):
        return "its result has a number"
    places = where.of_function(function)
    if HOST in places:
        return "some of its tensors are on the host"
    if len(places) > 1:
        return "its tensors are on several devices"
    for value in [one.value for one in nodes(function.body, relax.Binding)]:
        if isinstance(value, relax.If):
            return "it has a branch"
        op = value.op if isinstance(value, relax.Call) else None
        if isinstance(op, GlobalVar) and isinstance(module.functions.get(op), relax.Function):
            reason = _reason_on_device(module, op, where)
        else:
            spec = op.spec if isinstance(op, Op) else None
            known = spec is None or spec.view_of is not None or spec.execution in _ON_DEVICES
            reason = None if known else f"it calls {getattr(op, 'name', op)}"
        if reason is not None:
            return reason
    return None


def has_memory(info: StructInfo | None) -> bool:
    """Return whether a value has no numbers, which the host writes."""
    if isinstance(info, TupleStructInfo):
        return all(has_memory(one) for one in info.fields)
    return not isinstance(info, PrimStructInfo)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, relax.Tuple):
        return [leaf for one in value.fields for leaf in _leaves(one)]
    return [value]


def _reason_of_call(module: IRModule, call: relax.Call, open_: tuple[GlobalVar, ...]) -> str | None:
    op = call.op
    if isinstance(op, GlobalVar):
        callee = module.functions.get(op)
        if isinstance(callee, PrimFunc):
            return _reason_of_operands(call.args)
        if not isinstance(callee, relax.Function) or callee.body is None:
            return f"it calls '{op.name_hint}' directly"
        if op in open_:
            return f"'{op.name_hint}' calls itself, but is no loop"
        return _reason_inside(module, op, open_)
    spec = op.spec if isinstance(op, Op) else None
    if spec is None:
        return f"it calls {getattr(op, 'global_symbol', 'a value')}"
    if spec.execution not in _ALSO_NATIVE:
        return f"it calls {op.name}"
    if spec.execution is Execution.KERNEL:
        return None
    first = 1 if spec.execution in _NATIVE else 0
    return _reason_of_operands(call.args[first:])


def _reason_of_operands(operands: Sequence[Any]) -> str | None:
    held = [leaf for operand in operands for leaf in _leaves(operand)]
    strange = next((leaf for leaf in held if isinstance(leaf, _RUNTIME_VALUES)), None)
    return None if strange is None else f"an argument is a {type(strange).__name__}"


# Writing programs


def _write(made: Programs, name: GlobalVar, constants: ConstantTable) -> None:
    """Write the program of a function, and those of the functions that it calls."""
    pending = [name]
    while pending:
        current = pending.pop()
        symbol = current.name_hint
        if symbol in made.entries or current in made.native:
            continue
        writer = _Writer(made, current, constants)
        made.entries[symbol] = writer.function()
        pending += writer.called


class _Writer:
    """Writes the program of one function."""

    def __init__(self, made: Programs, name: GlobalVar, constants: ConstantTable) -> None:
        self.made = made
        self.name = name.name_hint
        self.source: Any = made.module[name]
        self.constants = constants
        self.called: list[GlobalVar] = []
        self.registers: dict[relax.Var, int] = {}
        self.sizes: dict[Var, str] = {}

    def function(self) -> dict[str, Any]:
        params = []
        for param in self.source.params:
            self._register(param)
            params.append({"name": param.name_hint, "type": self.type(param.struct_info)})
        body = self.body(self.source.body)
        return {
            "params": params,
            "registers": len(self.registers),
            "body": body,
            "result": self.type(self.source.ret_struct_info),
        }

    def _register(self, var: relax.Var) -> int:
        return self.registers.setdefault(var, len(self.registers))

    # Data

    def size(self, expr: PrimExpr) -> Any:
        """Write a size (or another number)."""
        if isinstance(expr, (IntImm, FloatImm)):
            return bool(expr.value) if expr.dtype.is_bool else expr.value
        if isinstance(expr, Var):
            if expr not in self.sizes:
                taken = self.sizes.values()
                name = expr.name
                while name in taken:
                    name += "_"
                self.sizes[expr] = name
            return self.sizes[expr]
        if isinstance(expr, scalar.Cast):
            return self.size(expr.value)
        if isinstance(expr, Select):
            parts = (expr.condition, expr.true_value, expr.false_value)
            return ["select", *[self.size(part) for part in parts]]
        word = _SIZE_WORDS.get(type(expr))
        if word is None:
            raise UnsupportedError(
                f"'{self.name}': the size {expr} cannot be computed by the runtime",
                notes=("sizes are sums, products, quotients, minima and maxima",),
            )
        assert isinstance(expr, scalar.BinaryOp)
        return [word, self.size(expr.a), self.size(expr.b)]

    def type(self, info: StructInfo | None) -> dict[str, Any]:
        """Write a type."""
        if isinstance(info, TensorStructInfo):
            shape = static_shape(info)
            sizes = None if shape is None else [self.size(size) for size in shape]
            dtype = "" if info.dtype.is_void else str(info.dtype)
            found = {"kind": "tensor", "dtype": dtype, "ndim": info.ndim, "shape": sizes}
            place = 0 if self.made.where is None else self.made.where.of(info)
            if place:
                found |= {"on_host": True} if place == HOST else {"device": place}
            return found
        if isinstance(info, ShapeStructInfo):
            sizes = None if info.values is None else [self.size(size) for size in info.values]
            return {"kind": "shape", "ndim": info.ndim, "shape": sizes}
        if isinstance(info, PrimStructInfo):
            value = None if info.value is None else self.size(info.value)
            return {"kind": "prim", "dtype": str(info.dtype), "value": value}
        if isinstance(info, TupleStructInfo):
            return {"kind": "tuple", "fields": [self.type(one) for one in info.fields]}
        return {"kind": "object"}

    def value(self, expr: Any) -> dict[str, Any]:
        """Write a value."""
        if isinstance(expr, relax.Var):
            return {"register": self.registers[expr]}
        if isinstance(expr, relax.Tuple):
            return {"tuple": [self.value(one) for one in expr.fields]}
        if isinstance(expr, relax.TupleGetItem):
            return {"field": self.value(expr.tuple_value), "index": expr.index}
        if isinstance(expr, relax.Constant):
            return {"constant": self.constants.position(expr)}
        if isinstance(expr, relax.ShapeExpr):
            return {"shape": [self.size(size) for size in expr.values]}
        if isinstance(expr, relax.PrimValue):
            return {"number": self.size(expr.value)}
        if isinstance(expr, relax.StringImm):
            return {"text": expr.value}
        if isinstance(expr, relax.DataTypeImm):
            return {"dtype": str(expr.value)}
        if isinstance(expr, GlobalVar):
            found = self.made.module.functions.get(expr)
            if isinstance(found, relax.Function):
                self.called.append(expr)
                return {"function": expr.name_hint}
            expr = found
        if isinstance(expr, relax.ExternFunc):
            return {"registered": expr.global_symbol}
        raise UnsupportedError(f"'{self.name}': {type(expr).__name__} cannot be compiled: {expr}")

    # Steps

    def body(self, sequence: relax.SeqExpr) -> dict[str, Any]:
        """Write a sequence: steps, and native parts for runs of kernel calls."""
        bindings = [binding for block in sequence.blocks for binding in block.bindings]
        steps: list[dict[str, Any]] = []
        run: list[relax.VarBinding] = []
        for number, binding in enumerate(bindings):
            if isinstance(binding, relax.VarBinding) and self._fits_part(binding):
                if self._changes_place(run, binding):
                    steps += self._run(run, bindings[number:], sequence.body)
                    run = []
                run.append(binding)
                continue
            steps += self._run(run, bindings[number:], sequence.body)
            run = []
            steps.append(self._step(binding))
        steps += self._run(run, [], sequence.body)
        return {"steps": steps, "value": self.value(sequence.body)}

    def _fits_part(self, binding: relax.VarBinding) -> bool:
        """Return whether native code can carry out a binding between other steps."""
        value = binding.value
        if not all(is_plain(var.struct_info) for var in used_vars(value)):
            return False
        if isinstance(value, relax.Call) and self._is_kernel(value.op):
            return True  # it has no result
        if not is_plain(binding.var.struct_info):
            return False
        on_device = self.made.device_type is not None
        if on_device and not has_memory(binding.var.struct_info):
            return False
        if isinstance(value, relax.Call):
            spec = value.op.spec if isinstance(value.op, Op) else None
            if on_device:
                return spec is not None and spec.execution in _KERNELS
            if spec is None or spec.execution is Execution.CALL_DPS_PACKED:
                return spec is not None and _reason_of_operands(value.args[1:]) is None
            return spec.execution in (*_NATIVE, Execution.CALL_KERNEL, Execution.APPEND)
        plain = (relax.Tuple, relax.TupleGetItem, relax.Var, relax.Constant, relax.ShapeExpr)
        return isinstance(value, plain) and not any(
            isinstance(leaf, _RUNTIME_VALUES) for leaf in _leaves(value)
        )

    def _changes_place(self, run: list[relax.VarBinding], binding: relax.VarBinding) -> bool:
        """Return whether a binding computes on another device than the run before it."""
        place = self._place_of([binding])
        return place is not None and self._place_of(run) not in (None, place)

    def _place_of(self, run: Sequence[relax.Binding]) -> int | None:
        """Return the place where bindings are computed; None if they compute nothing."""
        if self.made.where is None:
            return None
        for one in run:
            place = self.made.where.of_call(one, self.name)
            if place is not None:
                return place
        return None

    def _is_kernel(self, callee: Any) -> bool:
        if not isinstance(callee, GlobalVar):
            return False
        return isinstance(self.made.module.functions.get(callee), PrimFunc)

    def _run(
        self, run: list[relax.VarBinding], later: list[relax.Binding], body: Any
    ) -> list[dict[str, Any]]:
        """Write a run of bindings: as one native part if there are calls among them."""
        if not any(isinstance(binding.value, relax.Call) for binding in run):
            return [self._step(binding) for binding in run]
        used = {var for value in [*[one.value for one in later], body] for var in used_vars(value)}
        outputs = [binding.var for binding in run if binding.var in used]
        bound = {binding.var for binding in run}
        inputs = dict.fromkeys([v for b in run for v in used_vars(b.value) if v not in bound])
        params: list[relax.Var] = list(inputs)
        arguments = [self.value(var) for var in params]
        sizes = _sizes_beside(run, params)
        if sizes:
            params.append(relax.Var("sizes", ShapeStructInfo(sizes)))
            arguments.append({"shape": [self.size(size) for size in sizes]})
        name = f"{self.name}__part{len(self.made.native)}"
        blocks = [relax.BindingBlock(tuple(run))]
        part = relax.Function(
            params, relax.SeqExpr(blocks, relax.Tuple(outputs)), None, False,
            {"global_symbol": name, "relax.force_pure": True,
             KEPT_PARAMS: [number for number, var in enumerate(inputs) if var in used]},
        )  # fmt: skip
        variable = GlobalVar(name)
        self.made.module[variable] = copy_with_new_vars(part)
        self.made.native.append(variable)
        self.made.parts.append(name)
        place = self._place_of(run) or 0
        if place == HOST:
            self.made.on_host.add(name)
        self.made.places[name] = place
        places = [self._register(var) for var in outputs]
        step = {"do": "part", "function": name, "arguments": {"tuple": arguments}, "to": places}
        return [step]

    def _step(self, binding: relax.Binding) -> dict[str, Any]:
        value = binding.value
        step = self._step_of(value)
        if isinstance(binding, relax.MatchCast):
            step["type"] = self.type(binding.struct_info)
            is_users = not isinstance(binding.span, OperatorSpan) or binding.span.name
            named = f"match_cast of '{binding.var.name_hint}'"
            step["what"] = named if is_users else cast_text(binding, self.name)
        elif step["do"] == "call" and isinstance(value, relax.Call) and value.sinfo_args:
            step["type"] = self.type(value.struct_info)
            step["what"] = f"'{binding.var.name_hint}' in '{self.name}'"
        step["to"] = self._register(binding.var)
        return step

    def _step_of(self, value: Any) -> dict[str, Any]:
        if isinstance(value, relax.If):
            condition = self.value(value.cond)
            then, otherwise = self.body(value.true_branch), self.body(value.false_branch)
            return {"do": "if", "condition": condition, "then": then, "else": otherwise}
        if not isinstance(value, relax.Call):
            return {"do": "value", "value": self.value(value)}
        spec = value.op.spec if isinstance(value.op, Op) else None
        if spec is None:
            return self._called(value.op, relax.Tuple(value.args))
        execution = spec.execution
        if execution is Execution.CALL_PACKED:
            return self._called(value.args[0], relax.Tuple(value.args[1:]))
        if execution is Execution.CALL_DPS_PACKED:
            results = self.type(value.sinfo_args[0])
            return {**self._called(value.args[0], value.args[1]), "do": "fill", "out": results}
        if execution in (Execution.CALL_BUILTIN, Execution.INVOKE_CLOSURE):
            return self._called(value.args[0], value.args[1])
        if execution is Execution.MAKE_CLOSURE:
            return {**self._called(value.args[0], value.args[1]), "do": "closure"}
        word = _HOST_WORDS.get(execution) or spec.host
        if word:
            arguments = self.value(relax.Tuple(value.args))
            if word == "to_device":
                place = self._place_of_copy(value)
                arguments["tuple"].append({"number": place == HOST or place})
            return {"do": "host", "name": word, "arguments": arguments}
        raise not_lowered(self.name, value)

    def _place_of_copy(self, copy: relax.Call) -> int:
        where, info = self.made.where, copy.struct_info
        if where is None:
            return HOST if is_on_host(info) else 0
        return where.of(info)

    def _called(self, callee: Any, arguments: Any) -> dict[str, Any]:
        return {
            "do": "call", "callee": self.value(callee), "arguments": self.value(arguments)
        }  # fmt: skip


def _sizes_beside(run: list[relax.VarBinding], params: list[relax.Var]) -> list[Var]:
    """Return the symbolic sizes of a run that its parameters do not define."""
    known = {size for p in params for size in definable_symbolic_vars(known_struct_info(p))}
    used: dict[Var, None] = {}
    for node in [*params, *[binding.var for binding in run]]:
        used.update(dict.fromkeys(symbolic_vars(known_struct_info(node))))
    for binding in run:
        used.update(dict.fromkeys(symbolic_vars(binding.value)))
    return [size for size in used if size not in known]
