"""Imports tvm-ffi, in this one place; its C ABI is Tilesmith's calling convention.

Importing tvm-ffi imports PyTorch when that is installed, which takes seconds; so PyTorch is hidden
during the import unless the program has loaded it already. Tensors of PyTorch still pass through
DLPack. `tvm_ffi` here is that package; all other modules import it from here.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tilesmith.runtime.dtype import DataType
from tilesmith.support import errors
from tilesmith.support.errors import InternalError, MissingDependencyError, TilesmithError

_import_lock = threading.Lock()
_SWITCH = "TVM_FFI_DISABLE_TORCH_C_DLPACK"


def _import_tvm_ffi() -> Any:
    with _import_lock:
        if "tvm_ffi" in sys.modules:
            return sys.modules["tvm_ffi"]
        # Without this tvm-ffi compiles or loads an add-on for torch when it is imported.
        switch_off = _SWITCH not in os.environ
        if switch_off:
            os.environ[_SWITCH] = "1"
        hide_torch = "torch" not in sys.modules
        if hide_torch:
            sys.modules["torch"] = None  # type: ignore[assignment]
        try:
            import tvm_ffi
        except ImportError as error:
            raise MissingDependencyError("apache-tvm-ffi", purpose="the runtime") from error
        finally:
            if hide_torch:
                sys.modules.pop("torch", None)
            if switch_off:
                os.environ.pop(_SWITCH, None)
        return tvm_ffi


if TYPE_CHECKING:
    import tvm_ffi
    from tvm_ffi import Function
else:
    tvm_ffi = _import_tvm_ffi()
    Function = tvm_ffi.Function

AnyTensor = TypeVar("AnyTensor", bound="tvm_ffi.Tensor")

KINDS: dict[str, type[TilesmithError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, TilesmithError)
}
"""Kinds that generated code may name in `TVMFFIErrorSetRaisedFromCStr`, besides Python's own; an
error that a registered function raises keeps its class on the way through native code."""
KINDS.pop("MissingDependencyError")  # its constructor takes a package, not a message

for _name, _kind in KINDS.items():
    tvm_ffi.register_error(_name, _kind)


class DLDevice(ctypes.Structure):
    """The device structure of DLPack."""

    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    """The data type structure of DLPack."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """The tensor structure of DLPack: an argument of a generated function points to one."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_library = tvm_ffi.LIB


def as_opaque(value: Any) -> Any:
    """Return a Python object as tvm-ffi hands it on: unchanged, even where it can be called."""
    return tvm_ffi.core._convert_to_opaque_object(value)


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

SYMBOLS = (
    "TVMFFIAnyViewToOwnedAny",
    "TVMFFIDataTypeFromString",
    "TVMFFIEnvGetStream",
    "TVMFFIEnvTensorAlloc",
    "TVMFFIErrorCreate",
    "TVMFFIErrorMoveFromRaised",
    "TVMFFIErrorSetRaised",
    "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIErrorSetRaisedFromCStrParts",
    "TVMFFIFunctionCall",
    "TVMFFIFunctionGetGlobal",
    "TVMFFIHandleDeinitOnce",
    "TVMFFIHandleInitOnce",
    "TVMFFIObjectDecRef",
    "TVMFFIObjectIncRef",
    "TVMFFIStringFromByteArray",
    "TVMFFITensorCreateUnsafeView",
    "TVMFFITensorFromDLPack",
    "TVMFFITensorFromDLPackVersioned",
    "TVMFFITensorToDLPack",
)
"""Functions of tvm-ffi that generated code may call."""


def symbol_addresses() -> dict[str, int]:
    """Return the addresses of SYMBOLS in the loaded libtvm_ffi, for linking in the process."""
    found: dict[str, int] = {}
    for name in SYMBOLS:
        function = getattr(_library, name, None)
        if function is not None:
            address = ctypes.cast(function, ctypes.c_void_p).value
            assert address is not None
            found[name] = address
    return found


_is_global = False


def make_symbols_global() -> None:
    """Let shared libraries that are loaded from now on find the functions of libtvm_ffi."""
    global _is_global
    if not _is_global and hasattr(os, "RTLD_GLOBAL"):
        ctypes.CDLL(_library._name, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
        _is_global = True


def reinterpret(
    tensor: AnyTensor, shape: tuple[int, ...], dtype: DataType, byte_offset: int = 0
) -> AnyTensor:
    """Return a compact tensor of another shape and dtype over the memory of `tensor`, which it
    keeps alive. The size is not checked here.
    """
    device_type, device_id = tensor.__dlpack_device__()
    device = (int(device_type), int(device_id))
    return tensor_at(tensor, tensor.data_ptr() + byte_offset, device, shape, dtype)


def tensor_at(
    owner: AnyTensor, address: int, device: tuple[int, int], shape: tuple[int, ...], dtype: DataType
) -> AnyTensor:
    """Return a compact tensor at an address of a device; it keeps `owner` alive. Nothing is
    checked.
    """
    rank = len(shape)
    dims = (ctypes.c_int64 * max(rank, 1))(*shape)
    steps = (ctypes.c_int64 * max(rank, 1))()
    step = 1
    for axis in range(rank - 1, -1, -1):
        steps[axis] = step
        step *= shape[axis]
    bits = 8 if dtype.is_bool else dtype.bits
    prototype = DLTensor(
        address,
        DLDevice(*device),
        rank,
        DLDataType(dtype.type_code, bits, dtype.lanes),
        ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    view = ctypes.c_void_p()
    managed = ctypes.c_void_p()
    source = ctypes.c_void_p(owner.__chandle__())
    _check(
        _library.TVMFFITensorCreateUnsafeView(source, ctypes.byref(prototype), ctypes.byref(view))
    )
    try:
        _check(_library.TVMFFITensorToDLPack(view, ctypes.byref(managed)))
    finally:
        _library.TVMFFIObjectDecRef(view)
    return cast("AnyTensor", tvm_ffi.from_dlpack(_new_capsule(managed, b"dltensor", None)))


def _check(status: int) -> None:
    if status != 0:
        raise InternalError("tvm-ffi refused to make a view of a tensor")


def tensor_of(managed: int) -> tvm_ffi.Tensor:
    """Return the tensor of a `DLManagedTensor` at an address, which it takes over."""
    return tvm_ffi.from_dlpack(_new_capsule(managed, b"dltensor", None))


current_stream: Callable[[int, int], int] = tvm_ffi.core._env_get_current_stream
"""Returns the stream of this thread for a device (DLPack's type, number); 0 is the default one."""
set_current_stream: Callable[[int, int, int], Any] = tvm_ffi.core._env_set_current_stream
"""Sets the stream of this thread for a device, for all users of tvm-ffi; returns the one before."""
