"""Dataflow patterns over nested expressions: matching, rewriting, partition."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tilesmith import relay
from tilesmith.ir.structural import structural_equal
from tilesmith.relay.dataflow_pattern import (
    AltPattern,
    CallPattern,
    DFPatternCallback,
    FunctionPattern,
    TuplePattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    partition,
    rewrite,
    wildcard,
)
from tilesmith.support.errors import DiagnosticError, TypeMismatchError

X = relay.var("x", shape=(4, 4))
Y = relay.var("y", shape=(4, 4))
WEIGHT = relay.const(np.eye(4, dtype="float32"))
CONDITION = relay.var("c", shape=(), dtype="bool")
CONV = relay.nn.conv2d(
    relay.var("d", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3)), kernel_size=(3, 3)
)
LET = relay.Let(X, Y, relay.nn.relu(X))
RELU = is_op("nn.relu")


def dense(data=X, weight=WEIGHT):
    return relay.nn.dense(data, weight)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (is_var("x"), X, Y),
        (is_var(), Y, WEIGHT),
        (is_constant(), WEIGHT, X),
        (is_expr(X), X, Y),
        (RELU(wildcard()), relay.nn.relu(X), relay.tanh(X)),
        (CallPattern(is_op("nn.dense"), None), dense(), relay.nn.relu(X)),
        (wildcard() + wildcard(), X + Y, X - Y),
        (is_var("x") - is_var("y"), X - Y, Y - X),
        (is_var("x") * is_constant(), WEIGHT * X, X * Y),  # in either order
        (is_var("x") / is_var("y"), X / Y, Y / X),
        (is_tuple([is_var("x"), wildcard()]), relay.Tuple([X, Y]), relay.Tuple([Y, X])),
        (TuplePattern(None), relay.Tuple([X, Y, X]), X),
        (is_tuple_get_item(wildcard(), 1), relay.TupleGetItem(relay.Tuple([X, Y]), 1),
         relay.TupleGetItem(relay.Tuple([X, Y]), 0)),
        (is_tuple_get_item(wildcard()), relay.TupleGetItem(relay.Tuple([X, Y]), 1), X),
        (is_if(is_var(), RELU(wildcard()), wildcard()), relay.If(CONDITION, relay.nn.relu(X), Y),
         relay.If(CONDITION, X, Y)),
        (is_let(is_var("x"), is_var("y"), RELU(is_var())), LET, relay.Let(Y, X, relay.nn.relu(X))),
        (FunctionPattern([wildcard()], RELU(wildcard())), relay.Function([X], relay.nn.relu(X)),
         relay.Function([X, Y], relay.nn.relu(X))),
        (FunctionPattern(None, RELU(wildcard())), relay.Function([X, Y], relay.nn.relu(X)),
         relay.Function([X], X)),
        (has_type(relay.TensorType((4, 4), "float32")), X + Y, CONV),
        (has_dtype("bool"), relay.less(X, Y), X),
        (has_shape((1, 4, 6, 6)), CONV, X),
        (has_attr({"groups": 1, "kernel_size": [3, 3]}), CONV, X + Y),
        (is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"groups": 2}) | is_var(), X, CONV),
        (RELU(is_op("tanh")(wildcard())).optional(lambda x: is_op("exp")(x)),
         relay.exp(relay.nn.relu(relay.tanh(X))), relay.exp(relay.tanh(X))),
    ],
)  # fmt: skip
def test_match(pattern, yes, no):
    assert pattern.match(yes)
    assert match(pattern, yes)
    assert not pattern.match(no)


def test_a_pattern_that_occurs_twice_means_one_value():
    x = wildcard()
    assert is_op("multiply")(x, RELU(x)).match(X * relay.nn.relu(X))
    assert not is_op("multiply")(x, RELU(x)).match(X * relay.nn.relu(Y))


def test_a_failed_alternative_leaves_nothing_behind():
    a, b = wildcard(), wildcard()
    pattern = AltPattern(is_op("add")(a, RELU(b)) & is_var(), is_op("add")(b, a))
    found = pattern.extract_matched_expr(X + relay.nn.relu(Y))
    assert found[b] is X


def test_a_wildcard_can_be_redirected():
    later = wildcard()
    pattern = is_op("tanh")(later)
    later.redirect_to(RELU(wildcard()))
    assert pattern.match(relay.tanh(relay.nn.relu(X)))
    assert not pattern.match(relay.tanh(X))


# Domination

PARENT = is_op("nn.dense")(wildcard(), wildcard())
CHILD = is_op("add")(wildcard(), wildcard())
UNARY = (RELU | is_op("tanh") | is_op("exp"))(wildcard())


def diamond(left, right):
    root = dense()
    return root, left(root) + right(root)


@pytest.mark.parametrize(
    ("expr", "holds"),
    [
        (diamond(relay.nn.relu, relay.tanh)[1], True),
        (diamond(lambda v: relay.exp(relay.nn.relu(v)), lambda v: v)[1], True),
        (relay.nn.relu(dense()) + relay.tanh(dense()), False),  # two parents
        (diamond(relay.nn.relu, relay.sigmoid)[1], False),  # a value off the path
        (relay.nn.relu(dense()) + X, False),  # a way that comes from elsewhere
        (relay.nn.relu(X) + relay.tanh(X), False),  # no parent
    ],
)
def test_domination(expr, holds):
    pattern = dominates(PARENT, UNARY, CHILD)
    assert pattern.match(expr) is holds
    assert CHILD.dominates(PARENT, UNARY).match(expr) is holds


def test_the_dominating_parent_may_lie_above_others_of_its_kind():
    first = relay.nn.relu(X)
    expr = relay.nn.relu(relay.tanh(first)) + relay.exp(first)
    pattern = dominates(is_op("nn.relu")(is_var()) | RELU(wildcard()), UNARY, CHILD)
    assert pattern.match(expr)
    assert [value for part, value in pattern.extract_matched_expr(expr).items()
            if part is pattern.parent] == [first]  # fmt: skip


def test_a_dominated_group_is_partitioned_as_a_whole():
    _, expr = diamond(relay.nn.relu, relay.tanh)
    made = partition(dominates(PARENT, UNARY, CHILD), relay.exp(expr), {"Composite": "a.b"})
    call = made.args[0]
    assert call.op.attrs["PartitionedFromPattern"] == "nn.dense_nn.relu_tanh_add_"
    assert list(call.args) == [X, WEIGHT]
    (data, weight) = call.op.params
    inside = relay.nn.dense(data, weight)
    assert structural_equal(
        call.op, call.op.with_fields(body=relay.nn.relu(inside) + relay.tanh(inside))
    )


# Rewriting


class _Once(DFPatternCallback):
    """Replaces relu(relu(x)) by relu(x)."""

    def __init__(self, **options):
        super().__init__(**options)
        self.x = wildcard()
        self.pattern = RELU(RELU(self.x))

    def callback(self, pre, post, node_map):
        assert node_map[self.pattern] == [post]
        assert pre.op is post.op
        return relay.nn.relu(node_map[self.x][0])


def relus(count):
    value = X
    for _ in range(count):
        value = relay.nn.relu(value)
    return value


def test_rewriting_goes_on_until_nothing_changes():
    assert structural_equal(rewrite(_Once(), relus(9)), relus(1))
    assert structural_equal(rewrite([_Once(rewrite_once=True)], relus(8)), relus(4))


def test_rewriting_keeps_what_it_does_not_match():
    expr = relay.tanh(X + Y)
    assert rewrite(_Once(), expr) is expr


def test_constants_and_types_in_callbacks():
    class Fold(DFPatternCallback):
        def __init__(self):
            super().__init__(require_type=True)
            self.c = is_constant()
            self.pattern = is_op("add")(wildcard(), self.c)

        def callback(self, pre, post, node_map):
            assert pre.checked_type == relay.TensorType((4, 4), "float32")
            constant = node_map[self.c][0]
            if constant.data.numpy().any():
                return post
            return post.args[0]

    zero = relay.const(np.zeros((4, 4), "float32"))
    done = rewrite(Fold(), relay.tanh(relay.add(relay.add(X, WEIGHT), zero)))
    assert structural_equal(done, relay.tanh(relay.add(X, WEIGHT)))


def test_endless_callbacks_are_refused():
    class Grow(DFPatternCallback):
        def __init__(self):
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("tanh")(self.x)

        def callback(self, pre, post, node_map):
            return relay.tanh(relay.exp(node_map[self.x][0]))

    with pytest.raises(DiagnosticError, match="after 100 passes"):
        rewrite(Grow(), relay.tanh(X))


def test_a_callback_without_a_pattern_is_refused():
    with pytest.raises(DiagnosticError, match="has no pattern"):
        rewrite(DFPatternCallback(), X)
    with pytest.raises(TypeMismatchError, match="has_type takes a type"):
        has_type("float32")


# Partition


def test_partition_lifts_inputs_and_keeps_constants_of_the_pattern():
    pattern = RELU(is_op("nn.dense")(wildcard(), is_constant()) + is_constant())
    expr = relay.tanh(relay.nn.relu(relay.add(dense(), WEIGHT)))
    call = pattern.partition(expr, {"Composite": "mine.dense"}).args[0]
    assert call.op.attrs["Composite"] == "mine.dense"
    assert call.op.attrs["PartitionedFromPattern"] == "nn.dense_add_nn.relu_"
    assert list(call.args) == [X]
    loose = RELU(is_op("nn.dense")(wildcard(), wildcard()) + wildcard()).partition(expr).args[0]
    assert list(loose.args) == [X, WEIGHT]  # what wildcards stand for is given


def test_an_inner_value_that_is_used_outside_stays():
    inner = dense()
    expr = relay.Tuple([relay.nn.relu(inner), relay.tanh(inner)])
    assert RELU(PARENT).partition(expr) is expr


def test_the_check_decides():
    expr = relay.nn.relu(relay.nn.relu(X))
    pattern = RELU(wildcard())
    made = pattern.partition(expr, check=lambda call: call is expr)
    assert isinstance(made.op, relay.Function)
    assert made.args[0] is expr.args[0]


def test_what_is_partitioned_is_not_matched_again():
    once = RELU(wildcard()).partition(relay.nn.relu(X), {"Composite": "a.relu"})
    assert RELU(wildcard()).partition(once) is once


def test_large_graphs_take_linear_time_and_deep_ones_do_not_crash():
    def seconds(count):
        chain = relus(count)
        begin = time.perf_counter()
        assert structural_equal(rewrite(_Once(rewrite_once=True), chain), relus(count // 2))
        far = dominates(PARENT, wildcard(), RELU(wildcard()))
        assert far.partition(chain) is chain
        assert isinstance(RELU(wildcard()).partition(chain).op, relay.Function)
        return time.perf_counter() - begin

    seconds(100)
    small, large = seconds(1000), seconds(10_000)
    assert large < 40 * small  # 10 times the graph; a quadratic pass takes 100 times as long
