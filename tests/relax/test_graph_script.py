"""Nodes, builder, visitors, analyses, printing and parsing of the graph."""

import numpy as np
import pytest

from tilesmith import ir, relax, script
from tilesmith.ir import assert_structural_equal, structural_equal, structural_hash
from tilesmith.relax import analysis, interpreter, op
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import DiagnosticError, ScriptError, TypeMismatchError, VerifyError

rng = np.random.default_rng(0)


def tensor(name, *shape, dtype="float32"):
    return relax.Var(name, R.Tensor(shape, dtype))


def mlp():
    builder = relax.BlockBuilder()
    x = tensor("x", 2, 8)
    weight = relax.const(rng.standard_normal((8, 3)).astype("float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(op.matmul(x, weight))
            output = builder.emit_output(op.nn.relu(product + 1.0))
        builder.emit_func_output(output)
    return builder.get()


@I.ir_module
class Everything:
    @T.prim_func(private=True)
    def add1(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, T.int64(4)), "float32")
        B = T.match_buffer(b, (n, T.int64(4)), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @R.function(private=True)
    def sub(x: R.Tensor(("m", 4), "float32")) -> R.Tensor(("m", 4), "float32"):
        return R.nn.relu(x)

    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")) -> R.Tuple(
        R.Tensor(("n", 4), "float32"), R.Tensor(ndim=2, dtype="float32"), R.Prim("int64"), R.Object
    ):
        n = T.int64()
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv = R.call_tir(cls.add1, (x,), out_sinfo=R.Tensor((n, 4), "float32"))
            lv1 = cls.sub(lv)
            a, b = R.split(lv1 * R.const(2.0), 2, axis=1)
            gv = R.concat((b, a), axis=1)
            R.output(gv)
        if c:
            w = R.add(gv, gv)
            y = R.multiply(w, w)
        else:
            y = gv
        k = T.int64()
        z = R.match_cast(y, R.Tensor((k, 4), "float32"))

        @R.function
        def inner(u: R.Tensor((k, 4), "float32")) -> R.Tensor((k, 4), "float32"):
            return R.exp(u)

        e = inner(z)
        o = R.strided_slice(e, (1,), (0,), (2,))
        R.print(o, format="o is {}")
        return (y, o, R.prim_value(3), R.str("x"))


def test_round_trip_of_everything():
    text = Everything.script()
    again = script.from_source(text)
    assert_structural_equal(again, Everything)
    assert structural_hash(again) == structural_hash(Everything)
    assert again.script() == text
    analysis.assert_well_formed(again)


def test_constants_travel_in_the_text():
    module = mlp()
    assert "metadata" in str(module) and "I.array" not in str(module)
    again = script.from_source(module.script())
    assert_structural_equal(again, module)
    x = rng.standard_normal((2, 8)).astype("float32")
    np.testing.assert_array_equal(
        interpreter.run(again, "main", x), interpreter.run(module, "main", x)
    )


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "int8", "uint8", "bool", "int64", "float64"]
)
def test_constants_of_every_dtype(dtype):
    values = relax.const(np.arange(6).reshape(2, 3) % 2, dtype)
    scalar = relax.const(1, dtype)

    def build():
        builder = relax.BlockBuilder()
        with builder.function("main", [tensor("x", 1)]):
            builder.emit_func_output((values, scalar))
        return builder.get()

    module = build()
    assert_structural_equal(script.from_source(module.script()), module)


def test_struct_info_of_annotations():
    assert structural_equal(R.Tensor((2, 3), "float32"), relax.TensorStructInfo((2, 3), "float32"))
    assert R.Tensor("float16").dtype == "float16" and R.Tensor("float16").ndim == -1
    assert R.Shape(ndim=2).ndim == 2 and R.Shape([1, 2]).ndim == 2
    assert R.Prim(value=3).value.value == 3
    proxy = R.Tuple(R.Tensor(("n", "n * 2")), R.Shape(["n"]))
    info = proxy.as_struct_info()
    assert info.fields[0].shape[0] is info.fields[1].shape.values[0]
    with pytest.raises(ScriptError, match="not known here"):
        R.Tensor(("n * 2",)).as_struct_info()


def test_builder_makes_normal_form():
    module = mlp()
    bindings = module["main"].body.blocks[0].bindings
    assert [b.value.op.name for b in bindings] == ["relax.matmul", "relax.add", "relax.nn.relu"]
    assert [b.var.name_hint for b in bindings] == ["lv", "lv1", "gv"]
    assert isinstance(bindings[0].var, relax.DataflowVar)
    assert not isinstance(bindings[2].var, relax.DataflowVar)
    assert module["main"].attrs["global_symbol"] == "main"
    analysis.assert_well_formed(module)


def test_shared_operations_are_bound_once():
    builder = relax.BlockBuilder()
    x = tensor("x", 4)
    with builder.function("main", [x]):
        shared = op.exp(x)
        builder.emit_func_output(builder.emit(op.add(shared, shared)))
    assert len(builder.get()["main"].body.blocks[0].bindings) == 2


def test_equal_prim_funcs_are_added_once():
    from tilesmith import topi

    builder = relax.BlockBuilder()
    x, y = tensor("x", 4), tensor("y", 5)
    with builder.function("main", [x, y]):
        first = builder.emit_te(topi.add, x, x)
        second = builder.emit_te(topi.add, first, x)
        other = builder.emit_te(topi.add, y, y)
        builder.emit_func_output((second, other))
    names = [gv.name_hint for gv in builder.get().get_global_vars()]
    assert names == ["add", "add1", "main"]


def test_emit_te_of_a_function_that_gives_back_its_tensor():
    builder = relax.BlockBuilder()
    x = tensor("x", 4)
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit_te(lambda a: a, x))
    data = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(interpreter.run(builder.get(), "main", data), data)


def test_emit_te_with_symbolic_sizes():
    from tilesmith import te

    builder = relax.BlockBuilder()
    n = ir.Var("n", "int64")
    x = tensor("x", n, 4)

    def scaled(a, size):
        return te.compute(a.shape, lambda i, j: a[i, j] * size.astype("float32"), name="scaled")

    with builder.function("main", [x, relax.Var("s", R.Shape([ir.Var("k", "int64")]))]) as scope:
        extra = scope.params[1].struct_info.values[0]
        builder.emit_func_output(builder.emit_te(scaled, x, extra))
    module = builder.get()
    call = module["main"].body.blocks[0].bindings[0].value
    assert len(call.args) == 3  # the size that no tensor tells
    found = interpreter.run(module, "main", np.ones((3, 4), "float32"), (5,), compiled=True)
    np.testing.assert_array_equal(found, np.full((3, 4), 5, "float32"))


def test_builder_names_mistakes():
    builder = relax.BlockBuilder()
    x = tensor("x", 4)
    with pytest.raises(DiagnosticError, match="needs a function"):
        builder.emit(x)
    with pytest.raises(DiagnosticError, match="has no result"):
        with builder.function("main", [x]):
            builder.emit(op.exp(x))
    with pytest.raises(DiagnosticError, match="inside"):
        with builder.function("main", [x]):
            builder.emit_output(x)
    with pytest.raises(DiagnosticError, match="'y' is used in 'main', but is no parameter"):
        with builder.function("main", [x]):
            builder.emit_func_output(builder.emit(op.add(x, tensor("y", 4))))
    with pytest.raises(
        DiagnosticError, match="the dataflow block of 'lv[0-9]*' in 'main' has no output"
    ):
        with builder.function("main", [x]):
            with builder.dataflow():
                builder.emit(op.exp(x))
            builder.emit_func_output(x)


def test_names_are_unique_over_the_functions_of_a_builder():
    builder = relax.BlockBuilder()
    for name in ("f", "g"):
        x = tensor("x", 2)
        with builder.function(name, [x]):
            with builder.dataflow():
                output = builder.emit_output(builder.emit(op.exp(x)))
            builder.emit_func_output(output)
    module = builder.get()
    bindings = [b for name in "fg" for b in module[name].body.blocks[0].bindings]
    assert [b.var.name_hint for b in bindings] == ["lv", "gv", "lv1", "gv1"]


def test_parameters_are_given_once():
    builder, x = relax.BlockBuilder(), tensor("x", 2)
    with pytest.raises(RuntimeError, match="given twice"), builder.function("main", [x]):
        builder.emit_func_output(x, [x])


def test_finalize_renames_functions():
    builder = relax.BlockBuilder()
    x, y = tensor("x", 2), tensor("y", 2)
    with builder.function("helper", [x], private=True):
        helper = builder.emit_func_output(builder.emit(op.exp(x)))
    with builder.function("other", [y], {"global_symbol": "helper"}):
        builder.emit_func_output(builder.emit(relax.Call(helper, [y])))
    assert not analysis.well_formed(builder.get())
    module = builder.finalize()
    analysis.assert_well_formed(module)
    assert [v.name_hint for v in module.get_global_vars()] == ["helper1", "helper"]
    assert module["helper"].body.blocks[0].bindings[0].value.op.name_hint == "helper1"


def test_operators_of_python():
    x = tensor("x", 4, dtype="int32")
    assert (x + 1).args[1].data.dtype == "int32"
    assert (2 * x).op is ir.Op.get("relax.multiply")
    assert (-x).op.name == "relax.negative"
    assert (x > 1).struct_info.dtype == "bool"
    pair = relax.Var("t", R.Tuple(R.Tensor((1,)), R.Tensor((2,))))
    assert pair[-1].index == 1
    with pytest.raises(IndexError):
        pair[2]
    with pytest.raises(TypeMismatchError, match="only tuples"):
        x[0]


def test_analyses():
    module = mlp()
    function = module["main"]
    block = function.body.blocks[0]
    names = [var.name_hint for var in analysis.all_vars(function)]
    assert names == ["x", "lv", "lv1", "gv"]
    assert analysis.free_vars(function) == [] and analysis.free_vars(block) == [function.params[0]]
    assert analysis.get_var2val(function)[block.bindings[0].var] is block.bindings[0].value
    chain = analysis.udchain(block)
    assert chain[block.bindings[0].var] == [block.bindings[1].var]
    assert set(analysis.name_to_binding(function)) == {"lv", "lv1", "gv"}
    assert not analysis.contains_impure_call(function)
    assert analysis.contains_impure_call(Everything["main"])
    seen = []
    analysis.post_order_visit(function, lambda e: seen.append(type(e).__name__))
    assert seen[-1] == "Function" and "Constant" in seen


def test_unused_bindings_go_and_effects_stay():
    builder = relax.BlockBuilder()
    x = tensor("x", 4)
    with builder.function("main", [x], pure=False):
        builder.emit(op.exp(x))
        builder.emit(op.print(x, format="{}"))
        builder.emit_func_output(x)
    cleaned = analysis.remove_all_unused(builder.get()["main"])
    assert [b.value.op.name for b in cleaned.body.blocks[0].bindings] == ["relax.print"]


def broken_functions():
    x = tensor("x", 4)
    lv = relax.DataflowVar("lv", x.struct_info)
    y = relax.Var("y", x.struct_info)
    twice = relax.BindingBlock([relax.VarBinding(y, op.exp(x)), relax.VarBinding(y, op.exp(x))])
    yield relax.Function([x], relax.SeqExpr([twice], y)), "bound twice"
    yield relax.Function([x], relax.SeqExpr([], y)), "not bound"
    escaping = relax.DataflowBlock([relax.VarBinding(lv, op.exp(x))])
    yield relax.Function([x], relax.SeqExpr([escaping], lv)), "not bound"
    nested = relax.BindingBlock([relax.VarBinding(y, op.exp(op.exp(x)))])
    yield relax.Function([x], relax.SeqExpr([nested], y)), "argument"
    impure = relax.BindingBlock([relax.VarBinding(relax.Var("_", R.Tuple()), op.print(x))])
    yield relax.Function([x], relax.SeqExpr([impure], x)), "pure"


@pytest.mark.parametrize("function, text", list(broken_functions()))
def test_broken_functions_are_refused(function, text):
    assert not analysis.well_formed(function)
    with pytest.raises(VerifyError, match=text):
        analysis.assert_well_formed(function)


def test_copies_are_equal_and_separate():
    function = Everything["main"]
    copy = copy_with_new_vars(function)
    assert_structural_equal(copy, function)
    assert not set(analysis.all_vars(copy)) & set(analysis.all_vars(function))


@relax.expr_functor.visitor
class CountCalls(relax.PyExprVisitor):
    def __init__(self):
        self.count = 0

    def visit_call_(self, call):
        super().visit_call_(call)
        self.count += 1


@relax.expr_functor.visitor
class CountTwice(CountCalls._cls):
    def visit_call_(self, call):
        super().visit_call_(call)
        self.count += 1


@relax.expr_functor.mutator
class ReluToGelu(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        return op.nn.gelu(op.exp(call.args[0])) if call.op.name == "relax.nn.relu" else call


def test_visitors():
    function = mlp()["main"]
    counter = CountCalls()
    counter.visit_expr(function)
    assert counter.count == 3
    twice = CountTwice()
    twice.visit_expr(function)
    assert twice.count == 6
    assert relax.PyExprMutator().visit_expr(function) is function
    changed = ReluToGelu().visit_expr(function)
    names = [b.value.op.name for b in changed.body.blocks[0].bindings]
    assert names == ["relax.matmul", "relax.add", "relax.exp", "relax.nn.gelu"]
    analysis.assert_well_formed(changed)


def test_struct_info_relations():
    n = ir.Var("n", "int64")
    assert R.Tensor(ndim=2).is_base_of(R.Tensor((n, 4), "float32"))
    assert not R.Tensor((n, 4), "float32").is_base_of(R.Tensor((n, 5), "float32"))
    check = analysis.struct_info_base_check(R.Tensor((2, 4)), R.Tensor((3, 4)))
    assert check == analysis.BaseCheckResult.FAIL_L0
    joined = analysis.struct_info_lca(R.Tensor((2, 4), "float32"), R.Tensor((3, 4), "float32"))
    assert joined.ndim == 2 and joined.shape is None and joined.dtype == "float32"
    assert isinstance(analysis.struct_info_lca(R.Tensor(), R.Shape()), relax.ObjectStructInfo)
    erased = analysis.erase_to_well_defined(R.Tensor((n, 4), "float32"))
    assert erased.shape is None and erased.ndim == 2


def test_calls_derive_their_result():
    call = Everything["main"].body.blocks[0].bindings[1].value
    n = Everything["main"].params[0].struct_info.shape[0]
    assert call.struct_info.shape[0] is n


def test_errors_of_the_script_point_at_the_place():
    text = """
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    y = R.matmul(x, x)
    return y
"""
    with pytest.raises(ScriptError, match="matmul") as error:
        script.from_source(text)
    assert "R.matmul(x, x)" in str(error.value) and "^" in str(error.value)
