"""FuseOps, LabelOps, DefuseOps: which operators fuse, and that fused programs compute the same."""

import numpy
import pytest

from tests.relay.programs import Maker, Network, arrays, check_same, value_of
from tilesmith import ir, relay
from tilesmith.ir.transform import PassContext
from tilesmith.relay import analysis, transform


def fused(function, *passes, level=-1):
    mod = ir.IRModule.from_expr(function)
    for one in (*passes, transform.FuseOps(level)):
        mod = one(mod)
    return transform.InferType()(mod)["main"]


def groups(function):
    """The names of the operators of each fused function, in the order of the computation."""
    found = []
    for node in relay_nodes(function):
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            names = [one.op.name for one in relay_nodes(node.op.body)
                     if isinstance(one, relay.Call)]  # fmt: skip
            found.append(names)
    return found


def relay_nodes(expr):
    nodes = []
    analysis.post_order_visit(expr, nodes.append)
    return nodes


def image(name="x", shape=(1, 4, 8, 8)):
    return relay.var(name, shape=shape)


def test_a_chain_becomes_one_function():
    x = relay.var("x", shape=(10, 20))
    z = relay.squeeze(relay.exp(relay.add(x, relay.const(1.0))))
    p = relay.var("p", shape=(10, 20))
    inner = relay.Function([p], relay.squeeze(relay.exp(relay.add(p, relay.const(1.0)))))
    type_ = relay.TensorType((10, 20))
    inner = inner.with_fields(ret_type=type_, attrs={"Primitive": 1})
    y = relay.var("y", shape=(10, 20))
    wanted = relay.Function([y], inner(y), type_)
    ir.assert_structural_equal(fused(relay.Function([x], z)), wanted)


def test_elementwise_operators_join_a_convolution():
    x, w, b = image(), image("w", (4, 4, 3, 3)), relay.var("b", shape=(4,))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=1), b))
    z = relay.nn.conv2d(relay.exp(y), w)
    made = fused(relay.Function([x, w, b], z))
    assert groups(made) == [["nn.conv2d", "nn.bias_add", "nn.relu", "exp"], ["nn.conv2d"]]


def test_all_ways_to_the_dominator_fuse():
    x, w = image(), image("w", (4, 4, 3, 3))
    y = relay.nn.conv2d(relay.add(x, relay.const(1.0)), w, padding=1)
    total = relay.add(relay.exp(y), relay.nn.relu(y))
    made = fused(relay.Function([x, w], relay.nn.max_pool2d(total)))
    names = [sorted(one) for one in groups(made)]
    assert names == [["add"], ["add", "exp", "nn.conv2d", "nn.relu"], ["nn.max_pool2d"]]


def test_what_lies_on_the_way_keeps_others_apart():
    x, w = image(), image("w", (4, 4, 3, 3))
    y = relay.nn.conv2d(x, w, padding=1)
    total = relay.add(y, relay.nn.conv2d(relay.tanh(y), w, padding=1))
    made = fused(relay.Function([x, w], total))
    assert groups(made) == [["nn.conv2d"], ["tanh"], ["nn.conv2d", "add"]]


@pytest.mark.parametrize("level, count", [(0, 3), (1, 1), (-1, 1)])
def test_levels(level, count):
    x = relay.var("x", shape=(3,))
    function = relay.Function([x], relay.exp(relay.exp(relay.exp(x))))
    assert len(groups(fused(function, level=level))) == count


def test_the_level_of_the_context():
    x = relay.var("x", shape=(3,))
    function = relay.Function([x], relay.exp(relay.exp(x)))
    with PassContext(opt_level=0):
        assert len(groups(fused(function))) == 2
        assert len(groups(fused(function, level=2))) == 1


@pytest.mark.parametrize("depth", [1, 2, 5, 256])
def test_the_greatest_depth(depth):
    x = value = relay.var("x", shape=(3,))
    for _ in range(20):
        value = relay.exp(value)
    with PassContext(config={"relay.FuseOps.max_depth": depth}):
        made = fused(relay.Function([x], value))
    sizes = [len(names) for names in groups(made)]
    assert sum(sizes) == 20 and max(sizes) == min(depth, 20)


@pytest.mark.parametrize("link", [False, True])
def test_constants(link):
    x = relay.var("x", shape=(3,))
    weight = relay.const(numpy.arange(3, dtype="float32"))
    function = relay.Function([x], relay.add(relay.multiply(x, weight), relay.const(2.0)))
    with PassContext(config={"relay.FuseOps.link_params": link}):
        made = fused(function)
    call = made.body
    assert len(call.args) == (1 if link else 2) and len(call.op.params) == len(call.args)


def test_tuples_and_fields():
    x = relay.var("x", shape=(4, 4))
    low, high = relay.split(relay.exp(x), 2)
    joined = relay.concatenate([relay.tanh(low), relay.negative(high)], axis=0)
    made = fused(relay.Function([x], joined))
    assert [sorted(names) for names in groups(made)] == [
        ["concatenate", "exp", "negative", "split", "tanh"]
    ]
    seen = fused(relay.Function([x], relay.Tuple([joined, relay.split(x, 2).astuple()])))
    assert sorted(len(names) for names in groups(seen)) == [1, 5]


def test_barriers_and_scopes():
    x, c = relay.var("x", shape=(3,)), relay.var("c", "bool")
    stopped = relay.annotation.stop_fusion(relay.exp(x))
    assert groups(fused(relay.Function([x], relay.tanh(stopped)))) == [["exp"], ["tanh"]]
    shared = relay.exp(x)
    branches = relay.If(c, relay.tanh(shared), relay.tanh(relay.negative(shared)))
    made = groups(fused(relay.Function([x, c], branches)))
    assert sorted(made) == [["exp"], ["negative", "tanh"], ["tanh"]]


def test_users_patterns():
    op = ir.Op.get("tanh")
    assert op.get_attr("TOpPattern") == 0 and ir.Op.get("nn.conv2d").get_attr("TOpPattern") == 4
    x = relay.var("x", shape=(3,))
    function = relay.Function([x], relay.exp(relay.tanh(x)))
    op.set_attr("TOpPattern", 8, 11)
    try:
        assert groups(fused(function)) == [["tanh"], ["exp"]]
    finally:
        op.set_attr("TOpPattern", 0, 11)
    assert groups(fused(function)) == [["tanh", "exp"]]


def test_fused_functions_are_left_alone():
    x = relay.var("x", shape=(3,))
    once = ir.IRModule.from_expr(fused(relay.Function([x], relay.exp(relay.exp(x)))))
    ir.assert_structural_equal(transform.FuseOps()(once), once)
    closed = relay.Function([x], relay.exp(relay.exp(x))).with_attr("Compiler", "other")
    mod = transform.InferType()(ir.IRModule({"f": closed}))
    ir.assert_structural_equal(transform.FuseOps()(mod), mod)


def test_reshapes_are_marked():
    x = relay.var("x", shape=(2, 3))
    made = fused(relay.Function([x], relay.reshape(relay.squeeze(x), (6,))))
    assert made.body.op.attrs["relay.reshape_only"] == 1
    assert "relay.reshape_only" not in fused(relay.Function([x], relay.exp(x))).body.op.attrs


def test_labels():
    x = relay.var("x", shape=(3,))
    pieces = [relay.annotation.stop_fusion(one) for one in (relay.exp(x), relay.exp(relay.abs(x)))]
    same = relay.annotation.stop_fusion(relay.exp(pieces[0]))
    mod = ir.IRModule.from_expr(fused(relay.Function([x], relay.Tuple([*pieces, same]))))
    names = analysis.extract_fused_functions(transform.LabelOps()(mod))
    assert len(names) == 2 and all(len(name) == 16 for name in names)


def test_defusing_undoes_fusion():
    function = Network(3).function()
    mod = transform.InferType()(ir.IRModule.from_expr(function))
    back = transform.DefuseOps()(transform.FuseOps()(mod))
    ir.assert_structural_equal(transform.InferType()(back), mod)


SEQUENCES = {
    "fused": [transform.FuseOps()],
    "each": [transform.FuseOps(0)],
    "labelled, bound": [transform.FuseOps(), transform.LabelOps(), transform.ToANormalForm()],
    "twice": [transform.FuseOps(), transform.EliminateCommonSubexpr(), transform.FuseOps()],
    "of bindings": [transform.ToANormalForm(), transform.FuseOps(), transform.DefuseOps()],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_fused_programs_compute_the_same(name):
    for seed in range(5):
        check_same(Maker(seed).function(), SEQUENCES[name], arrays(seed))
        check_same(Network(seed).function(), SEQUENCES[name])


def test_fused_programs_are_compiled():
    x, w = image(), image("w", (4, 4, 3, 3))
    bound = relay.var("f")
    p = image("p")
    named = relay.Function([p], relay.nn.relu(p) * relay.const(2.0)).with_attr("Primitive", 1)
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=1))
    body = relay.Let(bound, named, relay.add(bound(y), bound(x)))
    mod = transform.FuseOps()(ir.IRModule.from_expr(relay.Function([x, w], body)))
    assert str(mod).count("Primitive=1") == 3
    numbers = numpy.random.default_rng(0)
    inputs = [numbers.standard_normal(one).astype("float32")
              for one in ((1, 4, 8, 8), (4, 4, 3, 3))]  # fmt: skip
    found = relay.build_module.create_executor("graph", mod).evaluate()(*inputs).numpy()
    numpy.testing.assert_allclose(found, value_of(mod["main"], inputs), rtol=1e-4, atol=1e-4)


def test_deep_graphs():
    x = value = relay.var("x", shape=(2,))
    for _ in range(20_000):
        value = relay.add(relay.tanh(value), x)
    mod = transform.FuseOps()(ir.IRModule.from_expr(relay.Function([x], value)))
    assert 40_000 // 256 < len(groups(mod["main"])) < 400
    assert analysis.count_layers(transform.DefuseOps()(mod), ["tanh"]) == 20_000
