"""Defines ``CompareBeforeAfter``: tests a pass by a program and the program that the pass must make
of it.

class TestRemoveIf(tilesmith.testing.CompareBeforeAfter):
    transform = tilesmith.tir.transform.Simplify()

    def before(A: T.Buffer(1, "int32")):
        if True:
            A[0] = 42

    def expected(A: T.Buffer(1, "int32")):
        A[0] = 42
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import pytest

from tilesmith.ir import BaseFunc, IRModule, assert_structural_equal
from tilesmith.ir.transform import Pass
from tilesmith.script import from_source
from tilesmith.script import ir as script_ir
from tilesmith.script import tir as T
from tilesmith.support.errors import TypeMismatchError

__all__ = ["CompareBeforeAfter"]


class CompareBeforeAfter:
    """A test of a pass, by structural comparison.

    ``before`` and ``expected`` are TVMScript: a function without decorator, one with it, or a class
    of functions (a module). They may also be methods with ``self`` (and fixtures) that return the
    program, or fixtures. ``expected`` may be a class of exceptions, or ``before`` itself for a pass
    that must change nothing. ``transform`` is a pass, or a method or fixture returning one.
    ``check_well_formed`` says whether the written programs are verified.
    """

    check_well_formed: bool = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("before", "expected"):
            if name in cls.__dict__:
                setattr(cls, name, cls._as_program_fixture(name, cls.__dict__[name]))
        if "transform" in cls.__dict__:
            cls.transform = cls._as_transform_fixture(cls.__dict__["transform"])

    @classmethod
    def _as_program_fixture(cls, name: str, given: Any) -> Any:
        if _is_fixture(given):
            return given
        if inspect.isclass(given) and not issubclass(given, BaseException):
            return _constant(cls._parse(given))
        if inspect.isfunction(given):
            if "self" in inspect.signature(given).parameters:
                return pytest.fixture(given)
            return _constant(cls._parse(given))
        if isinstance(given, (BaseFunc, IRModule)) or inspect.isclass(given):
            return _constant(given)
        raise TypeMismatchError(
            f"{cls.__name__}.{name} is a {type(given).__name__}",
            notes=("write a TVMScript function, a class of them, or a method giving one",),
        )

    @classmethod
    def _parse(cls, given: Any) -> Any:
        """Return the program of a definition, which may lack its decorator."""
        text = textwrap.dedent(inspect.getsource(given))
        if not text.startswith("@"):
            text = ("@I.ir_module\n" if inspect.isclass(given) else "@T.prim_func\n") + text
        inside = list(vars(given).values()) if inspect.isclass(given) else [given]
        known: dict[str, Any] = {"I": script_ir, "T": T}
        for function in filter(inspect.isfunction, inside):
            known.update(inspect.getclosurevars(function).globals)
            known.update(inspect.getclosurevars(function).nonlocals)
        return from_source(text, known, check_well_formed=cls.check_well_formed)

    @classmethod
    def _as_transform_fixture(cls, given: Any) -> Any:
        if _is_fixture(given):
            return given
        if isinstance(given, Pass):
            return _constant(given)
        if inspect.isfunction(given) and "self" in inspect.signature(given).parameters:
            return pytest.fixture(given)
        if callable(given):
            return _constant(given)
        raise TypeMismatchError(f"{cls.__name__}.transform is not a pass, got {given!r}")

    def test_compare(self, before: Any, expected: Any, transform: Any) -> None:
        """Check that the pass turns ``before`` into ``expected``, or raises what ``expected``
        names.
        """
        if inspect.isclass(expected) and issubclass(expected, BaseException):
            with pytest.raises(expected):
                transform(_as_module(before))
            return
        after = transform(_as_module(before))
        wanted = _as_module(expected)
        if isinstance(after, BaseFunc):
            after = _as_module(after)
        try:
            assert_structural_equal(after, wanted)
        except ValueError as error:
            raise AssertionError(
                f"{error}\n\nbefore:\n{before}\n\nafter:\n{after}\n\nexpected:\n{wanted}"
            ) from None


def _is_fixture(given: Any) -> bool:
    return type(given).__name__ == "FixtureFunctionDefinition" or hasattr(
        given, "_pytestfixturefunction"
    )


def _constant(value: Any) -> Any:
    def give(*_instance: Any) -> Any:
        return value

    return pytest.fixture(give)


def _as_module(program: Any) -> IRModule:
    if isinstance(program, IRModule):
        return program
    return IRModule({"main": _named(program)})


def _named(function: Any) -> Any:
    """Give both functions the same name, whatever the methods of the test are called."""
    return function.with_attr("global_symbol", "main") if hasattr(function, "attrs") else function
