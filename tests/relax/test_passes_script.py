"""Passes of the graph: what they change, and that the meaning stays (run before and after)."""

import numpy as np
import pytest

from tilesmith import ir, relax, tir
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.relax.analysis import FusionKind
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def tensor(name, *shape, dtype="float32"):
    return relax.Var(name, R.Tensor(shape, dtype))


def build(make, *params, name="main"):
    builder = relax.BlockBuilder()
    with builder.function(name, list(params)):
        with builder.dataflow():
            value = builder.emit_output(make(builder, *params))
        builder.emit_func_output(value)
    return builder.get()


def network(builder, x):
    y = op.nn.conv2d(x, relax.const(f32(4, 3, 3, 3)), padding=1)
    statistics = [relax.const(abs(f32(4)) + 0.5) for _ in range(4)]
    y = builder.emit(op.nn.batch_norm(y, *statistics, axis=1))[0]
    y = builder.emit(op.nn.relu(y + 1.0))
    z = op.nn.conv2d(y, relax.const(f32(4, 4, 3, 3)), padding=1)
    y = builder.emit(op.nn.relu(op.add(z, y)))
    y = op.nn.max_pool2d(y, pool_size=2, strides=2)
    y = op.reshape(y, (1, -1))
    y = op.matmul(y, relax.const(f32(36, 5))) + relax.const(f32(5))
    y = op.nn.softmax(op.nn.dropout(y)[0] if False else y)
    return op.multiply(y, op.ones((5,), "float32"))


PIPELINE = [
    transform.CanonicalizeBindings(),
    transform.DecomposeOpsForInference(),
    transform.FoldConstant(),
    transform.FoldScaleAxis(),
    transform.FoldConstant(),
    transform.EliminateCommonSubexpr(),
    transform.DeadCodeElimination(),
    transform.LegalizeOps(),
    transform.CheckLegalized(),
    transform.RewriteDataflowReshape(),
    transform.AnnotateTIROpPattern(),
    transform.FuseOps(),
    transform.FuseTIR(),
    transform.DeadCodeElimination(),
]


def calls(module, name="main"):
    return [b.value for b in analysis.bindings_of(module[name]) if isinstance(b.value, relax.Call)]


def names(module):
    return [gv.name_hint for gv in module.get_global_vars()]


def same_meaning(before, after, *arrays, rtol=1e-4, atol=1e-5):
    analysis.assert_well_formed(after)
    want = interpreter.run(before, "main", *arrays, compiled=True)
    got = interpreter.run(after, "main", *arrays, compiled=True)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (want, got)]):
        np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)


def test_each_pass_of_the_pipeline_keeps_the_meaning():
    module = build(network, tensor("x", 1, 3, 6, 6))
    x = f32(1, 3, 6, 6)
    want = interpreter.run(module, "main", x)
    for step in PIPELINE:
        module = step(module)
        analysis.assert_well_formed(module)
        got = interpreter.run(module, "main", x, compiled=True)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=step.info.name)
    assert any(name.startswith("fused_conv2d") for name in names(module))
    assert "batch_norm" not in str(module)


def test_batch_norm_folds_into_the_convolution():
    module = build(network, tensor("x", 1, 3, 6, 6))
    for step in PIPELINE[:5]:
        module = step(module)
    operators = [call.op.name for call in calls(module)]
    # The factor is in the weight; the summand is one add. The rest are those of the network.
    assert operators.count("relax.multiply") == 1
    assert operators[:2] == ["relax.nn.conv2d", "relax.add"]


def test_fold_constant():
    a, b = relax.const(f32(3, 4)), relax.const(f32(4))
    module = build(lambda bb, x: op.add(x, op.multiply(op.exp(a), b)), tensor("x", 3, 4))
    folded = transform.FoldConstant()(module)
    assert len(calls(folded)) == 1
    same_meaning(module, folded, f32(3, 4))


def test_large_results_are_not_folded():
    module = build(
        lambda bb, x: op.add(x, op.broadcast_to(relax.const(1.0), (64, 64))), tensor("x", 64, 64)
    )
    assert len(calls(transform.FoldConstant()(module))) == 2


def test_fold_compiles_prim_funcs():
    module = build(lambda bb, x: op.add(x, op.exp(relax.const(f32(3)))), tensor("x", 3))
    legal = transform.LegalizeOps()(module)
    folded = transform.FoldConstant()(legal)
    assert len(calls(folded)) == 1
    same_meaning(module, folded, f32(3))


def test_common_subexpressions():
    def twice(builder, x):
        a, b = builder.emit(op.exp(x)), builder.emit(op.exp(x))
        return op.add(op.add(a, b), op.exp(x))

    module = build(twice, tensor("x", 3))
    reduced = transform.EliminateCommonSubexpr()(module)
    assert [call.op.name for call in calls(reduced)].count("relax.exp") == 1
    same_meaning(module, reduced, f32(3))


def test_dead_code():
    builder = relax.BlockBuilder()
    x = tensor("x", 3)
    for name, private in (("unused", True), ("main", False)):
        with builder.function(name, [tensor("x", 3)] if private else [x], private=private):
            with builder.dataflow():
                builder.emit(op.exp(x if not private else relax.const(f32(3))))
                out = builder.emit_output(op.abs(x if not private else relax.const(f32(3))))
            builder.emit_func_output(out)
    module = transform.DeadCodeElimination()(builder.get())
    assert names(module) == ["main"] and len(calls(module)) == 1


def test_bind_params():
    module = build(lambda bb, x, w: op.matmul(x, w), tensor("x", 2, 3), tensor("w", 3, 4))
    weight, x = f32(3, 4), f32(2, 3)
    bound = transform.BindParams("main", {"w": weight})(module)
    assert [p.name_hint for p in bound["main"].params] == ["x"]
    np.testing.assert_allclose(interpreter.run(bound, "main", x), x @ weight, rtol=1e-6)
    with pytest.raises(UnknownNameError, match="no parameter 'v'"):
        transform.BindParams("main", {"v": weight})(module)
    with pytest.raises(TypeMismatchError, match="does not fit"):
        transform.BindParams("main", {"w": f32(5, 4)})(module)


def symbolic():
    n = ir.Var("n", "int64")
    return build(
        lambda bb, x, w: op.nn.relu(op.add(op.matmul(x, w), relax.const(f32(4)))),
        tensor("x", n, 3),
        tensor("w", 3, 4),
    )


def test_bind_symbolic_vars():
    module = transform.BindSymbolicVars({"n": 5})(symbolic())
    assert module["main"].ret_struct_info.concrete_shape == (5, 4)
    assert module["main"].params[0].struct_info.concrete_shape == (5, 3)
    with pytest.raises(UnknownNameError, match="k"):
        transform.BindSymbolicVars({"k": 5})(symbolic())


def test_symbolic_sizes_through_the_pipeline():
    module = symbolic()
    fused = module
    for step in PIPELINE:
        fused = step(fused)
    assert names(fused) == ["main", "fused_matmul_add_relu"]
    for rows in (1, 5):
        same_meaning(module, fused, f32(rows, 3), f32(3, 4))


def test_reshape_to_a_symbolic_size_is_fused_with_its_size():
    n = ir.Var("n", "int64")
    module = build(
        lambda bb, x, s: op.nn.relu(op.broadcast_to(op.exp(x), s)),
        tensor("x", 1, 4),
        relax.Var("s", R.Shape([n, 4])),
    )
    fused = module
    for step in PIPELINE:
        fused = step(fused)
    analysis.assert_well_formed(fused)
    got = interpreter.run(fused, "main", f32(1, 4), (3, 4), compiled=True)
    assert got.shape == (3, 4)


def test_equal_groups_share_one_function():
    def layers(builder, x):
        for _ in range(3):
            x = builder.emit(op.nn.relu(op.matmul(x, relax.const(f32(4, 4)))))
        return x

    module = build(layers, tensor("x", 2, 4))
    for step in PIPELINE:
        module = step(module)
    assert names(module) == ["main", "fused_matmul_relu"]


@pytest.mark.parametrize(
    "make, kind",
    [
        (lambda x: op.nn.relu(x), FusionKind.ELEMWISE),
        (lambda x: op.add(x, relax.const(f32(4))), FusionKind.BROADCAST),
        (lambda x: op.permute_dims(x), FusionKind.INJECTIVE),
        (lambda x: op.take(x, relax.const(np.array([1, 0])), axis=0), FusionKind.INJECTIVE),
        (lambda x: op.sum(x, axis=1), FusionKind.COMM_REDUCE),
        (lambda x: op.mean(x, axis=1), FusionKind.COMM_REDUCE),
        (lambda x: op.matmul(x, relax.const(f32(4, 3))), FusionKind.OUT_ELEMWISE_FUSABLE),
        (lambda x: op.nn.softmax(x), FusionKind.OUT_ELEMWISE_FUSABLE),
        (lambda x: op.split(x, 2, axis=1), FusionKind.OPAQUE),
    ],
)
def test_patterns_of_prim_funcs(make, kind):
    legal = transform.LegalizeOps()(build(lambda bb, x: make(x), tensor("x", 6, 4)))
    marked = transform.AnnotateTIROpPattern()(legal)
    function = next(f for f in marked.functions.values() if isinstance(f, tir.PrimFunc))
    if kind == FusionKind.OPAQUE and len(function.params) > 2:
        kind = FusionKind.INJECTIVE  # several results: left alone by FuseOps
    assert function.attrs["op_pattern"] == kind


def test_scheduled_functions_are_left_alone():
    @T.prim_func(private=True)
    def parallel_exp(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
        for i in T.parallel(T.int64(4)):
            with T.block("b"):
                vi = T.axis.spatial(T.int64(4), i)
                B[vi] = T.exp(A[vi])

    assert analysis.tir_op_pattern(parallel_exp) == FusionKind.OPAQUE


def test_custom_legalisation():
    module = build(lambda bb, x: op.exp(x), tensor("x", 3))
    changed = transform.LegalizeOps({"relax.exp": lambda bb, call: op.abs(call.args[0])})(module)
    assert [call.op.name for call in calls(changed)] == ["relax.abs"]


def test_dataflow_blocks_come_and_go():
    module = build(network, tensor("x", 1, 3, 6, 6))
    plain = transform.ToNonDataflow()(module)
    assert not any(isinstance(b, relax.DataflowBlock) for b in plain["main"].body.blocks)
    again = transform.ConvertToDataflow()(plain)
    blocks = again["main"].body.blocks
    assert len(blocks) == 1 and isinstance(blocks[0], relax.DataflowBlock)
    assert sum(not isinstance(b.var, relax.DataflowVar) for b in blocks[0].bindings) == 1
    same_meaning(module, again, f32(1, 3, 6, 6))
    ir.assert_structural_equal(again["main"], module["main"])


def test_inlining_of_private_functions():
    @I.ir_module
    class Module:
        @R.function(private=True)
        def inner(x: R.Tensor(("m", 4), "float32")) -> R.Tensor(("m", 4), "float32"):
            with R.dataflow():
                y = R.exp(x)
                z = R.add(y, x)
                R.output(z)
            return z

        @R.function
        def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
            with R.dataflow():
                a = cls.inner(x)
                b = cls.inner(a)
                R.output(b)
            return b

    inlined = transform.InlinePrivateFunctions()(Module)
    assert names(inlined) == ["main"]
    same_meaning(Module, inlined, f32(2, 4))


def test_reshapes_become_views():
    module = build(lambda bb, x: op.exp(op.reshape(op.exp(x), (2, 6))), tensor("x", 3, 4))
    legal = transform.RewriteDataflowReshape()(transform.LegalizeOps()(module))
    assert [c.op.name for c in calls(legal)] == [
        "relax.call_tir",
        "relax.reshape",
        "relax.call_tir",
    ]
    same_meaning(module, legal, f32(3, 4))


def test_memory_is_allocated_and_shared():
    module = build(network, tensor("x", 1, 3, 6, 6))
    for step in PIPELINE:
        module = step(module)
    x = f32(1, 3, 6, 6)
    planned = transform.CallTIRRewrite()(transform.ToNonDataflow()(module))
    planned = transform.StaticPlanBlockMemory()(planned)
    analysis.assert_well_formed(planned)
    text = str(planned["main"])
    assert text.count("alloc_storage") == 1 and "memory.alloc_tensor" in text
    assert "builtin.alloc_tensor" in text  # the result is not in the workspace
    want = interpreter.run(module, "main", x, compiled=True)
    got = interpreter.run(planned, "main", x, compiled=True)
    np.testing.assert_array_equal(got, want)


def test_local_functions_are_lifted():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor(
            (4,), "float32"
        ):
            @R.function
            def shifted(u: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.add(u, y)

            a = shifted(x)
            b = shifted(a)
            return b

    lifted = transform.LambdaLift()(Module)
    assert len(names(lifted)) == 2
    same_meaning(Module, lifted, f32(4), f32(4))


def test_passes_of_users():
    @transform.function_pass(opt_level=0)
    def drop_relu(func, mod, ctx):
        class Drop(relax.PyExprMutator):
            def visit_call_(self, call):
                call = self.visit_expr_post_order(call)
                return call.args[0] if call.op.name == "relax.nn.relu" else call

        return Drop(mod).visit_expr(func)

    @transform.dataflowblock_pass(opt_level=0)
    class CountBlocks:
        seen = 0

        def transform_dataflowblock(self, block, mod, ctx):
            CountBlocks.instance_seen = len(block.bindings)
            return block

    module = build(lambda bb, x: op.exp(op.nn.relu(x)), tensor("x", 3))
    changed = drop_relu(module)
    assert [c.op.name for c in calls(changed)] == ["relax.exp"]
    assert CountBlocks()(module)["main"] is module["main"]


def test_fused_functions_are_named_after_their_kernels():
    """The global names with their numbers, and constants as ``param_0`` and so on."""
    from tilesmith import topi

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            total = builder.emit_te(topi.sum, x, axis=1, keepdims=True)
            total = builder.emit_output(builder.emit_te(topi.add, total, total))
            added = builder.emit_te(topi.add, x, relax.const(np.ones((2, 8), "float32")))
            output = builder.emit_output(builder.emit_te(topi.nn.relu, added))
        builder.emit_func_output((output, total))
    module = relax.transform.AnnotateTIROpPattern()(builder.get())
    fused = relax.transform.FuseOps()(module)["fused_add1_relu"]
    assert [param.name_hint for param in fused.params] == ["x", "param_0"]
