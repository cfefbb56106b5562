"""Static libraries, functions of the process, properties, names of the runtime."""

import ctypes
import struct
import subprocess
from shutil import which

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import runtime
from tilesmith.runtime.container import ADT, getitem_helper, tuple_object
from tilesmith.runtime.module import Module, ModulePropertyMask, load_module
from tilesmith.runtime.name_transforms import sanitize_name
from tilesmith.support.errors import ArtifactError, TilesmithError, UnsupportedError
from tilesmith.support.static_archive import archive_members, static_archive


@pytest.fixture
def module(threads_object):
    return Module("llvm", objects=[threads_object], function_names=["nothing"])


def test_static_library(module, tmp_path):
    path = tmp_path / "library.a"
    module.export_library(path)
    assert load_module(str(path))["nothing"]() is None
    loaded = runtime.load_static_library(str(path), ["nothing"])
    assert loaded.type_key == "static_library" and loaded.function_names[0] == "nothing"
    assert loaded["nothing"]() is None
    (tmp_path / "one.o").write_bytes(module.objects[0])
    assert runtime.load_static_library(tmp_path / "one.o", [])["nothing"]() is None
    path.write_bytes(static_archive([]))
    with pytest.raises(ArtifactError, match="no object files"):
        load_module(str(path))


@pytest.mark.parametrize("suffix", ["so", "o"])
@pytest.mark.parametrize("part", [0.0, 0.004, 0.5, 0.9])
def test_files_that_are_cut_off(module, suffix, part, tmp_path):
    """The system's loader would map pages that the file does not have, and end the process."""
    path = tmp_path / f"library.{suffix}"
    if suffix == "so":
        module.export_library(path)
    else:
        path.write_bytes(module.objects[0])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(ArtifactError, match=f"library.{suffix}'") as caught:
        load_module(str(path))
    assert part < 0.1 or "is cut off" in str(caught.value)


@pytest.mark.parametrize("size", [0, 3, 55])
def test_a_library_with_segments_of_a_wrong_size_is_refused(module, size, tmp_path):
    path = tmp_path / "library.so"
    module.export_library(path)
    content = bytearray(path.read_bytes())
    struct.pack_into("<H", content, 0x36, size)
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="library.so"):
        load_module(str(path))


@pytest.mark.parametrize("contents", [[b"abc", b"defg"], [b"x"], []])
def test_archive_comes_back(contents, tmp_path):
    archive = static_archive(contents)
    assert archive_members(archive) == contents
    if which("ar") and contents:
        (tmp_path / "a.a").write_bytes(archive)
        listed = subprocess.run(["ar", "t", tmp_path / "a.a"], capture_output=True, text=True)
        assert listed.stdout.split() == [f"lib{n}.o" for n in range(len(contents))]


def test_functions_of_the_process(module, tmp_path):
    path = tmp_path / "global.so"
    module.export_library(path)
    handle = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    assert handle is not None
    system = runtime.system_lib()
    assert system["nothing"]() is None and system.type_key == "system-lib"
    with pytest.raises(TilesmithError, match="no function 'nothing'"):
        runtime.system_lib("prefix_")["nothing"]


def test_properties(module):
    mask = module.get_property_mask()
    assert mask == 7 and mask & ModulePropertyMask.DSO_EXPORTABLE
    python = runtime.module_from_functions({"f": lambda: 1})
    assert python.get_property_mask() == ModulePropertyMask.RUNNABLE


def test_imports_without_objects_are_packed_by_a_function(module, tmp_path, threads_object):
    device = Module("cuda", formats={"cu": "// code"})
    module.import_module(device)
    with pytest.raises(UnsupportedError, match="no object code"):
        module.export_library(tmp_path / "plain.so")

    def pack(host, is_system_lib, prefix, folder):
        assert host.imported_modules == [device] and not is_system_lib
        with open(f"{folder}/packed.o", "wb") as file:
            file.write(threads_object)
        return f"{folder}/packed.o"

    module.export_library(tmp_path / "packed.a", fpack_imports=pack)
    assert archive_members((tmp_path / "packed.a").read_bytes()) == [threads_object] * 2


def test_containers_and_names():
    pair = tuple_object([1, "two"])
    assert pair.tag == 0 and list(pair) == [1, "two"] and ADT(3, []).tag == 3
    get = lambda items, place: items[place] * 10
    assert getitem_helper([1, 2, 3], get, 3, -1) == 30
    assert getitem_helper([1, 2, 3], get, 3, slice(0, 2)) == [10, 20]
    with pytest.raises(IndexError):
        getitem_helper([1], get, 1, 1)
    assert sanitize_name("a-b.c/1") == "a_b_c_1"
    with pytest.raises(TilesmithError):
        sanitize_name("")


def test_properties_of_the_host():
    host = ts.cpu()
    assert host.multi_processor_count >= 1
    assert host.total_global_memory > host.available_global_memory > 0
    assert host.l2_cache_size_bytes is None and host.texture_spatial_limit() == 0
    with pytest.raises(UnsupportedError, match="no queues of work"):
        host.create_raw_stream()
    with pytest.raises(AttributeError):
        _ = host.nothing_like_this


def test_doors_and_aliases():
    assert runtime.ndarray.cuda(1) == ts.cuda(1) and runtime.from_dlpack is not None
    a = runtime.tensor(np.arange(3))
    assert a.same_as(a) and not a.same_as(runtime.tensor(np.arange(3)))


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_a_module_names_its_public_functions(target):
    from tilesmith.script import ir as I
    from tilesmith.script import tir as T

    @I.ir_module
    class Functions:
        @T.prim_func(private=True)
        def hidden(x: T.Buffer((4,), "float32")):
            for i in range(4):
                x[i] = T.float32(1)

        @T.prim_func
        def second(x: T.Buffer((4,), "float32")):
            for i in range(4):
                x[i] = T.float32(2)

        @T.prim_func
        def first(x: T.Buffer((4,), "float32")):
            for i in range(4):
                x[i] = T.float32(3)

    library = ts.build(Functions, target=target)
    assert sorted(library.get_function("get_func_names")()) == ["first", "second"]
