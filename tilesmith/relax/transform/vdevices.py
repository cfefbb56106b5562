"""UpdateVDevice, RealizeVDevice: on which of the module's devices tensors live.

    lv = R.add(x, y)                              lv: R.Tensor((2,), "float32", "cuda:0") = …
    lv1 = R.hint_on_device(lv, cuda)       →      gv = R.multiply(lv, z)
    gv = R.multiply(lv1, z)

A hint becomes a fact about the tensor, which then holds for what it is computed from and with;
where a tensor is on another device already, the hint becomes a copy.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, VDevice, structural_equal
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import bindings_of
from tilesmith.relax.expr import (
    Binding,
    Call,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.errors import ConfigError, TypeMismatchError

_HINT = operators.hint_on_device.op
_COPY = operators.to_vdevice.op


def _with_device(info: StructInfo, device: Any, only: Any = None) -> StructInfo:
    """Return a struct info with its tensors on a device: those without one, or those on
    ``only``.
    """
    if isinstance(info, TensorStructInfo):
        if only is None and info.vdevice is not None:
            return info
        if only is not None and not _same(info.vdevice, only):
            return info
        return TensorStructInfo(info.shape, info.dtype, device, info.ndim)
    if isinstance(info, TupleStructInfo):
        fields = [_with_device(field, device, only) for field in info.fields]
        same = all(a is b for a, b in zip(fields, info.fields))
        return info if same else TupleStructInfo(tuple(fields))
    if isinstance(info, FuncStructInfo) and only is not None and info.params is not None:
        params = [_with_device(param, device, only) for param in info.params]
        return FuncStructInfo(params, _with_device(info.ret, device, only), info.purity)
    return info


def _wanted(call: Any) -> Any:
    """Return the device that a hint or a copy names."""
    return call.attrs.dst_vdevice


def _same(a: Any, b: Any) -> bool:
    return a is b or (a is not None and b is not None and structural_equal(a, b))


class _Update(PyExprMutator):
    """Replaces one device by another in all struct infos and attributes."""

    def __init__(self, mod: IRModule, old: Any, new: Any) -> None:
        super().__init__(mod)
        self.old, self.new = old, new

    def visit_struct_info(self, info: StructInfo) -> StructInfo:
        """Replace the device of tensors."""
        return _with_device(info, self.new, self.old)

    def visit_var_def_(self, var: Var) -> Var:
        """Bind a variable with the new device."""
        info = self.visit_struct_info(known_struct_info(var))
        if info is var.struct_info:
            return var
        made = type(var)(var.name_hint, info, var.span)
        self.set_var_remap(var, made)
        return made

    def visit_call_(self, op: Call) -> Any:
        """Replace the device that a hint or a copy names."""
        call = self.visit_expr_post_order(op)
        if isinstance(call, Call) and call.op in (_HINT, _COPY):
            if _same(_wanted(call), self.old):
                attrs = {"dst_vdevice": self.new}
                return Call(call.op, call.args, attrs, call.sinfo_args, call.span)
        return call


@compiler_pass("UpdateVDevice")
def update_vdevice(mod: IRModule, new_vdevice: VDevice, index: int) -> IRModule:
    """Replaces the module's device number ``index`` by another one, for all tensors on it.

    Raises ConfigError if the module has no such device.
    """
    if not isinstance(new_vdevice, VDevice):
        raise TypeMismatchError(
            f"UpdateVDevice takes a VDevice, got {type(new_vdevice).__name__}",
            notes=("make one: tilesmith.ir.VDevice('cuda', 0)",),
        )
    devices = list(mod.global_infos.get("vdevice", ()))
    if not 0 <= index < len(devices):
        raise ConfigError(
            f"UpdateVDevice: there is no device number {index}, the module has {len(devices)}"
        )
    old, devices[index] = devices[index], new_vdevice
    infos = {**mod.global_infos, "vdevice": devices}
    result = IRModule(dict(mod.functions), mod.type_definitions, mod.attrs, infos)
    mutator = _Update(result, old, new_vdevice)
    for name, function in list(result.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            result[name] = mutator.visit_expr(function)
    for name, function in result.functions.items():
        if isinstance(function, Function):
            name.describe(function.struct_info)
    return result


class _Devices:
    """Finds on which device each variable of a function lives."""

    def __init__(self, function: Any) -> None:
        self.bindings = list(bindings_of(function))
        self.known: dict[Var, Any] = {}
        for var in [*function.params, *[binding.var for binding in self.bindings]]:
            device = _device(known_struct_info(var))
            if device is not None:
                self.known[var] = device
        result, wanted = function.body.body, _device(function.ret_struct_info)
        if wanted is not None and isinstance(result, Var):
            self.known.setdefault(result, wanted)
        for binding in self.bindings:
            self.forward(binding)
        for binding in reversed(self.bindings):
            self.backward(binding)
        for binding in self.bindings:
            self.forward(binding)

    def backward(self, binding: Binding) -> None:
        """Let operands live where the result does."""
        value, device = binding.value, self.known.get(binding.var)
        if device is not None and not (isinstance(value, Call) and value.op in (_HINT, _COPY)):
            for operand in _operands(value):
                self.known.setdefault(operand, device)

    def forward(self, binding: Binding) -> None:
        """Let the result live where its operands do, or where a hint says; what is not known to be
        elsewhere is there already.
        """
        value = binding.value
        if isinstance(value, Call) and value.op in (_HINT, _COPY):
            self.known.setdefault(binding.var, _wanted(value))
            if value.op is _HINT and isinstance(value.args[0], Var):
                self.known.setdefault(value.args[0], _wanted(value))
            return
        found = [self.known[one] for one in _operands(value) if one in self.known]
        if found and all(_same(one, found[0]) for one in found):
            self.known.setdefault(binding.var, found[0])


def _device(info: StructInfo) -> Any:
    return info.vdevice if isinstance(info, TensorStructInfo) else None


def _operands(value: Any) -> list[Var]:
    """Return the tensors that an operator computes its result from."""
    if isinstance(value, Var):
        return [value]
    if isinstance(value, TupleGetItem):
        return []
    if not isinstance(value, Call) or isinstance(value.op, (GlobalVar, Var, Function)):
        return []
    found: list[Any] = []
    for arg in value.args:
        found += arg.fields if isinstance(arg, Tuple) else [arg]
    is_tensor = [isinstance(one, Var) and _is_tensor(one) for one in found]
    return [one for one, chosen in zip(found, is_tensor) if chosen]


def _is_tensor(var: Var) -> bool:
    return isinstance(known_struct_info(var), TensorStructInfo)


class _Realize(PyExprMutator):
    """Writes the devices into struct infos; hints go away or become copies."""

    def __init__(self, mod: IRModule, devices: _Devices) -> None:
        super().__init__(mod)
        self.devices = devices.known

    def visit_var_def_(self, var: Var) -> Var:
        """Bind a variable with its device."""
        device = self.devices.get(var)
        info = (
            known_struct_info(var)
            if device is None
            else _with_device(known_struct_info(var), device)
        )
        if info is var.struct_info:
            return var
        made = type(var)(var.name_hint, info, var.span)
        self.set_var_remap(var, made)
        return made

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Bind a value on its device; a hint about a tensor that is there binds nothing."""
        value, var = binding.value, binding.var
        if isinstance(value, Call) and value.op in (_HINT, _COPY):
            source = self.visit_expr(value.args[0])
            wanted = _wanted(value)
            if _same(_device(known_struct_info(source)), wanted):
                if value.op is _HINT or isinstance(source, Var):
                    self._alias(var, source)
                    return
            value = operators.to_vdevice(source, wanted)
        else:
            value = self.visit_expr(value)
        device = self.devices.get(var)
        if value is binding.value and device is None:
            self.builder_.emit_normalized(binding)
            return
        info = known_struct_info(value)
        if device is not None:
            if isinstance(value, Call) and len(value.sinfo_args) == 1:
                infos = [_with_device(value.sinfo_args[0], device)]
                value = Call(value.op, value.args, value.attrs, infos, value.span)
            info = _with_device(info, device)
        new = type(var)(var.name_hint, info, var.span)
        self.set_var_remap(var, new)
        self.builder_.emit_normalized(VarBinding(new, value, binding.span))

    def _alias(self, var: Var, source: Any) -> None:
        if self.builder_.current_block_is_dataflow() and type(var) is Var:
            new = Var(var.name_hint, known_struct_info(source), var.span)
            self.builder_.emit_normalized(VarBinding(new, source))  # it is seen outside
            self.set_var_remap(var, new)
        else:
            self.set_var_remap(var, source)


@compiler_pass("RealizeVDevice")
def realize_vdevice(mod: IRModule) -> IRModule:
    """Gives each tensor the device that hints, copies and annotations imply for it.

    A hint about a tensor on another device becomes a copy (``to_vdevice``); copies to the device
    where a tensor is already go away.
    """
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or function.body is None:
            continue
        devices = _Devices(function)
        if not devices.known:
            continue
        changed = _Realize(mod, devices).visit_expr(function)
        if changed is not function:
            ret = _with_body_devices(function.ret_struct_info, changed.body)
            mod[name] = made = changed.with_fields(ret_struct_info=ret)
            name.describe(made.struct_info)
    return mod


def _with_body_devices(info: StructInfo, body: SeqExpr) -> StructInfo:
    """Return the struct info of a result with the devices that the body's has."""
    found = known_struct_info(body)
    if isinstance(info, TupleStructInfo) and isinstance(found, TupleStructInfo):
        pairs = zip(info.fields, found.fields)
        return TupleStructInfo(tuple([_merged(field, own) for field, own in pairs]))
    return _merged(info, found)


def _merged(info: StructInfo, found: StructInfo) -> StructInfo:
    device = _device(found)
    return info if device is None else _with_device(info, device)
