"""Patterns of dataflow: what matches, what is replaced, what is handed to code generators."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.relax.dpl import (
    PatternContext,
    is_const,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from tilesmith.script import relax as R
from tilesmith.support.errors import DiagnosticError

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def build(make, *shapes):
    params = [relax.Var(f"x{i}", R.Tensor(shape, "float32")) for i, shape in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(make(builder, *params))
        builder.emit_func_output(output)
    return builder.get()


def dense_relu(builder, x):
    y = op.matmul(x, relax.const(f32(4, 4)))
    y = op.nn.relu(op.add(y, relax.const(f32(4))))
    return op.matmul(y, relax.const(f32(4, 3)))


def last_value(module):
    return module["main"].body.blocks[0].bindings[-1].value


def test_matching_through_bindings():
    module = build(dense_relu, (2, 4))
    values = analysis.get_var2val(module["main"])
    x, w, b = wildcard(), is_const(), wildcard()
    inner = is_op("relax.matmul")(x, w)
    pattern = is_op("relax.matmul")(
        is_op("relax.nn.relu")(is_op("relax.add")(inner, b)), is_const()
    )
    found = pattern.extract_matched_expr(last_value(module), values)
    assert found[x] is module["main"].params[0]
    assert found[inner].op.name == "relax.matmul"
    assert not pattern.match(last_value(module))  # variables are opaque without their values


@pytest.mark.parametrize(
    "pattern, matches",
    [
        (lambda: is_op("relax.add")(is_var("x0"), wildcard()), True),
        (lambda: is_op("relax.add")(is_var("y"), wildcard()), False),
        (lambda: is_op("relax.add")(wildcard(), is_const()), True),
        (lambda: is_op("relax.add")(wildcard(), ~is_const()), False),
        (lambda: is_op("relax.exp")(wildcard()) | is_op("relax.add")(wildcard(), wildcard()), True),
        (lambda: wildcard().has_dtype("float32") & wildcard().has_shape((2, 4)), True),
        (lambda: wildcard().has_shape((2, 5)), False),
        (lambda: wildcard().has_struct_info(R.Tensor(ndim=2)), True),
        (lambda: is_op("relax.add")(wildcard()), False),
        (lambda: is_op("relax.add")(wildcard(), varg_default_wildcard=True), True),
    ],
)  # fmt: skip
def test_kinds_of_patterns(pattern, matches):
    module = build(lambda bb, x: op.add(x, relax.const(f32(4))), (2, 4))
    assert pattern().match(last_value(module)) is matches


def test_the_same_pattern_twice_is_the_same_value():
    same = build(lambda bb, x: op.add(x, x), (2, 4))
    different = build(lambda bb, x, y: op.add(x, y), (2, 4), (2, 4))
    x = wildcard()
    pattern = is_op("relax.add")(x, x)
    assert pattern.match(last_value(same))
    assert not pattern.match(last_value(different))


def test_attributes_and_tuples():
    module = build(lambda bb, x: op.split(x, 2, axis=1)[1], (2, 4))
    values = analysis.get_var2val(module["main"])
    split = is_op("relax.split")(wildcard()).has_attr({"axis": 1})
    assert is_tuple_get_item(split, 1).match(last_value(module), values)
    assert not is_tuple_get_item(split, 0).match(last_value(module), values)
    concat = build(lambda bb, x: op.concat((x, x), 0), (2, 4))
    x = is_var()
    assert is_op("relax.concat")(is_tuple([x, x])).match(last_value(concat))


def test_rewrite_call():
    module = build(dense_relu, (2, 4))
    x = wildcard()
    pattern = is_op("relax.nn.relu")(x)
    changed = rewrite_call(
        pattern, lambda call, found: op.maximum(found[x], op.zeros((2, 4))), module["main"]
    )
    names = [b.value.op.name for b in changed.body.blocks[0].bindings]
    assert "relax.nn.relu" not in names and "relax.maximum" in names
    analysis.assert_well_formed(changed)
    array = f32(2, 4)
    want = interpreter.run(module, "main", array)
    module["main"] = changed
    np.testing.assert_allclose(interpreter.run(module, "main", array), want)


def test_rewrite_bindings_combines_parallel_products():
    def parallel(builder, x):
        a, b = relax.const(f32(4, 3)), relax.const(f32(4, 5))
        return relax.Tuple([builder.emit(op.matmul(x, a)), builder.emit(op.matmul(x, b))])

    module = build(parallel, (2, 4))
    with PatternContext() as context:
        x = wildcard()
        first, second = is_op("relax.matmul")(x, is_const()), is_op("relax.matmul")(x, is_const())
        both = is_tuple([first, second])
        first >> both
        second >> both

    def combine(matches, values):
        a, b = values[matches[first]], values[matches[second]]
        if a.args[0] is not b.args[0] or a is b:
            return {}
        weight = np.concatenate([a.args[1].data.numpy(), b.args[1].data.numpy()], 1)
        whole = op.matmul(a.args[0], relax.const(weight))
        parts = op.split(whole, [3], axis=1)
        return {matches[both]: relax.Tuple([parts[0], parts[1]])}

    changed = rewrite_bindings(context, combine, module["main"])
    analysis.assert_well_formed(changed)
    names = [getattr(b.value, "op", None) for b in changed.body.blocks[0].bindings]
    assert [o.name for o in names if o is not None] == ["relax.matmul", "relax.split"]


def test_connections_need_a_context():
    with pytest.raises(DiagnosticError, match="PatternContext"):
        wildcard() >> wildcard()


def test_fuse_ops_by_pattern():
    module = build(dense_relu, (2, 4))
    patterns = [
        (
            "demo.dense_bias_relu",
            make_fused_bias_activation_pattern("relax.matmul", True, "relax.nn.relu"),
        ),
        ("demo.dense", make_fused_bias_activation_pattern("relax.matmul")),
    ]
    fused = transform.FuseOpsByPattern(patterns)(module)
    composites = [f.attrs["Composite"] for f in fused.functions.values() if "Composite" in f.attrs]
    assert composites == ["demo.dense_bias_relu", "demo.dense"]
    array = f32(2, 4)
    want = interpreter.run(module, "main", array)
    np.testing.assert_allclose(interpreter.run(fused, "main", array), want)
    merged = transform.MergeCompositeFunctions()(fused)
    analysis.assert_well_formed(merged)
    kinds = [f.attrs.get("Codegen") for f in merged.functions.values()]
    assert kinds == [None, "demo"]
    np.testing.assert_allclose(interpreter.run(merged, "main", array), want)


def test_checks_and_codegen_annotation():
    module = build(dense_relu, (2, 4))
    x = wildcard()
    pattern = is_op("relax.matmul")(x, is_const())
    seen = []

    def check(context):
        seen.append(context.annotated_expr["input"])
        return context.matched_expr.struct_info.concrete_shape == (2, 3)

    fused = transform.FuseOpsByPattern(
        [("demo.dense", pattern, {"input": x}, check)], annotate_codegen=True, bind_constants=False
    )(module)
    assert len(seen) == 2
    outer = [f for f in fused.functions.values() if "Codegen" in f.attrs]
    assert len(outer) == 1 and len(outer[0].params) == 2
    analysis.assert_well_formed(fused)
    array = f32(2, 4)
    np.testing.assert_allclose(
        interpreter.run(fused, "main", array), interpreter.run(module, "main", array)
    )


def test_block_rewrite():
    module = build(lambda bb, x: op.nn.relu(op.exp(x)), (2, 4))
    function = module["main"]
    block = function.body.blocks[0]
    exp = block.bindings[0].var
    rewrite = relax.DataflowBlockRewrite(block, function)
    doubled = rewrite.add(op.multiply(function.params[0], relax.const(2.0)), "d", True)
    with pytest.raises(DiagnosticError, match="used"):
        rewrite.remove_unused(exp)
    rewrite.bindings.insert(0, rewrite.bindings.pop())
    rewrite.replace_all_uses(exp, doubled)
    rewrite.remove_all_unused()
    changed = rewrite.mutate_irmodule(module)
    analysis.assert_well_formed(changed)
    array = f32(2, 4)
    want = np.maximum(array * 2, 0)
    np.testing.assert_allclose(interpreter.run(changed, "main", array), want)
