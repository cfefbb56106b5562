"""Functions that servers of the tests register, here or in the processes of their sessions."""

import ctypes
import os
import time

import numpy as np

import tilesmith as ts


def register() -> None:
    """Register all of them; the callback of a server."""
    for name, function in FUNCTIONS.items():
        ts.register_func(f"tests.rpc.{name}", function, override=True)


def scale(source, target, factor):
    target.copyfrom(source.numpy() * factor)


def values():
    array = ts.nd.array(np.arange(3, dtype="float32"))
    return [array, "text", {"key": 3}, None, 2.5, True, b"bytes", (1, "two")]


def fail_with_shapes():
    raise ts.error.ShapeError("the shapes are bad", notes=("give others",))


def fail_with_value():
    raise ValueError("the value is bad")


class OwnError(Exception):
    """An error that the client does not know."""


def fail_with_own():
    raise OwnError("nobody knows this")


def transposed():
    return ts.nd.from_dlpack(np.arange(6, dtype="float32").reshape(2, 3).T)


FUNCTIONS = {
    "add_one": lambda x: x + 1,
    "crash": lambda: ctypes.string_at(0),
    "echo": lambda *values: list(values),
    "exit": lambda: exit(3),
    "fail_with_own": fail_with_own,
    "fail_with_shapes": fail_with_shapes,
    "fail_with_value": fail_with_value,
    "is_cpu": lambda device: device == ts.cpu(0),
    "long_list": lambda: [bytes(1 << 24)] * 5,
    "make_adder": lambda n: lambda x: x + n,
    "object": lambda: object(),
    "process": os.getpid,
    "scale": scale,
    "sleep": time.sleep,
    "transposed": transposed,
    "values": values,
}
