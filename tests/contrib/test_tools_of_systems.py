"""Compilers and linkers of other systems: their command lines, by programs that record how they
are called; and what is said where they are missing.
"""

import os
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te
from tilesmith.contrib import cc, emcc, ndk, rocm, spirv, stackvm, tar, thrust, utils, xcode
from tilesmith.contrib.programs import find_program, run_program
from tilesmith.runtime.registry import register_func, remove_global_func
from tilesmith.support.errors import (
    ArtifactError,
    CodegenError,
    ConfigError,
    MissingDependencyError,
    TypeMismatchError,
)

PROGRAM = """#!{python}
import os, sys
from pathlib import Path
words = sys.argv[1:]
with open({log!r}, "a") as file:
    print("{name}", *words, sep="|", file=file)
answers = {answers!r}
for question, answer in answers.items():
    if question in words:
        print(answer)
        sys.exit()
if "fail" in words:
    sys.exit("it does not work")
if "-o" in words:
    Path(words[words.index("-o") + 1]).write_text("made by {name}")
print({text!r})
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Make programs that record their arguments; the fixture's function makes one and gives its
    path, `.calls()` the recorded lines.
    """
    folder, log = tmp_path / "bin", tmp_path / "log"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def make(name, text="", **answers):
        path = folder / name
        path.write_text(PROGRAM.format(python=sys.executable, name=name, log=str(log),
                                       answers=answers, text=text))  # fmt: skip
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    make.calls = lambda: [line.split("|") for line in log.read_text().splitlines()]
    return make


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for name in ("TVM_NDK_CC", "ROCM_PATH", "CC", "CXX"):
        monkeypatch.delenv(name, raising=False)


def calls_of_missing_tools(folder):
    binary = str(folder / "x")
    return {
        "ndk": (lambda: ndk.create_shared(binary, ["a.o"]), "TVM_NDK_CC is not set"),
        "ndk static": (lambda: ndk.create_staticlib(binary, ["a.o"]), "install the Android NDK"),
        "ndk symbols": (lambda: ndk.get_global_symbol_section_map(binary), "Android NDK"),
        "xcrun": (lambda: xcode.xcrun(["-find", "clang"]), "Mac with Xcode's tools"),
        "dylib": (lambda: xcode.create_dylib(binary, ["a.o"], "arm64"), "xcode-select --install"),
        "metal": (lambda: xcode.compile_metal("kernel"), "xcode-select --install"),
        "emcc": (lambda: emcc.create_tvmjs_wasm(binary, ["a.bc"]), "install Emscripten"),
        "spirv": (lambda: spirv.optimize(b"x"), "Debian: spirv-tools"),
        "lld": (lambda: rocm.find_lld(), "install lld"),
        "rocm link": (lambda: rocm.callback_rocm_link(b"x"), "install lld"),
        "nm": (lambda: cc.get_global_symbol_section_map(binary), "install binutils"),
    }


@pytest.mark.parametrize("name", list(calls_of_missing_tools(utils.tempdir())))
def test_a_missing_tool_is_named(nothing_installed, tmp_path, name):
    call, advice = calls_of_missing_tools(tmp_path)[name]
    with pytest.raises(ConfigError, match=advice):
        call()


def test_a_missing_compiler_is_named(nothing_installed):
    with pytest.raises(MissingDependencyError, match="ziglang"):
        cc.create_executable("x", ["a.o"])
    with pytest.raises(MissingDependencyError, match="binutils"):
        cc.create_staticlib("x", ["a.o"])


def test_a_missing_rocm_is_named(nothing_installed, monkeypatch, tmp_path):
    monkeypatch.setattr(rocm.Path, "is_dir", lambda path: False)
    for call in (rocm.find_rocm_path, rocm.get_rocm_arch, rocm.callback_rocm_bitcode_path):
        with pytest.raises(ConfigError, match="set ROCM_PATH"):
            call()
    with pytest.raises(ConfigError, match="no files of bitcode"):
        rocm.callback_rocm_bitcode_path(str(tmp_path))
    assert rocm.find_lld(required=False) == []


def test_android(programs, monkeypatch, tmp_path):
    monkeypatch.setenv("TVM_NDK_CC", programs("aarch64-linux-android28-clang++"))
    programs("llvm-ar")
    programs("llvm-nm", "0000 T f\n0010 d hidden")
    ndk.create_shared(str(tmp_path / "x.so"), ["a.o", "b.o"])
    ndk.create_shared(str(tmp_path / "x.so"), "a.o", ["-shared"])
    ndk.create_staticlib(str(tmp_path / "x.a"), ["a.o"])
    assert ndk.get_global_symbol_section_map("x.o") == {"f": "T", "hidden": "d"}
    first, second, archive, _ = programs.calls()
    assert first[1:] == ["-o", str(tmp_path / "x.so"), "a.o", "b.o", "-shared", "-fPIC", "-lm"]
    assert second[-2:] == ["a.o", "-shared"] and archive[1:] == [
        "rcs",
        str(tmp_path / "x.a"),
        "a.o",
    ]
    assert ndk.create_shared.output_format == "so"


def test_apple(programs, tmp_path):
    programs("clang-of-xcode")
    programs("xcrun", **{"-find": "clang-of-xcode", "--show-sdk-path": "/sdk"})
    assert xcode.xcrun(["-find", "clang"]) == "clang-of-xcode"
    xcode.create_dylib("x.dylib", ["a.o"], "arm64", "iphoneos", "16.0")
    assert programs.calls()[-1][1:] == [
        "-dynamiclib", "-arch", "arm64", "-isysroot", "/sdk", "-mios-version-min=16.0", "-o",
        "x.dylib", "a.o",
    ]  # fmt: skip
    os.remove("x.dylib")
    made = xcode.compile_metal("kernel", str(tmp_path / "x.metallib"), min_os_version="14.0")
    assert made == b"made by xcrun" == (tmp_path / "x.metallib").read_bytes()
    air = programs.calls()[-2]
    assert air[3:6] == ["metal", "-O3", "-mmacos-version-min=14.0"] and "-c" in air


def test_models_for_core_ml(programs, tmp_path):
    class Names:
        input = [type("One", (), {"name": "data"})]
        output = [type("One", (), {"name": "result"})]

    class Model:
        def save(self, path):
            os.makedirs(path.replace(".mlmodel", ".mlmodelc"))

        def get_spec(self):
            return type("Spec", (), {"description": Names})

    programs("xcrun")
    made = xcode.compile_coreml(Model(), "net", str(tmp_path))
    assert made == str(tmp_path / "net.mlmodelc")
    assert (tmp_path / "net.mlmodelc" / "properties").read_text() == (
        '{"inputs": ["data"], "outputs": ["result"]}'
    )
    with pytest.raises(MissingDependencyError, match="coremltools"):
        xcode.compile_coreml(object())


def test_the_web(programs, tmp_path):
    programs("emcc")
    emcc.create_tvmjs_wasm(str(tmp_path / "x.wasm"), "a.bc", ["-g"], libs=["runtime.bc"])
    line = programs.calls()[0]
    assert line[-5:] == ["-o", str(tmp_path / "x.wasm"), "a.bc", "runtime.bc", "-g"]
    assert "-sERROR_ON_UNDEFINED_SYMBOLS=0" in line and "--no-entry" in line
    with pytest.raises(CodegenError, match="it does not work"):
        emcc.create_tvmjs_wasm("x.wasm", ["fail"])


def test_spirv(programs):
    programs("spirv-opt")
    assert spirv.optimize(b"binary") == b"made by spirv-opt"


def test_amd(programs, monkeypatch, tmp_path):
    linker = programs("ld.lld")
    assert rocm.find_lld()[0] == linker and rocm.callback_rocm_link(b"x") == b"made by ld.lld"
    assert programs.calls()[0][1:3] == ["--no-undefined", "-shared"]
    programs("rocminfo", "  Name:   AMD EPYC\n  Name:    gfx90a\n")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert rocm.find_rocm_path() == str(tmp_path) and rocm.get_rocm_arch() == "gfx90a"
    assert rocm.have_matrixcore()
    folder = tmp_path / "amdgcn" / "bitcode"
    folder.mkdir(parents=True)
    (folder / "ocml.bc").write_text("")
    assert rocm.callback_rocm_bitcode_path() == [str(folder / "ocml.bc")]
    programs("rocminfo", "nothing")
    with pytest.raises(ConfigError, match="names no GPU"):
        rocm.get_rocm_arch()


@pytest.mark.parametrize(
    "version, numbers, has",
    [("9.4", (9, 4), True), ("10.3", (10, 3), False), ("11.0", (11, 0), True)],
)
def test_what_gpus_of_amd_have(version, numbers, has):
    assert rocm.parse_compute_version(version) == numbers and rocm.have_matrixcore(version) is has
    with pytest.raises(ConfigError, match="not a version"):
        rocm.parse_compute_version("gfx" + version)


def test_programs_that_are_interpreted_are_copied(tmp_path):
    (tmp_path / "a").write_text("program")
    stackvm.build(str(tmp_path / "b"), [str(tmp_path / "a")])
    assert (tmp_path / "b").read_text() == "program"
    with pytest.raises(ArtifactError, match="copies one file, not 2"):
        stackvm.build(str(tmp_path / "b"), ["a", "b"])


def test_thrust(caplog):
    cuda, amd = ts.target.Target("cuda -libs=thrust"), ts.target.Target("rocm -libs=thrust")
    assert not thrust.can_use_thrust(cuda, "test.no_sort") and "test.no_sort" in caplog.text
    assert not thrust.can_use_rocthrust(amd, "test.no_sort")
    register_func("test.a_sort", lambda: None, override=True)
    try:
        assert thrust.can_use_thrust(cuda, "test.a_sort")
        assert thrust.can_use_rocthrust(amd, "test.a_sort")
        assert not thrust.can_use_thrust(ts.target.Target("cuda"), "test.a_sort")
        assert not thrust.can_use_rocthrust(cuda, "test.a_sort")
        caplog.clear()
        thrust.maybe_warn(cuda, "test.a_sort")
        assert not caplog.text
    finally:
        remove_global_func("test.a_sort")


# -- compilers


@pytest.fixture(scope="module")
def module():
    x = te.placeholder((4,), name="x")
    return ts.build(te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0)]))


needs_compiler = pytest.mark.skipif(cc.get_cc() is None, reason="there is no C compiler")


@needs_compiler
@pytest.mark.parametrize("is_named", [False, True])
def test_cross_compilers_link_what_is_exported(module, tmp_path, is_named):
    link = cc.cross_compiler(cc.get_cc() if is_named else cc.create_shared, ["-O1"])
    assert link.output_format == "so" and "-" in link.get_target_triple()
    module.export_library(str(tmp_path / "x.so"), fcompile=link)
    out = ts.nd.empty((4,))
    ts.runtime.load_module(str(tmp_path / "x.so"))(ts.nd.array(np.ones(4, "float32")), out)
    assert out.numpy().tolist() == [2, 2, 2, 2]


def test_cross_compilers_take_options_files_and_names(programs, tmp_path):
    compiler = programs("riscv-gcc", **{"-dumpmachine": "riscv64-linux-gnu"})
    link = cc.cross_compiler(compiler, ["-a"], "bin", add_files=["c.o"])
    link(str(tmp_path / "x"), ["b.o"], ["-d"])
    assert programs.calls()[0][1:] == [
        "-shared", "-fPIC", "-o", str(tmp_path / "x"), "b.o", "c.o", "-a", "-d",
    ]  # fmt: skip
    assert link.output_format == "bin" and link.get_target_triple() == "riscv64-linux-gnu"
    with pytest.raises(TypeMismatchError, match="not int"):
        cc.cross_compiler(3)


def test_machines_of_compilers(programs):
    assert cc.get_target_by_dump_machine(None)() is None
    assert cc.get_target_by_dump_machine("no-such-compiler")() is None
    assert cc.get_target_by_dump_machine(programs("odd", fail=""))() == ""


def test_ccache(programs, tmp_path):
    programs("ccache", "a")
    cc.create_executable(str(tmp_path / "x"), ["a.o"], cc="gcc", ccache_env={"CCACHE_DIR": "here"})
    assert programs.calls()[0][1:] == ["gcc", "-o", str(tmp_path / "x"), "a.o"]


def test_a_missing_ccache_is_named(nothing_installed):
    with pytest.raises(ConfigError, match="leave ccache_env out"):
        cc.create_shared("x.so", ["a.o"], cc="gcc", ccache_env={})


@pytest.mark.skipif(shutil.which("nm") is None, reason="there is no nm")
def test_symbols_and_their_sections(module, tmp_path):
    for suffix in ("o", "so"):
        module.export_library(str(tmp_path / f"x.{suffix}"))
        found = cc.get_global_symbol_section_map(str(tmp_path / f"x.{suffix}"))
        assert found["__tvm_ffi_main"] == "T"


@pytest.mark.skipif(shutil.which("ar") is None, reason="there is no ar")
def test_archives_are_unpacked_before_they_are_linked(module, tmp_path):
    module.export_library(str(tmp_path / "x.tar"))
    cc.create_staticlib(str(tmp_path / "x.a"), [str(tmp_path / "x.tar")])
    names = subprocess.run(["ar", "t", str(tmp_path / "x.a")], capture_output=True, text=True)
    assert names.stdout.split() and all(name.endswith(".o") for name in names.stdout.split())
    folder = utils.tempdir()
    plain = tar.normalize_file_list_by_unpacking_tars(folder, ["a.o", str(tmp_path / "x.tar")])
    assert plain[0] == "a.o" and plain[1].startswith(folder.path)
    assert tar.tar.output_format == "tar"


def test_programs_are_found_and_fail_with_their_words(programs):
    with pytest.raises(ConfigError, match="'no-such-program' was not found"):
        find_program(("no-such-program", "nor-this"), "there is none")
    with pytest.raises(CodegenError, match="cannot be run"):
        run_program(["/no/such/program"])
    assert run_program([programs("odd", "text")]) == "text\n"


def test_folders_stay_where_that_is_asked_for():
    with utils.TempDirectory.set_keep_for_debug():
        stays = utils.tempdir()
    stays.remove()
    assert os.path.isdir(stays.path)
    shutil.rmtree(stays.path)
    goes = utils.tempdir()
    goes.remove()
    assert not os.path.isdir(goes.path)


def test_no_folder_is_made_at_the_end_of_a_program():
    program = (
        "from tilesmith.contrib.utils import TempDirectory, DirectoryCreatedPastAtExit\n"
        "import os\n"
        "one = TempDirectory()\n"
        "TempDirectory.remove_tempdirs()\n"
        "assert not os.path.exists(one.path)\n"
        "try: TempDirectory()\n"
        "except DirectoryCreatedPastAtExit as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "no temporary folder can be made" in done.stdout, done.stderr
