"""Programs that say `import tvm`."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import tilesmith
from tilesmith.compat.tvm.alias import target_of
from tilesmith.compat.tvm.aliases import MODULES, NAMES
from tilesmith.support.lazy import resolve

PROGRAM = """
    import sys
    import numpy as np
    import tvm
    import tvm.testing
    from tvm import te, tir, relax, topi
    from tvm.ir.module import IRModule
    from tvm.script import ir as I, tir as T, relax as R

    @tvm.script.ir_module
    class Add:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi] + T.float32(1)

    sch = tvm.tir.Schedule(Add)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.vectorize(loop)
    lib = tvm.build(sch.mod, target="llvm")
    a = tvm.nd.array(np.arange(8, dtype="float32"))
    b = tvm.nd.array(np.zeros(8, "float32"))
    lib["main"](a, b)
    tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1)
    assert isinstance(sch.mod, tvm.IRModule) and isinstance(sch.mod, IRModule)
    x = te.placeholder((4,), name="x")
    y = tvm.compute((4,), lambda i: x[i] * 2, name="y")
    assert isinstance(te.create_prim_func([x, y]), tvm.tir.PrimFunc)
    print("arguments", sys.argv[1:], "version", tvm.__version__)
"""


def run(code: str, *arguments: str, module: str = "") -> subprocess.CompletedProcess:
    command = [sys.executable, *(["-m", module] if module else []), *arguments]
    if code:
        command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_program_runs_unchanged(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = run("", str(program), "--size", "3", module="tilesmith.compat.tvm")
    assert done.returncode == 0, done.stderr
    assert "arguments ['--size', '3'] version 0.18.0" in done.stdout


def test_off_unless_asked_for():
    done = run("import tilesmith, tvm")
    assert done.returncode != 0 and "No module named 'tvm'" in done.stderr


def test_refused_beside_a_real_tvm():
    done = run(
        """
        import sys, types
        sys.modules["tvm"] = types.ModuleType("tvm")
        import tilesmith.compat.tvm
        tilesmith.compat.tvm.install()
        """
    )
    assert done.returncode != 0 and "imported already" in done.stderr


def test_unknown_names_are_errors():
    done = run(
        """
        import tilesmith.compat.tvm
        tilesmith.compat.tvm.install()
        import tvm
        try:
            tvm.te.no_such_thing
        except AttributeError as error:
            assert "no_such_thing" in str(error) and "tilesmith.te" in str(error)
        else:
            raise SystemExit("no error")
        try:
            import tvm.no_such_module
        except ImportError:
            pass
        else:
            raise SystemExit("no error")
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_program_is_said(tmp_path):
    done = run("", str(tmp_path / "none.py"), module="tilesmith.compat.tvm")
    assert done.returncode == 2 and "there is no file" in done.stderr


@pytest.mark.parametrize("alias", [(m, n) for m, names in NAMES.items() for n in names])
def test_each_alias_leads_somewhere(alias):
    module, name = alias
    assert resolve(NAMES[module][name]) is not None


@pytest.mark.parametrize("module", sorted(MODULES))
def test_each_module_is_there(module):
    assert resolve(target_of(module)) is not None


def test_tilesmith_itself_is_not_changed():
    done = run(
        """
        import tilesmith.compat.tvm
        tilesmith.compat.tvm.install()
        import tvm, tilesmith
        assert tvm is not tilesmith and tilesmith.__spec__.name == "tilesmith"
        assert tvm.tir.Var is tilesmith.tir.Var
        """
    )
    assert done.returncode == 0, done.stderr
    assert tilesmith.__spec__.name == "tilesmith"


def test_values_are_converted_as_users_know_it():
    code = """
        from tilesmith.compat.tvm import install
        install()
        import tvm
        import numpy as np
        one, half, truth = tvm.convert(1), tvm.convert(0.5), tvm.convert(True)
        assert (one.dtype, half.dtype, truth.dtype) == ("int32", "float32", "bool")
        assert tvm.convert("text") == "text" and tvm.convert(None) is None
        assert isinstance(tvm.convert("text"), tvm.runtime.String)
        assert tvm.runtime.convert({"a": [1, 2]})["a"][1].value == 2
        twice = tvm.convert(lambda x: x * 2)
        assert isinstance(twice, tvm.runtime.PackedFunc) and twice(4) == 8
        array = tvm.nd.array(np.zeros(2))
        assert tvm.convert(array) is array and tvm.convert(tvm.cpu()) is tvm.cpu()
        func = tvm.tir.PrimFunc([], tvm.tir.Evaluate(0))
        assert tvm.convert([func])[0] is func
        builder = tvm.tir.ir_builder.create()
        pointer = builder.pointer("float32", name="A")
        pointer[0] = pointer[0] * 2.0
        func = tvm.tir.PrimFunc([pointer], builder.get()).with_attr("global_symbol", "f")
        values = tvm.nd.array(np.ones(1, "float32"))
        tvm.build(func, target="llvm")(values)
        assert values.numpy()[0] == 2
    """
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_names_in_the_modules_that_users_know():
    done = run(
        """
        import tilesmith.compat.tvm
        tilesmith.compat.tvm.install()
        import tvm
        from tvm import tir
        from tvm.ir.attrs import make_node
        from tvm.ir.type import PointerType, PrimType, TupleType
        from tvm.tir.analysis.analysis import verify_memory
        from tvm.tir.block_scope import DepKind, StmtSRef
        from tvm.tir.expr import Add, BinaryOpExpr, CmpExpr, IntImm, PrimExprWithOp, SizeVar, Var
        from tvm.tir.function import IndexMap, PrimFunc, TensorIntrin
        x = Var("x", "int32")
        assert isinstance(x + 1, BinaryOpExpr) and isinstance(x < 1, CmpExpr)
        assert isinstance(x, PrimExprWithOp) and tvm.tir.expr.Add is tir.Add
        assert isinstance(tvm.tir.expr.div_ambiguity_error(), RuntimeError)
        assert str(tvm.tir.generic.cast(x, "int64")) == 'T.Cast("int64", x)'
        made = make_node("IntImm", dtype="int32", value=10)
        assert tvm.ir.structural_equal(made, tir.const(10)) and isinstance(made, IntImm)
        assert tvm.ir.make_node("tir.Add", a=x, b=made).b is made
        """
    )
    assert done.returncode == 0, done.stderr
