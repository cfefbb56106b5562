"""Sessions: functions, arrays, devices and files, in this process, in threads, in a process."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import rpc
from tilesmith.error import (
    OutOfBoundsError,
    RPCError,
    ShapeError,
    TypeMismatchError,
    UnknownMemberError,
    UnsupportedError,
)
from tilesmith.rpc.protocol import PIECE

ALL = pytest.mark.parametrize("remote", ["local", "threads", "process"], indirect=True)


def function(session, name):
    return session.get_function(f"tests.rpc.{name}")


def test_functions_are_called(remote):
    assert function(remote, "add_one")(41) == 42
    assert function(remote, "add_one")(np.float32(1.5)) == 2.5
    values = [1, 2.5, "text", None, True, [1, ["two"]], {"key": b"bytes"}, ts.DataType("int8")]
    assert function(remote, "echo")(*values) == values
    assert function(remote, "make_adder")(5)(3) == 8


def test_functions_run_where_the_server_is(process_server):
    with rpc.connect("127.0.0.1", process_server.port, "secret") as session:
        assert function(session, "process")() != os.getpid()


@ALL
def test_results_of_all_kinds_come_back(remote):
    array, *others = function(remote, "values")()
    assert others == ["text", {"key": 3}, None, 2.5, True, b"bytes", [1, "two"]]
    assert array.device == remote.cpu(0)
    np.testing.assert_equal(array.numpy(), np.arange(3))


@ALL
def test_arrays_live_at_the_server(remote, array):
    device = remote.cpu(0)
    there, target = ts.nd.array(array, device), ts.nd.empty((5, 7), "float32", device)
    assert there.device == device and there.shape == (5, 7) and there.dtype == "float32"
    assert str(device).startswith("remote[") and str(device).endswith("]:cpu(0)")
    function(remote, "scale")(there, target, 3.0)
    np.testing.assert_allclose(target.numpy(), array * 3)
    target.copyfrom(array + 1)
    np.testing.assert_equal(target.numpy(), array + 1)
    there.copyto(target)
    np.testing.assert_equal(target.numpy(), array)
    np.testing.assert_equal(there.copyto(ts.cpu()).numpy(), array)
    here = ts.nd.empty((5, 7), "float32")
    target.copyto(here)
    np.testing.assert_equal(here.numpy(), array)
    target[:] = array * 2
    np.testing.assert_equal(np.asarray(target), array * 2)
    np.testing.assert_equal(target[2], array[2] * 2)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("int4", (3, 5)), ("bool", (7,)), ("bfloat16", (2, 3)), ("float64", ()), ("int8", (0, 3))],
)
def test_elements_of_all_kinds_travel(local, dtype, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2
    there = ts.nd.array(values, local.cpu(), dtype=dtype)
    assert there.dtype == dtype
    np.testing.assert_equal(there.numpy().astype("int32"), values)


def test_large_arrays_travel_in_pieces(local):
    values = np.arange(PIECE // 4 + 1000, dtype="int32")
    there = ts.nd.array(values, local.cpu())
    np.testing.assert_equal(there.numpy(), values)


def test_views_are_views_at_the_server(local, array):
    there = ts.nd.array(array, local.cpu())
    view = there._create_view((7, 4), "float32", 7 * 4)
    np.testing.assert_equal(view.numpy(), array[1:].reshape(7, 4)[:, :4])
    view.copyfrom(np.zeros((7, 4), "float32"))
    assert not there.numpy()[1:].any() and there.numpy()[0].all()


def test_arrays_with_strides_are_made_compact(local):
    there = function(local, "transposed")()
    np.testing.assert_equal(there.numpy(), np.arange(6, dtype="float32").reshape(2, 3).T)


def test_arrays_go_from_one_session_to_another(local, array):
    with rpc.LocalSession() as other:
        there = ts.nd.array(array, local.cpu()).copyto(other.cpu())
        assert there.device == other.cpu() != local.cpu()
        np.testing.assert_equal(there.numpy(), array)


def test_arrays_that_nobody_needs_are_given_back(local, array):
    service = local.connection.transport.service
    kept = ts.nd.array(array, local.cpu())
    view = kept._create_view((35,))
    for _ in range(10):
        ts.nd.array(array, local.cpu())
    del kept
    gc.collect()
    local.listdir()  # tells it
    assert len(service.held) == 1
    assert view.numpy().shape == (35,)
    del view
    gc.collect()
    local.listdir()
    assert len(service.held) == 0


def test_devices_of_all_types_have_names(local):
    names = ("cpu", "cuda", "cl", "vulkan", "metal", "rocm", "ext_dev", "hexagon", "webgpu")
    types = [getattr(local, name)(1).device_type % 128 for name in names]
    assert types == [getattr(ts.nd, "opencl" if n == "cl" else n)().device_type for n in names]
    assert local.device("llvm", 0) == local.cpu(0) and local.device(2, 1) == local.cuda(1)
    assert local.cpu().device_type >= 128 and local.cpu(0).exist and not local.cuda(0).exist
    assert local.cpu().multi_processor_count == ts.cpu().multi_processor_count
    local.cpu().sync()


def test_devices_arrive_as_those_of_the_server(remote):
    assert function(remote, "is_cpu")(remote.cpu(0)) is True
    assert function(remote, "echo")(remote.cpu(0)) == [remote.cpu(0)]


@ALL
def test_files_come_and_go(remote, tmp_path):
    content = bytes(range(256)) * 10
    remote.upload(content, "some.bin")
    (tmp_path / "other.bin").write_bytes(b"other")
    remote.upload(tmp_path / "other.bin")
    remote.upload(b"", "folder/empty")
    assert remote.listdir() == ["folder", "other.bin", "some.bin"]
    assert remote.list_files("folder") == ["empty"]
    assert remote.download("some.bin") == content and remote.download("folder/empty") == b""
    remote.upload(b"new", "some.bin")
    assert remote.download("some.bin") == b"new"
    remote.remove("some.bin")
    remote.remove("folder")
    assert remote.listdir() == ["other.bin"]


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "", ".", "a\0b"])
def test_names_of_files_do_not_lead_out_of_the_folder(local, name):
    with pytest.raises(RPCError, match="not the name of a file"):
        local.upload(b"x", name)
    with pytest.raises(RPCError, match="not the name of a file"):
        local.download(name)


def test_links_do_not_lead_out_of_the_folder(local, tmp_path):
    local.upload(b"x", "file")
    root = local.connection.transport.service.folder.root
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(RPCError, match="not the name of a file"):
        local.upload(b"x", "link/file")


@ALL
def test_errors_of_the_server_keep_their_class(remote):
    with pytest.raises(ShapeError, match="the shapes are bad") as caught:
        function(remote, "fail_with_shapes")()
    assert "give others" in str(caught.value) and remote.connection.where in str(caught.value)
    with pytest.raises(ValueError, match="the value is bad"):
        function(remote, "fail_with_value")()
    with pytest.raises(ValueError, match="the value is bad"):
        function(remote, "fail_with_value").measure((), {}, {})
    with pytest.raises(RPCError, match="OwnError: nobody knows this"):
        function(remote, "fail_with_own")()
    with pytest.raises(TypeMismatchError, match="object"):
        function(remote, "object")()
    with pytest.raises(TypeMismatchError, match="too large"):
        function(remote, "long_list")()
    assert function(remote, "add_one")(1) == 2


def test_an_error_that_nobody_knows_is_said_to_be_remote():
    from tilesmith.rpc.faults import describe_fault, rebuild_fault

    class Strange(Exception):
        pass

    error = rebuild_fault(describe_fault(Strange("words")), "there")
    assert type(error) is RPCError and error.message == "Strange: words"
    assert type(rebuild_fault(17, "there")) is RPCError


def test_unknown_functions_and_files_are_said(remote):
    with pytest.raises(UnknownMemberError, match="no global function 'tests.rpc.none'"):
        function(remote, "none")
    with pytest.raises(RPCError, match=r"(?s)has no file 'none\.so'.*it has: none"):
        remote.load_module("none.so")


@pytest.mark.parametrize(
    "argument", [np.zeros(3), ts.nd.array([1.0]), ts.cpu(), print, [np.zeros(3)]]
)
def test_what_lives_here_is_not_sent(local, argument):
    with pytest.raises(TypeMismatchError):
        function(local, "echo")(argument)


def test_what_belongs_to_another_session_is_not_sent(local, array):
    with rpc.LocalSession() as other:
        for argument in (ts.nd.array(array, other.cpu()), other.cpu(), function(other, "echo")):
            with pytest.raises(TypeMismatchError, match="another session"):
                function(local, "echo")(argument)


def test_addresses_are_checked(local, array):
    from tilesmith.rpc.protocol import DeviceRecord, Operation, TensorRecord

    there = ts.nd.array(array, local.cpu())
    device = DeviceRecord(1, 0)
    for shape, offset in [((6, 7), 0), ((5, 7), 4), ((1 << 60, 1 << 60), 0)]:
        record = TensorRecord(there.data_ptr() + offset, device, "float32", shape)
        with pytest.raises(OutOfBoundsError):
            local.connection.request(Operation.READ, record, 0, 4)
    record = TensorRecord(there.data_ptr(), device, "float32", (5, 7))
    for start, size in [(-4, 4), (138, 4), (0, -1), (0, 1 << 40)]:
        with pytest.raises(OutOfBoundsError):
            local.connection.request(Operation.READ, record, start, size)
    with pytest.raises(RPCError, match="no object"):
        local.connection.request(Operation.READ, TensorRecord(1 << 60, device, "int8", ()), 0, 1)


def test_a_closed_session_says_so(remote, array):
    device, call = remote.cpu(), function(remote, "add_one")
    there = ts.nd.array(array, device)
    remote.close()
    for use in (there.numpy, lambda: call(1), lambda: ts.nd.array(array, device), remote.listdir):
        with pytest.raises(RPCError, match="closed"):
            use()


def test_a_session_lives_as_long_as_what_came_from_it(array):
    call, device = function(rpc.LocalSession(), "add_one"), rpc.LocalSession().cpu()
    gc.collect()
    assert call(1) == 2
    there = ts.nd.array(array, device)
    del device
    gc.collect()
    np.testing.assert_equal(there.numpy(), array)


def test_a_session_ends_with_what_came_from_it():
    device = ts.Device(rpc.LocalSession().cpu().device_type)
    gc.collect()
    with pytest.raises(RPCError, match="closed"):
        ts.nd.empty((3,), "float32", device)


def test_wrong_uploads_are_said(local, tmp_path):
    with pytest.raises(TypeMismatchError, match="need a name"):
        local.upload(b"x")
    with pytest.raises(TypeMismatchError, match="not int"):
        local.upload(7)
    with pytest.raises(OSError, match="cannot be uploaded"):
        local.upload(tmp_path / "none")


def test_what_makes_no_sense_here_is_refused():
    with pytest.raises(UnsupportedError, match="program"):
        rpc.connect("127.0.0.1", 1, session_constructor_args=["x"])
    with pytest.raises(UnsupportedError, match="log"):
        rpc.connect("127.0.0.1", 1, enable_logging=True)
    with pytest.raises(UnsupportedError, match="small server"):
        rpc.with_minrpc(print)
    with pytest.raises(UnsupportedError, match="proxy"):
        rpc.Server(is_proxy=True)


def test_a_session_ends_when_a_request_is_interrupted(thread_server, monkeypatch):
    """Else its answer would be taken for the answer to the next request."""

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with rpc.connect("127.0.0.1", thread_server.port) as session:
        call = function(session, "add_one")
        with monkeypatch.context() as patch:
            patch.setattr(session.connection.transport.channel, "receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                call(1)
        with pytest.raises(RPCError, match="interrupted"):
            call(2)


def test_threads_share_a_session(thread_server):
    with rpc.connect("127.0.0.1", thread_server.port) as session:
        call = function(session, "add_one")
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(call, range(200))) == list(range(1, 201))
