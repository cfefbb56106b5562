import os
import threading

import pytest

from tilesmith.support.cache import DiskCache, cache_folder, digest, version_digest
from tilesmith.support.knobs import knobs


@pytest.fixture
def cache(tmp_path):
    with knobs.override(cache=True):
        yield DiskCache("kernels", tmp_path / "kernels", limit_mib=1)


def test_keys():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab") and len(digest("")) == 64
    assert version_digest() == version_digest()


def test_bytes(cache):
    key = digest("x")
    assert cache.get(key) is None
    cache.put(key, b"value")
    assert cache.get(key) == b"value" and (cache.hits, cache.misses) == (1, 1)
    cache.put(key, b"other")
    assert cache.get(key) == b"other"
    cache.remove(key)
    assert cache.get(key) is None
    with pytest.raises(ValueError):
        cache.get("../../etc/passwd")


def test_a_damaged_entry_is_a_miss(cache):
    key = digest("x")
    cache.put(key, b"value")
    path = cache.get_file(key)
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.get(key) is None and cache.get_file(key) is None


def test_files(cache):
    key = digest("model")

    def make(path):
        with open(path, "w") as file:
            file.write("model")

    path = cache.put_file(key, make)
    assert path == cache.get_file(key) and path.read_text() == "model"
    with pytest.raises(ZeroDivisionError):
        cache.put_file(digest("other"), lambda path: 1 // 0)
    assert cache.get_file(digest("other")) is None
    cache.clear()
    assert cache.get_file(key) is None and cache.size() == 0


def test_what_was_not_used_for_longest_goes_first(cache):
    keys = [digest(str(number)) for number in range(6)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(200_000))
        os.utime(cache._path(key), (age, age))
    assert cache.get(keys[0]) is not None  # used now
    cache.sweep()
    assert cache.size() <= 1 << 20
    assert cache.get(keys[0]) is not None and cache.get(keys[5]) is not None
    assert cache.get(keys[1]) is None


def test_switched_off(tmp_path):
    with knobs.override(cache=False):
        cache = DiskCache("kernels", tmp_path)
        cache.put(digest("x"), b"value")
        assert cache.put_file(digest("x"), print) is None and cache.get(digest("x")) is None
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    with knobs.override(cache=True):
        cache = DiskCache("kernels", tmp_path / "file" / "kernels")
        cache.put(digest("x"), b"value")
        assert cache.get(digest("x")) is None


def test_concurrent_use(cache):
    wrong = []

    def work(seed):
        for number in range(40):
            key = digest(str(number % 5))
            found = cache.get(key)
            if found not in (None, bytes([number % 5]) * 999):
                wrong.append(found)
            cache.put(key, bytes([number % 5]) * 999)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_folder(monkeypatch, tmp_path):
    with knobs.override(cache_dir=tmp_path):
        assert cache_folder() == tmp_path
