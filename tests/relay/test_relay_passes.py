"""Passes: the program computes the same, in the form that the pass promises."""

import numpy
import pytest

from tests.relay.programs import Maker, arrays, value_of
from tilesmith import ir, relay
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.relay import analysis, transform


def after(text, *passes):
    """Return the functions of a program after some passes, as text without types."""
    mod = relay.parse(text)
    for one in passes:
        mod = one(mod)
    return str(mod)


def same(text, wanted):
    ir.assert_structural_equal(relay.parse(text), relay.parse(wanted))


PASSES = {
    "ToANormalForm": transform.ToANormalForm(),
    "ToBasicBlockNormalForm": transform.ToBasicBlockNormalForm(),
    "ToGraphNormalForm": transform.ToGraphNormalForm(),
    "DeadCodeElimination": transform.DeadCodeElimination(),
    "inline_once": transform.DeadCodeElimination(inline_once=True),
    "EliminateCommonSubexpr": transform.EliminateCommonSubexpr(),
    "FoldConstant": transform.FoldConstant(),
}


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_compute_the_same(seed):
    function = Maker(seed).function()
    wanted = numpy.asarray(value_of(function, arrays(seed)))
    for name, one in PASSES.items():
        mod = transform.InferType()(one(ir.IRModule.from_expr(function)))
        assert analysis.well_formed(mod["main"]), name
        found = numpy.asarray(value_of(mod["main"], arrays(seed)))
        numpy.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=name)


BRANCHES = """def @main(%x: float32, %c: bool) {
  %0 = exp(%x);
  if (%c) { tanh(%0) } else { add(%0, %0) }
}"""


def test_a_normal_form():
    same(
        after(BRANCHES, transform.ToANormalForm()),
        """def @main(%x: float32, %c: bool) {
          let %a = exp(%x);
          let %b = if (%c) { let %d = tanh(%a); %d } else { let %e = add(%a, %a); %e };
          %b
        }""",
    )
    x = relay.var("x", "float32")
    assert isinstance(transform.ToANormalFormExpr(relay.Tuple([x + 1])), relay.Let)


def test_basic_block_normal_form():
    mod = relay.parse(BRANCHES)
    assert not analysis.check_basic_block_normal_form(mod["main"])
    mod = transform.ToBasicBlockNormalForm()(mod)
    assert analysis.check_basic_block_normal_form(mod["main"])
    same(
        str(mod),
        """def @main(%x: float32, %c: bool) {
          let %a = exp(%x);
          if (%c) { tanh(%a) } else { add(%a, %a) }
        }""",
    )


def test_graph_normal_form_keeps_effects_and_recursion():
    text = """def @main(%x: int32) {
      let %a = add(%x, 1);
      let %f = fn (%n: int32) -> int32 { %f(%n) };
      let %b = %f(%a);
      add(%b, %a)
    }"""
    graph = after(text, transform.ToGraphNormalForm())
    same(graph, """def @main(%x: int32) {
      let %f = fn (%n: int32) -> int32 { %f(%n) };
      %0 = add(%x, 1);
      add(%f(%0), %0)
    }""")  # fmt: skip
    effects = (
        "def @main(%x: int32) { let %r = ref(%x); let %a = ref_read(%r); ref_write(%r, 1); %a }"
    )
    same(after(effects, transform.ToGraphNormalForm()), effects)


def test_dead_code():
    text = """def @main(%x: int32) {
      let %a = add(%x, 1); let %dead = add(%a, 2); let %r = ref(%x); let %_ = ref_write(%r, 3);
      let %b = add(%x, 5);
      add(%b, ref_read(%r))
    }"""
    same(after(text, transform.DeadCodeElimination()), """def @main(%x: int32) {
      let %r = ref(%x); let %_ = ref_write(%r, 3); let %b = add(%x, 5); add(%b, ref_read(%r))
    }""")  # fmt: skip
    same(after(text, transform.DeadCodeElimination(ignore_impurity=True)), """def @main(%x: int32) {
      let %r = ref(%x); let %b = add(%x, 5); add(%b, ref_read(%r))
    }""")  # fmt: skip
    assert "%b" not in after(text, transform.DeadCodeElimination(inline_once=True))


def test_common_subexpressions():
    text = "def @main(%x: float32) { (add(exp(%x), 1f), add(exp(%x), 1f), tanh(%x), tanh(%x)) }"
    merged = after(text, transform.EliminateCommonSubexpr())
    assert merged.count("exp(") == merged.count("add(") == merged.count("tanh(") == 1
    kept = after(text, transform.EliminateCommonSubexpr(lambda call: call.op.name == "tanh"))
    assert kept.count("exp(") == 1 and kept.count("tanh(") == 2


def test_unused_functions():
    text = """def @a() { @b() } def @b() { 1 } def @c() { @c() } def @main() { @a() }"""
    assert set(names(transform.RemoveUnusedFunctions()(relay.parse(text)))) == {"a", "b", "main"}
    assert names(transform.RemoveUnusedFunctions(["c"])(relay.parse(text))) == ["c"]


def names(mod):
    return [var.name_hint for var in mod.get_global_vars()]


def test_inline():
    text = """
    def @twice(%x: int32, Inline=1) { let %y = @once(%x); add(%y, %y) }
    def @once(%x: int32, Inline=1) { add(%x, 1) }
    def @loop(%x: int32, Inline=1) -> int32 { @loop(%x) }
    def @main(%x: int32) { (@twice(@twice(%x)), @loop(%x)) }"""
    mod = transform.InferType()(transform.Inline()(relay.parse(text)))
    assert names(mod) == ["loop", "main"]
    assert analysis.well_formed(mod["main"])
    assert analysis.list_op_freqs(mod) == {"add": 4}


def test_defuse():
    text = """def @main(%x: float32) {
      let %f = fn (%p: float32, Primitive=1) { exp(tanh(%p)) };
      add((fn (%p: float32, Primitive=1) { exp(tanh(%p)) })(%x), 1f)
    }"""
    defused = transform.DefuseOps()(relay.parse(text))
    assert str(defused["main"].body.body) == str(relay.parse_expr(
        "free_var %x: float32; add(exp(tanh(%x)), 1f)"))  # fmt: skip


def test_fold_constant():
    text = """def @main(%x: float32) {
      let %c = add(1f, multiply(2f, 3f));
      %0 = split(meta[relay.Constant][0], indices_or_sections=2);
      (add(%x, %c), %0.1, zeros(shape=[100, 100], dtype="float32"), (%x, tanh(0f)).1)
    }"""
    table = {"relay.Constant": [relay.const(numpy.arange(4, dtype="int8"))]}
    mod = transform.FoldConstant()(relay.parse(text, init_meta_table=table))
    total, part, large, field = mod["main"].body.fields
    assert total.args[1].data.numpy() == 7 and field.data.numpy() == 0
    assert part.data.numpy().tolist() == [2, 3] and isinstance(large, relay.Call)


def test_simplify_inference():
    x = relay.var("x", shape=(2, 4, 3))
    vectors = [relay.var(name, shape=(size,)) for name, size in zip("abcdef", (4, 4, 4, 4, 3, 3))]
    batch = relay.Call(ir.Op.get("nn.batch_norm"), [x, *vectors[:4]])
    layer = relay.Call(ir.Op.get("nn.layer_norm"), [batch[0], *vectors[4:]])
    dropped = relay.Call(ir.Op.get("nn.dropout"), [layer])
    body = relay.TupleGetItem(dropped, 0)
    function = relay.Function([x, *vectors], body)
    mod = transform.SimplifyInference()(ir.IRModule.from_expr(function))
    assert not {"nn.batch_norm", "nn.layer_norm", "nn.dropout"} & set(analysis.list_op_freqs(mod))
    numbers = numpy.random.default_rng(0)
    inputs = [numbers.random([int(n) for n in one.type_annotation.shape], "float32")
              for one in function.params]  # fmt: skip
    data, gamma, beta, mean, variance, weight, bias = inputs
    column = [one[:, None] for one in (gamma, beta, mean, variance)]
    value = (data - column[2]) / numpy.sqrt(column[3] + 1e-5) * column[0] + column[1]
    value = value - value.mean(-1, keepdims=True)
    value = value / numpy.sqrt((value * value).mean(-1, keepdims=True) + 1e-5) * weight + bias
    found = value_of(mod["main"], inputs)
    numpy.testing.assert_allclose(numpy.asarray(found), value, rtol=1e-3, atol=1e-4)


def test_contexts_govern_passes():
    text = "def @main(%x: float32) { add(%x, add(1f, 2f)) }"
    both = Sequential([transform.FoldConstant(), transform.EliminateCommonSubexpr()])
    with PassContext(opt_level=3):
        assert str(both(relay.parse(text))).count("add") == 1
    with PassContext(opt_level=3, disabled_pass=["FoldConstant"]):
        assert str(both(relay.parse(text))).count("add") == 2


def test_passes_of_users():
    @transform.function_pass(opt_level=1)
    class Renamed:
        def transform_function(self, func, mod, ctx):
            return func.with_attr("seen", True)

    assert Renamed()(relay.parse("def @main() { () }"))["main"].attrs["seen"] is True


def test_passes_go_deep():
    x = relay.var("x", "float32")
    value = x
    for _ in range(10_000):
        value = relay.Call(ir.Op.get("tanh"), [value])
    mod = ir.IRModule.from_expr(relay.Function([x], value))
    mod = transform.ToGraphNormalForm()(transform.ToANormalForm()(mod))
    for one in (PASSES["EliminateCommonSubexpr"], PASSES["FoldConstant"], transform.Inline()):
        mod = one(mod)
    assert analysis.count_layers(mod, ["tanh"]) == 10_000


def test_canonical_operators():
    text = """def @main(%x: Tensor[(1, 4, 2, 2), float32], %b: Tensor[(4), float32]) {
      (nn.bias_add(nn.relu(%x), %b), divide(%x, 4f))
    }"""
    mod = transform.DivToMul()(transform.CanonicalizeOps()(relay.parse(text)))
    same(str(mod), """def @main(%x: Tensor[(1, 4, 2, 2), float32], %b: Tensor[(4), float32])
      -> (Tensor[(1, 4, 2, 2), float32], Tensor[(1, 4, 2, 2), float32]) {
      (add(nn.relu(%x), expand_dims(%b, axis=1, num_newaxis=2)), multiply(%x, 0.25f))
    }""")  # fmt: skip


def test_eta_expansion():
    text = """type Box[A] { Full(A), }
    def @f(%x: int32) -> int32 { %x }
    def @main(%x: int32) { (@f, @f(%x), Full, Full(%x)) }"""
    both = transform.EtaExpand(expand_constructor=True, expand_global_var=True)
    fields = transform.InferType()(both(relay.parse(text)))["main"].body.fields
    assert [type(one).__name__ for one in fields] == ["Function", "Call", "Function", "Call"]
    assert isinstance(fields[1].op, ir.GlobalVar) and isinstance(fields[3].op, relay.Constructor)


def test_spans_of_printed_programs():
    x = relay.var("x", "float32")
    mod = ir.IRModule.from_expr(relay.Function([x], x + 1))
    spanned = transform.AnnotateSpans()(mod)
    assert spanned["main"].body.span.line == 3
    ir.assert_structural_equal(spanned, mod)


def test_the_context_of_old_programs():
    with transform.build_config(opt_level=3, disabled_pass=["FoldConstant"]):
        assert PassContext.current().opt_level == 3
    with pytest.raises(Exception, match="a trace is not called"):
        transform.build_config(trace=print)


def test_lambda_lifting():
    text = """def @main(%x: int32) {
      let %y = add(%x, 1);
      let %f = fn (%n: int32) -> int32 { if (less(%n, %y)) { %f(add(%n, 1)) } else { %n } };
      let %g = fn (%n) { let %h = fn (%m: int32) { add(%m, %n) }; %h(multiply(%n, 2)) };
      (%f(%x), %g(%x), (fn [A](%a: A) -> A { %a })(%x))
    }"""
    lifted = transform.LambdaLift()(relay.parse(text))
    mod = transform.InferType()(relay.parse(lifted.astext()))
    assert names(mod) == ["main", "lifted_f", "lifted_h", "lifted_g", "lifted"]
    scalar = relay.scalar_type("int32")
    assert mod["main"].ret_type == relay.TupleType([scalar] * 3)
    closures = [name for name in names(mod) if mod[name].attrs.get("Closure")]
    assert closures == ["lifted_f", "lifted_h"]
    for name in names(mod):
        assert analysis.well_formed(mod[name]) and not analysis.free_vars(mod[name])
        inside = mod[name].body
        has_functions = analysis.Feature.fFunction in analysis.detect_feature(inside)
        assert has_functions == (name in closures)
