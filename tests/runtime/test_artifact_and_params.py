import hashlib
import json
import os
import subprocess
import zipfile

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.runtime.artifact import has_artifact, read_artifact, write_artifact
from tilesmith.runtime.params import (
    load_param_dict,
    load_param_dict_from_file,
    read_tensors,
    save_param_dict,
    save_param_dict_to_file,
)
from tilesmith.support.errors import ArtifactError, UnsupportedError

PARAMETERS = {
    "weights": np.arange(7, dtype="float32"),
    "bytes": np.ones((3, 3), "int8"),
    "nothing": np.zeros((0, 4), "float32"),
    "scalar": np.array(3.0),
    "half": np.arange(5).astype(ml_dtypes.bfloat16),
    "flags": np.array([True, False]),
}
CODE = {"library.so": b"native code", "code.0.o": b"more"}


@pytest.fixture(params=[b"", b"\x7fELF" + b"x" * 1001], ids=["plain", "behind a library"])
def artifact(request, tmp_path):
    path = tmp_path / "model.tsm"
    write_artifact(path, {"functions": {}}, CODE, PARAMETERS, request.param)
    return path


def test_round_trip(artifact):
    found = read_artifact(artifact)
    assert found.metadata == {"functions": {}} and found.tilesmith_version
    assert {name: bytes(content) for name, content in found.code.items()} == CODE
    assert list(found.parameters) == list(PARAMETERS)
    for name, value in PARAMETERS.items():
        read = found.parameters[name]
        assert read.dtype == value.dtype and np.array_equal(read, value)
        assert read.__array_interface__["data"][0] % 64 == 0 or read.size == 0
        assert not read.flags.writeable
    assert has_artifact(artifact) and os.listdir(artifact.parent) == ["model.tsm"]


def test_other_tools_read_it(artifact, tmp_path):
    with zipfile.ZipFile(artifact) as archive:
        assert archive.testzip() is None
        assert archive.read("library.so") == b"native code"
        (tmp_path / "p").write_bytes(archive.read("parameters.safetensors"))
    with safetensors.safe_open(tmp_path / "p", "numpy") as file:
        assert np.array_equal(file.get_tensor("weights"), PARAMETERS["weights"])


def test_truncation_is_detected_everywhere(artifact, tmp_path):
    whole = artifact.read_bytes()
    damaged = tmp_path / "damaged.tsm"
    for length in range(0, len(whole), 61):
        damaged.write_bytes(whole[:length])
        with pytest.raises(ArtifactError, match="damaged.tsm"):
            read_artifact(damaged)


def test_changes_to_contents_are_detected(artifact, tmp_path):
    whole = bytearray(artifact.read_bytes())
    damaged = tmp_path / "damaged.tsm"
    with zipfile.ZipFile(artifact) as archive:
        names = archive.namelist()
        contents = {name: archive.read(name) for name in names}
    for name in names:
        start = whole.index(contents[name])
        for offset in (0, len(contents[name]) // 2, len(contents[name]) - 1):
            changed = bytearray(whole)
            changed[start + offset] ^= 0x20
            damaged.write_bytes(changed)
            with pytest.raises(ArtifactError, match="is damaged"):
                read_artifact(damaged)
    if whole[:4] == b"\x7fELF":
        whole[500] ^= 1
        damaged.write_bytes(whole)
        with pytest.raises(ArtifactError, match="what precedes the archive"):
            read_artifact(damaged)


def test_members_added_or_missing(artifact, tmp_path):
    with zipfile.ZipFile(artifact) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    for change in ({"evil.o": b"x"}, {"code.0.o": None}):
        other = tmp_path / "other.tsm"
        with zipfile.ZipFile(other, "w") as archive:
            for name, content in {**contents, **change}.items():
                if content is not None:
                    archive.writestr(name, content)
            archive.comment = comment
        with pytest.raises(ArtifactError):
            read_artifact(other)


@pytest.mark.parametrize("key", ["prefix", "members", "format", "format_version"])
@pytest.mark.parametrize("value", [None, 3, "text", [], {"metadata.json": 1}])
def test_manifests_of_another_form(tmp_path, key, value):
    path = tmp_path / "model.tsm"
    write_artifact(path, {"functions": {}}, {}, {})
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = {**json.loads(contents["manifest.json"]), key: value}
    text = contents["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        digest = hashlib.blake2b(text, digest_size=32).hexdigest()
        archive.comment = f"tilesmith-artifact {digest}".encode()
    with pytest.raises(ArtifactError):
        read_artifact(path)


@pytest.mark.parametrize("name", ["../x.so", "/x.so", "a/b.so", "", ".hidden", "metadata.json"])
def test_names_are_confined(tmp_path, name):
    with pytest.raises(ArtifactError, match="not a valid name"):
        write_artifact(tmp_path / "x.tsm", {}, {name: b""}, {})
    assert os.listdir(tmp_path) == []


def test_other_files(tmp_path):
    with pytest.raises(ArtifactError, match="cannot read"):
        read_artifact(tmp_path / "missing.tsm")
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(ArtifactError, match="is empty"):
        read_artifact(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"not a zip file" * 10)
    with pytest.raises(ArtifactError, match="not a complete Tilesmith artifact"):
        read_artifact(tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr("hello", "world")
    with pytest.raises(ArtifactError, match="not a Tilesmith artifact"):
        read_artifact(tmp_path / "x")
    assert not has_artifact(tmp_path / "x") and not has_artifact(tmp_path / "missing")


def test_other_versions(tmp_path, monkeypatch):
    from tilesmith.runtime import artifact as module

    monkeypatch.setattr(module, "FORMAT_VERSION", 99)
    write_artifact(tmp_path / "x.tsm", {}, {}, {})
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="has version 99 of the artifact format, expected 1"):
        read_artifact(tmp_path / "x.tsm")


def test_unwritable_folder(tmp_path):
    with pytest.raises(OSError):
        write_artifact(tmp_path / "no" / "such" / "x.tsm", {}, {}, {})


@given(
    st.dictionaries(
        st.text("abcxyz._0", min_size=1, max_size=6),
        st.tuples(
            st.lists(st.integers(0, 5), max_size=3),
            st.sampled_from(["int8", "float16", "float64", "bool", "uint32"]),
        ),
        max_size=5,
    )
)
def test_params_round_trip(specification):
    params = {
        name: np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
        for name, (shape, dtype) in specification.items()
    }
    content = save_param_dict(params)
    for found in (load_param_dict(content), safetensors.numpy.load(content)):
        kept = {name: value for name, value in found.items() if not name.startswith("__pad_")}
        assert set(kept) == set(params)
        for name, value in params.items():
            assert np.array_equal(np.asarray(kept[name]), value)


def test_params_of_others_and_files(tmp_path):
    params = {"a": np.arange(3.0), "b": np.ones((2, 2), "int8")}
    found = load_param_dict(safetensors.numpy.save(params))
    assert np.array_equal(found["b"].numpy(), params["b"])
    save_param_dict_to_file(found, tmp_path / "p.safetensors")
    again = load_param_dict_from_file(tmp_path / "p.safetensors")
    assert np.array_equal(again["a"].numpy(), params["a"])
    with pytest.raises(ArtifactError, match="cannot read parameters"):
        load_param_dict_from_file(tmp_path / "missing")
    with pytest.raises(UnsupportedError):
        save_param_dict({"__pad_0": params["a"]})


def header(text, data=b""):
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        header(b"[]"),
        header(b'{"a": 1}'),
        header(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', b"1234"),
        header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}', b"12345678"),
        header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', b"12345"),
        header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', b"123"),
        header(b'{"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}', b"1234"),
        header(b'{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}', b"1234"),
        header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [false, 4]}}', b"1234"),
        header(b'{"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}', b"1234"),
        header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}', b"1234"),
        header(b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}', b"1234"),
        header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}', b"1234"),
    ],
)
def test_damaged_params(content):
    with pytest.raises(ArtifactError):
        read_tensors(content)


def test_unzip_accepts_the_padding(artifact):
    try:
        done = subprocess.run(["unzip", "-tq", artifact], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("unzip is not installed")
    assert done.returncode <= 1, done.stdout  # 1: warns of the library in front
