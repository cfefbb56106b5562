"""Python's collector of cycles, which runs less often while a program is compiled."""

import gc

import pytest

from tilesmith.support.collector import rare_collections


@pytest.fixture(autouse=True)
def thresholds():
    outside = gc.get_threshold()
    gc.set_threshold(500, 7, 8)
    yield
    gc.set_threshold(*outside)


def test_collections_are_rare_inside_and_as_before_outside():
    with rare_collections():
        assert gc.get_threshold() == (100_000, 7, 8)
        with rare_collections():
            assert gc.get_threshold() == (100_000, 7, 8)
        assert gc.get_threshold() == (100_000, 7, 8)
    assert gc.get_threshold() == (500, 7, 8)


def test_an_error_ends_it():
    with pytest.raises(KeyError), rare_collections():
        raise KeyError
    assert gc.get_threshold() == (500, 7, 8)


@pytest.mark.parametrize("own", [0, 200_000])
def test_a_program_that_collects_as_rarely_keeps_its_setting(own):
    gc.set_threshold(own, 7, 8)
    with rare_collections():
        assert gc.get_threshold() == (own, 7, 8)
    assert gc.get_threshold() == (own, 7, 8)


def test_what_is_set_inside_stays():
    with rare_collections():
        gc.set_threshold(900, 1, 2)
    assert gc.get_threshold() == (900, 1, 2)
