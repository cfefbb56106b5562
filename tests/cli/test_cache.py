"""What `tilesmith cache` and `tilesmith doctor` say of the caches; damaged ones are rebuilt."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tilesmith
from tilesmith.cli.main import tilesmith as command
from tilesmith.support.cache import DiskCache, digest
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.knobs import knobs

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
SHAPES = {"image": (1, 1, 8, 8)}


def invoke(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path):
    with knobs.override(cache=True, cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture
def entries(folder):
    for name in ("kernels", "models"):
        cache = DiskCache(name)
        for age in range(3):
            key = digest(str(age))
            cache.put(key, bytes(1000))
            moment = time.time() - age * 86400
            os.utime(cache.folder / key[:2] / key, (moment, moment))
    return folder


def test_ls(entries):
    printed = invoke("cache", "ls", "--all").output
    assert str(entries) in printed and "models: 3 entries, 3.0 KiB, last used 0 seconds" in printed
    assert digest("1")[:16] in printed and "used 2 days ago" in printed
    record = json.loads(invoke("cache", "ls", "--cache", "models", "--json").stdout)
    (models,) = record["caches"]
    assert (models["name"], models["count"], models["bytes"]) == ("models", 3, 3 * 1032)


def test_prune_and_clear(entries):
    freed = json.loads(invoke("cache", "prune", "--age", "36h", "--json").stdout)["freed_bytes"]
    assert freed == {"kernels": 1032, "models": 1032}
    assert "models: 1.0 KiB freed" in invoke("cache", "prune", "--size", "1.5k").output
    assert DiskCache("kernels").get(digest("0")) is not None
    invoke("cache", "clear", "--cache", "kernels")
    assert DiskCache("kernels").size() == 0 and DiskCache("models").size() == 1032


def test_what_cannot_be_done_is_said(folder):
    assert "nothing is cached" in invoke("cache", "ls").output
    for arguments, word in [
        (["clear", "--cache", "modles"], "no cache 'modles'"),
        (["prune"], "needs a bound"),
    ]:
        result = invoke("cache", *arguments)
        assert result.exit_code == 1 and word in result.stderr
    assert invoke("cache", "prune", "--size", "much").exit_code == 2


def test_doctor_tells_the_truth_about_the_cache(entries):
    def cache():
        return json.loads(invoke("doctor", "--json").stdout)["cache"]

    assert cache() == {"path": str(entries), "bytes": 6 * 1032, "usable": True, "problem": ""}
    assert f"cache {entries}: usable, 0.0 MB" in invoke("doctor").output
    with knobs.override(cache_dir=entries / "kernels" / "x"):
        (entries / "kernels" / "x").write_text("")
        assert not cache()["usable"] and "exists" in cache()["problem"]
    with knobs.override(cache=False):
        assert "TILESMITH_CACHE=0" in cache()["problem"]


@pytest.mark.parametrize("content", [b"", b"half", None])
@pytest.mark.parametrize("name", ["models", "kernels"])
def test_damaged_entries_are_rebuilt(folder, name, content):
    image = np.zeros((1, 1, 8, 8), "float32")
    expected = tilesmith.compile(DIGITS, input_shapes=SHAPES)(image).numpy()
    if name == "kernels":
        DiskCache("models").clear()
    damaged = DiskCache(name).entries()
    assert damaged
    for entry in damaged:
        whole = entry.path.read_bytes()
        wrong = whole[: len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1 :]
        entry.path.write_bytes(wrong if content is None else content)
    with collect_fallbacks() as report:
        again = tilesmith.compile(DIGITS, input_shapes=SHAPES)
    assert np.array_equal(again(image).numpy(), expected)
    reasons = [fallback.reason for fallback, _ in report.rows() if fallback.kind == "cache"]
    assert any("a damaged entry was removed" in reason for reason in reasons)
    with collect_fallbacks() as report:
        tilesmith.compile(DIGITS, input_shapes=SHAPES)  # from the cache again
    assert not [fallback for fallback, _ in report.rows() if fallback.kind == "cache"]


def test_a_full_disk_does_not_stop_a_compile(folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tilesmith.support.files.tempfile.mkstemp", full)
    monkeypatch.setattr("tilesmith.support.cache.make_atomically", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        executable = tilesmith.compile(DIGITS, input_shapes=SHAPES)
    assert executable(np.zeros((1, 1, 8, 8), "float32")).shape == (1, 10)
