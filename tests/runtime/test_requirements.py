"""Code for another CPU or another architecture is refused before anything of it runs."""

import numpy as np
import pytest

import tilesmith
from tilesmith import relax, te
from tilesmith.relax import BlockBuilder, TensorStructInfo
from tilesmith.runtime import load_module, requirements
from tilesmith.runtime.requirements import Requirements, check_code, requirements_in
from tilesmith.support.errors import ArtifactError, CodegenError, IncompatibleCodeError
from tilesmith.support.linker import find_linkers
from tilesmith.target import Target
from tilesmith.target.features import architecture

pytestmark = pytest.mark.skipif(
    architecture(Target("llvm")) != "x86", reason="the features are those of x86"
)
ENOUGH = "llvm -mcpu=x86-64-v3"


@pytest.fixture
def old_cpu(monkeypatch):
    """This machine, as if its CPU had nothing beyond SSE4.2."""
    flags = frozenset("fpu pni ssse3 sse4_1 sse4_2 popcnt cx16 lahf_lm".split())
    monkeypatch.setattr(requirements, "system_features", lambda: flags)
    monkeypatch.setattr(requirements, "llvm_features", lambda: None)


def double():
    a = te.placeholder((16,), name="A")
    return te.create_prim_func([a, te.compute((16,), lambda i: a[i] * 2.0, name="B")])


def model(target=ENOUGH):
    builder = BlockBuilder()
    x = relax.Var("x", TensorStructInfo((2, 8), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    return relax.build(builder.get(), target=target)


def test_code_says_what_it_needs():
    objects = tilesmith.build(double(), target=ENOUGH).objects
    (needed,) = [one for content in objects for one in requirements_in(content)]
    assert {"avx2", "fma", "bmi2"} <= set(needed.features) and "avx512f" not in needed.features
    assert needed.target == ENOUGH


def test_built_code_is_refused_before_the_first_call(old_cpu):
    built = tilesmith.build(double(), target="llvm -mcpu=sapphirerapids")
    assert not built.is_runnable
    a = tilesmith.nd.array(np.ones(16, "float32"))
    with pytest.raises(IncompatibleCodeError, match="(?s)lacks: .*avx2.*x86-64-v2") as error:
        built(a, a)
    assert "-mcpu=sapphirerapids" in str(error.value)
    plain = tilesmith.build(double(), target="llvm -mcpu=x86-64")
    plain(a, a)
    assert a.numpy().tolist() == [2.0] * 16


@pytest.mark.parametrize("suffix", ["tsm", "so"])
@pytest.mark.parametrize("linker", [True, False])
def test_a_saved_model_is_refused(tmp_path, old_cpu, monkeypatch, suffix, linker):
    path = tmp_path / f"model.{suffix}"
    if not linker:
        if suffix == "so":
            pytest.skip("needs a linker")
        monkeypatch.setattr("tilesmith.runtime.executable.find_linkers", list)
    executable = model()
    executable.export_library(path)
    with pytest.raises(ArtifactError, match="(?s)model.*lacks: .*avx2.*compile it on this machine"):
        load_module(path)
    with pytest.raises(IncompatibleCodeError, match="lacks: avx"):
        executable(np.ones((2, 8), "float32"))


@pytest.mark.parametrize("suffix", ["so", "o", "tar", "a"])
def test_an_exported_library_is_refused(tmp_path, old_cpu, suffix):
    path = tmp_path / f"code.{suffix}"
    tilesmith.build(double(), target=ENOUGH).export_library(path)
    with pytest.raises(IncompatibleCodeError, match="lacks: avx"):
        load_module(path)["main"]


@pytest.mark.parametrize("suffix", ["tsm", "o"])
def test_another_architecture_is_named(tmp_path, suffix):
    path = tmp_path / f"code.{suffix}"
    target = "llvm -mtriple=aarch64-linux-gnu"
    if suffix == "o":
        tilesmith.build(double(), target=target).export_library(path)
        with pytest.raises(IncompatibleCodeError, match="is for aarch64, this machine is x86_64"):
            load_module(path)["main"]
    with pytest.raises(IncompatibleCodeError, match="is for aarch64, this machine is x86_64"):
        model(target)(np.ones((2, 8), "float32"))


@pytest.mark.parametrize(
    "target, system",
    [
        ("llvm -mtriple=arm64-apple-macos", "macOS"),
        ("llvm -mtriple=x86_64-pc-windows-msvc", "Windows"),
        ("llvm -mtriple=wasm32-unknown-unknown", "WebAssembly"),
        ("llvm -mtriple=aarch64-linux-gnu", "aarch64, this machine"),
    ],
)
def test_a_model_for_another_system_is_saved_and_refused_here(tmp_path, target, system):
    executable = model(target)
    executable.save(tmp_path / "model.tsm")
    with pytest.raises(IncompatibleCodeError, match=f"'.*model.tsm' is for {system}"):
        tilesmith.load(tmp_path / "model.tsm")
    if not find_linkers() or any(linker.command[0] == "zig" for linker in find_linkers()):
        return
    with pytest.raises(CodegenError, match="linking .* failed"):
        executable.export_library(tmp_path / "model.so")
    assert [path.name for path in tmp_path.iterdir()] == ["model.tsm"]


def test_c_for_a_named_cpu_says_what_it_needs(old_cpu):
    built = tilesmith.build(double(), target="c -march=haswell")
    if not built.objects:
        pytest.skip("there is no C compiler")
    a = tilesmith.nd.array(np.ones(16, "float32"))
    with pytest.raises(IncompatibleCodeError, match="(?s)avx2.*'c -march=haswell'"):
        built(a, a)


def test_what_an_old_system_does_not_list_is_asked_of_llvm(monkeypatch):
    monkeypatch.setattr(requirements, "system_features", lambda: frozenset(["avx", "avx2"]))
    monkeypatch.setattr(requirements, "llvm_features", lambda: {"fma": True, "avx512f": False})
    assert requirements.missing_features(["avx2", "fma", "avx512f", "pku"]) == ["avx512f"]
    monkeypatch.setattr(requirements, "system_features", frozenset)
    assert requirements.missing_features(["avx2", "fma", "avx512f"]) == ["avx512f"]
    monkeypatch.setattr(requirements, "llvm_features", lambda: None)
    assert requirements.missing_features(["avx2", "avx512f"]) == []  # nothing is known


def test_needs_of_several_objects_are_all_kept(tmp_path):
    first, second = double(), double().with_attr("global_symbol", "other")
    whole = tilesmith.build(first, target="llvm -mcpu=haswell")
    whole.import_module(tilesmith.build(second, target="llvm -mcpu=x86-64-v2"))
    whole.export_library(tmp_path / "code.so")
    found = requirements_in((tmp_path / "code.so").read_bytes())
    assert {each.target for each in found} == {"llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2"}


@pytest.mark.parametrize("size", [0, 4, 20, 100, 1000])
def test_damaged_objects(size):
    """What is no ELF file is left to the linker."""
    content = tilesmith.build(double(), target=ENOUGH).objects[-1]
    assert requirements_in(content[:size]) == []
    if size < 20:
        check_code(content[:size], "the code")
        return
    with pytest.raises(ArtifactError, match=f"the code is cut off: it has {size} bytes"):
        check_code(content[:size], "the code")


def test_a_marker_is_data_under_a_name():
    one, other = Requirements(("avx2",), "llvm"), Requirements(("fma",), "llvm")
    assert one.symbol != other.symbol and b"avx2" in one.data
