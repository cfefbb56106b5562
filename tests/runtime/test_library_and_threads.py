import ctypes
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime import threads
from tilesmith.runtime.elf import defined_symbols
from tilesmith.runtime.library import Library
from tilesmith.support.errors import (
    ArtifactError,
    CodegenError,
    ConfigError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.knobs import knobs
from tilesmith.support.linker import link_shared


def load(kind, threads_object, tmp_path):
    """The library, in one of the ways in which code is loaded."""
    if kind == "objects":
        return Library.from_objects([threads_object])
    path = tmp_path / "library.so"
    link_shared([threads_object], path)
    if kind == "file":
        return Library.load(path)
    return Library.from_shared_bytes(path.read_bytes())


def file_of(address):
    """The name under which the loader knows the library around an address."""

    class Info(ctypes.Structure):
        _fields_ = [
            ("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
            ("name", ctypes.c_char_p), ("address", ctypes.c_void_p),
        ]  # fmt: skip

    info = Info()
    assert ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return info.file.decode()


@pytest.fixture(params=["objects", "file", "memory"])
def library(request, threads_object, tmp_path):
    return load(request.param, threads_object, tmp_path)


@pytest.fixture(params=["objects", "file", "memory"])
def library_on_libgomp(request, threads_object, tmp_path):
    with knobs.override(thread_runtime="gomp"):
        return load(request.param, threads_object, tmp_path)


@pytest.fixture(autouse=True)
def default_threads():
    yield
    ts.set_num_threads(None)


def seen_by(library):
    counts = ts.nd.array(np.zeros(8, "int32"))
    library.get_function("count_threads")(counts)
    return counts.numpy().tolist()


def test_functions_and_symbols(library):
    exp = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(library.symbol("plain_exp"))
    assert exp(0.0) == 1.0
    library.get_function("nothing")(1, "two", np.zeros(3))
    assert library.symbol("nobody") is None
    assert library.get_function("nobody", allow_missing=True) is None
    with pytest.raises(UnknownNameError, match="no function 'nobody'"):
        library.get_function("nobody")


def test_generated_errors_have_our_kinds(library):
    with pytest.raises(ShapeError, match="does not fit!!"):
        library.get_function("refuse")()


def test_functions_keep_their_library(library):
    function = library.get_function("nothing")
    del library
    gc.collect()
    function()


def test_libraries_are_released(threads_object):
    import weakref

    library = Library.from_objects([threads_object])
    function = library.get_function("nothing")
    gone = weakref.ref(library)
    del library, function
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(threads.find_libgomp() is None, reason="no libgomp on this machine")
@pytest.mark.parametrize("count", [1, 2, 5])
def test_libgomp_runs_as_many_threads_as_set(library_on_libgomp, count):
    ts.set_num_threads(count)
    assert ts.num_threads() == count
    assert seen_by(library_on_libgomp) == [count] * count + [0] * (8 - count)


@pytest.mark.skipif(threads.find_libgomp() is None, reason="no libgomp on this machine")
def test_the_targets_bound_holds(bounded_object):
    with knobs.override(thread_runtime="gomp"):
        library = Library.from_objects([bounded_object])
    ts.set_num_threads(5)
    assert seen_by(library) == [2, 2, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "choice, expected", [("pool", [1, 0, 0, 0, 0, 0, 0, 77]), ("serial", [1] + [0] * 7)]
)
def test_choice_of_the_thread_runtime(threads_object, choice, expected):
    with knobs.override(thread_runtime=choice):
        assert seen_by(Library.from_objects([threads_object])) == expected


def test_the_pool_is_the_default(threads_object):
    assert seen_by(Library.from_objects([threads_object]))[7] == 77


@pytest.mark.parametrize("choice", ["auto", "pool"])
def test_loops_that_stay_on_one_thread_are_told(threads_object, monkeypatch, choice):
    monkeypatch.setattr(threads, "find_libgomp", lambda: None)
    library = Library.from_objects([threads_object])

    def symbol(name):
        return None if name == "__tilesmith_launch_pool" else library.symbol(name)

    with knobs.override(thread_runtime=choice), collect_fallbacks() as report:
        threads.attach(type("WithoutPool", (), {"symbol": staticmethod(symbol)})())
    assert [(one.kind, one.place) for one, _ in report.rows()] == [("threads", "parallel loops")]
    with knobs.override(thread_runtime="serial"), collect_fallbacks() as report:
        threads.attach(library)
    assert len(report) == 0


def test_a_missing_libgomp_is_said(threads_object, monkeypatch):
    monkeypatch.setattr(threads, "find_libgomp", lambda: None)
    with knobs.override(thread_runtime="gomp"), pytest.raises(ConfigError, match="no libgomp"):
        Library.from_objects([threads_object])


def test_a_library_without_us_is_serial(threads_object, tmp_path):
    """Loaded by plain ctypes, the launch pointer stays at the library's own serial loop."""
    link_shared([threads_object], tmp_path / "x.so")
    program = (
        "import ctypes, tvm_ffi\n"
        "ctypes.CDLL(tvm_ffi.LIB._name, mode=ctypes.RTLD_GLOBAL)\n"
        "import numpy as np\n"
        f"m = tvm_ffi.load_module({str(tmp_path / 'x.so')!r})\n"
        "x = np.zeros(8, 'int32'); m.count_threads(x); print(x.tolist())\n"
    )
    environment = {**os.environ, "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == str([1] + [0] * 7), done.stderr


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({"TILESMITH_NUM_THREADS": "3", "OMP_NUM_THREADS": "4"}, 3),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "nonsense"}, None),
        ({}, None),
    ],
)
def test_default_number(monkeypatch, environment, expected):
    for name in ("TILESMITH_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.default_num_threads() == (expected or cpus)


@pytest.mark.parametrize("bad", [0, -1, "2"])
def test_bad_number(bad):
    with pytest.raises(ConfigError):
        ts.set_num_threads(bad)


def test_several_python_threads_call_at_once(threads_object):
    library = Library.from_objects([threads_object])
    ts.set_num_threads(2)
    results = []

    def work():
        for _ in range(20):
            results.append(seen_by(library)[0])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 80 and set(results) <= {1, 2}


def test_several_objects_link_together(emit):
    first = emit("define i32 @shared_helper() {\n  ret i32 41\n}\n")
    second = (
        "declare i32 @shared_helper()\n"
        "define i32 @__tvm_ffi_answer(ptr %s, ptr %a, i32 %n, ptr %r) {\n"
        "  %x = call i32 @shared_helper()\n  %y = add i32 %x, 1\n"
        "  store i32 1, ptr %r\n  %p = getelementptr i8, ptr %r, i64 8\n"
        "  %z = sext i32 %y to i64\n  store i64 %z, ptr %p\n  ret i32 0\n}\n"
    )
    import llvmlite.binding as llvm

    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="default"
    )
    objects = [first, machine.emit_object(llvm.parse_assembly(second))]
    assert Library.from_objects(objects).get_function("answer")() == 42


def test_undefined_symbols_and_damaged_code(emit):
    content = emit("declare void @nobody_has_this()\ndefine void @f() {\n"
                   "  call void @nobody_has_this()\n  ret void\n}\n")  # fmt: skip
    with pytest.raises(CodegenError, match="nobody_has_this"):
        Library.from_objects([content])
    address = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    Library.from_objects([content], symbols={"nobody_has_this": address})
    with pytest.raises(CodegenError, match="at least one"):
        Library.from_objects([])


def test_libraries_from_memory_are_not_mixed_up(emit, threads_object, model_object, tmp_path):
    names = []
    for index, content in enumerate([threads_object, model_object] * 3):
        link_shared([content], tmp_path / f"{index}.so")
        library = Library.from_shared_bytes((tmp_path / f"{index}.so").read_bytes())
        names.append(library.symbol("__tvm_ffi_main") is None)
    assert names == [True, False] * 3


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux names what is mapped")
@pytest.mark.parametrize("in_folder", [True, False])
def test_the_name_of_a_library_from_memory_stands_for_no_other_file(
    threads_object, tmp_path, monkeypatch, in_folder
):
    """The name of a closed descriptor would: whoever reads a library's file by its name, as
    tvm-ffi does for its backtraces, read some other file, or died when that one was shortened."""
    link_shared([threads_object], tmp_path / "library.so")
    contents = (tmp_path / "library.so").read_bytes()
    if not in_folder:
        real = Library.load
        forbid = lambda path: real("/dev/null" if "/tilesmith-" in str(path) else path)
        monkeypatch.setattr(Library, "load", staticmethod(forbid))
    library = Library.from_shared_bytes(contents)
    found = file_of(library.symbol(defined_symbols(threads_object)[0]))
    assert not Path(found).exists() or Path(found).read_bytes() == contents


@pytest.mark.parametrize("permitted", [True, False])
def test_amx_is_asked_for_when_code_uses_it(emit, monkeypatch, permitted):
    content = emit("@__tilesmith_uses_amx = global i32 1\n")
    monkeypatch.setattr("tilesmith.runtime.amx.enable_amx", lambda: permitted)
    if permitted:
        Library.from_objects([content])
    else:
        with pytest.raises(UnsupportedError, match="uses AMX"):
            Library.from_objects([content])


def test_not_a_library(tmp_path):
    (tmp_path / "x.so").write_bytes(b"nonsense")
    with pytest.raises(ArtifactError, match="cannot load the shared library"):
        Library.load(tmp_path / "x.so")


def test_defined_symbols(threads_object):
    names = defined_symbols(threads_object)
    assert {"__tvm_ffi_count_threads", "__tilesmith_gomp", "plain_exp"} <= set(names)
    assert "gomp_entry" not in names and "expf" not in names
    assert defined_symbols(b"MZ nothing") == []
