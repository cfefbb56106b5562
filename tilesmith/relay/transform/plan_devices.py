"""PlanDevices: finds out on which device each value is, and copies what is needed on another.

The operands and the result of an operator are on one device. ``annotation.on_device`` says which,
and is the place where a copy may be made; what nothing says is on the device that is the default.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relay.adt import Match, pattern_vars
from tilesmith.relay.expr import Call, If, Let, Tuple, TupleGetItem, branch
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.annotation.annotation import (
    device_copy,
    function_on_device,
    virtual_device,
)
from tilesmith.relay.rewriting import with_type_of
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, is_closed, parts, post_order, with_parts
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target.compilation_config import CompilationConfig
from tilesmith.target.virtual_device import VirtualDevice

__all__ = ["PlanDevices"]


def _is_call(node: Any, name: str) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name


class _Domains:
    """Sets of expressions that are on one device."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}
        self.device: dict[int, VirtualDevice] = {}

    def root(self, key: int) -> int:
        """Return what stands for the set of an expression."""
        path = []
        while self.parent.setdefault(key, key) != key:
            path.append(key)
            key = self.parent[key]
        for one in path:
            self.parent[one] = key
        return key

    def same(self, one: Any, other: Any) -> None:
        """State that two expressions are on one device."""
        first, second = self.root(id(one)), self.root(id(other))
        if first == second:
            return
        placed = self.device.get(first), self.device.get(second)
        if None not in placed and not _agree(*placed):
            raise TypeMismatchError(
                f"a value is on {_text(placed[1])}, and needed on {_text(placed[0])}",
                span=getattr(one, "span", None),
                notes=("relay.annotation.on_device(value, device) lets it be copied there",),
            )
        self.parent[second] = first
        if placed[0] is None and placed[1] is not None:
            self.device[first] = placed[1]

    def place(self, node: Any, device: VirtualDevice) -> None:
        """State the device of an expression."""
        root = self.root(id(node))
        known = self.device.get(root)
        if known is not None and not _agree(known, device):
            raise TypeMismatchError(
                f"a value cannot be on {_text(known)} and on {_text(device)}",
                span=getattr(node, "span", None),
                notes=("relay.annotation.on_device without constrain_result lets it be copied",),
            )
        self.device.setdefault(root, device)

    def of(self, node: Any, default: VirtualDevice) -> VirtualDevice:
        """Return the device of an expression."""
        return self.device.get(self.root(id(node)), default)


def _agree(one: VirtualDevice | None, other: VirtualDevice | None) -> bool:
    """Return whether two places are the same, as far as both say."""
    if one is None or other is None:
        return True
    return one.device_type == other.device_type and _number(one) == _number(other)


def _number(one: VirtualDevice) -> int:
    return int(one.device.device_id) if one.device is not None else 0


def _text(one: VirtualDevice | None) -> str:
    if one is None or (one.device is None and one.target is None):
        return "any device"
    return str(one.device) if one.device is not None else str(one.target)


def _connect(domains: _Domains, node: Any) -> None:
    """State what one node says about the devices of its parts."""
    if _is_call(node, "on_device"):
        attrs, body = node.attrs, node.args[0]
        if attrs.constrain_body:
            domains.place(body, attrs.virtual_device)
        if attrs.constrain_result:
            domains.place(node, attrs.virtual_device)
        if not attrs.constrain_body and not attrs.constrain_result:
            domains.same(node, body)
    elif _is_call(node, "device_copy"):
        domains.place(node.args[0], node.attrs.src_virtual_device)
        domains.place(node, node.attrs.dst_virtual_device)
    elif isinstance(node, Call) and isinstance(node.op, Op):
        for arg in node.args:
            domains.same(node, arg)
    elif isinstance(node, (Tuple, TupleGetItem)):
        for part in parts(node):
            domains.same(node, part)
    elif isinstance(node, Let):
        domains.same(node.var, node.value)
        domains.same(node, node.body)
    elif isinstance(node, If):
        domains.same(node, branch(node.true_branch))
        domains.same(node, branch(node.false_branch))
    elif isinstance(node, Match):
        for clause in node.clauses:
            domains.same(node, clause.rhs)
            for var in pattern_vars(clause.lhs):
                domains.same(node.data, var)
    elif isinstance(node, Call) and isinstance(node.op, Function):
        for param, arg in zip(node.op.params, node.args):
            domains.same(param, arg)
        domains.same(node, node.op.body)


def _stated(domains: _Domains, function: Function) -> None:
    """State what the attributes of a function say (`annotation.function_on_device`)."""
    devices = function.attrs.get("param_virtual_devices")
    for param, device in zip(function.params, devices or ()):
        domains.place(param, virtual_device(device))
    result = function.attrs.get("result_virtual_device")
    if result is not None:
        domains.place(function.body, virtual_device(result))


def _planned(function: Function, default: VirtualDevice) -> Function:
    domains = _Domains()
    nodes = list(post_order(function, lambda one: not is_closed(one)))
    _stated(domains, function)
    # what is said about devices comes before what follows from it
    for node in sorted(nodes, key=lambda one: not _is_call(one, "on_device")):
        if not is_closed(node):
            _connect(domains, node)
    done: dict[int, Any] = {}
    for node in nodes:
        if is_closed(node):
            done[id(node)] = node
            continue
        new = with_parts(node, [done[id(part)] for part in parts(node)])
        if _is_call(node, "on_device"):
            source = domains.of(node.args[0], default)
            target = domains.of(node, default)
            body = new.args[0]
            new = body if _agree(source, target) else device_copy(body, source, target)
        done[id(node)] = with_type_of(node, new)
    planned = done[id(function)]
    places = [domains.of(param, default) for param in function.params]
    placed: Function = function_on_device(planned, places, domains.of(function.body, default))
    return placed


@relay_pass("PlanDevices", 0, ["InferType"])
def PlanDevices(mod: IRModule, config: CompilationConfig) -> IRModule:
    """Place each value on a device: as ``annotation.on_device`` says, on that of the values that it
    is computed with, or on the default one of ``config`` (`target.make_compilation_config`). Where
    an annotation is between two devices, ``device_copy`` takes its place. Functions say where their
    parameters and results are (`annotation.function_on_device`).
    """
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_closed(function):
            mod[variable] = _planned(function, config.default_primitive_virtual_device)
    return infer_module(mod)
