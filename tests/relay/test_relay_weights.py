"""Passes that change inputs: sparse and transposed weights, batch sizes, dtypes."""

import numpy
import pytest

from tilesmith import ir, relay
from tilesmith.relay import analysis, data_dep_optimization, sparse_conv2d, sparse_dense, transform

NUMBERS = numpy.random.default_rng(2)


def run(function, params, *inputs):
    executor = relay.build_module.create_executor(
        "graph", ir.IRModule.from_expr(function), params=params
    )
    return executor.evaluate()(*inputs).numpy()


def sparse(*shape, block=4):
    """A weight of which most blocks of rows are 0."""
    weight = NUMBERS.standard_normal(shape).astype("float32")
    flat = weight.reshape(-1, block)
    flat[NUMBERS.random(len(flat)) < 0.7] = 0
    return weight


def operators(function):
    return dict(analysis.list_op_freqs(ir.IRModule.from_expr(function)))


def dense_net():
    x, v, w = [relay.var(name, shape=shape)
               for name, shape in (("x", (3, 16)), ("v", (8, 16)), ("w", (4, 8)))]  # fmt: skip
    return relay.Function([x, v, w], relay.nn.dense(relay.nn.relu(relay.nn.dense(x, v)), w))


def test_sparse_dense_layers():
    func = dense_net()
    params = {"v": sparse(8, 16), "w": NUMBERS.standard_normal((4, 8)).astype("float32")}
    made, changed = data_dep_optimization.bsr_dense.convert(func, params, (1, 4), 0.5)
    assert operators(made) == {"nn.sparse_dense": 1, "nn.relu": 1, "nn.dense": 1}
    assert set(changed) == {"v.data", "v.indices", "v.indptr", "w"} and set(params) == {"v", "w"}
    assert [one.name_hint for one in made.params] == ["x", "v.data", "v.indices", "v.indptr", "w"]
    x = NUMBERS.standard_normal((3, 16)).astype("float32")
    numpy.testing.assert_allclose(run(made, changed, x), run(func, params, x), rtol=1e-4, atol=1e-4)


def test_which_weights_become_sparse():
    params = {"v": sparse(8, 16), "w": sparse(4, 8)}
    found = sparse_dense.process_params(dense_net(), params, (2, 4), 0.2)
    assert found.weight_name == ["v", "w"] and len(found.weight_shape[0]) == 5
    assert found.weight_shape[0][1:3] == [2, 4] and found.weight_shape[0][-1] == 5
    dense = {"v": numpy.ones((8, 16), "float32")}
    assert sparse_dense.process_params(dense_net(), dense, (2, 4), 0.2).weight_name == []
    with pytest.raises(Exception, match="not made of blocks of 3 x 4"):
        sparse_dense.process_params(dense_net(), {"v": sparse(8, 16)}, (3, 4), 0.2)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("layout, size", [("NHWC", 1), ("NHWC", 3), ("NCHW", 1), ("NCHW", 3)])
def test_sparse_convolutions(layout, size, constant):
    is_last = layout == "NHWC"
    x = relay.var("x", shape=(1, 5, 5, 4) if is_last else (1, 4, 5, 5))
    shape = (size, size, 4, 8) if is_last else (8, 4, size, size)
    w = relay.var("w", shape=shape)
    value = relay.nn.conv2d(
        x, w, padding=size // 2, data_layout=layout, kernel_layout="HWIO" if is_last else "OIHW"
    )
    func = relay.Function([x, w], value)
    weight = sparse(8, 4 * size * size)
    weight = weight.reshape(8, size, size, 4).transpose(1, 2, 3, 0) if is_last else weight
    params = {"w": numpy.ascontiguousarray(weight.reshape(shape))}
    options = ((1, 4), 0.3, layout, size)
    if constant:
        made, changed = data_dep_optimization.bsr_conv2d.convert2(func, params, *options)
        assert changed == {}
    else:
        made, changed = data_dep_optimization.bsr_conv2d.convert(func, params, *options)
        assert set(changed) == {"w.data", "w.indices", "w.indptr"}
    assert operators(made) == {"nn.sparse_conv2d": 1}
    numbers = NUMBERS.standard_normal([int(one) for one in x.type_annotation.shape])
    numbers = numbers.astype("float32")
    found, wanted = run(made, changed, numbers), run(func, params, numbers)
    numpy.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_convolutions_that_stay_dense():
    x, w = relay.var("x", shape=(1, 4, 5, 5)), relay.var("w", shape=(8, 4, 3, 3))
    func = relay.Function([x, w], relay.nn.conv2d(x, w))  # the image gets smaller
    params = {"w": sparse(8, 4, 3, 3, block=3)}
    made, _ = data_dep_optimization.bsr_conv2d.convert2(func, params, (1, 4), 0.3, "NCHW", 3)
    assert operators(made) == {"nn.conv2d": 1}
    assert sparse_conv2d.process_params(func, params, (1, 4), 0.3, "NCHW", 1).weight_name == []


def test_transposed_weights():
    x, w = relay.var("x", shape=(3, 4)), relay.var("w", shape=(4, 5))
    func = relay.Function([x, w], relay.nn.dense(x, relay.transpose(w, (1, 0))))
    params = {"w": NUMBERS.standard_normal((4, 5)).astype("float32")}
    made, changed = data_dep_optimization.simplify_fc_transpose.convert(func, params)
    assert set(changed) == {"w.T"} and operators(made) == {"nn.dense": 1}
    v = relay.var("w.T", shape=(5, 4))
    after = relay.Function([x, v], relay.nn.dense(x, v), relay.TensorType((3, 5)))
    ir.assert_structural_equal(made, after)
    numbers = NUMBERS.standard_normal((3, 4)).astype("float32")
    numpy.testing.assert_allclose(run(made, changed, numbers), numbers @ params["w"], rtol=1e-5)
    assert analysis.search_fc_transpose(func) == ["w"] and analysis.search_fc_transpose(made) == []


def test_batch_sizes():
    x, w = relay.var("x", shape=(1, 4)), relay.var("w", shape=(5, 4))
    func = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    mod = transform.InferType()(ir.IRModule.from_expr(func))
    step = transform.ChangeBatch({mod["main"].params[0]: 0}, batch_size=16)
    made = transform.InferType()(step(mod))["main"]
    assert made.ret_type == relay.TensorType((16, 5))
    assert made.params[1] is mod["main"].params[1]
    with pytest.raises(Exception, match="has no axis 2"):
        transform.ChangeBatch({mod["main"].params[0]: 2})(mod)


def convolutions():
    x = relay.var("x", shape=(1, 4, 4, 4))
    v, w = relay.var("v", shape=(4, 4, 1, 1)), relay.var("w", shape=(4, 4, 1, 1))
    return relay.Function([x, v, w], relay.nn.conv2d(relay.nn.conv2d(x, v), w))


def test_recast():
    function = convolutions()
    made = transform.recast(function, "int8", "int32")
    assert operators(made) == {"nn.conv2d": 2, "cast": 6}
    assert made.checked_type.ret_type == relay.TensorType((1, 4, 4, 4))
    x, w = relay.var("x", shape=(1, 4, 4, 4)), relay.var("w", shape=(4, 4, 1, 1))
    one = transform.recast(relay.Function([x, w], relay.nn.conv2d(x, w)), "int8", "int32")
    narrow = [relay.cast(each, "int8") for each in (x, w)]
    after = relay.cast(relay.nn.conv2d(*narrow, out_dtype="int32"), "float32")
    ir.assert_structural_equal(one.body, after, map_free_vars=True)


@pytest.mark.parametrize("skipped, outer", [([0], True), ([-1], False), ([0, 1], False)])
def test_recast_skips(skipped, outer):
    made = transform.recast(convolutions(), "float16", "float16", skip_layers=skipped)
    assert operators(made).get("cast", 0) == 3 * (2 - len(skipped))
    assert (made.body.op.name == "cast") == outer


def test_recast_of_other_operators():
    x = relay.var("x", shape=(2,))
    joined = relay.concatenate([x, relay.tanh(x)], axis=0)
    made = transform.recast(joined, "float16", "float16", ops=["concatenate"])
    assert [one.op.name for one in made.args[0].args[0].fields] == ["cast", "cast"]
