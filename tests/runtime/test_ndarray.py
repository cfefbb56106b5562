import gc
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith.runtime.ndarray import NDArray, aligned_numpy, empty
from tilesmith.support.errors import (
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "bfloat16"]
DTYPES += ["float8_e4m3fn", "float8_e5m2"]
SHAPES = [(), (1,), (7,), (2, 3), (0, 4), (2, 1, 5)]


def sample(shape, dtype):
    count = int(np.prod(shape))
    return (np.arange(count) % 2).reshape(shape).astype(ts.DataType(dtype).numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_array_copies_into_aligned_memory(shape, dtype):
    source = sample(shape, dtype)
    tensor = ts.nd.array(source)
    assert type(tensor) is NDArray
    assert tensor.shape == shape and tensor.dtype == dtype and tensor.dtype is ts.DataType(dtype)
    assert tensor.device == ts.cpu() and tensor.size == source.size
    assert tensor.nbytes == source.nbytes
    assert tensor.data_ptr() % 64 == 0
    back = tensor.numpy()
    assert back.dtype == source.dtype and np.array_equal(back, source)
    source[...] = 1
    assert np.array_equal(tensor.asnumpy(), back)


def test_numpy_is_a_copy_and_asarray_is_not():
    tensor = ts.nd.array(np.zeros(3, "float32"))
    copy, view = tensor.numpy(), np.asarray(tensor)
    tensor[1] = 5
    assert copy.tolist() == [0, 0, 0] and view.tolist() == [0, 5, 0]
    assert np.asarray(tensor, dtype="int64").tolist() == [0, 5, 0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_from_dlpack_shares(dtype):
    source = sample((2, 3), dtype)
    tensor = ts.nd.from_dlpack(source)
    assert tensor.dtype == dtype
    source[0, 0] = 1
    assert tensor.numpy()[0, 0] == 1
    del source
    gc.collect()
    assert tensor.numpy()[0, 0] == 1


def test_read_only_numpy_is_copied():
    source = np.arange(4)
    source.flags.writeable = False
    tensor = ts.nd.from_dlpack(source)
    tensor[0] = 9
    assert source[0] == 0 and tensor.numpy()[0] == 9


def test_torch_in_and_out_without_a_copy():
    torch = pytest.importorskip("torch")
    source = torch.arange(6.0)
    tensor = ts.nd.from_dlpack(source)
    tensor[0] = 9
    assert source[0] == 9
    out = torch.from_dlpack(tensor)
    out[1] = 8
    assert source[1] == 8
    needs_grad = torch.ones(2, requires_grad=True)
    assert ts.nd.array(needs_grad).numpy().tolist() == [1, 1]


def test_strided_tensors():
    source = np.arange(12, dtype="float32").reshape(3, 4).T
    tensor = ts.nd.from_dlpack(source)
    assert tensor.shape == (4, 3) and not tensor.is_contiguous()
    assert np.array_equal(tensor.numpy(), source)
    assert np.array_equal(ts.nd.array(source).numpy(), source)
    with pytest.raises(UnsupportedError):
        tensor._create_view((12,))


def test_empty_and_vectors():
    assert empty(5).shape == (5,)
    assert empty((2, np.int64(3)), "int8").shape == (2, 3)
    vector = empty((3,), "float32x4")
    assert vector.shape == (3,) and vector.dtype == "float32x4" and vector.nbytes == 48
    vector.copyfrom(np.arange(12).reshape(3, 4))
    assert vector.numpy().shape == (3, 4)
    assert empty((3,), "int4").nbytes >= 2
    with pytest.raises(ShapeError):
        empty((2, -1))


def test_copies_between_tensors():
    source = ts.nd.array(np.arange(6, dtype="float32").reshape(2, 3))
    target = empty((2, 3))
    assert source.copyto(target) is target
    assert np.array_equal(target.numpy(), source.numpy())
    other = source.copyto(ts.cpu(0))
    assert not other.same_as(source) and np.array_equal(other.numpy(), source.numpy())
    assert source.same_as(source)
    target.copyfrom(np.ones((2, 3)))
    assert target.numpy().sum() == 6
    target[:] = 2
    assert target.numpy().sum() == 12 and target[0].tolist() == [2, 2, 2] and len(target) == 2
    with pytest.raises(ShapeError, match=r"\(2, 3\).*\(3, 2\)"):
        target.copyfrom(np.ones((3, 2)))
    with pytest.raises(ShapeError):
        source.copyto(empty((3, 2)))


def test_views_keep_their_owner():
    view = ts.nd.array(np.arange(8, dtype="float32"))._create_view((2, 2), "float32", 16)
    gc.collect()
    assert view.numpy().tolist() == [[4, 5], [6, 7]]
    with pytest.raises(ShapeError, match="does not fit"):
        view._create_view((5,))


def test_other_sources():
    assert ts.nd.array([1.5, 2.5]).dtype == "float64"
    assert ts.nd.array([1, 2], dtype="float32").dtype == "float32"
    assert ts.nd.array(ts.nd.array([1, 2]), dtype="float32").numpy().tolist() == [1, 2]
    assert ts.nd.array(np.float32(3)).shape == ()
    assert ts.nd.array(np.float32(3)).item() == 3
    with pytest.raises(TypeMismatchError):
        ts.nd.array([object()])


def test_pickle_and_repr():
    tensor = ts.nd.array(np.arange(3).astype(ml_dtypes.bfloat16))
    again = pickle.loads(pickle.dumps(tensor))
    assert again.dtype == "bfloat16" and again.numpy().tolist() == [0, 1, 2]
    assert "shape=(3,), bfloat16, cpu(0)" in repr(tensor)


@given(st.lists(st.integers(0, 4), max_size=4), st.sampled_from(["int8", "float32", "float64"]))
def test_aligned_memory(shape, dtype):
    found = aligned_numpy(tuple(shape), np.dtype(dtype))
    assert found.shape == tuple(shape) and found.flags.c_contiguous
    assert found.__array_interface__["data"][0] % 64 == 0


@pytest.mark.parametrize("name", ["cpu", "cuda", "opencl", "metal", "vulkan", "rocm", "ext_dev"])
def test_devices(name):
    made = getattr(ts, name)(1)
    assert made is ts.device(name, 1) is ts.device(f"{name}:1")
    assert (made.type, made.device_id) == (name, 1) and repr(made) == f"{name}(1)"
    assert made != ts.cpu(0) and pickle.loads(pickle.dumps(made)) is made
    assert not made.exist


def test_device_of_the_host_and_unknown_ones():
    assert ts.cpu().exist and ts.device("llvm") is ts.cpu()
    ts.cpu().sync()
    assert ts.cpu().max_threads_per_block is None
    with pytest.raises(UnknownNameError, match="unknown device type 'toaster'"):
        ts.device("toaster")
    with pytest.raises(UnsupportedError, match="no runtime for devices of type 'ext_dev'"):
        empty((1,), device=ts.ext_dev())
    with pytest.raises(AttributeError):
        assert ts.cpu().nonsense


def test_capsules_and_names_of_devices():
    tensor = ts.nd.array(np.arange(3))
    shared = ts.nd.from_dlpack(tensor.to_dlpack())
    shared[0] = 7
    assert tensor.numpy()[0] == 7 and tensor.handle != shared.handle
    with pytest.raises(TypeMismatchError, match="a tensor or a device, not int"):
        tensor.copyto(3)
    device = ts.cuda(2)
    assert device.index == device.device_id == 2 and device.device_type == ts.runtime.Device.kDLCUDA
    assert ts.runtime.Device.MASK2STR[2] == "cuda" and ts.runtime.Device.STR2MASK["llvm"] == 1
    with pytest.raises(UnknownNameError, match="is not a device"):
        ts.device("remote[1]:cpu(0)")


class Unshared:
    """Claims to speak DLPack, and does not."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        if self.capsule == "raise":
            raise ValueError("not now")
        return self.capsule


@pytest.mark.parametrize(
    "value",
    [
        Unshared("raise"),
        Unshared(None),
        {},
        [[1], [1, 2]],
        "text",
        b"bytes",
        [{}, 1],
        object(),
        np.zeros(2, "f4,i4"),
        np.zeros(2, "V4"),
    ],
)
@pytest.mark.parametrize("make", [ts.nd.array, lambda value: ts.nd.empty((2,)).copyfrom(value)])
def test_what_is_no_tensor_is_refused(make, value):
    with pytest.raises(TypeMismatchError):
        make(value)


@pytest.mark.parametrize("value", [np.array([None]), np.array(["a"]), {}, Unshared(None)])
def test_what_cannot_be_shared_is_refused(value):
    with pytest.raises(TypeMismatchError):
        ts.nd.from_dlpack(value)


@pytest.mark.parametrize("shape", [(None,), ((2,),), (1,) * 100, ("3",)])
def test_sizes_that_are_no_integers_are_refused(shape):
    with pytest.raises(ShapeError):
        ts.nd.empty(shape)


def test_a_tensor_of_vectors_needs_an_axis_for_the_lanes():
    assert ts.nd.array(np.ones((2, 4), "float32"), dtype="float32x4").shape == (2,)
    with pytest.raises(ShapeError, match="last axis has the size 4"):
        ts.nd.array(np.ones((2, 3), "float32"), dtype="float32x4")


def test_there_is_no_tensor_of_nothing():
    with pytest.raises(TypeMismatchError, match="void"):
        ts.nd.empty((2,), "")


@pytest.mark.parametrize("make", [ts.nd.from_dlpack, ts.nd.array, ts.runtime.ndarray.from_numpy])
def test_complex_numbers_are_refused(make):
    with pytest.raises(TypeMismatchError, match="complex64"):
        make(np.zeros(3, "complex64"))


def test_long_doubles_are_refused():
    with pytest.raises(TypeMismatchError, match="float128"):
        ts.nd.array(np.zeros(3, "longdouble"))
    with pytest.raises(TypeMismatchError, match="float128"):
        ts.nd.empty((2,), "float128")


def test_complex_numbers_of_others_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeMismatchError, match="real and imaginary parts"):
        ts.nd.from_dlpack(torch.zeros(3, dtype=torch.complex64))
