"""What was found out about a file is remembered until the file changes."""

import os
from functools import partial

import pytest

from tilesmith.support import file_memory
from tilesmith.support.cache import file_digest
from tilesmith.support.file_memory import FileState, known, remember, remembered
from tilesmith.support.knobs import knobs


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"weights")
    with knobs.override(cache=True, cache_dir=tmp_path / "cache"):
        yield path


@pytest.fixture
def settled(monkeypatch):
    """Take files that were written just now for old ones."""
    monkeypatch.setattr(file_memory, "_SECONDS_UNTIL_SETTLED", -10.0)


def count(asked):
    def answer(path):
        asked.append(path)
        return file_digest(path)

    return answer


def test_a_file_is_read_once(model, settled):
    asked = []
    found = [remembered(model, "contents", count(asked)) for _ in range(3)]
    assert found == [file_digest(model)] * 3 and asked == [model]


@pytest.mark.parametrize("size_changes", [True, False])
def test_a_changed_file_is_read_again(model, settled, size_changes):
    asked = []
    before = remembered(model, "contents", count(asked))
    model.write_bytes(b"other weights" if size_changes else b"WEIGHTS")
    moment = model.stat().st_mtime_ns
    os.utime(model, ns=(moment, moment + 1))  # where the clock of the file system is coarse
    assert remembered(model, "contents", count(asked)) != before and len(asked) == 2


def test_a_file_put_in_the_place_of_another_is_read(model, settled, tmp_path):
    before, times = remembered(model, "contents", file_digest), model.stat()
    other = tmp_path / "other"
    other.write_bytes(b"WEIGHTS")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, model)
    assert remembered(model, "contents", file_digest) == file_digest(model) != before


@pytest.mark.parametrize("moment", [1_000_000, 1_000_001])
def test_a_file_that_changed_just_now_is_not_remembered(model, monkeypatch, moment):
    """What "just now" means depends on how finely the file system counts: here in milliseconds, or
    in nanoseconds.
    """
    seen = FileState.of(model)
    state = seen._replace(changes=(moment, moment))
    monkeypatch.setattr(FileState, "of", staticmethod(lambda path: state))
    for seconds, is_known in ((0.01, False), (0.3, moment % 10 == 1), (3, True)):
        asked = []
        monkeypatch.setattr(file_memory.time, "time", partial(float, state.changed + seconds))
        for _ in range(2):
            remembered(model, f"contents after {seconds}", count(asked))
        assert len(asked) == 2 - is_known


def test_what_the_maker_of_a_file_knows(model):
    assert known(model, "checks") is None
    remember(model, "checks", "as written")
    assert known(model, "checks") == "as written" and known(model.parent / "none", "checks") is None


def test_questions_are_told_apart(model, settled):
    assert remembered(model, "contents", file_digest) != remembered(model, "size", lambda _: "7")


def test_links_are_followed_before_the_answer(model, settled, tmp_path):
    """An answer that names a link would be wrong for the file behind it when it leads elsewhere."""
    (tmp_path / "link").symlink_to(model)
    asked = []
    assert remembered(tmp_path / "link", "place", str) == str(model.resolve())
    assert remembered(model, "contents", count(asked)) == file_digest(model)
    remembered(tmp_path / "link", "contents", count(asked))
    assert asked == [model.resolve()]


def test_a_missing_file(model):
    model.unlink()
    with pytest.raises(FileNotFoundError):
        remembered(model, "contents", file_digest)
