"""MergeComposite, AnnotateTarget, MergeCompilerRegions, PartitionGraph: programs in parts."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.relay.programs import Maker, arrays, value_of
from tilesmith import ir, relay
from tilesmith.ir import IRModule
from tilesmith.ir.transform import Sequential
from tilesmith.relax.transform.convex_groups import ConvexGroups
from tilesmith.relay import transform
from tilesmith.relay.dataflow_pattern import is_constant, is_op, wildcard
from tilesmith.relay.op.annotation import compiler_begin, compiler_end
from tilesmith.support.errors import DiagnosticError, TypeMismatchError
from tilesmith.support.fallbacks import collect_fallbacks

X, Y = (relay.var(name, shape=(4, 4)) for name in "xy")
WEIGHT = relay.const(np.eye(4, dtype="float32"))

for _name in ("add", "multiply", "split", "concatenate"):
    ir.register_op_attr(_name, "target.part_a", lambda call: True)
for _name in ("tanh", "multiply"):
    ir.register_op_attr(_name, "target.part_b", lambda call: True)


def module(body, params=(X, Y)):
    return IRModule.from_expr(relay.Function(list(params), body))


def partitioned(mod, targets="part_a", **options):
    return Sequential(
        [
            transform.AnnotateTarget(targets),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(**options),
        ]
    )(mod)


def parts_of(mod):
    return {one.name_hint: mod[one] for one in mod.functions if one.name_hint != "main"}


def operators(function):
    found = []
    relay.analysis.post_order_visit(
        function.body, lambda node: found.append(node.name) if isinstance(node, ir.Op) else None
    )
    return sorted(found)


def test_annotations_say_where_a_part_begins_and_ends():
    mod = transform.AnnotateTarget("part_a")(module(relay.nn.relu(X + Y)))
    inside = relay.add(compiler_begin(X, "part_a"), compiler_begin(Y, "part_a"))
    ir.assert_structural_equal(mod["main"].body, relay.nn.relu(compiler_end(inside, "part_a")))


def test_the_compiler_that_made_the_operands_goes_first():
    mod = partitioned(module(relay.multiply(relay.tanh(X), Y)), ["part_a", "part_b"])
    (part,) = parts_of(mod).values()
    assert part.attrs["Compiler"] == "part_b"
    assert operators(part) == ["multiply", "tanh"]
    mod = partitioned(module(relay.multiply(X, Y)), ["part_a", "part_b"])
    assert next(iter(parts_of(mod).values())).attrs["Compiler"] == "part_a"


def test_a_part_is_a_function_of_the_module():
    mod = partitioned(module(relay.nn.relu((X + Y) * WEIGHT)))
    (name,) = parts_of(mod)
    part = mod[name]
    assert name == part.attrs["global_symbol"] == "tvmgen_default_part_a_main_0"
    assert [one.name_hint for one in part.params] == ["part_a_0_i0", "part_a_0_i1"]
    assert part.checked_type == relay.FuncType([X.checked_type] * 2, X.checked_type)
    lifted = partitioned(module((X + Y) * WEIGHT), mod_name="m", bind_constants=False)
    assert len(lifted["tvmgen_m_part_a_main_0"].params) == 3


def test_a_value_that_leaves_and_comes_back_divides_a_part():
    a = X + Y
    mod = partitioned(module(relay.multiply(a, relay.nn.relu(a))))
    assert [operators(one) for one in parts_of(mod).values()] == [["add"], ["multiply"]]
    mod = partitioned(module(relay.multiply(a, relay.nn.relu(X))))
    assert [operators(one) for one in parts_of(mod).values()] == [["add", "multiply"]]


def test_several_results_and_parts_that_meet():
    a, b = X + Y, X * Y
    mod = partitioned(module(relay.Tuple([a * b, relay.nn.relu(a)])))
    (part,) = parts_of(mod).values()
    assert operators(part) == ["add", "multiply"]
    assert len(part.params) == 2
    assert len(part.ret_type.fields) == 2


def test_fields_of_results_belong_to_the_part():
    split = relay.split(X, 2)
    whole = relay.concatenate([split[1], split[0]], 0)
    (part,) = parts_of(partitioned(module(whole, [X]))).values()
    assert operators(part) == ["concatenate", "split"]
    outside = transform.AnnotateTarget("part_a", include_non_call_ops=False)(module(whole, [X]))
    assert len(parts_of(transform.PartitionGraph()(outside))) == 2


def test_branches_have_parts_of_their_own():
    condition = relay.var("c", "bool")
    shared = X + Y
    body = relay.If(condition, shared * Y, relay.nn.relu(shared))
    mod = partitioned(module(body, [X, Y, condition]))
    assert sorted(operators(one) for one in parts_of(mod).values()) == [["add"], ["multiply"]]


def test_circular_regions_are_refused():
    a = relay.add(compiler_begin(X, "part_a"), compiler_begin(Y, "part_a"))
    back = relay.nn.relu(compiler_end(a, "part_a"))
    body = compiler_end(relay.add(a, compiler_begin(back, "part_a")), "part_a")
    with pytest.raises(DiagnosticError, match="leaves the region"):
        transform.PartitionGraph()(module(body))


def test_the_default_compiler_makes_no_function():
    mod = transform.PartitionGraph()(
        module(compiler_end(relay.tanh(compiler_begin(X, "default")), "default"), [X])
    )
    ir.assert_structural_equal(mod["main"].body, relay.tanh(X), map_free_vars=True)


# Composite functions

DENSE = is_op("nn.dense")(wildcard(), is_constant())
TABLE = [("part_c.dense_relu", is_op("nn.relu")(DENSE)), ("part_c.dense", DENSE)]


def test_composites_of_a_compiler_are_parts():
    body = relay.tanh(relay.nn.dense(relay.nn.relu(relay.nn.dense(X, WEIGHT)), WEIGHT))
    mod = transform.MergeComposite(TABLE)(module(body, [X]))
    names = []
    relay.analysis.post_order_visit(
        mod["main"].body,
        lambda node: (
            names.append(node.attrs["Composite"]) if isinstance(node, relay.Function) else None
        ),
    )
    assert names == ["part_c.dense", "part_c.dense_relu"]
    (part,) = parts_of(partitioned(mod, "part_c")).values()
    assert len(part.params) == 1  # the weights are inside of the composite functions


def test_the_check_of_a_pattern_sees_types():
    seen = []

    def check(root):
        seen.append(root.checked_type.shape[0])
        return False

    mod = transform.MergeComposite([("a.b", DENSE, check)])(module(relay.nn.dense(X, WEIGHT), [X]))
    ir.assert_structural_equal(mod["main"].body, relay.nn.dense(X, WEIGHT), map_free_vars=True)
    assert seen == [4]


def test_matches_that_are_no_composites_are_recorded_with_the_reason():
    inner = relay.nn.dense(X, WEIGHT)
    body = relay.Tuple([relay.nn.relu(inner), relay.tanh(inner)])
    table = [TABLE[0], ("part_c.refused", DENSE, lambda call: False)]
    with collect_fallbacks() as found:
        mod = transform.MergeComposite(table)(module(body, [X]))
    ir.assert_structural_equal(mod["main"].body, body, map_free_vars=True)
    reasons = [fallback.reason for fallback, _ in found.rows()]
    assert reasons == [
        "an inner value of the match is used outside of it",
        "the check of the pattern refused",
    ]


@pytest.mark.parametrize("row", ["a.b", ("a.b",), ("a.b", "pattern")])
def test_a_table_that_is_none_is_refused(row):
    with pytest.raises(TypeMismatchError):
        transform.MergeComposite([row])(module(X, [X]))


def test_functions_of_compilers_can_be_moved_and_inlined():
    attrs = {"Compiler": "part_a", "global_symbol": "mine"}
    call = relay.Function([Y], relay.tanh(Y), attrs=attrs)(X)
    mod = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols("part_a")(module(call, [X]))
    assert list(parts_of(mod)) == ["mine"]
    assert "Extern" in transform.MarkCompilerFunctionsAsExtern("part_a")(mod)["mine"].attrs
    mod = transform.InlineCompilerFunctionsBoundTo([mod.get_global_var("mine")])(mod)
    ir.assert_structural_equal(mod["main"].body, relay.tanh(X), map_free_vars=True)


# Properties


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_compute_the_same_in_parts(seed):
    function = Maker(seed, with_functions=False).function()
    wanted = np.asarray(value_of(function, arrays(seed)))
    mod = partitioned(IRModule.from_expr(function), ["part_a", "part_b"])
    inlined = transform.InlineCompilerFunctionsBoundTo(
        [one for one in mod.functions if one.name_hint != "main"]
    )(mod)
    found = np.asarray(value_of(inlined["main"], arrays(seed)))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_groups_never_depend_on_themselves(seed):
    choose = random.Random(seed)
    count = 60
    reads = [choose.sample(range(n), min(n, choose.randint(0, 3))) for n in range(count)]
    kinds = [choose.choice([None, "a", "b"]) for _ in range(count)]
    groups = ConvexGroups()
    for node in range(count):
        groups.add(node, kinds[node], reads[node])
    unit = [
        node if groups.of(node) is None else ("group", groups.of(node)) for node in range(count)
    ]
    below = {one: set() for one in unit}
    for node in range(count):
        assert kinds[node] is None or kinds[node] == kinds[min(
            other for other in range(count) if unit[other] == unit[node])]  # fmt: skip
        below[unit[node]] |= {unit[other] for other in reads[node]} - {unit[node]}
    done: set = set()
    while len(done) < len(below):
        ready = [one for one, needed in below.items() if one not in done and needed <= done]
        assert ready, "a group depends on itself"
        done.update(ready)


def test_a_chain_of_many_parts_asks_about_few_groups():
    """What a new group depends on is covered by the last group that it reads."""
    looked_at = 0

    class Counting(ConvexGroups):
        def _find(self, number):
            nonlocal looked_at
            looked_at += 1
            return super()._find(number)

    groups = Counting()
    count = 2000
    for number in range(count):
        groups.add(("part", number), "ext", [("plain", number - 1)])
        groups.add(("plain", number), None, [("part", number)])
    assert groups.of(("part", 0)) != groups.of(("part", 1))
    assert looked_at < 10 * count
