"""Defines `Holdings`: what the server's end of a session holds for its client, by number."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy

from tilesmith.rpc.protocol import (
    DeviceRecord,
    DtypeRecord,
    ObjectKind,
    ObjectRecord,
    TensorRecord,
)
from tilesmith.runtime.devices import RPC_SESS_MASK, Device
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.ffi import reinterpret
from tilesmith.runtime.module import Module
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.packed_elements import is_packed, packed_bytes
from tilesmith.runtime.packed_func import from_ffi
from tilesmith.support.errors import (
    OutOfBoundsError,
    RPCError,
    TypeMismatchError,
    UnsupportedError,
)

ADDRESS_BITS = 40
"""Bits of an address that tell the offset; the number of the object is above them."""


class Holdings:
    """Arrays, functions and modules by number, and the records that stand for them outside."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._objects: dict[int, Any] = {}

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget what the client does not need any more."""
        for number in numbers:
            self._objects.pop(number, None)

    def __len__(self) -> int:
        return len(self._objects)

    def clear(self) -> None:
        """Forget everything."""
        self._objects.clear()

    def hold(self, value: Any) -> int:
        number = next(self._numbers)
        self._objects[number] = value
        return number

    def held(self, number: int) -> Any:
        try:
            return self._objects[number]
        except KeyError:
            raise RPCError(f"the session holds no object {number}") from None

    def tensor(self, record: TensorRecord) -> NDArray:
        """Return the tensor of a record: one that is held, or a view of it."""
        number, offset = divmod(record.address, 1 << ADDRESS_BITS)
        base = self.held(number)
        if not isinstance(base, NDArray):
            raise RPCError(f"object {number} of the session is no array")
        dtype = DataType(record.dtype)
        if not offset and base.shape == record.shape and base.dtype is dtype:
            return base
        if offset + _size(record.shape, dtype) > base.nbytes:
            raise OutOfBoundsError("a view of an array of the session reaches beyond its end")
        return reinterpret(base, record.shape, dtype, offset)

    def object(self, record: ObjectRecord) -> Any:
        found = self.held(record.number)
        is_function = not isinstance(found, (NDArray, Module, Executable)) and callable(found)
        if is_function != (record.kind is ObjectKind.FUNCTION) or isinstance(found, NDArray):
            raise RPCError(f"object {record.number} of the session is something else")
        return found

    def to_record(self, value: Any) -> Any:
        """Return what is sent for a value; arrays, functions and modules stay here."""
        value = from_ffi(value)
        if isinstance(value, DataType):
            return DtypeRecord(str(value))
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return _plain(value)
        if isinstance(value, numpy.generic):
            return value.item()
        if isinstance(value, (NDArray, numpy.ndarray)):
            return self.tensor_record(value)
        if isinstance(value, Device):
            return DeviceRecord(value.device_type, value.device_id)
        if isinstance(value, (list, tuple)):
            items = [self.to_record(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, Mapping):
            return {self.to_record(key): self.to_record(one) for key, one in value.items()}
        if isinstance(value, (Module, Executable)):
            return self.module_record(value)
        if callable(value):
            name = str(getattr(value, "__name__", "") or type(value).__name__)
            return ObjectRecord(ObjectKind.FUNCTION, self.hold(value), name)
        raise TypeMismatchError(
            f"a result of type {type(value).__name__} cannot leave the session",
            notes=("return numbers, texts, arrays, functions, modules, or lists of them",),
        )

    def tensor_record(self, value: NDArray | numpy.ndarray) -> TensorRecord:
        if not isinstance(value, NDArray):
            value = array(value)
        if value.device.device_type >= RPC_SESS_MASK:
            raise UnsupportedError(
                "an array of another session cannot be reached through this one",
                notes=("copy it to the machine between them: x.copyto(tilesmith.cpu())",),
            )
        if not value.is_contiguous():
            value = value.copyto(value.device)
        device = DeviceRecord(value.device.device_type, value.device.device_id)
        address = self.hold(value) << ADDRESS_BITS
        return TensorRecord(address, device, str(value.dtype), value.shape)

    def module_record(self, module: Module | Executable) -> ObjectRecord:
        names = list(module.function_names)
        if isinstance(module, Executable):
            entry = "main" if "main" in names else ""
            called = module.metadata.get("module_name")
            names += [called] if isinstance(called, str) else []
            kind = "executable"
        else:
            entry = module.entry_name if "main" in names or len(names) == 1 else ""
            kind = module.type_key
        return ObjectRecord(ObjectKind.MODULE, self.hold(module), kind, (entry, *names))

    def from_record(self, value: Any) -> Any:
        if isinstance(value, TensorRecord):
            return self.tensor(value)
        if isinstance(value, ObjectRecord):
            return self.object(value)
        if isinstance(value, DeviceRecord):
            return Device(*value)
        if isinstance(value, DtypeRecord):
            return DataType(value.name)
        if isinstance(value, (list, tuple)):
            items = [self.from_record(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self.from_record(item) for key, item in value.items()}
        return value


def _size(shape: Iterable[int], dtype: DataType) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return packed_bytes(count, dtype) if is_packed(dtype) else count * dtype.nbytes


def _plain(value: Any) -> Any:
    """Return a value of a subclass of Python's own classes as one of those."""
    kinds: tuple[Any, ...] = (bool, int, float, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    return value
