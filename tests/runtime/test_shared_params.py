"""Parameters in a file that several artifacts share."""

import gc
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from tests.runtime.conftest import MODEL_IR, interface_ir
from tilesmith.runtime import shared_params
from tilesmith.runtime.artifact import read_artifact, write_artifact
from tilesmith.runtime.executable import Executable, load
from tilesmith.runtime.module import load_module
from tilesmith.support.errors import ArtifactError, UnsupportedError

X = np.arange(6, dtype="float32").reshape(2, 3)
EXPECTED = X * np.array([2, 3, 4], "float32") + 1
WEIGHTS = "weights.safetensors"


@pytest.fixture
def saved(executable, tmp_path):
    executable.save(tmp_path / "model.tsm", params=WEIGHTS)
    return tmp_path / "model.tsm"


def address(array):
    return array.__array_interface__["data"][0]


def test_models_share_memory(executable, saved):
    executable.export_library(saved.with_suffix(".so"), params=WEIGHTS)
    first, second, third = load(saved), load(saved), load_module(saved.with_suffix(".so"))
    for one in (first, second, third):
        assert np.array_equal(one(X).numpy(), EXPECTED)
        assert address(one.constants["scale"]) == address(first.constants["scale"])
        assert address(one.constants["scale"]) % 64 == 0
        assert not one.constants["scale"].flags.writeable
    with zipfile.ZipFile(saved) as archive:
        assert "parameters.safetensors" not in archive.namelist()
    stored = safetensors.numpy.load_file(saved.parent / WEIGHTS)
    assert np.array_equal(stored["scale"], [2, 3, 4])
    assert sorted(os.listdir(saved.parent)) == ["model.so", "model.tsm", WEIGHTS]


def test_the_mapping_ends_with_the_models(saved):
    gc.collect()  # models of other tests
    loaded = load(saved)
    assert len(shared_params._OPEN) == 1
    del loaded
    gc.collect()
    assert len(shared_params._OPEN) == 0


def test_another_model_adds_what_is_not_there(tmp_path):
    a = {"c0": np.arange(5, dtype="float32"), "c1": np.ones((2, 3), "int8")}
    b = {"c0": np.arange(5, dtype="float32") + 1, "c1": a["c0"], "c2": np.zeros((0, 2))}
    for name, arrays in (("a", a), ("b", b), ("a2", a)):
        write_artifact(tmp_path / name, {}, {}, arrays, shared=WEIGHTS)
    assert len(shared_params.open_parameters(tmp_path / WEIGHTS).tensors) == 4
    for name, arrays in (("a", a), ("b", b), ("a2", a)):
        found = read_artifact(tmp_path / name).parameters
        assert list(found) == list(arrays)
        assert all(np.array_equal(found[key], arrays[key]) for key in arrays)
        assert all(found[key].dtype == arrays[key].dtype for key in arrays)
    assert address(read_artifact(tmp_path / "b").parameters["c1"]) == address(
        read_artifact(tmp_path / "a").parameters["c0"]
    )


def test_another_place_and_other_arrays(saved, tmp_path):
    (tmp_path / "far").mkdir()
    place = (saved.parent / WEIGHTS).rename(tmp_path / "far" / "w")
    with pytest.raises(ArtifactError, match=r"(?s)weights.safetensors.*No such file.*params="):
        load(saved)
    assert np.array_equal(load(saved, place)(X).numpy(), EXPECTED)
    assert np.array_equal(load(saved, params={"scale": np.ones(3, "float32")})(X).numpy(), X + 1)
    with pytest.raises(ArtifactError, match=r"'scale' is float32\[3\], not float32\[4\]"):
        load(saved, {"scale": np.ones(4, "float32")})
    with pytest.raises(ArtifactError, match="needs the parameter 'scale'"):
        load(saved, {"skale": np.ones(3, "float32")})


def test_params_that_are_not_needed(executable, tmp_path):
    executable.save(tmp_path / "model.tsm")
    with pytest.raises(ArtifactError, match="has its parameters inside"):
        load(tmp_path / "model.tsm", tmp_path / WEIGHTS)
    with pytest.raises(UnsupportedError, match="has no parameters"):
        executable.save(tmp_path / "model.ll", params=WEIGHTS)


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def _change(path):
    content = bytearray(path.read_bytes())
    content[content.rindex(b"\x40\x40")] ^= 1  # in a float's last bytes
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (_truncate, "is not valid|belong to no tensor"),
        (_change, "the contents of 'scale' are others"),
        (lambda path: (path.unlink(), path.mkdir()), "not a file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "not a file"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "outside of"),
        (lambda path: safetensors.numpy.save_file({"x": X}, path), "it has no tensor 'scale'"),
        (lambda path: safetensors.numpy.save_file({"scale": X}, path), r"'scale' is float32\[2, 3"),
        (lambda path: path.write_bytes(path.with_name("model.tsm").read_bytes()), "safetensors"),
    ],
)
def test_damaged_and_foreign_files(saved, damage, message):
    damage(saved.parent / WEIGHTS)
    with pytest.raises(ArtifactError, match=message):
        load(saved)


@pytest.mark.parametrize("name", ["../w", "/etc/passwd", "", ".", "a/../../w", "w\0", 3, None, []])
def test_the_file_is_confined(saved, name):
    from tilesmith.testing.fuzz.models.artifacts import _read, _signed

    members, _ = _read(saved.read_bytes())
    manifest = json.loads(members["manifest.json"])
    manifest["shared_parameters"]["file"] = name
    saved.write_bytes(_signed({**members, "manifest.json": json.dumps(manifest).encode()}))
    with pytest.raises(ArtifactError, match="cannot be the file of shared parameters"):
        load(saved)
    if isinstance(name, str) and name:
        with pytest.raises(ArtifactError, match="cannot be the file of shared parameters"):
            write_artifact(saved, {}, {}, {"a": X}, shared=name)


def test_links_do_not_lead_outside(saved, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    saved.rename(inner / "model.tsm")
    (inner / WEIGHTS).symlink_to(tmp_path / WEIGHTS)
    with pytest.raises(ArtifactError, match="outside of the artifact's folder"):
        load(inner / "model.tsm")


def test_a_fresh_process_imports_the_runtime_only(saved):
    program = (
        "import sys, numpy as np, tilesmith as ts\n"
        f"print(ts.load({str(saved)!r})(np.ones((2, 3), 'float32')).numpy().sum())\n"
        "print(sorted({'.'.join(m.split('.')[:2]) for m in sys.modules if m.split('.')[0] =="
        " 'tilesmith'}))\n"
        "print([m for m in ('llvmlite', 'torch', 'onnx', 'rich', 'safetensors')"
        " if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    total, packages, others = done.stdout.splitlines()
    assert total == "24.0" and others == "[]", done.stderr
    assert packages == "['tilesmith', 'tilesmith.runtime', 'tilesmith.support']"


def test_code_is_tied_to_the_sizes_of_shared_constants(emit, tmp_path):
    metadata = {"functions": {}, "constants": ["scale"]}
    code = emit(MODEL_IR, interface_ir({}, {"scale": np.ones(3, "float32")}))
    Executable(metadata, [code], {"scale": np.ones(3, "float32")}).save(
        tmp_path / "m.tsm", params=tmp_path / "sub.w"
    )
    assert (tmp_path / "sub.w").is_file() and load(tmp_path / "m.tsm").constants["scale"].size == 3
