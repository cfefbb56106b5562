import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import tilesmith as ts
from tests.runtime.conftest import MODEL_IR, interface_ir
from tilesmith.runtime import executable as module
from tilesmith.runtime.call import result_maker
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.executable import Executable, load
from tilesmith.runtime.module import load_module
from tilesmith.runtime.ndarray import NDArray, aligned_numpy
from tilesmith.runtime.relax_vm import VirtualMachine
from tilesmith.runtime.signature import parse_signature
from tilesmith.support.errors import (
    ArtifactError,
    FileError,
    OutOfMemoryError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

X = np.arange(6, dtype="float32").reshape(2, 3)
EXPECTED = X * np.array([2, 3, 4], "float32") + 1


def check(executable):
    result = executable(X)
    assert type(result) is NDArray and result.data_ptr() % 64 == 0
    assert np.array_equal(result.numpy(), EXPECTED)


def test_kinds_of_inputs(executable):
    check(executable)
    strided = np.stack([X, X], axis=-1)[..., 0]
    frozen = X.copy()
    frozen.flags.writeable = False
    inputs = [X, ts.nd.array(X), strided, frozen, ts.nd.from_dlpack(strided), X.astype(">f4")]
    for value in inputs:
        assert np.array_equal(executable(value).numpy(), EXPECTED)
    assert np.array_equal(executable(x=X).numpy(), EXPECTED)
    torch = pytest.importorskip("torch")
    assert np.array_equal(executable(torch.from_numpy(X)).numpy(), EXPECTED)
    assert np.array_equal(torch.from_dlpack(executable(X)).numpy(), EXPECTED)


def test_results_are_independent(executable):
    first = executable(X)
    for _ in range(40):
        executable(X * 0)
    assert np.array_equal(first.numpy(), EXPECTED)


HOLDERS = [
    lambda result: result,
    np.from_dlpack,
    lambda result: result.numpy_view()[:, 1:],
    lambda result: ts.nd.from_dlpack(result.to_dlpack()),
    lambda result: ts.nd.from_dlpack(np.from_dlpack(result)),
    lambda result: result._create_view((6,)),
    lambda result: pytest.importorskip("torch").from_dlpack(result),
]


@pytest.mark.parametrize("hold", HOLDERS)
def test_memory_that_something_refers_to_is_not_used_again(executable, hold):
    held = [hold(executable(X)) for _ in range(3)]
    wanted = [np.asarray(one).copy() for one in held]
    assert wanted[0].sum() > 0
    for _ in range(5):
        executable(X * 0)
    for one, contents in zip(held, wanted):
        assert np.array_equal(np.asarray(one), contents)


class Leaf:
    """A result of a static shape."""

    def __init__(self, *shape):
        self.dtype, self.shape = DataType("float32"), shape


@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (70, 70), (512, 768)])
def test_memory_of_results_is_used_again(shape):
    make = result_maker(Leaf(*shape))
    first = make()
    assert first.shape == shape and first.data_ptr() % 64 == 0
    places = [first.data_ptr()]
    for _ in range(3):  # as long as a program holds one result at most
        first = make()
        places.append(first.data_ptr())
    assert places[2:] == places[:2]
    if first.size:
        held = [make() for _ in range(40)]
        assert len({one.data_ptr() for one in [first, *held]}) == 41


@pytest.mark.parametrize(("rows", "is_kept"), [(1023, True), (1025, False)])
def test_large_results_are_not_kept(monkeypatch, rows, is_kept):
    made = []

    def watched(shape, dtype):
        array = aligned_numpy(shape, dtype)
        made.append(weakref.ref(array))
        return array

    monkeypatch.setattr("tilesmith.runtime.call.aligned_numpy", watched)
    result = result_maker(Leaf(rows, 512))()
    assert result.data_ptr() % 64 == 0 and made[0]() is not None
    make = result_maker(Leaf(rows, 512))
    make()
    assert (made[1]() is not None) == is_kept


def test_threads_do_not_share_results():
    make = result_maker(Leaf(64))
    wrong = []

    def work(number):
        for _ in range(2000):
            view = make().numpy_view()
            view[:] = number
            if not (view == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "arguments, named, kind, message",
    [
        ([X[0]], {}, ShapeError, r"input 'x' of 'main': expected shape \(2, 3\), got \(3,\)"),
        ([X.T], {}, ShapeError, r"expected shape \(2, 3\), got \(3, 2\)"),
        ([X.astype("float64")], {}, TypeMismatchError, "expected dtype 'float32', got dtype 'flo"),
        ([X.astype("float64")], {}, TypeMismatchError, r'convert it: x.astype\("float32"\)'),
        ([[1, 2]], {}, TypeMismatchError, r"a tensor float32\[2, 3\], got list"),
        ([], {}, TypeMismatchError, r"(?s)misses the input 'x'\n.*float32\[2, 3\]"),
        ([X, X], {}, TypeMismatchError, "takes 1 inputs, got 2"),
        ([X], {"x": X}, TypeMismatchError, "given twice"),
        ([], {"xx": X}, UnknownNameError, "(?s)no input 'xx'\n.*did you mean 'x'"),
    ],
)
def test_wrong_inputs(executable, arguments, named, kind, message):
    with pytest.raises(kind, match=message):
        executable(*arguments, **named)


def test_symbolic_sizes(executable):
    function = executable["doubled"]
    for size in (1, 5, 3000, 2):
        x = np.arange(size, dtype="float32")
        tensor, shape, number = function(x, 3)
        assert np.array_equal(tensor.numpy(), np.tile(x, 2) * 3)
        assert shape == (size,) and number == size
    assert function(x=np.ones(2, "float32"), k=np.int64(2))[0].numpy().tolist() == [2] * 4
    with pytest.raises(ShapeError, match=r"expected shape \(n,\), got \(1, 2\)"):
        function(np.ones((1, 2), "float32"), 1)
    with pytest.raises(TypeMismatchError, match="input 'k' of 'doubled': expected a number"):
        function(np.ones(2, "float32"), 1.5)


def test_symbols_must_agree(model_object):
    tensor = {"kind": "tensor", "shape": ["n", 2], "dtype": "float32"}
    pair = {
        "kind": "tuple",
        "name": "pair",
        "fields": [{**tensor, "name": f"p{i}"} for i in (0, 1)],
    }
    entry = {
        "params": [pair, {"kind": "shape", "name": "s", "shape": ["n"]}],
        "result": {"kind": "none"},
        "symbols": ["n"],
        "function": "nothing",
    }
    function = Executable({"functions": {"f": entry}}, [model_object])["f"]
    ones, more = np.ones((3, 2), "float32"), np.ones((4, 2), "float32")
    assert function((ones, ones), (3,)) is None
    with pytest.raises(ShapeError, match="n is 3 in input 'p0', but 4 here"):
        function((ones, more), (3,))
    with pytest.raises(ShapeError, match="input 's'.*got \\(4,\\)"):
        function((ones, ones), (4,))
    with pytest.raises(TypeMismatchError, match="expected 2 fields, got 1 fields"):
        function((ones,), (3,))
    with pytest.raises(TypeMismatchError, match="input 'pair' of 'f': expected a tuple"):
        function(ones, (3,))
    with pytest.raises(TypeMismatchError, match="a tuple of integers"):
        function((ones, ones), 3)


def test_threads_share_an_executable(executable):
    wrong = []

    def work(seed):
        x = np.full((2, 3), seed, "float32")
        for _ in range(200):
            expected = x * np.array([2, 3, 4], "float32") + 1
            if not np.array_equal(executable(x).numpy(), expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_description(executable):
    assert executable.function_names == ["main", "doubled"] and executable.input_names == ["x"]
    assert "main(x: float32[2, 3]) -> float32[2, 3]" in executable.stats()
    assert "constants: 1 (12 bytes)" in executable.as_text()
    assert "define i32 @__tvm_ffi_main" in executable.get_source("ll")
    with pytest.raises(UnsupportedError, match="format 'cu'"):
        executable.get_source("cu")
    with pytest.raises(UnknownNameError, match="no function 'mian'"):
        executable["mian"]
    assert executable.time_evaluator("main", number=2, repeat=3)(X).mean > 0


@pytest.fixture(params=["shared library", "objects", "exported"])
def saved(request, executable, tmp_path, monkeypatch):
    path = tmp_path / ("model.so" if request.param == "exported" else "model.tsm")
    if request.param == "objects":
        monkeypatch.setattr(module, "find_linkers", list)
    if request.param == "exported":
        executable.export_library(path)
    else:
        executable.save(path)
    return path


def test_save_and_load(saved):
    for loaded in (load(saved), load_module(saved), ts.load(saved)):
        check(loaded)
        assert loaded["doubled"](X[0], 2)[1] == (3,)
        assert not loaded.constants["scale"].flags.writeable


def test_a_loaded_model_saves_again(saved, tmp_path):
    if saved.suffix == ".so":
        pytest.skip("its code is the file itself")
    load(saved).save(tmp_path / "again.tsm")
    check(load(tmp_path / "again.tsm"))


def test_loading_needs_no_compiler(executable, tmp_path):
    executable.save(tmp_path / "model.tsm")
    program = (
        "import sys, numpy as np, tilesmith as ts\n"
        f"exe = ts.load({str(tmp_path / 'model.tsm')!r})\n"
        "print(exe(np.ones((2, 3), 'float32')).numpy().sum())\n"
        "print([m for m in ('llvmlite', 'torch', 'onnx', 'rich', 'tilesmith.ir', 'tilesmith.tir')"
        " if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["24.0", "[]"], done.stderr


def test_missing_functions_show_when_loading(emit, tmp_path):
    metadata = {"functions": {"absent": {"params": [], "result": {"kind": "none"}}}}
    code = emit(MODEL_IR, interface_ir(metadata["functions"], {}))
    Executable(metadata, [code]).save(tmp_path / "x.tsm")
    with pytest.raises(ArtifactError, match="x.tsm.*no function 'absent'"):
        load(tmp_path / "x.tsm")


def test_constants(model_object):
    with pytest.raises(ArtifactError, match="constants are missing: scale"):
        Executable({"constants": ["scale"]}, [model_object], {})


@pytest.mark.parametrize(
    "change",
    [
        {"params": 3},
        {"params": [{"name": "x", "kind": "toaster"}]},
        {"params": [{"name": "x", "kind": "tensor", "shape": [-1], "dtype": "int8"}]},
        {"params": [{"name": "x", "kind": "tensor", "shape": [1.5], "dtype": "int8"}]},
        {"params": [{"name": "x", "kind": "tensor", "shape": [1], "dtype": "int77x"}]},
        {"result": {"kind": "tensor", "shape": ["n"], "dtype": "int8"}},
        {"workspace_bytes": -5},
        {"workspace_bytes": "dynamic"},
    ],
)
def test_bad_signatures(change):
    with pytest.raises(ArtifactError):
        parse_signature("main", {"params": [], "result": {"kind": "none"}, **change})


def test_virtual_machine(executable):
    vm = VirtualMachine(executable, ts.cpu())
    assert np.array_equal(vm["main"](ts.nd.array(X)).numpy(), EXPECTED)
    vm.set_input("main", X)
    vm.invoke_stateful("main")
    assert np.array_equal(vm.get_outputs("main").numpy(), EXPECTED)
    vm.save_function("main", "saved", X)
    assert np.array_equal(vm["saved"]().numpy(), EXPECTED)
    vm.save_function("main", "silent", X, include_return=False)
    assert vm["silent"]() is None
    assert vm.invoke_closure(vm["main"], X).shape == (2, 3)
    assert vm.time_evaluator("main", ts.cpu(), number=2)(X).mean > 0
    with pytest.raises(UnknownNameError):
        vm["nobody"]
    with pytest.raises(UnknownNameError, match="call set_input first"):
        vm.invoke_stateful("doubled")
    with pytest.raises(UnknownNameError, match="call invoke_stateful first"):
        vm.get_outputs("doubled")
    with pytest.raises(UnsupportedError):
        vm.set_instrument(print)
    with pytest.raises(TypeMismatchError):
        VirtualMachine("model.so", ts.cpu())


def test_memory_that_the_system_does_not_have_is_a_typed_error():
    with pytest.raises(OutOfMemoryError, match="no memory for .* GiB") as error:
        ts.nd.empty((1 << 45, 1 << 10), "float32")
    assert isinstance(error.value, MemoryError)


def test_a_missing_folder_is_named(executable, tmp_path):
    for name in ("model.tsm", "model.so"):
        with pytest.raises(FileError, match=f"(?s)missing/{name}.*\n.*no folder"):
            executable.export_library(tmp_path / "missing" / name)


def test_an_input_may_be_named_self(executable):
    for function in (executable, executable["main"]):
        with pytest.raises(UnknownNameError, match="no input 'self'"):
            function(X, self=X)


@pytest.mark.parametrize(
    "metadata",
    [
        {"functions": 3},
        {"functions": {"main": 3}},
        {"functions": {"main": {"params": [], "result": {"kind": "none"}, "shapes_function": 3}}},
        {"functions": {"main": {"params": "text", "result": {"kind": "none"}}}},
        {"constants": 3},
        {"constants": [3]},
        {"constants": ["missing"]},
    ],
)
def test_metadata_of_another_form(metadata):
    with pytest.raises(ArtifactError):
        Executable(metadata, [])
