"""What governs passes and what they note: contexts of relay.build, functions for code generators,
spans."""

import numpy
import pytest

from tilesmith import ir, relay
from tilesmith.driver import relay_passes
from tilesmith.ir.transform import PassContext, PassInstrument
from tilesmith.relay import analysis, transform
from tilesmith.relay.transform import infer_layout_utils, suffixes
from tilesmith.target import Target


class Seen(PassInstrument):
    """Notes the names of passes."""

    def __init__(self):
        self.names = []

    def run_before_pass(self, mod, info):
        self.names.append(info.name)


def built(function, **context):
    """Build under a context; return the names of the passes that ran, and the library."""
    seen = Seen()
    with PassContext(instruments=[seen], **context):
        lib = relay.build(ir.IRModule.from_expr(function), target="llvm")
    return set(seen.names), lib


def network():
    x, w = relay.var("x", shape=(1, 2, 4, 4)), relay.var("w", shape=(2, 2, 3, 3))
    vectors = [relay.var(name, shape=(2,)) for name in "abcd"]
    value = relay.nn.batch_norm(relay.nn.conv2d(x, w), *vectors)[0]
    return relay.Function([x, w, *vectors], relay.tanh(relay.nn.relu(value)))


ALL = {"FuseOps", "FoldConstant", "FoldScaleAxis", "EliminateCommonSubexpr",
       "SimplifyInference", "AlterOpLayout", "Inline", "LabelOps"}  # fmt: skip


@pytest.mark.parametrize(
    "context, missing, more",
    [
        ({"opt_level": 3}, set(), set()),
        ({"opt_level": 2}, {"FoldScaleAxis", "EliminateCommonSubexpr"}, set()),
        ({"opt_level": 0}, {"FuseOps", "FoldConstant", "FoldScaleAxis", "EliminateCommonSubexpr"},
         set()),
        ({"opt_level": 0, "required_pass": ["FuseOps"]},
         {"FoldConstant", "FoldScaleAxis", "EliminateCommonSubexpr"}, set()),
        ({"opt_level": 3, "disabled_pass": ["FuseOps"]}, {"FuseOps"}, set()),
        ({"opt_level": 3, "disabled_pass": ["SimplifyInference", "AlterOpLayout"]},
         {"SimplifyInference", "AlterOpLayout"}, set()),
        ({"opt_level": 3, "disabled_pass": ["DecomposeOpsForInference", "Inline"]},
         {"SimplifyInference", "Inline"}, set()),
        ({"opt_level": 3, "disabled_pass": ["BackwardFoldScaleAxis"]},
         {"FoldScaleAxis"}, set()),
        ({"opt_level": 4}, set(), {"FastMath", "CombineParallelConv2D"}),
        ({"opt_level": 3, "required_pass": ["FastMath"]}, set(), {"FastMath"}),
    ],
)  # fmt: skip
def test_contexts_of_builds(context, missing, more):
    names, lib = built(network(), **context)
    assert names & ALL == ALL - missing
    assert not names & {"DecomposeOpsForInference", "PackForVectors", "FuseTIR"}
    assert more <= names and ("FastMath" in names) == ("FastMath" in more)
    numbers = numpy.random.default_rng(0)
    arrays = [numbers.random(shape, "float32") + 0.5
              for shape in ((1, 2, 4, 4), (2, 2, 3, 3), *[(2,)] * 4)]  # fmt: skip
    x, w, gamma, beta, mean, variance = arrays
    windows = numpy.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    value = numpy.einsum("nchwij,ocij->nohw", windows, w)
    column = [one[:, None, None] for one in (gamma, beta, mean, variance)]
    value = (value - column[2]) / numpy.sqrt(column[3] + 1e-5) * column[0] + column[1]
    found = lib.get_lib()(*arrays).numpy()
    numpy.testing.assert_allclose(found, numpy.tanh(numpy.maximum(value, 0)), rtol=1e-3, atol=1e-3)


def test_without_a_context_all_passes_run():
    assert not PassContext.is_entered()
    names = {one.info.name for one in relay_passes.chosen_passes(Target("llvm")).passes}
    assert names >= ALL
    with PassContext():
        assert PassContext.is_entered()
        names = {one.info.name for one in relay_passes.chosen_passes(Target("llvm")).passes}
    assert "FoldScaleAxis" not in names


# Functions for code generators


def inner(name="ext_0", compiler="ext"):
    p = relay.var("p", shape=(3,))
    q = relay.var("q", shape=(3,))
    composite = relay.Function([q], relay.exp(q)).with_attr("Composite", "ext.exp")
    attrs = {"Primitive": 1, "Compiler": compiler, "global_symbol": name}
    return relay.Function([p], relay.tanh(composite(p)), attrs=attrs)


def outer(callee):
    x = relay.var("x", shape=(3,))
    return relay.Function([x], relay.add(callee(x), x))


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("compiler, count", [("", 1), ("ext", 1), ("other", 0)])
def test_functions_are_outlined(compiler, count, bound):
    if bound:
        x, f = relay.var("x", shape=(3,)), relay.var("f")
        function = relay.Function([x], relay.Let(f, inner(), relay.add(f(x), x)))
    else:
        function = outer(inner())
    step = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols(compiler)
    mod = transform.InferType()(step(ir.IRModule.from_expr(function)))
    assert [var.name_hint for var in mod.get_global_vars()] == ["main", "ext_0"][: 1 + count]
    if count:
        assert isinstance(mod["main"].body.args[0].op, ir.GlobalVar)
        assert mod["ext_0"].attrs["Compiler"] == "ext"


def test_two_functions_of_one_name():
    x = relay.var("x", shape=(3,))
    both = relay.Function([x], relay.add(inner()(x), inner()(x)))
    with pytest.raises(Exception, match="two functions have the global_symbol 'ext_0'"):
        transform.OutlineCompilerFunctionsWithExistingGlobalSymbols()(ir.IRModule.from_expr(both))


def outlined():
    step = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols()
    return step(ir.IRModule.from_expr(outer(inner())))


@pytest.mark.parametrize("compiler, marked", [("", True), ("ext", True), ("other", False)])
def test_functions_are_marked_as_extern(compiler, marked):
    mod = transform.MarkCompilerFunctionsAsExtern(compiler)(outlined())
    assert (dict(mod["ext_0"].attrs) == {"Extern": 1}) == marked
    assert "Compiler" not in mod["main"].attrs


def test_partitions_are_undone():
    mod = outlined()
    back = transform.InlineCompilerFunctionsBoundTo([mod.get_global_var("ext_0")])(mod)
    x = relay.var("x", shape=(3,))
    after = relay.Function([x], relay.add(relay.tanh(relay.exp(x)), x))
    ir.assert_structural_equal(back["main"], after)
    assert [var.name_hint for var in back.get_global_vars()] == ["main"]
    kept = transform.InlineCompilerFunctionsBoundTo([mod.get_global_var("main")])(mod)
    ir.assert_structural_equal(kept, mod)


# Spans


def test_numbers_in_spans():
    x = relay.var("x", shape=(3,))
    value = relay.exp(x)
    function = relay.Function([x], relay.add(relay.tanh(value), value))
    mod = transform.CapturePostDfsIndexInSpans()(ir.IRModule.from_expr(function))
    body = mod["main"].body
    names = [one.span.source_name.name for one in (body.args[1], body.args[0], body, mod["main"])]
    order = []
    analysis.post_order_visit(mod["main"], order.append)
    places = [order.index(one) for one in (body.args[1], body.args[0], body, mod["main"])]
    numbers = [[int(number) for number in name.split(":")[1:]] for name in names]
    assert [name.split(":")[0] for name in names] == ["index"] * 4
    assert sorted(places) == sorted(dict.fromkeys(places))
    exp, tanh, add, whole = numbers
    assert exp[1] == tanh[1] == add[0] and add[1] == whole[0] == whole[1]
    ir.assert_structural_equal(mod["main"], function)


def test_suffixes():
    span = relay.Span(relay.SourceName("layer"), 1, 1, 0, 0)
    alone = relay.Span(relay.SourceName("other"), 2, 2, 0, 0)
    x = relay.var("x", shape=(3,))
    first = relay.Call(ir.Op.get("exp"), [x], span=span)
    second = relay.Call(ir.Op.get("tanh"), [first], span=span)
    third = relay.Call(ir.Op.get("abs"), [second], span=alone)
    mod = suffixes.tag_suffixes(ir.IRModule.from_expr(relay.Function([x], third)))
    body = mod["main"].body
    names = [one.span.source_name.name for one in (body.args[0].args[0], body.args[0], body)]
    assert names == ["layer_PART_0", "layer_PART_1", "other"]
    assert suffixes.SUFFIX_STRING == "_PART_"


def test_layout_outputs():
    made = infer_layout_utils.InferCorrectLayoutOutput(["NCHW"], ["NHWC"], None)
    assert list(made.input_layouts) == ["NCHW"] and list(made.output_layouts) == ["NHWC"]
    assert made.new_attrs is None
