"""What programs of 2018 and 2019 say, besides the names that only moved."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tests.compat.test_tvm import run
from tilesmith import te, tir
from tilesmith.compat.tvm import ir_pass, make, old_names
from tilesmith.compat.tvm.build_config import BuildConfig, build_config
from tilesmith.compat.tvm.operator_module import OperatorModule
from tilesmith.ir import structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError
from tilesmith.te.arguments import get_binds


def loop(kind: int = 0, count: int = 8) -> tuple[tir.Buffer, tir.Stmt]:
    buffer = tir.decl_buffer((count,), "float32", "A")
    i = te.var("i")
    body = buffer.vstore([i], buffer.vload([i]) * 2.0)
    return buffer, make.For(i, 0, count, kind, 0, body)


# build_config


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"auto_unroll_max_step": 32}, "tir.UnrollLoop", {"auto_max_step": 32}),
        ({"unroll_explicit": False}, "tir.UnrollLoop", {"explicit_unroll": False}),
        ({"partition_const_loop": True}, "tir.LoopPartition", {"partition_const_loop": True}),
        ({"double_buffer_split_loop": 2}, "tir.InjectDoubleBuffer", {"split_loop": 2}),
        ({"restricted_func": False}, "tir.noalias", False),
        ({"disable_vectorize": True}, "tir.disable_vectorize", True),
        ({"disable_assert": True}, "tir.disable_assert", True),
        ({"instrument_bound_checkers": True}, "tir.instrument_bound_checkers", True),
        ({"detect_global_barrier": True}, "tir.detect_global_barrier", True),
        ({"offset_factor": 4}, "te.offset_factor", 4),
        ({"data_alignment": 64}, "te.data_alignment", 64),
    ],
)
def test_options_of_lowering(options: dict, name: str, value: object):
    with build_config(**options):
        assert PassContext.current().config[name] == value
        (option,) = options
        assert getattr(BuildConfig.current(), option) == options[option]
    assert BuildConfig.current().auto_unroll_max_depth == 8


def test_unknown_and_idle_options():
    with pytest.raises(ConfigError, match="auto_unroll_max_steps") as found:
        build_config(auto_unroll_max_steps=1)
    assert "did you mean 'auto_unroll_max_step'?" in str(found.value)
    with pytest.warns(UserWarning, match="disable_select_rewriting has no effect"):
        build_config(disable_select_rewriting=True)
    with pytest.raises(AttributeError):
        build_config().no_such_option


def test_a_pass_of_that_time_rewrites_a_statement():
    buffer, statement = loop()
    func = tir.PrimFunc([buffer.data], statement).with_attr("global_symbol", "f")

    def halve(op):
        if isinstance(op, tir.Mul):
            return op.a * 0.5

    def step(body):
        return ir_pass.IRTransform(body, None, halve, ["Mul"])

    with build_config(add_lower_pass=[(1, step)]):
        built = ts.build(func, target="llvm")
    values = ts.nd.array(np.ones(8, "float32"))
    built(values)
    assert values.numpy().tolist() == [0.5] * 8
    with build_config(add_lower_pass=[(1, lambda body: None)]), pytest.raises(ConfigError):
        ts.lower(func)


def test_passes_are_shown(capsys):
    buffer, statement = loop()
    with build_config(dump_pass_ir=True):
        ts.lower(tir.PrimFunc([buffer.data], statement))
    assert "FlattenBuffer" in capsys.readouterr().out


# make, ir_pass


@pytest.mark.parametrize(("number", "kind"), [(0, "range"), (1, "T.parallel"), (3, "T.unroll")])
def test_kinds_of_loops(number: int, kind: str):
    assert f"in {kind}(8)" in str(loop(number)[1])


def test_nodes():
    i = te.var("i")
    assert structural_equal(make.Add(i, tir.const(1)), i + 1)
    assert make.static_cast("int32", i) is i and make.static_cast("int8", i).dtype == "int8"
    assert make.range_by_min_extent(2, 3).min.value == 2
    both = make.Block(make.Evaluate(i), make.Evaluate(i + 1))
    assert isinstance(both, tir.SeqStmt) and len(both) == 2
    assert make.Call("float32", "exp", [tir.const(1.0)]).op.name == "tir.exp"
    outside = make.Call("float32", "sinf", [tir.const(1.0)], 4)
    assert outside.op.name == "tir.call_pure_extern" and outside.args[0].value == "sinf"


@pytest.mark.parametrize("name", ["Load", "Store", "Provide", "Realize"])
def test_memory_without_buffers_is_refused(name: str):
    with pytest.raises(UnsupportedError, match="memory is reached through buffers"):
        getattr(make, name)(1, 2, 3)


def test_passes_on_expressions_and_statements():
    i, j = te.var("i"), te.var("j")
    assert ir_pass.Equal(ir_pass.Simplify(i + j - i), j)
    assert ir_pass.Equal(ir_pass.CanonicalSimplify(i // 8, {i: ts.ir.Range(0, 8)}), tir.const(0))
    assert ir_pass.Equal(ir_pass.Substitute(i + 1, {i: j}), j + 1)
    assert ir_pass.ExprUseVar(i + 1, i) and not ir_pass.ExprUseVar(i + 1, j)
    buffer, statement = loop()
    found = []
    ir_pass.PostOrderVisit(statement, lambda node: found.append(type(node).__name__))
    assert found[-1] == "For" and "BufferStore" in found
    assert ir_pass.VerifySSA(statement)
    only_loads = ir_pass.IRTransform(statement, None, lambda node: tir.const(1.0), ["Load"])
    assert "A[i] = T.Mul(T.float32(1.0), T.float32(2.0))" in str(only_loads)


def test_passes_of_today_on_statements():
    assert "T.vectorized(8)" in str(loop(2)[1])
    assert "A[0:8] = A[0:8] *" in str(ir_pass.VectorizeLoop(loop(2)[1]))
    assert str(ir_pass.UnrollLoop(loop(count=4)[1], 16, 8, 0, True)).count("A[") == 8
    assert "for" in str(ir_pass.UnrollLoop(loop(count=4)[1], 0, 8, 0, True))
    func = tir.PrimFunc([loop()[0].data], tir.Evaluate(0))
    assert isinstance(ir_pass.RemoveNoOp(func), tir.PrimFunc)
    with pytest.raises(UnsupportedError, match="rewrites statements"):
        ir_pass.RemoveNoOp(te.var("i") + 1)
    with pytest.raises(UnsupportedError) as found:
        ir_pass.MakeAPI(None)
    assert "tvm.build" in str(found.value)
    with pytest.raises(AttributeError, match="NoSuchPass"):
        ir_pass.NoSuchPass


# intrinsics


def test_intrinsics_that_programs_define():
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: old_names.call_intrin(a.dtype, "house_2018_twice", a[i]))

    @old_names.register_intrin_rule("llvm", "house_2018_twice", override=True)
    def rule(call):
        assert call.name == "house_2018_twice" and call.dtype == "float32"
        return call.args[0] * 2.0

    values = ts.nd.array(np.zeros(4, "float32"))
    ts.build(te.create_prim_func([a, b]), target="llvm")(
        ts.nd.array(np.arange(4, dtype="float32")), values
    )
    assert values.numpy().tolist() == [0, 2, 4, 6]


# driver.build_module


def test_buffers_of_arguments():
    n = te.var("n")
    a, b = te.placeholder((n, 4), name="a"), te.placeholder((8,), "int8", name="b")
    known = tir.decl_buffer((8,), "int8", "known")
    with build_config(offset_factor=4, data_alignment=64):
        binds, arguments = get_binds([a, b, n], binds={b: known})
    assert binds == {a: arguments[0], b: known} and arguments[1] is known and arguments[2] is n
    assert (arguments[0].name, arguments[0].data_alignment) == ("a", 64)
    assert arguments[0].offset_factor == 4 and not isinstance(arguments[0].elem_offset, tir.IntImm)
    assert arguments[0].buffer_type != get_binds([a], compact=True)[1][0].buffer_type
    assert len({id(buffer) for buffer in get_binds([a, a])[1]}) == 1
    with pytest.raises(TypeMismatchError, match="a tensor, a buffer or a variable"):
        get_binds([3])


def test_modules_know_what_they_were_made_of():
    buffer, statement = loop()
    lowered = ts.lower(tir.PrimFunc([buffer.data], statement).with_attr("global_symbol", "f"))
    module = OperatorModule.from_module(
        ts.build(lowered, target="llvm"), ir_module_by_target={"llvm": lowered}, name="f"
    )
    values = ts.nd.array(np.ones(8, "float32"))
    module["f"](values)
    assert values.numpy().tolist() == [2.0] * 8
    assert isinstance(module, ts.runtime.Module) and module.ir_module_by_target["llvm"] is lowered


# whole programs


def test_names_at_the_top():
    done = run(
        """
        import tilesmith.compat.tvm
        tilesmith.compat.tvm.install()
        import numpy as np
        import topi
        import tvm
        from tvm.contrib import util
        n = tvm.var("n")
        a = tvm.placeholder((n,), name="a", dtype=tvm.float32)
        k = tvm.reduce_axis((0, n), "k")
        b = tvm.compute((1,), lambda i: tvm.sum(a[k], axis=k), name="b")
        c = topi.nn.relu(b)
        assert isinstance(a, tvm.tensor.Tensor) and isinstance(b.op, tvm.tensor.ComputeOp)
        assert isinstance(n + 1, tvm.expr.Add)
        assert isinstance(tvm.const(1, "uint8"), tvm.expr.UIntImm)
        assert isinstance(b.op.body[0], tvm.expr.Reduce)
        ib = tvm.ir_builder.create()
        data = ib.pointer("float32", name="data")
        with ib.for_range(0, 4, name="i") as i:
            data[i] = tvm.if_then_else(i < 2, 1.0, 2.0)
        statement = ib.get()
        assert isinstance(statement, tvm.stmt.For)
        func = tvm.tir.PrimFunc([data.asobject().data], statement)
        func = func.with_attr("global_symbol", "fill")
        ctx = tvm.context("llvm", 0)
        assert ctx == tvm.cpu(0) and ctx.exist and isinstance(ctx, tvm.TVMContext)
        with tvm.target.create("llvm"):
            assert tvm.target.current_target().kind.name == "llvm"
            fill = tvm.build(func, name="fill")
        folder = util.tempdir()
        path = folder.relpath("fill.so")
        fill.export_library(path)
        loaded = tvm.module.load(path)
        values = tvm.nd.array(np.zeros(4, "float32"), ctx)
        loaded["fill"](values)
        assert values.asnumpy().tolist() == [1, 1, 2, 2]
        assert tvm.ir_pass.Equal(tvm.ir_pass.Simplify(n - n), tvm.const(0, "int32"))
        assert tvm.make.Evaluate(1).value.value == 1 and tvm.module.enabled("llvm")
        with tvm.build_config(auto_unroll_max_step=8):
            assert tvm.build_module.current_build_config().auto_unroll_max_step == 8
        assert tvm.select(n > 1, n, 1).dtype == "int32" and tvm.api.var("m").dtype == "int32"
        assert tvm.load_json(tvm.save_json(n)).name == "n"
        assert tvm.arith.DetectLinearEquation(n * 2, [n])[0].value == 2
        """
    )
    assert done.returncode == 0, done.stderr
