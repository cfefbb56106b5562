"""Passes declared by one decorator: found, named, configured and documented from there."""

import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.pass_declaration import PassNames, compiler_pass
from tilesmith.ir.transform import Sequential, get_pass, pass_factory, pass_names
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, UnknownNameError
from tilesmith.tir import PrimFunc, transform


@T.prim_func
def scale(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = A[i] * T.float32(2)


def marked(func: PrimFunc, mark: str) -> PrimFunc:
    return func.with_attr("marks", (*func.attrs.get("marks", ()), mark))


@compiler_pass("tests.Mark", options={"suffix": ""}, aliases=("tests.Label",), opt_level=2)
def mark_functions(
    func: PrimFunc, options: Mapping[str, Any], mod: IRModule, mark: str = "m"
) -> PrimFunc:
    """Marks each function."""
    return marked(func, mark + options["suffix"] + str(len(mod.functions)))


@compiler_pass("tests.Checked")
class Checked:
    """Marks functions, after a look at the argument."""

    def __init__(self, mark: str) -> None:
        if not mark:
            raise ConfigError("a mark has letters")
        self.mark = mark

    def transform(self, func: PrimFunc, context: PassContext) -> PrimFunc:
        """Marks one function."""
        return marked(func, f"{self.mark}{context.opt_level}")


def marks(mod: IRModule) -> tuple:
    return tuple(mod["scale"].attrs["marks"])


@pytest.fixture
def module():
    return IRModule({"scale": scale})


@pytest.mark.parametrize(
    ("made", "config", "expected"),
    [
        (lambda: get_pass("tests.Mark"), {}, ("m1",)),
        (lambda: pass_factory("tests.Mark")("x"), {}, ("x1",)),
        (lambda: pass_factory("tests.Mark")(mark="x"), {"tests.Mark": {"suffix": "!"}}, ("x!1",)),
        (lambda: get_pass("tests.Label"), {"tests.Mark": {"suffix": "!"}}, ("m1",)),
        (lambda: pass_factory("tests.Checked")("c"), {}, ("c2",)),
    ],
)
def test_arguments_and_options(module, made, config, expected):
    with PassContext(config=config):
        assert marks(made()(module)) == expected


def test_the_function_stays_a_function(module):
    assert mark_functions(scale, {"suffix": "?"}, module).attrs["marks"] == ("m?1",)


def test_what_users_see():
    factory = pass_factory("tests.Mark")
    assert factory.__name__ == "Mark"
    assert factory.__doc__ == "Marks each function."
    assert str(inspect.signature(factory)) == "(mark: str = 'm')"
    assert factory().info.opt_level == 2


def test_opt_level_decides_in_a_sequence(module):
    with PassContext(opt_level=1):
        assert "marks" not in Sequential([get_pass("tests.Mark")])(module)["scale"].attrs


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"Mark\(mark: str = 'm'\): too many positional"):
        pass_factory("tests.Mark")(1, 2)
    with pytest.raises(ConfigError, match="a mark has letters"):
        pass_factory("tests.Checked")("")


def test_a_pass_says_what_it_works_on():
    with pytest.raises(ConfigError, match="does not say what it works on") as caught:

        @compiler_pass("tests.Nothing")
        def nothing(thing: int) -> int:
            return thing

    assert "PrimFunc" in str(caught.value)


def test_unknown_options_and_passes():
    with pytest.raises(ConfigError, match="'tests.Mark' has no 'sufix'"):
        PassContext(config={"tests.Mark": {"sufix": "!"}})
    with pytest.raises(UnknownNameError, match=r"unknown pass 'tir\.FlatenBuffer'") as caught:
        get_pass("tir.FlatenBuffer")
    assert "tir.FlattenBuffer" in str(caught.value)


def test_names_are_read_without_imports(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "some.py").write_text(
        'raise RuntimeError("imported")\n\n\n@compiler_pass("tests.One")\ndef one(func): ...\n\n\n'
        '@compiler_pass(\n    "tests.Two",\n    aliases=("tests.Three", "tests.Four"),\n)\n'
        "class Two:\n    pass\n"
    )
    names = PassNames("tests.unused.", "package", [str(tmp_path)])
    assert dict(names.modules()) == dict.fromkeys(
        ["tests.One", "tests.Two", "tests.Three", "tests.Four"], "package.inner.some"
    )


def test_every_pass_is_found_by_its_name():
    names = [name for name in pass_names() if name.startswith("tir.")]
    assert len(names) > 90
    for name in names:
        short = name.removeprefix("tir.")
        assert getattr(transform, short) is pass_factory(name)
        assert (pass_factory(name).__doc__ or "").strip(), f"{name} has no docstring"
        assert short in dir(transform) or short == "DefaultGPUSchedule"


def test_graph_passes_are_found_the_same_way():
    from tilesmith.relax import transform as graph

    names = [name for name in pass_names() if hasattr(graph, name)]
    assert len(names) > 35
    for name in names:
        assert getattr(graph, name) is pass_factory(name)
        assert (pass_factory(name).__doc__ or "").strip(), f"{name} has no docstring"
        assert name in dir(graph)
