"""Defines tensors: `NDArray`, made from numpy or from anything that supports DLPack.

`array` copies into memory of our own (64-byte aligned), `from_dlpack` shares. An NDArray is a
`tvm_ffi.Tensor` with the methods that users know, so that passing one to compiled code costs
nothing more; tvm-ffi is told to make tensors of this class itself.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, cast

from tilesmith.runtime.devices import (  # noqa: F401 - users expect them here, too
    Device,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ffi import current_stream, reinterpret, tvm_ffi
from tilesmith.runtime.packed_elements import is_packed, pack, packed_bytes, unpack
from tilesmith.support.errors import (
    DeviceError,
    OutOfBoundsError,
    OutOfMemoryError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy
    from numpy import ndarray

ALIGNMENT = 64
"""Bytes to which everything that we allocate is aligned."""

_CARRIERS = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}
_NUMPY_CODES = frozenset(("int", "uint", "float", "bool"))
_NO_NUMBERS = "OSUMm"  # kinds of numpy's dtypes: objects, bytes, texts, dates
_ON_STREAMS = (Device.kDLCUDA, Device.kDLCUDAManaged)
_MOST_AXES = 32  # the most that every version of numpy takes
_base_shape = tvm_ffi.Tensor.shape.__get__
_base_dlpack = tvm_ffi.Tensor.__dlpack__
_base_dtype = tvm_ffi.Tensor.dtype.__get__
# tvm-ffi is told below to make tensors of our class
_from_dlpack = cast("Callable[[Any], NDArray]", tvm_ffi.from_dlpack)


class NDArray(tvm_ffi.Tensor):
    """A tensor on a device. Made by `array`, `empty`, `from_dlpack`, or by compiled code."""

    __slots__ = ("_dtype", "_shape")
    _dtype: DataType
    _shape: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        try:
            return self._shape
        except AttributeError:
            self._shape = _base_shape(self)
            return self._shape

    @property
    def dtype(self) -> DataType:
        """The data type of the elements."""
        try:
            return self._dtype
        except AttributeError:
            self._dtype = DataType(str(_base_dtype(self)))
            return self._dtype

    @property
    def device(self) -> Device:  # type: ignore[override]
        """The device that holds the memory."""
        return Device(*self.__dlpack_device__())

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of elements."""
        return self.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        if is_packed(self.dtype):
            return packed_bytes(self.numel(), self.dtype)
        return self.numel() * self.dtype.nbytes

    def numpy(self) -> ndarray:
        """Return the contents as a new numpy array."""
        if self.__dlpack_device__()[0] == 1:
            return self._contents()
        host = empty(self.shape, self.dtype)
        self.device.api.copy(self, host)
        return host._contents() if is_packed(self.dtype) else host.numpy_view()

    def _contents(self) -> ndarray:
        """Return the contents of a tensor on the host as a new numpy array."""
        if not is_packed(self.dtype):
            return self.numpy_view().copy()
        return unpack(self._bytes(), self.dtype, self.shape)

    def _bytes(self) -> ndarray:
        """Return the bytes of a tensor of packed elements on the host, without a copy."""
        import numpy

        if not self.is_contiguous():
            raise UnsupportedError(f"numpy cannot see a tensor of '{self.dtype}' with strides")
        return numpy.from_dlpack(reinterpret(self, (self.nbytes,), DataType("uint8")))

    def _fill(self, source: ndarray) -> None:
        """Copy a numpy array of the same shape into a tensor on the host."""
        if is_packed(self.dtype):
            import numpy

            values = numpy.asarray(source).astype(self.dtype.element.numpy(), copy=False)
            shape = self.shape if self.dtype.lanes == 1 else (*self.shape, self.dtype.lanes)
            self._bytes()[...] = pack(numpy.broadcast_to(values, shape), self.dtype)
        else:
            self.numpy_view()[...] = source

    asnumpy = numpy

    @property
    def handle(self) -> int:
        """The address of the tensor object."""
        return int(self.__chandle__())

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule over the memory; `from_dlpack` turns it into a tensor again."""
        return self.__dlpack__()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Share the memory by DLPack. A consumer's ``stream`` on a device waits for the work that
        was given to ours; ``dl_device`` (1, 0) asks for a copy on the host.
        """
        ours = self.__dlpack_device__()
        if ours[0] != 1:
            if dl_device is not None and tuple(dl_device) == (1, 0):
                return self.copyto(cpu()).__dlpack__(max_version=max_version)
            self.device.api.hand_over(ours[1], stream)
        return _base_dlpack(self, max_version=max_version, dl_device=dl_device, copy=copy)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        if self.__dlpack_device__()[0] != 1 or is_packed(self.dtype):
            found = self.numpy()
        else:
            found = self.numpy_view()
            if copy:
                found = found.copy()
        return found if dtype is None else found.astype(dtype, copy=False)

    def numpy_view(self) -> ndarray:
        """Return the memory of a tensor on the host as a numpy array, without a copy."""
        import numpy

        dtype = self.dtype
        if dtype.code in _NUMPY_CODES and dtype.lanes == 1 and dtype.bits not in (2, 4):
            return numpy.from_dlpack(self)
        if dtype.bits not in _CARRIERS and not dtype.is_bool:
            raise UnsupportedError(
                f"numpy cannot see packed elements of '{dtype}' in place",
                notes=("take a copy with numpy(), write with copyfrom()",),
            )
        if not self.is_contiguous():
            raise UnsupportedError(f"numpy cannot see a tensor of '{dtype}' with strides")
        carrier = DataType(_CARRIERS[8 if dtype.is_bool else dtype.bits])
        shape = self.shape if dtype.lanes == 1 else (*self.shape, dtype.lanes)
        plain = numpy.from_dlpack(reinterpret(self, shape, carrier))
        return plain.view(dtype.element.numpy())

    def copyfrom(self, source_array: Any) -> NDArray:
        """Copy the contents of an array-like of the same shape into this tensor.

        Of a bfloat16 tensor, an array of uint16 holds the bits.
        """
        source = source_array
        if self.dtype.element == "bfloat16" and getattr(source, "dtype", None) == "uint16":
            source = _as_numpy(source, source.dtype).view(self.dtype.element.numpy())
        if _is_on_device(source):
            source = as_ndarray(_shareable(source))
        if not isinstance(source, NDArray):
            source = _as_numpy(source, self.dtype.element.numpy())
        lanes = () if self.dtype.lanes == 1 else (self.dtype.lanes,)
        expected = self.shape if isinstance(source, NDArray) else self.shape + lanes
        if tuple(source.shape) != expected:
            raise ShapeError(
                f"copyfrom: the tensor has shape {expected}, the source {tuple(source.shape)}"
            )
        if isinstance(source, NDArray):
            source.copyto(self)
        elif self.__dlpack_device__()[0] == 1:
            self._fill(source)
        else:
            _on_host(source, self.dtype).copyto(self)
        return self

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """Copy to another tensor, or to a new one on a device; returns the target."""
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target, mem_scope)
        if not isinstance(target, NDArray):
            raise TypeMismatchError(
                f"copyto: the target is a tensor or a device, not {type(target).__name__}"
            )
        if target.shape != self.shape:
            raise ShapeError(f"copyto: from shape {self.shape} to shape {target.shape}")
        if self.__dlpack_device__()[0] == 1 and target.__dlpack_device__()[0] == 1:
            target._fill(self._contents() if is_packed(self.dtype) else self.numpy_view())
            return target
        if target.dtype != self.dtype:
            raise TypeMismatchError(f"copyto: from '{self.dtype}' to '{target.dtype}'")
        remote = target if self.__dlpack_device__()[0] == 1 else self
        remote.device.api.copy(self, target)
        return target

    def same_as(self, other: object) -> bool:
        """True if both are the same tensor object."""
        return isinstance(other, NDArray) and self.__chandle__() == other.__chandle__()

    def _create_view(
        self,
        shape: tuple[int, ...],
        dtype: str | DataType | None = None,
        relative_byte_offset: int = 0,
    ) -> NDArray:
        """Return a tensor of another shape (and dtype) over the same memory."""
        wanted = self.dtype if dtype is None else DataType(dtype)
        shape = tuple(int(extent) for extent in shape)
        needed = _count(shape) * wanted.nbytes
        if is_packed(wanted):
            needed = packed_bytes(_count(shape), wanted)
        if relative_byte_offset < 0 or relative_byte_offset + needed > self.nbytes:
            raise ShapeError(
                f"a view of shape {shape} and dtype '{wanted}' at byte {relative_byte_offset} "
                f"does not fit into {self.nbytes} bytes"
            )
        if not self.is_contiguous():
            raise UnsupportedError("a view needs a compact tensor; copy it first")
        return reinterpret(self, shape, wanted, relative_byte_offset)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.__dlpack_device__()[0] == 1:
            self.numpy_view()[index] = value
        elif index in (slice(None), Ellipsis):
            self.copyfrom(value)
        else:
            raise UnsupportedError("a part of a tensor can be written on the host only")

    def __getitem__(self, index: Any) -> ndarray:
        try:
            part: ndarray = self.numpy()[index]
        except IndexError as error:
            raise OutOfBoundsError(f"a tensor of shape {self.shape}: {error}") from None
        return part

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def item(self) -> Any:
        """Return the only element as a Python value."""
        return self.numpy().item()

    def __repr__(self) -> str:
        head = f"<tilesmith.NDArray shape={self.shape}, {self.dtype}, {self.device}>"
        try:
            return f"{head}\n{self.numpy()!r}"
        except (DeviceError, UnsupportedError):  # a lost device must not hinder a traceback
            return head

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.numpy(), str(self.dtype))


def _rebuild(contents: numpy.ndarray, dtype: str) -> NDArray:
    return array(contents, dtype=dtype)


# tvm-ffi then makes tensors of this class wherever it makes one: results, arguments of callbacks,
# `from_dlpack`. For all other code in the process it is still a `tvm_ffi.Tensor`.
tvm_ffi.core._set_class_tensor(NDArray)


def as_ndarray(tensor: Any) -> NDArray:
    """Return `tensor` itself if it is an NDArray, else an NDArray over the memory of a DLPack
    tensor.

    Another runtime in the process may have told tvm-ffi to make tensors of its own class.
    """
    if isinstance(tensor, NDArray):
        return tensor
    try:
        found = _from_dlpack(tensor)
    except (BufferError, TypeError, ValueError) as error:
        raise TypeMismatchError(
            f"{type(tensor).__name__} cannot be shared as a tensor: {error}",
            notes=("pass an array or a tensor of numbers whose memory others may see",),
        ) from error
    if not isinstance(found, NDArray):
        previous = tvm_ffi.core._CLASS_TENSOR
        tvm_ffi.core._set_class_tensor(NDArray)
        try:
            found = _from_dlpack(found)
        finally:
            tvm_ffi.core._set_class_tensor(previous)
    return found


def _as_numpy(value: Any, dtype: Any = None) -> numpy.ndarray:
    """Return an array-like as a numpy array of numbers; raises TypeMismatchError."""
    import numpy

    try:
        found = numpy.asarray(value, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeMismatchError(
            f"no tensor can be made of {type(value).__name__}: {error}",
            notes=("pass numbers, in lists of equal lengths where there are several axes",),
        ) from error
    if not _has_numbers(found.dtype):
        raise TypeMismatchError(
            f"no tensor can be made of {type(value).__name__} with elements of '{found.dtype}'"
        )
    return found


def _has_numbers(dtype: numpy.dtype) -> bool:
    import numpy

    return dtype.kind not in _NO_NUMBERS and dtype.type is not numpy.void


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def aligned_numpy(shape: tuple[int, ...], dtype: numpy.dtype) -> numpy.ndarray:
    """Return a new numpy array with undefined contents whose memory is 64-byte aligned."""
    import numpy

    count = 1
    for extent in shape:
        count *= extent
    size = count * dtype.itemsize
    try:
        buffer = numpy.empty(size + ALIGNMENT, "uint8")
        # through DLPack: three times faster than `buffer.ctypes.data`
        offset = -_from_dlpack(buffer).data_ptr() % ALIGNMENT
        return numpy.ndarray(shape, dtype, buffer, offset)
    except (MemoryError, OverflowError, ValueError):
        if any(extent < 0 for extent in shape):
            raise ShapeError(f"a tensor cannot have the shape {tuple(shape)}") from None
        raise out_of_memory(size) from None


def out_of_memory(size: int) -> OutOfMemoryError:
    """Return the error for memory of `size` bytes that the system does not have."""
    return OutOfMemoryError(
        f"there is no memory for {size / 2**30:.3g} GiB",
        notes=("call it with smaller inputs, or end what else needs memory",),
    )


def empty(
    shape: Any,
    dtype: Any = "float32",
    device: Device | str | None = None,
    mem_scope: str | None = None,
) -> NDArray:
    """Return a new tensor with undefined contents; `shape` is an integer or a sequence of them."""
    if isinstance(shape, str) or not hasattr(shape, "__iter__"):
        shape = (shape,)
    if any(isinstance(extent, str) for extent in shape):
        raise ShapeError(f"the sizes of a tensor are integers, got the texts {shape!r}")
    try:
        sizes = tuple([int(extent) for extent in shape])
    except (TypeError, ValueError):
        raise ShapeError(f"the sizes of a tensor are integers, got {shape!r}") from None
    dtype = DataType(dtype)
    if any(extent < 0 for extent in sizes):
        raise ShapeError(f"a tensor cannot have the shape {sizes}")
    if dtype.is_void:
        raise TypeMismatchError("a tensor has elements; there is none of the dtype 'void'")
    if len(sizes) > _MOST_AXES:
        raise ShapeError(f"a tensor has at most {_MOST_AXES} axes, got {len(sizes)}")
    target = _device(device)
    if target.device_type != 1:
        made: NDArray = target.api.empty(sizes, dtype, target.device_id, mem_scope)
        return made
    return empty_cpu(sizes, dtype)


def empty_cpu(shape: tuple[int, ...], dtype: DataType) -> NDArray:
    """Make a tensor as `empty` does, on the host and without the checks."""
    if dtype.is_float and dtype.bits > 64:
        raise TypeMismatchError(f"there are no tensors of the dtype {dtype}", notes=("float64 is",))
    if dtype.code in _NUMPY_CODES and dtype.lanes == 1 and dtype.bits not in (2, 4):
        return _from_dlpack(aligned_numpy(shape, dtype.numpy()))
    if dtype.bits not in _CARRIERS and not dtype.is_bool:
        size = packed_bytes(_count(shape), dtype)
        return reinterpret(empty_cpu((size,), DataType("uint8")), shape, dtype)
    carrier = DataType(_CARRIERS[8 if dtype.is_bool else dtype.bits])
    plain = empty_cpu((*shape, dtype.lanes), carrier)
    return reinterpret(plain, shape, dtype)


def view_at(address: int, shape: tuple[int, ...], dtype: DataType) -> NDArray | None:
    """Return a tensor on memory of the host that something else owns, which has to outlive it; None
    for a dtype whose elements numpy has no word for, and for a tensor without elements.
    """
    if dtype.code not in _NUMPY_CODES or dtype.lanes != 1 or dtype.bits in (2, 4):
        return None
    import numpy

    kind = numpy.dtype(dtype.numpy())
    size = _count(shape) * kind.itemsize
    if not size or not address:
        return None
    memory: Any = (ctypes.c_char * size).from_address(address)
    return _from_dlpack(numpy.frombuffer(memory, kind).reshape(shape))


def _device(value: Device | str | None) -> Device:
    return cpu() if value is None else device(value) if isinstance(value, str) else value


def array(
    arr: Any, device: Device | str | None = None, mem_scope: str | None = None, *, dtype: Any = None
) -> NDArray:
    """Return a new tensor with the contents of an array-like. Python numbers become int32/float32…

    The dtype is `dtype` if given, else that of `arr` (numpy array, tensor, torch tensor); for lists
    numpy chooses.
    """
    import numpy

    target = _device(device)
    if isinstance(arr, NDArray):
        if dtype is None or arr.dtype == dtype:
            return arr.copyto(target, mem_scope)
        arr = arr.numpy()
    elif not isinstance(arr, (numpy.ndarray, numpy.generic)):
        if hasattr(arr, "__dlpack__"):
            return array(as_ndarray(_shareable(arr)), target, mem_scope, dtype=dtype)
        arr = _as_numpy(arr)
    else:
        arr = arr if _has_numbers(arr.dtype) else _as_numpy(arr)
    wanted = DataType(arr.dtype if dtype is None else dtype)
    shape = arr.shape if wanted.lanes == 1 else arr.shape[:-1]
    if wanted.lanes > 1 and arr.shape[-1:] != (wanted.lanes,):
        raise ShapeError(
            f"a tensor of '{wanted}' is made of arrays whose last axis has the size "
            f"{wanted.lanes}, got the shape {arr.shape}"
        )
    if target.device_type != 1:
        return _on_host(arr, wanted).copyto(target, mem_scope)
    host = empty_cpu(tuple(shape), wanted)
    host._fill(arr)
    return host


def _on_host(source: numpy.ndarray, dtype: DataType) -> NDArray:
    """Return a compact tensor with the contents of an array, over its memory where possible."""
    flags = source.flags
    if dtype.lanes == 1 and flags.c_contiguous and flags.writeable and not is_packed(dtype):
        if source.dtype == dtype.numpy() and source.dtype.isnative:
            return from_numpy(source)
    host = empty_cpu(source.shape if dtype.lanes == 1 else source.shape[:-1], dtype)
    host._fill(source)
    return host


def _is_on_device(tensor: Any) -> bool:
    """True for a tensor of another library in the memory of a GPU."""
    if isinstance(tensor, NDArray) or not hasattr(tensor, "__dlpack_device__"):
        return False
    return int(tensor.__dlpack_device__()[0]) in _ON_STREAMS


def _shareable(tensor: Any) -> Any:
    """Return what DLPack can share of an object: torch tensors that require gradients are detached,
    and a tensor of a GPU becomes a capsule, for which its owner lets our stream wait.
    """
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    if not _is_on_device(tensor):
        return tensor
    device_id = tensor.__dlpack_device__()[1]
    stream = current_stream(Device.kDLCUDA, int(device_id)) or 1  # 1: the default one, in DLPack
    try:
        return tensor.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # DLPack before version 1
        return tensor.__dlpack__(stream=stream)


def from_dlpack(dltensor: Any) -> NDArray:
    """Return a tensor over the memory of any object that supports DLPack, or of a DLPack capsule.

    Nothing is copied, except numpy arrays that DLPack refuses: read-only ones and those of the
    other byte order. Arrays of bfloat16 and the like are shared through an integer view.
    """
    import numpy

    if isinstance(dltensor, numpy.ndarray):
        return from_numpy(dltensor)
    if not hasattr(dltensor, "__dlpack__") and type(dltensor).__name__ != "PyCapsule":
        raise TypeMismatchError(
            f"from_dlpack takes a tensor that supports DLPack, got {type(dltensor).__name__}",
            notes=("tilesmith.nd.array makes a tensor of numbers and lists",),
        )
    made = as_ndarray(_shareable(dltensor))
    try:
        _ = made.dtype
    except ValueError:  # its dtype has no name here: complex numbers
        found = getattr(dltensor, "dtype", "unknown to DLPack's names")
        raise TypeMismatchError(
            f"there are no tensors of the dtype {found}",
            notes=("give real and imaginary parts as a tensor each",),
        ) from None
    return made


def from_numpy(source: numpy.ndarray) -> NDArray:
    """Return a tensor over the memory of a numpy array; a copy if it is read-only."""
    if not source.flags.writeable or not source.dtype.isnative:
        return array(source)
    dtype = DataType(source.dtype)
    if source.dtype.kind != "V" and source.dtype.isbuiltin == 1:
        return as_ndarray(source)
    if not source.flags.c_contiguous or dtype.bits not in _CARRIERS:
        return array(source)
    return reinterpret(as_ndarray(source.view(_CARRIERS[dtype.bits])), source.shape, dtype)


def numpyasarray(np_data: numpy.ndarray) -> NDArray:
    """Return a tensor over the memory of a numpy array."""
    return from_numpy(np_data)
