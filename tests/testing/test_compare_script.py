"""CompareBeforeAfter and the features that tests may ask for."""

import pytest

import tilesmith
import tilesmith.testing as testing
from tilesmith.script import tir as T
from tilesmith.testing import requirements


class TestFunctions(testing.CompareBeforeAfter):
    transform = tilesmith.tir.transform.Simplify()

    def before(A: T.Buffer((1,), "int32")):
        if T.bool(True):
            A[0] = T.int32(40) + T.int32(2)

    def expected(A: T.Buffer((1,), "int32")):
        A[0] = 42


class TestMethods(testing.CompareBeforeAfter):
    value = testing.parameter(3, 4)

    def transform(self):
        return tilesmith.tir.transform.Simplify()

    def before(self, value):
        @T.prim_func
        def func(A: T.Buffer((1,), "int32")):
            A[0] = T.Add(value, 1)

        return func

    def expected(self, value):
        @T.prim_func
        def func(A: T.Buffer((1,), "int32")):
            A[0] = value + 1

        return func


class TestRefusal(testing.CompareBeforeAfter):
    def transform(self):
        def refuse(mod):
            raise tilesmith.TVMError("no")

        return refuse

    def before(A: T.Buffer((1,), "int32")):
        A[0] = 1

    expected = tilesmith.TVMError


def test_a_difference_fails():
    class Wrong(testing.CompareBeforeAfter):
        pass

    @T.prim_func
    def one(A: T.Buffer((1,), "int32")):
        A[0] = 1

    @T.prim_func
    def two(A: T.Buffer((1,), "int32")):
        A[0] = 2

    with pytest.raises(AssertionError, match="expected"):
        Wrong().test_compare(one, two, lambda mod: mod)
    Wrong().test_compare(one, one, lambda mod: mod)


@testing.requires_llvm
def test_llvm_is_there():
    assert not requirements.FEATURES.get("llvm").missing()


def test_features():
    assert "no back end" in requirements.FEATURES.get("metal").missing("compile-only")
    assert not requirements.FEATURES.get("metal").missing("optional")
    (gpu, skipped) = testing.requires_metal.marks()
    assert gpu.name == "gpu" and skipped.name == "skip"
    own = testing.Feature("nothing_at_all", "nothing at all", run_time_check=lambda: False)
    assert own.missing() == "nothing at all is missing here"
    assert not own.missing("compile-only")
    with pytest.raises(tilesmith.TilesmithError, match="llvm"):
        testing.Feature.require("lvm")
    with pytest.raises(tilesmith.TilesmithError, match="compile-only"):
        own.missing("compile")


@pytest.mark.parametrize(
    "name", ["requires_multi_gpu", "requires_aarch64", "requires_nccl", "uses_multi_gpu", "slow",
             "skip_if_wheel_test"],
)  # fmt: skip
def test_every_requirement_decorates(name):
    def test():
        pass

    decorated = getattr(testing, name)(test)
    assert decorated is test
    marks = getattr(test, "pytestmark", ())
    reasons = [mark.kwargs["reason"] for mark in marks if mark.name == "skip"]
    assert all(reasons)
    assert (name in ("requires_multi_gpu", "requires_nccl")) <= bool(reasons)


def test_slow_tests_are_skipped_where_the_environment_asks(monkeypatch):
    from tilesmith.testing import requirements

    monkeypatch.setattr(requirements, "SKIP_SLOW_TESTS", True)

    @requirements.slow
    def test():
        pass

    (mark,) = test.pytestmark
    assert mark.args == (True,) and "SKIP_SLOW_TESTS" in mark.kwargs["reason"]
