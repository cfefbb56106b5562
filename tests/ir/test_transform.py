"""Passes, contexts, options, instruments."""

import json
import subprocess
import sys
import threading

import pytest

from tests.tir.sample_programs import elementwise, matmul, module
from tilesmith.ir import IRModule
from tilesmith.ir.instrument import (
    DumpIR,
    PassInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintChanged,
    Verify,
    pass_instrument,
)
from tilesmith.ir.transform import (
    ApplyPassToFunction,
    ModulePass,
    PassContext,
    PrintIR,
    Sequential,
    module_pass,
    register_config_option,
    register_pass,
)
from tilesmith.support.errors import (
    ConfigError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    VerifyError,
)
from tilesmith.support.knobs import knobs
from tilesmith.tir.transform import prim_func_pass


def marking(name, opt_level=0, required=()):
    """A pass that notes in the module that it has run."""

    @module_pass(opt_level=opt_level, name=name, required=required)
    def mark(mod, ctx):
        return mod.with_attr("ran", (*(mod.attrs.get("ran") or ()), name))

    return mark


def ran(mod):
    return mod.attrs.get("ran") or ()


@module_pass(opt_level=2, name="AddCopy")
class AddCopy:
    """A pass that is a class."""

    def __init__(self, name="copy"):
        self.name = name

    def transform_module(self, mod, ctx):
        mod[self.name] = mod["main"]
        return mod


@prim_func_pass(opt_level=1, name="Mark")
class Mark:
    def transform_function(self, func, mod, ctx):
        return func.with_attr("level", ctx.opt_level)


def test_pass_of_a_class():
    mod = module(elementwise())
    made = AddCopy("other")
    assert isinstance(made, ModulePass) and made.info.name == "AddCopy" and made.info.opt_level == 2
    assert made.name == "other"
    changed = made(mod)
    assert "other" in changed and "other" not in mod
    assert changed["other"] is mod["main"]


def test_pass_of_a_function():
    @module_pass(opt_level=1)
    def nothing(mod, ctx):
        assert ctx is PassContext.current()
        return mod

    assert nothing.info.name == "nothing"
    assert isinstance(nothing(module(elementwise())), IRModule)


def test_passes_over_functions():
    mod = module(elementwise(), matmul())
    with PassContext(opt_level=3):
        changed = Mark()(mod)
    assert all(func.attrs["level"] == 3 for func in changed.functions.values())

    @prim_func_pass(opt_level=0)
    def drop(func, mod, ctx):
        return None if func.attrs["global_symbol"] == "main" else func

    assert [gv.name_hint for gv in drop(mod).get_global_vars()] == ["matmul"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("zero", "two")),
        ({"opt_level": 0}, ("zero",)),
        ({"opt_level": 3}, ("zero", "two", "three")),
        ({"opt_level": 3, "disabled_pass": ["two"]}, ("zero", "three")),
        ({"opt_level": 0, "required_pass": ["three"]}, ("zero", "three")),
    ],
)
def test_context_decides_in_sequences(options, expected):
    sequence = Sequential([marking("zero"), marking("two", 2), marking("three", 3)])
    with PassContext(**options):
        assert ran(sequence(module(elementwise()))) == expected


def test_a_pass_called_by_itself_runs():
    with PassContext(opt_level=0, disabled_pass=["three"]):
        assert ran(marking("three", 3)(module(elementwise()))) == ("three",)


def test_required_passes_run_first():
    register_pass("tests.Before", lambda: marking("tests.Before"))
    sequence = Sequential([marking("after", required=["tests.Before"])])
    assert ran(sequence(module(elementwise()))) == ("tests.Before", "after")


def test_contexts_nest_and_belong_to_threads():
    assert PassContext.current().opt_level == 2
    with PassContext(opt_level=1):
        with PassContext(opt_level=3):
            assert PassContext.current().opt_level == 3
            seen = []
            thread = threading.Thread(target=lambda: seen.append(PassContext.current().opt_level))
            thread.start()
            thread.join()
            assert seen == [2]
        assert PassContext.current().opt_level == 1


def test_options_are_checked():
    context = PassContext(
        config={"tir.disable_vectorize": 1, "tir.UnrollLoop": {"auto_max_step": 16}}
    )
    assert context.config["tir.disable_vectorize"] is True
    assert context.get_config("tir.disable_assert") is False
    assert context.get_config("tir.UnrollLoop") == {"auto_max_step": 16}
    with pytest.raises(ConfigError, match="tir.disable_vectorize"):
        PassContext(config={"tir.disable_vectorise": True})
    with pytest.raises(ConfigError, match="type bool"):
        PassContext(config={"tir.disable_vectorize": "yes"})
    with pytest.raises(ConfigError, match="auto_max_step"):
        PassContext(config={"tir.UnrollLoop": {"max_step": 16}})
    with pytest.raises(ConfigError, match="list of names"):
        PassContext(disabled_pass="FuseOps")
    assert PassContext.list_configs()["tir.disable_vectorize"]["type"] == "bool"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int, 3, 2.5),
        (int, 3, True),
        (float, 2, "2"),
        (str, "a", 1),
        (list, (1, 2), 1),
        (dict, {}, 1),
    ],
)
def test_types_of_options(kind, good, bad):
    register_config_option("tests.option", kind)
    PassContext(config={"tests.option": good})
    with pytest.raises(ConfigError):
        PassContext(config={"tests.option": bad})


def test_mistakes():
    with pytest.raises(TypeMismatchError, match="IRModule.from_expr"):
        Mark()(elementwise())
    with pytest.raises(ConfigError, match="opt_level"):
        module_pass(name="x")
    with pytest.raises(TypeMismatchError, match="transform_module"):
        module_pass(opt_level=0)(type("NoMethod", (), {}))
    with pytest.raises(TypeMismatchError, match="made of passes"):
        Sequential([AddCopy])
    with pytest.raises(TypeMismatchError, match="returned NoneType"):
        module_pass(opt_level=0)(lambda mod, ctx: None)(module(elementwise()))
    with pytest.raises((ConfigError, UnknownNameError)):
        Sequential([marking("x", required=["tir.NoSuchPass"])])(module(elementwise()))


def test_errors_name_the_pass():
    @module_pass(opt_level=0, name="Typed")
    def typed(mod, ctx):
        raise ShapeError("no")

    @module_pass(opt_level=0, name="Plain")
    def plain(mod, ctx):
        raise KeyError("no")

    with pytest.raises(ShapeError, match="in the pass 'Typed'"):
        Sequential([typed])(module(elementwise()))
    with pytest.raises(KeyError) as raised:
        plain(module(elementwise()))
    assert raised.value.__notes__ == ["in the pass 'Plain'"]

    @prim_func_pass(opt_level=0, name="OfFunction")
    def of_function(func, mod, ctx):
        raise ShapeError("no")

    with pytest.raises(ShapeError, match="in the function 'matmul'"):
        of_function(module(matmul()))


@pass_instrument
class Recorder:
    def __init__(self, forbidden=()):
        self.events = []
        self.forbidden = forbidden

    def enter_pass_ctx(self):
        self.events.append("enter")

    def exit_pass_ctx(self):
        self.events.append("exit")

    def should_run(self, mod, info):
        return info.name not in self.forbidden

    def run_before_pass(self, mod, info):
        self.events.append(f"before {info.name}")

    def run_after_pass(self, mod, info):
        self.events.append(f"after {info.name}")


def test_instruments_see_passes_in_order():
    recorder = Recorder()
    assert isinstance(recorder, PassInstrument)
    with PassContext(instruments=[recorder]):
        marking("a")(module(elementwise()))
    assert recorder.events == ["enter", "before a", "after a", "exit"]


def test_instruments_may_forbid_passes():
    with PassContext(instruments=[Recorder(["a", "b"])], required_pass=["b"]):
        mod = Sequential([marking("a"), marking("b")])(module(elementwise()))
    assert ran(mod) == ("b",)


def test_instruments_can_be_replaced():
    first, second = Recorder(), Recorder()
    with PassContext(instruments=[first]) as context:
        context.override_instruments([second])
        marking("a")(module(elementwise()))
    assert first.events == ["enter", "exit"]
    assert second.events == ["enter", "before a", "after a", "exit"]


def test_timing():
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([marking("a"), marking("b")])(module(elementwise()))
        text = timing.render()
    assert "a: " in text and "  b: " in text and "all passes" in text
    assert set(timing.totals()) == {"sequential", "a", "b"}


def test_printing(capsys):
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        marking("a")(module(elementwise()))
    text = capsys.readouterr().out
    assert "# before a" in text and "# after a" in text and "def main" in text
    PrintIR("here")(module(elementwise()))
    assert "PrintIR(here)" in capsys.readouterr().out


def test_changes_are_shown():
    texts = []
    with PassContext(instruments=[PrintChanged(texts.append)]):
        AddCopy()(module(elementwise()))
        Sequential([])(module(elementwise()))
    assert any(line.startswith("+") for line in texts[0].splitlines()[3:])
    assert texts[1] == "# sequential: unchanged"


def test_modules_are_written(tmp_path):
    with PassContext(instruments=[DumpIR(tmp_path)]):
        Sequential([marking("a.b"), marking("c")])(module(elementwise()))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["000_a.b.py", "001_c.py", "002_sequential.py"]


def test_verification():
    from tilesmith.ir import Var
    from tilesmith.tir import Evaluate

    @prim_func_pass(opt_level=0, name="Breaks")
    def breaks(func, mod, ctx):
        return func.with_body(Evaluate(Var("nowhere", "int32") + 1))

    with PassContext(instruments=[Verify()]):
        marking("a")(module(elementwise()))
        with pytest.raises(VerifyError, match="'Breaks' broke the module: .*nowhere"):
            breaks(module(elementwise()))


def test_apply_to_some_functions():
    mod = module(elementwise(), matmul())
    changed = ApplyPassToFunction(Mark(), "mat.*")(mod)
    assert "level" in changed["matmul"].attrs and "level" not in changed["main"].attrs
    with pytest.raises(ConfigError, match="no function matches"):
        ApplyPassToFunction(Mark(), "x", True)(mod)


def test_knobs(capsys, tmp_path):
    sequence = Sequential([marking("a"), marking("b"), marking("c")])
    with knobs.override(timing=True):
        sequence(module(elementwise()))
    assert "  b: " in capsys.readouterr().err
    with knobs.override(pass_limit=2):
        assert ran(sequence(module(elementwise()))) == ("a", "b")
    with knobs.override(dump_dir=tmp_path):
        sequence(module(elementwise()))
    assert len(list(tmp_path.iterdir())) == 4
    with knobs.override(debug="2,b"):
        sequence(module(elementwise()))
    assert capsys.readouterr().err.strip() == "# b"


LISTS_UNKNOWN = """
import json, sys
from tilesmith.ir.transform import PassContext
unknown = []
for name in json.loads(sys.argv[1]):
    try:
        PassContext(config={name: object()})
    except Exception as error:
        if "unknown pass option" in str(error):
            unknown.append(name)
print(json.dumps(unknown))
"""


def test_options_are_known_before_who_reads_them_is_imported():
    import tilesmith.driver.relax_build
    import tilesmith.relax.transform.fuse_ops
    import tilesmith.relax.transform.winograd  # noqa: F401

    names = [name for name in PassContext.list_configs() if name.startswith("relax.")]
    assert {"relax.winograd_tolerance", "relax.FuseOps.max_depth"} <= set(names)
    done = subprocess.run(
        [sys.executable, "-c", LISTS_UNKNOWN, json.dumps(names)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []
