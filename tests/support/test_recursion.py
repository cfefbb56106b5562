import sys
import threading

import pytest

from tilesmith.support.recursion import RECURSION_LIMIT, deep_recursion


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def test_scope_raises_and_restores_the_limit():
    before = sys.getrecursionlimit()
    with deep_recursion():
        assert sys.getrecursionlimit() == RECURSION_LIMIT
        with deep_recursion():
            assert depth(50_000) == 50_000
        assert sys.getrecursionlimit() == RECURSION_LIMIT
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("decorate", [deep_recursion, deep_recursion()], ids=["plain", "called"])
def test_decorator(decorate):
    before = sys.getrecursionlimit()

    @decorate
    def entry(n):
        """Says how deep."""
        return depth(n)

    assert entry(20_000) == 20_000
    assert entry.__doc__ == "Says how deep."
    assert sys.getrecursionlimit() == before


def test_error_inside_restores_the_limit():
    before = sys.getrecursionlimit()
    with pytest.raises(ZeroDivisionError), deep_recursion():
        raise ZeroDivisionError
    assert sys.getrecursionlimit() == before


def test_threads_share_one_scope():
    before = sys.getrecursionlimit()
    entered, leave = threading.Event(), threading.Event()

    def work():
        with deep_recursion():
            entered.set()
            leave.wait(10)
            assert depth(5_000) == 5_000

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(10)
    with deep_recursion():
        pass
    assert sys.getrecursionlimit() == RECURSION_LIMIT  # the other thread still needs it
    leave.set()
    thread.join()
    assert sys.getrecursionlimit() == before
