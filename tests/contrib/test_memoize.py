"""Results that are kept: in memory, and in files without pickles."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tilesmith.contrib import pickle_memoize
from tilesmith.support.errors import ArtifactError, TypeMismatchError

VALUES = [
    None, 3, "text", 1.5, (1, [2, "x"]), {"a": 1, 2: (3,)},
    np.arange(6, dtype="int8").reshape(2, 3), (np.ones(3), {"k": [np.zeros((2, 0), "float16")]}),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(pickle_memoize, "GLOBAL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pickle_memoize.Cache, "_known", {})
    return tmp_path


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and all(
            same(*pair) for pair in zip(one, other, strict=True)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_results_come_back_from_a_file(value, monkeypatch):
    counts = []

    def compute(number, name="x", counts=counts, value=value):  # no closure: it would be compared
        counts.append(number)
        return value

    first = pickle_memoize.memoize("test/key", save_at_exit=True)(compute)
    assert first(1) is value and first(1) is value and first(2, name="y") is value
    assert counts == [1, 2]
    (cache,) = pickle_memoize.Cache._known.values()
    cache.save()
    assert os.path.basename(cache.path) == "test_key.npz"
    monkeypatch.setattr(pickle_memoize.Cache, "_known", {})
    again = pickle_memoize.memoize("test/key", save_at_exit=True)(compute)
    assert same(again(1), value) and same(again(2, name="y"), value) and counts == [1, 2]
    again(1, name="z")
    assert counts == [1, 2, 1]


def test_values_of_the_surroundings_count():
    def maker(offset):
        @pickle_memoize.memoize("test.maker")
        def compute(x):
            return x + offset

        return compute

    assert [maker(offset)(1) for offset in (0, 10, 0)] == [1, 11, 1]
    assert os.listdir(pickle_memoize.GLOBAL_CACHE_DIR) == []


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([object()])])
def test_what_no_file_holds_is_kept_in_memory_only(value):
    assert pickle_memoize.memoize("memory")(lambda value=value: value)() is value
    with pytest.raises(TypeMismatchError, match="cannot be stored"):
        pickle_memoize.memoize("file", save_at_exit=True)(lambda value=value: value)()


def test_arguments_that_cannot_be_compared_are_refused():
    with pytest.raises(TypeMismatchError, match="compared as an argument"):
        pickle_memoize.memoize("argument")(lambda x: x)(object())


def test_a_file_of_something_else_is_refused(folder):
    (folder / "broken.npz").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match="(?s)does not hold results.*remove the file"):
        pickle_memoize.memoize("broken", save_at_exit=True)(lambda: 1)()


def test_a_file_with_a_pickle_is_not_run(folder):
    np.savez(folder / "bad.npz", array0=np.array([print], dtype=object), __tree__=np.array("{}"))
    with pytest.raises(ArtifactError, match="pickle"):
        pickle_memoize.memoize("bad", save_at_exit=True)(lambda: 1)()


def test_the_end_of_a_program_writes_the_file(folder):
    program = (
        "from tilesmith.contrib import pickle_memoize\n"
        f"pickle_memoize.GLOBAL_CACHE_DIR = {str(folder)!r}\n"
        "@pickle_memoize.memoize('end', save_at_exit=True)\n"
        "def f(x):\n"
        "    print('computed')\n"
        "    return x * 2\n"
        "print(f(21))\n"
    )
    found = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert found == ["computed\n42\n", "42\n"]
