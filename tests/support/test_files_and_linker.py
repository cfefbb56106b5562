import ctypes
import os
import stat

import pytest

from tilesmith.support import linker
from tilesmith.support.errors import CodegenError, ConfigError, FileError, MissingDependencyError
from tilesmith.support.files import make_atomically, replace_file, write_atomically
from tilesmith.support.knobs import knobs


def test_write_replaces(tmp_path):
    path = tmp_path / "x.txt"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["x.txt"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


@pytest.mark.parametrize("existing", [None, b"old"])
def test_an_error_leaves_what_was_there(tmp_path, existing):
    path = tmp_path / "x.bin"
    if existing is not None:
        path.write_bytes(existing)
    with pytest.raises(ZeroDivisionError), replace_file(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        make_atomically(path, lambda temporary: 1 // 0)
    assert os.listdir(tmp_path) == ([] if existing is None else ["x.bin"])
    assert existing is None or path.read_bytes() == existing


@pytest.fixture(scope="module")
def objects():
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="default"
    )
    texts = [
        "declare float @expf(float)\n"
        "define float @first(float %x) {\n  %y = call float @expf(float %x)\n  ret float %y\n}",
        "declare float @first(float)\n"
        "define float @second(float %x) {\n  %y = call float @first(float %x)\n  ret float %y\n}",
    ]
    return [machine.emit_object(llvm.parse_assembly(text)) for text in texts]


@pytest.mark.parametrize("index", range(len(linker.find_linkers())))
def test_each_linker_makes_a_library(tmp_path, objects, index, monkeypatch):
    one = linker.find_linkers()[index]
    monkeypatch.setattr(linker, "find_linkers", lambda: [one])
    path = tmp_path / "both.so"
    linker.link_shared(objects, path)
    library = ctypes.CDLL(str(path))
    library.second.restype, library.second.argtypes = ctypes.c_float, [ctypes.c_float]
    assert library.second(0.0) == 1.0
    linker.link_relocatable(objects, tmp_path / "both.o")
    assert (tmp_path / "both.o").read_bytes()[:4] == b"\x7fELF"


def test_no_linker_tells_what_to_install(tmp_path, objects, monkeypatch):
    monkeypatch.setattr(linker, "_found_linkers", lambda: ())
    with pytest.raises(MissingDependencyError, match="pip install ziglang"):
        linker.link_shared(objects, tmp_path / "x.so")
    assert os.listdir(tmp_path) == []


def test_a_failing_linker_is_quoted(tmp_path):
    with knobs.override(linker="ld"), pytest.raises(CodegenError, match="ld: "):
        linker.link_shared([b"no object"], tmp_path / "x.so")
    with knobs.override(linker="no-such-linker"), pytest.raises(CodegenError, match="no-such"):
        linker.link_shared([b"no object"], tmp_path / "x.so")
    with pytest.raises(CodegenError, match="no object code"):
        linker.link_shared([], tmp_path / "x.so")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", ["ld '", " "])
def test_a_bad_linker_command_is_an_error(command):
    with knobs.override(linker=command), pytest.raises(ConfigError, match="TILESMITH_LINKER"):
        linker.find_linkers()


def test_a_refusal_of_the_system_names_the_file(tmp_path, monkeypatch):
    with pytest.raises(FileError, match="(?s)x.bin': No such file.*no folder '.*missing'"):
        write_atomically(tmp_path / "missing" / "x.bin", b"data")

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="x.bin': No space left on device") as error:
        write_atomically(tmp_path / "x.bin", b"data")
    assert isinstance(error.value, OSError) and error.value.errno == 28
    with pytest.raises(FileError, match="y.bin': No space"):
        make_atomically(tmp_path / "y.bin", lambda path: open(path, "w").close())
    assert list(tmp_path.iterdir()) == []


def test_devices_and_pipes_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, b"data")
    assert os.read(reader, 10) == b"data" and pipe.is_fifo()
    os.close(reader)
