"""The compiler of single functions of operators, their shape functions, and kinds of attributes."""

import itertools

import numpy as np
import pytest

from tilesmith import relay, te, topi
from tilesmith.ir import IntImm, IRModule, Op
from tilesmith.lowering import build
from tilesmith.relay.backend import te_compiler, utils
from tilesmith.relay.expr import Call
from tilesmith.relay.op import op_attrs
from tilesmith.relay.op.op_strategy import OpStrategy
from tilesmith.relay.op.strategy import selection
from tilesmith.runtime.ndarray import array, empty
from tilesmith.support.errors import TypeMismatchError, UnknownMemberError, UnsupportedError

RANDOM = np.random.default_rng(0)
_numbers = itertools.count()


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


@pytest.fixture
def compiler():
    return te_compiler.TECompiler()


def group():
    x, w = relay.var("x", shape=(3, 5)), relay.var("w", shape=(7, 5))
    body = relay.nn.relu(relay.add(relay.nn.dense(x, w), relay.const(1.0)))
    return relay.Function([x, w], body)


def test_a_group_is_lowered_once_and_its_hits_are_shown(compiler):
    first = compiler.lower(group(), "llvm")
    assert compiler.lower(group(), "llvm") is first
    assert compiler.lower(group(), "llvm -mcpu=skylake-avx512") is not first
    assert first.func_name == "tvmgen_default_fused_nn_dense_add_nn_relu"
    assert first.implementation.name == "nn.dense.search"
    assert [one.op.name for one in first.inputs] == ["x", "w"]
    assert [value.use_count for _, value in compiler.items()] == [2, 1]
    text = compiler.dump()
    assert "for llvm -keys=cpu, nn.dense.search: asked for 2 times" in text
    assert "%0 = nn.dense(%x, %w)" in text
    compiler.clear()
    assert not compiler.items() and compiler.dump() == "0 functions, 0 shape functions"


def test_a_group_is_compiled(compiler):
    a, b, result = floats(3, 5), floats(7, 5), empty((3, 7), "float32")
    compiled = compiler.jit(group(), "llvm")
    compiled(array(a), array(b), result)
    np.testing.assert_allclose(result.numpy(), np.maximum(a @ b.T + 1, 0), rtol=1e-4, atol=1e-5)
    assert compiler.jit(group(), "llvm") is compiled


def test_the_schedule_of_the_most_complex_operator_is_taken(compiler):
    op = relay.op.register(f"test.compiled_{next(_numbers)}")
    op.set_num_inputs(1)
    op.add_type_rel("Identity")

    @relay.op.register_strategy(op.name)
    def offered(attrs, inputs, out_type, target):
        made = OpStrategy()

        def schedule(attrs, outs, target):
            sch = te.create_schedule([out.op for out in outs])
            te.schedule.AutoInlineInjective(sch)
            sch[outs[0]].unroll(outs[0].op.axis[0])
            return sch

        made.add_implementation(
            lambda attrs, inputs, out_type: [topi.exp(inputs[0])], schedule, "own"
        )
        return made

    relay.op.register_pattern(op.name, relay.op.OpPattern.OUT_ELEMWISE_FUSABLE)
    x = relay.var("x", shape=(3, 5))
    function = relay.Function([x], relay.negative(Call(op, [relay.nn.relu(x)])))
    lowered = compiler.lower(function, "llvm")
    assert lowered.implementation.name == "own"
    assert "T.unroll(3)" in lowered.prim_func.script()
    value, result = floats(3, 5), empty((3, 5), "float32")
    compiler.jit(function, "llvm")(array(value), result)
    np.testing.assert_allclose(result.numpy(), -np.exp(np.maximum(value, 0)), rtol=1e-5)


def test_a_function_of_operators_becomes_one_prim_func():
    x = relay.var("x", shape=(4, 6))
    function = relay.Function([x], relay.split(relay.exp(x), 2, axis=1).astuple())
    made = te_compiler.lower_to_primfunc(function, "llvm")
    built = build(made, target="llvm")
    value = floats(4, 6)
    results = [empty((4, 3), "float32") for _ in range(2)]
    built(array(value), *results)
    np.testing.assert_allclose(np.hstack([one.numpy() for one in results]), np.exp(value), 1e-5)


def test_one_call_is_lowered():
    function = relay.transform.InferType()(IRModule.from_expr(group()))["main"]
    call = function.body.args[0].args[0]
    inputs = [te.placeholder((3, 5)), te.placeholder((7, 5))]
    lowered = te_compiler.lower_call(call, inputs, "llvm")
    assert lowered.implement.name == "nn.dense.search"
    assert [int(n) for n in lowered.outputs[0].shape] == [3, 7]


def test_sizes_become_int32_and_unknown_ones_variables():
    fixed, unknown, named = te_compiler.get_shape([IntImm("int64", 3), relay.Any(), te.var("n")])
    assert fixed.dtype == "int32" and fixed.value == 3
    assert unknown.dtype == "int32" and named.name == "n"


# Shape functions.


def open_rows(columns=5):
    return relay.var("x", shape=(relay.Any(), columns))


SHAPES = {
    "unary": (lambda x: relay.exp(x), (3, 5)),
    "joined": (lambda x: relay.concatenate([x, relay.nn.relu(x)], axis=0), (6, 5)),
    "reordered": (lambda x: relay.reshape(relay.transpose(x), (-1,)), (15,)),
    "a product": (lambda x: relay.nn.dense(x, relay.var("w", shape=(7, 5))), (3, 7)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_of_results_are_computed(compiler, name):
    make, wanted = SHAPES[name]
    body = make(open_rows())
    function = IRModule.from_expr(body)["main"]
    lowered = compiler.lower_shape_func(function, "llvm")
    given = [array(np.array([3, 5], "int64")), array(np.array([7, 5], "int64"))]
    result = empty((len(wanted),), "int64")
    build(lowered.prim_func, target="llvm")(*given[: len(function.params)], result)
    assert tuple(result.numpy()) == wanted
    assert compiler.lower_shape_func(function, "llvm") is lowered
    assert [value.use_count for _, value in compiler.shape_func_items()] == [2]


def test_an_operators_own_shape_function_may_need_the_value(compiler):
    op = relay.op.register(f"test.compiled_{next(_numbers)}")
    op.set_num_inputs(1)
    op.add_type_rel(
        f"test.relation_{op.name}",
        lambda types, attrs: relay.TensorType((relay.Any(),), types[0].dtype),
    )

    @relay.op.register_shape_func(op.name, True)
    def sizes(attrs, inputs, out_ndims):
        k = te.reduce_axis((0, inputs[0].shape[0]))
        assert [int(one) for one in out_ndims] == [1]
        return [te.compute((1,), lambda i: te.sum(inputs[0][k].astype("int64"), axis=k))]

    x = relay.var("x", shape=(4,), dtype="int32")
    lowered = compiler.lower_shape_func(relay.Function([x], Call(op, [x])), "llvm")
    result = empty((1,), "int64")
    build(lowered.prim_func, target="llvm")(array(np.array([1, 2, 3, 4], "int32")), result)
    assert result.numpy()[0] == 10


# Bad input.


def test_what_cannot_be_one_kernel_is_said(compiler):
    x = relay.var("x", shape=(3,))
    table = relay.const(floats(3))
    with pytest.raises(UnsupportedError, match="a Constant cannot be part of one kernel"):
        compiler.lower(relay.Function([x], relay.add(x, table)), "llvm")
    with pytest.raises(UnsupportedError, match="no call of an operator"):
        compiler.lower(relay.Function([x], x), "llvm")
    with pytest.raises(TypeMismatchError, match=r"a relay\.Function is compiled here"):
        compiler.lower(relay.exp(x), "llvm")
    with pytest.raises(UnsupportedError, match="depend on data"):
        compiler.lower_shape_func(relay.Function([x], relay.argwhere(x)), "llvm")


# Names.


def test_the_process_shares_a_compiler():
    assert te_compiler.get() is te_compiler.get()
    assert te_compiler.select_implementation is selection.select_implementation
    assert utils.mangle_module_name("net") == "tvmgen_net"
    assert utils.mangle_module_name("") == "tvmgen"
    assert [one.name for one in utils.CallType] == ["Packed", "CPacked", "Unpacked"]


def test_kinds_of_attributes_are_told_apart():
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(8, 4, 3, 3))
    call = relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=8)
    assert isinstance(call.attrs, op_attrs.Conv2DAttrs)
    assert not isinstance(call.attrs, op_attrs.Conv1DAttrs)
    assert not isinstance(relay.exp(x).attrs, op_attrs.Conv2DAttrs)
    assert relay.Conv2DAttrs is op_attrs.Conv2DAttrs
    made = op_attrs.Conv2DAttrs(kernel_size=(3, 3), groups=2)
    assert isinstance(made, op_attrs.Conv2DAttrs) and made.groups == 2
    assert repr(op_attrs.DenseAttrs) == "relay.op.op_attrs.DenseAttrs"
    with pytest.raises(UnknownMemberError, match="no 'Conv9DAttrs'"):
        op_attrs.Conv9DAttrs


def test_no_two_kinds_share_a_schema():
    owners = {}
    for kind, operators in op_attrs.OPERATORS.items():
        for name in operators:
            spec = Op.get(name).spec if Op.exists(name) else None
            if spec is not None and spec.schema is not None:
                assert owners.setdefault(id(spec.schema), kind) == kind
    assert len(owners) > 90


def test_a_number_that_an_operator_has_to_know_is_known(compiler):
    x = relay.var("x", shape=(2, 3))
    function = relay.Function([x], relay.nn.pad(x, ((1, 0), (0, 2)), 7.0))
    value, result = floats(2, 3), empty((3, 5), "float32")
    compiler.jit(function, "llvm")(array(value), result)
    wanted = np.pad(value, ((1, 0), (0, 2)), constant_values=7.0)
    np.testing.assert_array_equal(result.numpy(), wanted)
