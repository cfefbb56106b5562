import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.ndarray import NDArray
from tilesmith.runtime.packed_func import PackedFunc, convert_to_packed
from tilesmith.runtime.registry import list_global_func_names, remove_global_func
from tilesmith.support.errors import ConfigError, ShapeError, TypeMismatchError, UnknownNameError


@pytest.fixture
def name():
    yield "test.function"
    remove_global_func("test.function")


def test_values_arrive_as_our_own(name):
    seen = []
    ts.register_func(name, lambda *values: seen.extend(values))
    function = ts.get_global_func(name)
    assert isinstance(function, PackedFunc)
    function(
        np.ones(2), ts.nd.array([1]), 3, 2.5, "text", True, None, ts.cpu(1), [1, "a"], {"k": 2}
    )
    kinds = [type(value) for value in seen]
    assert kinds == [NDArray, NDArray, int, float, str, bool, type(None), ts.Device, list, dict]
    assert seen[7] is ts.cpu(1) and seen[8] == [1, "a"] and seen[9] == {"k": 2}


def test_results_come_back(name):
    ts.register_func(name, lambda x: x)
    function = ts.get_global_func(name)
    tensor = ts.nd.array([1, 2])
    assert type(function(tensor)) is NDArray and function(tensor).same_as(tensor)
    assert function(5) == 5 and function("x") == "x" and function(None) is None


def test_destination_passing(name):
    @ts.register_func(name)
    def double(x, out):
        out[:] = x.numpy() * 2

    out = ts.nd.empty((3,))
    ts.get_global_func(name)(ts.nd.array(np.arange(3, dtype="float32")), out)
    assert out.numpy().tolist() == [0, 2, 4]
    assert double(ts.nd.array([1]), out) is None  # the decorated function stays callable


def test_torch_tensors(name):
    torch = pytest.importorskip("torch")
    source = torch.zeros(3)

    @ts.register_func(name)
    def fill(x):
        torch.from_dlpack(x)[:] = 4

    ts.get_global_func(name)(source)
    assert source.tolist() == [4, 4, 4]


def test_names(name):
    ts.register_func(name, lambda: 1)
    with pytest.raises(ConfigError, match="registered already"):
        ts.register_func(name, lambda: 2)
    ts.register_func(name, lambda: 3, override=True)
    assert ts.get_global_func(name)() == 3
    assert name in list_global_func_names()
    remove_global_func(name)
    assert ts.get_global_func(name, allow_missing=True) is None
    with pytest.raises(UnknownNameError, match="unknown global function 'test.function'"):
        ts.get_global_func(name)
    with pytest.raises(TypeMismatchError):
        ts.register_func(3)


def test_bare_decorator():
    @ts.register_func
    def function_of_this_test():
        return 7

    assert ts.get_global_func("function_of_this_test")() == 7
    remove_global_func("function_of_this_test")


@pytest.mark.parametrize("kind", [ValueError, KeyError, ShapeError, ZeroDivisionError])
def test_errors_travel_through(name, kind):
    def fail():
        raise kind("went wrong")

    ts.register_func(name, fail)
    with pytest.raises(kind, match="went wrong"):
        ts.get_global_func(name)()


def test_functions_of_the_runtime_are_found():
    tensor = ts.get_global_func("tilesmith.runtime.alloc_tensor")("float32", 2, 3)
    assert tensor.shape == (2, 3) and tensor.data_ptr() % 64 == 0


def test_call_dps_copies_in_and_out(name):
    kept = []

    @ts.register_func(name)
    def scale(x, factor, out):
        kept.append(x)
        out[:] = x.numpy() * factor

    x, out = np.arange(6, dtype="float32").reshape(2, 3), np.zeros((2, 3), "float32")
    call = ts.get_global_func("tilesmith.runtime.call_dps")
    specification = "in:float32:2,value,out:float32:2"
    call(name, specification, x.ctypes.data, 2, 3, 3.0, out.ctypes.data, 2, 3)
    assert np.array_equal(out, x * 3)
    x[:] = 0
    assert kept[0].numpy().sum() == 15  # a tensor of its own
    with pytest.raises(UnknownNameError):
        call("test.nobody", "")


class Refused(Exception):
    """A class that only the user knows."""


class Demanding(Exception):
    def __init__(self, place, reason):
        super().__init__(place, reason)


@pytest.mark.parametrize(
    "kind", [Refused, NotImplementedError, ZeroDivisionError, KeyboardInterrupt, FileNotFoundError]
)
def test_errors_of_functions_keep_their_class(kind):
    def refuse():
        raise kind("not today")

    packed = convert_to_packed(refuse)
    for _ in range(2):
        with pytest.raises(kind, match="not today") as caught:
            packed()
        assert type(caught.value) is kind
        assert any(entry.name == "refuse" for entry in caught.traceback)


def test_errors_that_no_message_makes():
    def refuse():
        raise Demanding("here", "too late")

    with pytest.raises(RuntimeError, match="too late"):
        convert_to_packed(refuse)()


def test_functions_that_users_know_by_name():
    count = ts.get_global_func("runtime.NumThreads")
    before = count()
    ts.get_global_func("runtime.config_threadpool")(1, 1)
    assert count() == ts.runtime.num_threads() == 1
    ts.get_global_func("runtime.config_threadpool")(1, 0)
    assert count() == before
    enabled = ts.get_global_func("runtime.RuntimeEnabled")
    assert enabled("llvm") and not enabled("of my own")
