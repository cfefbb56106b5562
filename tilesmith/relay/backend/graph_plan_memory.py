"""GraphPlanMemory: which values of a function of tensors share memory, and how much that saves.

    plan = GraphPlanMemory(InferType()(mod)["main"])
    plan.expr_to_storage_info[call].storage_ids       # one number for each tensor of a value
    print(plan.table())

Parameters and constants have memory of their own. A value that an operator computes lies at an
offset of one workspace, from the step that computes it to its last use; values with the same offset
have the same number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relax.analysis.queries import tensor_bytes
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.relax.type_views import struct_info_of
from tilesmith.relay.expr import Call, Constant, Let, Tuple, TupleGetItem, Var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.walks import post_order
from tilesmith.runtime.devices import Device
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.support.memory_planner import Allocation, plan_offsets
from tilesmith.target.virtual_device import VirtualDevice

__all__ = ["GraphPlanMemory", "StaticMemoryPlan", "StorageInfo"]

_ALIGNMENT = 64
_CPU = 1


class StorageInfo:
    """Where the tensors of a value lie: the numbers of their storages, the kinds of their devices,
    their sizes in bytes.
    """

    def __init__(self, sids: Sequence[int], dev_types: Sequence[int], sizes: Sequence[int]) -> None:
        if not len(sids) == len(dev_types) == len(sizes):
            raise ShapeError(
                f"{len(sids)} storages, {len(dev_types)} devices and {len(sizes)} sizes",
                notes=("each tensor has a storage, a device and a size",),
            )
        self._storages = tuple(sids)
        self._devices = tuple(dev_types)
        self._sizes = tuple(sizes)

    @property
    def storage_ids(self) -> tuple[int, ...]:
        """The number of the storage of each tensor."""
        return self._storages

    @property
    def device_types(self) -> tuple[int, ...]:
        """The kind of device of each tensor, as DLPack numbers them."""
        return self._devices

    @property
    def storage_sizes(self) -> tuple[int, ...]:
        """The bytes of each tensor."""
        return self._sizes

    storage_sizes_in_bytes = storage_sizes

    @property
    def virtual_devices(self) -> tuple[VirtualDevice, ...]:
        """The device of each tensor."""
        return tuple([VirtualDevice(Device(one, 0)) for one in self.device_types])


@dataclass(frozen=True)
class StaticMemoryPlan:
    """The storage of the values of a function, and the bytes that they need together, as
    `GraphPlanMemory` finds them.
    """

    expr_to_storage_info: Mapping[Any, StorageInfo]
    workspace_bytes: int = 0
    unshared_bytes: int = 0
    own_bytes: int = 0

    def table(self) -> str:
        """Return the figures as text."""
        saved = 100 * (1 - self.workspace_bytes / max(self.unshared_bytes, 1))
        numbers = {one for info in self.expr_to_storage_info.values() for one in info.storage_ids}
        rows = [
            ("storages", len(numbers)),
            ("parameters and constants, bytes", self.own_bytes),
            ("computed values, bytes without sharing", self.unshared_bytes),
            ("computed values, bytes with sharing", self.workspace_bytes),
        ]
        lines = [f"{name:<40} {count:>14,}" for name, count in rows]
        return "\n".join([*lines, f"{'saved':<40} {saved:>13.1f}%"])


@dataclass
class _Value:
    """A tensor that an operator computes, alive from one step to another."""

    size: int
    first: int
    last: int
    number: int = -1


def GraphPlanMemory(func: Function) -> StaticMemoryPlan:
    """Plan the memory of a function of tensors of known sizes, whose operators are called one after
    the other.
    """
    infer_module(IRModule.from_expr(func))
    plan = _Plan()
    for param in func.params:
        plan.own(param)
    for step, node in enumerate(post_order(func.body, lambda one: not isinstance(one, Function))):
        plan.visit(node, step)
    plan.use(func.body, 1 << 60)
    return plan.made()


class _Plan:
    """The plan under construction."""

    def __init__(self) -> None:
        self.values: dict[Any, list[_Value]] = {}  # expression → its tensors
        self.computed: list[_Value] = []
        self.own_bytes = 0

    def own(self, node: Any) -> None:
        """Give a parameter or a constant memory of its own."""
        sizes = _sizes(node)
        self.own_bytes += sum(sizes)
        self.values[node] = [_Value(size, -1, -1) for size in sizes]

    def use(self, node: Any, step: int) -> None:
        """Note that a value is needed in a step."""
        for value in self.values[node]:
            value.last = max(value.last, step)

    def visit(self, node: Any, step: int) -> None:
        """Look at an expression, after its parts."""
        if node in self.values or isinstance(node, (Op, Function)):
            return
        if isinstance(node, Constant):
            self.own(node)
        elif isinstance(node, Tuple):
            self.values[node] = [value for field in node.fields for value in self.values[field]]
        elif isinstance(node, TupleGetItem):
            whole: Any = struct_info_of(node.tuple_value.checked_type)
            first = sum([len(_tensors(one)) for one in whole.fields[: node.index]])
            count = len(_tensors(whole.fields[node.index]))
            self.values[node] = self.values[node.tuple_value][first : first + count]
        elif isinstance(node, Call) and isinstance(node.op, (Op, Function)):
            for arg in node.args:
                self.use(arg, step)
            made = [_Value(size, step, step) for size in _sizes(node)]
            self.computed += made
            self.values[node] = made
        elif isinstance(node, Let):
            self.values[node] = self.values[node.body]
        elif isinstance(node, Var):
            self.own(node)
        else:
            raise UnsupportedError(
                f"the memory of a {type(node).__name__} is not planned before the run",
                notes=("programs with choices and calls of functions run in the virtual machine",),
                span=getattr(node, "span", None),
            )

    def made(self) -> StaticMemoryPlan:
        """Return the plan: offsets become numbers."""
        needs = [Allocation(one.size, ((one.first, one.last),)) for one in self.computed]
        plan = plan_offsets(needs, _ALIGNMENT)
        numbers: dict[Any, int] = {}
        for values in self.values.values():
            for value in values:
                if value.first < 0:
                    value.number = numbers.setdefault(id(value), len(numbers))
        for value, offset in zip(self.computed, plan.offsets):
            value.number = numbers.setdefault(("offset", offset), len(numbers))
        infos = {
            node: StorageInfo(
                [value.number for value in values],
                [_CPU] * len(values),
                [value.size for value in values],
            )
            for node, values in self.values.items()
        }
        unshared = sum([-(-one.size // _ALIGNMENT) * _ALIGNMENT for one in self.computed])
        return StaticMemoryPlan(MappingProxyType(infos), plan.total, unshared, self.own_bytes)


def _tensors(info: StructInfo) -> list[StructInfo]:
    if isinstance(info, TupleStructInfo):
        return [leaf for field in info.fields for leaf in _tensors(field)]
    return [info]


def _sizes(node: Any) -> list[int]:
    found = []
    for info in _tensors(struct_info_of(node.checked_type)):
        size = tensor_bytes(info) if isinstance(info, TensorStructInfo) else None
        if size is None:
            raise UnsupportedError(
                f"memory is planned for tensors of known sizes, not for {node.checked_type}",
                span=getattr(node, "span", None),
            )
        found.append(size)
    return found
