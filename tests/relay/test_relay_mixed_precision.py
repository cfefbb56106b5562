"""ToMixedPrecision: which calls become narrow, what converts, and that values stay near."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay
from tilesmith.ir import Op
from tilesmith.relay.testing import TempOpAttr
from tilesmith.relay.transform import mixed_precision as mixed
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError

RANDOM = np.random.default_rng(0)
KEEP = {"relay.ToMixedPrecision.keep_orig_output_dtype": True}


def matrix(name, *shape):
    return relay.var(name, shape=shape or (4, 4))


def module(body):
    return ts.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))


def converted(body, dtype="float16", **options):
    mod = module(body)
    made = relay.transform.ToMixedPrecision(dtype, **options)(mod)
    inputs = [
        RANDOM.uniform(0.1, 1, [int(n) for n in one.checked_type.shape]).astype("float32")
        for one in mod["main"].params
    ]
    if dtype == "float16":
        wanted, found = [
            relay.create_executor("debug", one).evaluate()(*inputs) for one in (mod, made)
        ]
        if hasattr(wanted, "numpy"):
            wanted, found = [wanted], [found]
        for a, b in zip(wanted, found):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-2, atol=1e-2)
    return made


def dtype_of(mod):
    return str(mod["main"].ret_type.dtype)


def calls(mod, name):
    found = []

    def visit(node):
        if isinstance(node, relay.Call) and getattr(node.op, "name", "") == name:
            found.append(node)

    relay.analysis.post_order_visit(mod["main"], visit)
    return found


def dense(x=None, name="w"):
    return relay.nn.dense(matrix("x") if x is None else x, matrix(name))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_are_narrow_and_accumulate_wide(dtype):
    made = converted(dense(), dtype)
    (product,) = calls(made, "nn.dense")
    assert [str(arg.checked_type.dtype) for arg in product.args] == [dtype, dtype]
    assert str(product.attrs.out_dtype) == "float32" and dtype_of(made) == dtype


def test_convolutions_are_narrow():
    x, w = relay.var("x", shape=(1, 3, 6, 6)), relay.var("w", shape=(4, 3, 3, 3))
    made = converted(relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=4))
    assert calls(made, "nn.conv2d")[0].attrs.out_dtype == "float32"


@pytest.mark.parametrize(
    ("follow", "dtype"),
    [
        (relay.nn.relu, "float16"),
        (lambda y: relay.add(y, matrix("b", 4)), "float16"),
        (lambda y: relay.nn.bias_add(y, matrix("b", 4)), "float16"),
        (lambda y: relay.concatenate([y, matrix("b")], axis=0), "float16"),
        (lambda y: relay.split(y, 2)[1], "float16"),
        (lambda y: relay.reshape(y, (2, 8)), "float16"),
        (relay.exp, "float32"),
        (relay.nn.softmax, "float32"),
        (lambda y: relay.sum(y, axis=1), "float32"),
        (lambda y: relay.cast(y, "float32"), "float32"),
        (lambda y: relay.argmax(y, axis=1), "int32"),
    ],
)
def test_what_follows(follow, dtype):
    assert dtype_of(converted(follow(dense()), missing_op_mode=2)) == dtype


def test_nothing_is_narrow_without_products():
    mod = relay.transform.InferType()(module(relay.nn.relu(matrix("x"))))
    assert relay.transform.ToMixedPrecision()(mod)["main"] is mod["main"]


def test_a_tensor_is_converted_once():
    x = matrix("x")
    made = converted(relay.add(dense(x, "a"), dense(x, "b")))
    assert len([one for one in calls(made, "cast") if one.args[0] is made["main"].params[0]]) == 1


def test_a_conversion_is_taken_back():
    y = relay.exp(matrix("x"))
    made = converted(relay.Tuple([dense(y), relay.exp(relay.add(dense(y, "v"), y))]))
    assert len(calls(made, "exp")) == 2


def test_results_keep_their_dtypes():
    with ts.transform.PassContext(config=KEEP):
        made = converted(relay.Tuple([dense(), relay.nn.relu(dense(name="v"))]))
    assert [str(one.dtype) for one in made["main"].ret_type.fields] == ["float32"] * 2


def test_lets_are_narrow_too():
    x, y, z = matrix("x"), relay.var("y"), relay.var("z")
    body = relay.Let(y, dense(x), relay.Let(z, relay.nn.relu(y), relay.add(z, z)))
    assert dtype_of(converted(body)) == "float16"


def test_choices_and_functions_keep_their_types():
    x, c = matrix("x"), relay.var("c", shape=(), dtype="bool")
    choice = relay.If(c, dense(x), relay.exp(x))
    made = relay.transform.ToMixedPrecision()(module(relay.nn.relu(choice)))
    assert dtype_of(made) == "float32"
    a = matrix("a")
    inner = relay.Function([a], dense(a, "w"))
    call = relay.Call(inner, [relay.nn.relu(dense(x, "v"))])
    made = relay.transform.ToMixedPrecision()(module(call))
    assert len(calls(made, "nn.dense")) == 2


def rule(*found):
    return lambda call, dtype: list(found)


def test_a_registered_rule_counts():
    x = matrix("x")
    with TempOpAttr("nn.relu", mixed.KEY, rule(mixed.MIXED_PRECISION_ALWAYS, "float16", "float16")):
        assert dtype_of(converted(relay.nn.relu(x))) == "float16"
    with TempOpAttr("nn.dense", mixed.KEY, rule(mixed.MIXED_PRECISION_NEVER, "float32", "float32")):
        assert dtype_of(converted(dense())) == "float32"
    with TempOpAttr("nn.dense", mixed.KEY, rule(0, "float16", "float16")):
        made = converted(dense())
        assert calls(made, "nn.dense")[0].attrs.out_dtype == "float16"
    with TempOpAttr("nn.dense", mixed.KEY, rule(7)), pytest.raises(TypeMismatchError, match="gave"):
        converted(dense())


def test_operators_without_a_rule():
    body = relay.invert_permutation(relay.const([1, 0]))
    with pytest.raises(UnsupportedError, match="register_mixed_precision_conversion"):
        relay.transform.ToMixedPrecision("float16", 0)(module(body))
    with pytest.warns(UserWarning, match="invert_permutation"):
        relay.transform.ToMixedPrecision("float16", 1)(module(body))
    relay.transform.ToMixedPrecision("float16", 2)(module(body))


def test_lists_and_registrations_agree():
    lists = (mixed.DEFAULT_ALWAYS_LIST, mixed.DEFAULT_FOLLOW_LIST, mixed.DEFAULT_NEVER_LIST)
    names = [name for one in lists for name in one]
    assert len(names) == len(set(names))
    call = dense()
    for category, one in enumerate(lists):
        for name in one:
            assert Op.get(name).get_attr(mixed.KEY)(call, "float16")[0] == category
    assert mixed.get_generic_out_dtypes(call, "float16") == ["float32", "float16"]


def test_bad_arguments():
    with pytest.raises(ConfigError, match="missing_op_mode"):
        relay.transform.ToMixedPrecision("float16", 3)(module(dense()))
    with pytest.raises(ConfigError, match="of floats"):
        relay.transform.ToMixedPrecision("int8")(module(dense()))


def test_a_narrow_program_compiles():
    mod = module(relay.nn.softmax(relay.nn.relu(dense())))
    inputs = [RANDOM.random((4, 4)).astype("float32") for _ in range(2)]
    with ts.transform.PassContext(config=KEEP):
        made = relay.transform.ToMixedPrecision()(mod)
    found = relay.create_executor("graph", made, ts.cpu(), "llvm").evaluate()(*inputs)
    logits = np.maximum(inputs[0] @ inputs[1].T, 0)
    wanted = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-2)


def test_a_deep_network_is_linear():
    y = matrix("x")
    for step in range(2000):
        y = relay.nn.relu(dense(y, f"w{step % 3}"))
    made = relay.transform.ToMixedPrecision()(module(y))
    assert len(calls(made, "nn.dense")) == 2000
