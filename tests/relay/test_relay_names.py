"""Names of `relay` that stand in small modules: regions, calibration data, distributions, plans."""

import importlib
import sys

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import ir, relay
from tilesmith.compat import tvm as alias
from tilesmith.ir import IRModule, Op, SourceName, Span
from tilesmith.ir.transform import Sequential
from tilesmith.relay import analysis, transform
from tilesmith.relay.backend.graph_plan_memory import GraphPlanMemory, StaticMemoryPlan, StorageInfo
from tilesmith.relay.dataflow_pattern import is_op, wildcard
from tilesmith.relay.op.annotation import compiler_begin, compiler_end
from tilesmith.relay.operations_distribution import (
    AnalyzeOperationsDistribution,
    analyze_operations_distribution,
)
from tilesmith.relay.qnn.op import dequantize, quantize
from tilesmith.support.errors import (
    DiagnosticError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
    UnsupportedMemberError,
)

X, Y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
BEGIN, END = Op.get("annotation.compiler_begin"), Op.get("annotation.compiler_end")
RANDOM = np.random.default_rng(0)
DATA = {name: RANDOM.standard_normal((2, 3)).astype("float32") for name in "xy"}

for _name in ("add", "tanh", "split"):
    ir.register_op_attr(_name, "target.names_a", lambda call: True)


@pytest.fixture
def tvm():
    alias.install()
    yield importlib.import_module("tvm")
    alias.uninstall()


def module(body, params=(X, Y)):
    return IRModule.from_expr(relay.Function(list(params), body))


def partitioned(mod):
    return Sequential(
        [
            transform.AnnotateTarget("names_a"),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(),
        ]
    )(mod)


# Regions


def test_regions_have_a_compiler_nodes_and_annotations():
    begins = [compiler_begin(one, "one") for one in (X, Y)]
    total = relay.add(*begins)
    middle = compiler_end(total, "one")
    other_begin = compiler_begin(middle, "two")
    other = relay.tanh(other_begin)
    end = compiler_end(other, "two")
    found = analysis.AnnotatedRegionSet(relay.Function([X, Y], relay.exp(end)), BEGIN, END)
    assert len(found) == 2
    first, second = found.get_region(total), found.get_region(other)
    assert (first.target, second.target) == ("one", "two") and first.id != second.id
    assert set(first.args) == set(begins) and first.rets == (middle,)
    assert set(first.nodes) == {*begins, total, middle}
    assert found.get_region(other_begin) is found.get_region(end) is second
    assert found.get_region(X) is None
    assert list(found) == sorted(found, key=lambda one: one.id)


def test_ends_that_share_nodes_bound_one_region():
    shared = relay.tanh(compiler_begin(X, "one"))
    ends = [compiler_end(relay.exp(shared), "one"), compiler_end(shared, "one")]
    found = analysis.AnnotatedRegionSet(relay.Tuple(ends), BEGIN, END)
    assert len(found) == 1 and set(found.get_region(shared).rets) == set(ends)


def test_regions_between_other_operators():
    inside = relay.tanh(relay.annotation.stop_fusion(X))
    end = relay.annotation.checkpoint(inside)
    names = ("annotation.stop_fusion", "annotation.checkpoint")
    found = analysis.AnnotatedRegionSet(end, Op.get(names[0]), Op.get(names[1]))
    assert len(found) == 1 and found.get_region(inside).rets == (end,)
    assert len(analysis.AnnotatedRegionSet(end, BEGIN, END)) == 0


def test_regions_that_enter_each_other_are_refused():
    inner = compiler_end(relay.tanh(compiler_begin(X, "one")), "one")
    with pytest.raises(DiagnosticError, match="belongs to the regions of 'one' and 'two'"):
        analysis.AnnotatedRegionSet(compiler_end(relay.exp(inner), "two"), BEGIN, END)


# Calibration data


def test_calibration_data_are_what_enters_and_leaves_each_part():
    total = relay.add(X, Y)
    mod = partitioned(module(relay.tanh(relay.exp(total))))
    found = analysis.get_calibration_data(mod, DATA)
    assert sorted(found, key=str) == sorted(
        [one for one in mod.functions if one.name_hint != "main"], key=str
    )
    summed = DATA["x"] + DATA["y"]
    wanted = {"add": ([DATA["x"], DATA["y"]], summed), "tanh": ([np.exp(summed)], None)}
    for variable, tensors in found.items():
        inputs, output = wanted[mod[variable].body.op.name]
        output = np.tanh(inputs[0]) if output is None else output
        for have, expected in zip(tensors["inputs"], inputs, strict=True):
            np.testing.assert_allclose(have.numpy(), expected, rtol=1e-5)
        (have,) = tensors["outputs"]
        np.testing.assert_allclose(have.numpy(), output, rtol=1e-5)


@pytest.mark.parametrize("with_lets", [False, True])
def test_calibration_data_of_parts_with_several_results_and_composites(with_lets):
    table = [("names_a.tanh", is_op("tanh")(wildcard()))]
    halves = relay.split(X, 3, axis=1)
    body = relay.Tuple([relay.exp(relay.tanh(halves[0])), halves[2]])
    mod = partitioned(transform.MergeComposite(table)(module(body, [X])))
    if with_lets:
        mod = transform.ToANormalForm()(mod)
        assert isinstance(mod["main"].body, relay.Let)
    (tensors,) = analysis.get_calibration_data(mod, {"x": DATA["x"]}).values()
    values = [one.numpy() for one in tensors["outputs"]]
    assert len(tensors["inputs"]) == 1 and len(values) == 2
    thirds = np.split(DATA["x"], 3, axis=1)
    for wanted in (np.tanh(thirds[0]), thirds[2]):
        assert any(np.allclose(one, wanted, rtol=1e-5) for one in values)


def test_calibration_data_need_one_call_in_any_case():
    assert analysis.get_calibration_data(module(X + Y), DATA) == {}
    constant = relay.Function([], relay.const(2.0), attrs={"Compiler": "names_a"})
    alone = module(relay.Call(relay.GlobalVar("part"), []), [])
    alone[alone["main"].body.op] = constant
    (tensors,) = analysis.get_calibration_data(alone, {}).values()
    assert tensors["inputs"] == [] and [float(one.numpy()) for one in tensors["outputs"]] == [2.0]
    variable = relay.GlobalVar("part")
    inner = relay.var("i", shape=(2, 3))
    part = relay.Function([inner], relay.tanh(inner), attrs={"Compiler": "names_a"})
    twice = module(relay.add(relay.Call(variable, [X]), relay.Call(variable, [Y])))
    twice[variable] = part
    with pytest.raises(UnsupportedError, match="more than once"):
        analysis.get_calibration_data(twice, DATA)
    chosen = module(relay.If(relay.const(True), relay.Call(variable, [X]), Y))
    chosen[variable] = part
    with pytest.raises(UnsupportedError, match="in any case"):
        analysis.get_calibration_data(chosen, DATA)


# Counts


def test_operators_between_dequantize_and_quantize_are_counted():
    scale, zero = relay.const(0.5), relay.const(0)
    data = relay.var("q", shape=(2, 3), dtype="int8")
    real = dequantize(data, scale, zero)
    shared = relay.tanh(relay.erf(real))
    ends = [quantize(one, scale, zero) for one in (relay.tanh(shared), shared)]
    plain = quantize(relay.exp(X), scale, zero)  # nothing before it is quantised
    mod = module(relay.Tuple([*ends, plain, relay.exp(real)]), [data, X])
    assert analysis.list_fake_quantized_op_freqs(mod) == {"erf": 1, "tanh": 2}
    convertible = module(quantize(relay.nn.relu(real), scale, zero), [data])
    assert analysis.list_fake_quantized_op_freqs(convertible) == {"nn.relu": 1}
    integers = transform.FakeQuantizationToInteger()(convertible)
    assert analysis.list_fake_quantized_op_freqs(integers) == {}


def test_layer_counters_find_the_longest_way():
    deep = relay.exp(relay.tanh(relay.exp(X)))
    counter = analysis.LayerCounter(["exp"])
    assert counter.count() == 0
    counter.visit(relay.tanh(X))
    assert counter.count() == 0
    counter.visit_call(deep)
    assert counter.count() == 2
    counter.visit(relay.Tuple([relay.exp(deep), X]))
    assert counter.count() == analysis.count_layers(relay.exp(deep), ["exp"]) == 3


def test_call_graphs_have_their_module():
    mod = module(X + Y)
    assert analysis.CallGraph(mod).module is mod
    assert isinstance(analysis.CallGraph.module, property)


# Where operators run


def test_distributions_say_which_compiler_takes_which_operator():
    table = [("names_a.tanh_tanh", is_op("tanh")(is_op("tanh")(wildcard())))]
    total = relay.add(X, Y)
    named = total.with_fields(span=Span(SourceName("sum1"), 1, 1, 1, 1))
    body = relay.exp(relay.tanh(relay.tanh(relay.exp(named))))
    mod = partitioned(transform.MergeComposite(table)(module(body)))
    found = analyze_operations_distribution(mod)
    assert found["sum1"][:2] == ["names_a", "add"]
    assert found["exp"][:2] == found["exp#2"][:2] == ["generic", "exp"]
    assert found["tanh"] == found["tanh#2"]
    assert found["tanh"][:2] == ["names_a", "names_a.tanh_tanh"]
    numbers = {name: row[2] for name, row in found.items() if name != "tanh#2"}
    assert sorted(numbers.values()) == [1, 2, 3, 4]


def test_distributions_of_single_functions():
    collector = AnalyzeOperationsDistribution()
    collector.extract(relay.Function([X], relay.tanh(X), attrs={"Compiler": "mine"}))
    collector.visit_call(relay.exp(X))
    assert collector.unique_op_ids == {"tanh": ["mine", "tanh", 1], "exp": ["generic", "exp", 2]}


# Plans


def test_plans_say_where_tensors_lie(tvm):
    expr = tvm.relay.expr
    assert (expr.StorageInfo, expr.StaticMemoryPlan) == (StorageInfo, StaticMemoryPlan)
    call = relay.tanh(X)
    plan = GraphPlanMemory(relay.Function([X], call))
    info = plan.expr_to_storage_info[call]
    assert isinstance(plan, expr.StaticMemoryPlan) and isinstance(info, expr.StorageInfo)
    assert info.storage_sizes == info.storage_sizes_in_bytes == (24,)
    assert info.device_types == (1,) and info.virtual_devices[0].name == "cpu:0"
    own = StorageInfo([3, 4], [1, 2], [16, 8])
    assert own.storage_ids == (3, 4) and own.storage_sizes == (16, 8)
    assert [one.device_type for one in own.virtual_devices] == [1, 2]
    assert StaticMemoryPlan({call: own}).expr_to_storage_info[call] is own
    with pytest.raises(ShapeError):
        StorageInfo([1], [1, 1], [8])


# Names that live elsewhere


def test_names_of_users_programs(tvm):
    assert tvm.relay.setrecursionlimit is sys.setrecursionlimit
    assert tvm.relay.contrib.get_pattern_table is relay.op.contrib.get_pattern_table
    assert isinstance(X.vid, tvm.relay.base.Id) and X.vid.name_hint == "x"
    pattern = tvm.relay.dataflow_pattern
    assert pattern.get("tanh") is Op.get("tanh")
    assert pattern.make_node("IntImm", dtype="int32", value=3).value == 3
    assert isinstance(X, pattern.Expr) and isinstance(X, pattern.Node)
    assert pattern.astext(X + Y) == relay.astext(X + Y)
    assert pattern.pretty_print(X) == relay.pretty_print(X)
    regions = importlib.import_module("tvm.relay.analysis.annotated_regions")
    assert regions.AnnotatedRegionSet is tvm.relay.analysis.AnnotatedRegionSet
    with pytest.raises(UnsupportedError, match="match, rewrite and partition"):
        pattern.ffi.match(None, X)


def test_tuple_patterns_have_no_dtype():
    with pytest.raises(TypeMismatchError, match="no dtype"):
        relay.dataflow_pattern.is_tuple([wildcard()]).astype("float32")


def test_scopes_are_left_unless_an_error_leaves_them(tvm):
    left = []
    scope = tvm.relay.scope_builder.WithScope("value", lambda: left.append(1))
    with scope as value:
        assert value == "value" and not left
    assert left == [1]
    with pytest.raises(ZeroDivisionError), scope:
        1 / 0
    assert left == [1]


def test_refused_modules_say_why_as_attributes(tvm):
    assert not hasattr(tvm.relay, "collage")
    for kind in (UnsupportedMemberError, AttributeError, UnsupportedError):
        with pytest.raises(kind, match="divided among compilers by rules"):
            tvm.relay.collage
    with pytest.raises(ImportError, match="divided among compilers by rules"):
        from tvm.relay import collage  # noqa: F401
    assert issubclass(ts.error.UnsupportedMemberError, ts.error.UnsupportedError)
