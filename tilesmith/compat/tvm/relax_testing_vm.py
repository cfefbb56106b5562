"""Registers small functions for programs of the virtual machine: ``test.vm.add`` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.compat.tvm.relax_testing import check_saved_func
from tilesmith.ir import IntImm
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.registry import register_func

__all__ = [
    "add", "add_scalar", "check_if_defined", "check_saved_func", "equal_zero", "get_device_id",
    "identity_packed", "move", "mul", "subtract_one", "tile_packed",
]  # fmt: skip


def _registered(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda function: register_func(f"test.vm.{name}", function, override=True)


@_registered("move")
def move(src: Any) -> Any:
    """Return a value."""
    return src


@_registered("add")
def add(a: NDArray, b: NDArray) -> NDArray:
    """Return the sum of two tensors."""
    return array(a.numpy() + b.numpy())


@_registered("mul")
def mul(a: NDArray, b: NDArray) -> NDArray:
    """Return the product of two tensors, elementwise."""
    return array(a.numpy() * b.numpy())


@_registered("equal_zero")
def equal_zero(a: NDArray) -> NDArray:
    """Return whether all elements of a tensor are zero."""
    return array(numpy.all(a.numpy() == 0))


@_registered("subtract_one")
def subtract_one(a: NDArray) -> NDArray:
    """Return a tensor minus one."""
    return array(numpy.subtract(a.numpy(), 1, dtype=a.numpy().dtype))


@_registered("identity")
def identity_packed(a: NDArray, b: NDArray) -> None:
    """Copy a tensor into another."""
    b.copyfrom(a.numpy())


@_registered("tile")
def tile_packed(a: NDArray, b: NDArray) -> None:
    """Write a matrix twice, side by side, into another."""
    b.copyfrom(numpy.tile(a.numpy(), (1, 2)))


@_registered("add_scalar")
def add_scalar(a: Any, b: Any) -> Any:
    """Return the sum of two numbers."""
    return a + b


@_registered("get_device_id")
def get_device_id(device: Any) -> int:
    """Return the number of a device."""
    return int(device.device_id)


@_registered("check_if_defined")
def check_if_defined(obj: Any) -> IntImm:
    """Return whether there is a value."""
    return IntImm("bool", obj is not None)
