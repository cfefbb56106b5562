import errno
import os
import threading
import time

import pytest

from tilesmith.support import cache as cache_module
from tilesmith.support.cache import (
    DiskCache,
    cache_folder,
    cache_problem,
    digest,
    disk_caches,
)
from tilesmith.support.errors import CacheWarning
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.knobs import knobs
from tilesmith.support.versions import version_digest


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


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


def scramble(path):
    path.write_bytes(os.urandom(200))


def put_a_folder(path):
    path.unlink()
    (path / "inner").mkdir(parents=True)


@pytest.mark.parametrize("damage", [truncate, empty, scramble, put_a_folder])
def test_a_damaged_entry_is_dropped_and_made_anew(cache, damage):
    key = digest("x")
    cache.put(key, b"value")
    damage(cache.get_file(key))
    with collect_fallbacks() as report:
        assert cache.get(key) is None and cache.get_file(key) is None
    ((fallback, _),) = report.rows()
    assert fallback.reason.startswith("a damaged entry was removed")
    assert not cache._path(key).exists()
    cache.put(key, b"value")
    assert cache.get(key) == b"value"


def test_a_file_in_place_of_a_folder_makes_way(cache):
    key = digest("x")
    cache.folder.mkdir(parents=True)
    (cache.folder / key[:2]).write_text("not a folder")
    cache.put(key, b"value")
    assert cache.get(key) == b"value"


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


def refuse(number):
    def act(*_, **__):
        raise OSError(number, os.strerror(number))

    return act


def full_disk(monkeypatch, folder):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        write = staticmethod(refuse(errno.ENOSPC))

    monkeypatch.setattr(cache_module, "replace_file", lambda path: Full())
    monkeypatch.setattr(cache_module, "make_atomically", refuse(errno.ENOSPC))
    return folder


def read_only(monkeypatch, folder):
    monkeypatch.setattr(cache_module.Path, "mkdir", refuse(errno.EROFS))
    return folder


def not_a_folder(monkeypatch, folder):
    folder.write_text("")
    return folder / "kernels"


@pytest.mark.parametrize(
    "make, reason",
    [
        (full_disk, "No space left"),
        (read_only, "Read-only"),
        (not_a_folder, "Not a directory"),
    ],
)
def test_an_unusable_folder_is_said_once_and_done_without(tmp_path, monkeypatch, make, reason):
    cache = DiskCache("kernels", make(monkeypatch, tmp_path / "cache") / "kernels")
    with knobs.override(cache=True), collect_fallbacks() as report:
        with pytest.warns(CacheWarning, match=f"{reason}.*tilesmith doctor") as warned:
            cache.put(digest("x"), b"value")
            assert cache.put_file(digest("y"), print) is None
        assert len(warned) == 1
        assert cache.get(digest("x")) is None and cache.entries() == []
    assert sum(count for _, count in report.rows()) >= 2


def test_entries_of_a_folder_that_can_only_be_read_are_found(cache, monkeypatch):
    cache.put(digest("x"), b"value")
    monkeypatch.setattr(os, "utime", refuse(errno.EROFS))
    assert cache.get(digest("x")) == b"value"


def test_without_a_home_there_is_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(cache_module.Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with knobs.override(cache=True, cache_dir=None):
        with pytest.warns(CacheWarning, match="no home folder.*TILESMITH_CACHE_DIR"):
            DiskCache("kernels").put(digest("x"), b"value")
            assert DiskCache("kernels").get(digest("x")) is None
        assert "no home folder" in cache_problem() and disk_caches() == []


def test_what_a_user_may_ask(tmp_path):
    with knobs.override(cache=True, cache_dir=tmp_path / "new"):
        assert cache_problem() == "" and disk_caches() == []
        DiskCache("models").put(digest("x"), b"value")
        (one,) = disk_caches()
        assert one.name == "models" and one.size() == 5 + 32
    (tmp_path / "file").write_text("")
    with knobs.override(cache=True, cache_dir=tmp_path / "file"):
        assert cache_problem() != ""


def test_prune_by_age_and_size(cache):
    keys = [digest(str(number)) for number in range(4)]
    now = time.time()
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        os.utime(cache._path(key), (now - 100 * age, now - 100 * age))
    (cache.folder / "no_entry").write_text("of the user")
    left_over = cache.folder / keys[0][:2] / ".left"
    left_over.mkdir()
    os.utime(left_over, (0, 0))
    assert cache.prune(most_seconds=250) == 1032 and cache.get_file(keys[3]) is None
    assert cache.prune(most_bytes=2 * 1032) == 1032 and cache.get_file(keys[2]) is None
    assert not left_over.exists()
    assert cache.clear() == 2 * 1032 and (cache.folder / "no_entry").exists()


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
