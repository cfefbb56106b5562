"""Fixtures made from parameters, and the plugin that chooses targets."""

import pytest

import tilesmith.testing as testing

pytest_plugins = ["pytester"]

letter = testing.parameter("a", "b")
number = testing.parameter(by_dict={"one": 1, "two": 2})
width, height = testing.parameters((1, 10), (2, 20))
calls = []


@testing.fixture(cache_return_value=True)
def costly(number):
    calls.append(number)
    return [number]


def test_values_vary_independently(letter, number, request):
    assert letter in "ab" and number in (1, 2)
    assert request.node.callspec.id.count("-") == 1


def test_sets_vary_together(width, height):
    assert height == 10 * width


class TestInAClass:
    depth = testing.parameter(3, 4)
    low, high = testing.parameters((1, 2), (5, 6))

    def test_depth(self, depth, low, high):
        assert depth in (3, 4) and high == low + 1


@pytest.mark.parametrize("again", range(2))
def test_cached_values_are_copies(costly, again):
    assert len(costly) == 1
    costly.append("changed by one test only")
    assert len(calls) == len(set(calls))


def test_sets_of_different_lengths():
    with pytest.raises(TypeError, match="lengths"):
        testing.parameters((1, 2), (3,))


def test_targets(pytester):
    pytester.makepyfile(
        """
        import pytest, tilesmith.testing

        def test_all(target, dev):
            assert str(target) == "llvm" and dev.exist

        @tilesmith.testing.parametrize_targets("llvm", "cuda")
        def test_chosen(target, dev): assert str(target) == "llvm"

        @tilesmith.testing.exclude_targets("llvm")
        def test_excluded(target, dev): raise AssertionError

        @tilesmith.testing.known_failing_targets("llvm")
        def test_failing(target, dev): raise AssertionError

        @pytest.mark.parametrize("target", ["c"])
        def test_own(target): assert target == "c"

        @tilesmith.testing.xfail_parameterizations("7", reason="odd")
        @pytest.mark.parametrize("n", [6, 7])
        def test_parameter(n): assert n % 2 == 0
        """
    )
    result = pytester.runpytest_subprocess("-p", "tilesmith.testing.plugin", "-q")
    result.assert_outcomes(passed=4, skipped=2, xfailed=2)
