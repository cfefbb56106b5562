"""Strategies: what computes an operator on a target, what is taken, and what is built of it."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from tilesmith import relay, te, topi
from tilesmith.ir import IRModule, Op, Var
from tilesmith.relay.expr import Call
from tilesmith.relay.op import strategy as strategies
from tilesmith.relay.op.op_strategy import OpStrategy
from tilesmith.relay.op.strategy import selection
from tilesmith.relay.op.strategy.names import MODULES
from tilesmith.relay.op.strategy.selection import get_valid_implementations, select_implementation
from tilesmith.relay.op.strategy.table import TABLE
from tilesmith.support.errors import (
    ShapeError,
    TypeMismatchError,
    UnknownMemberError,
    UnsupportedError,
)
from tilesmith.target import Target
from tilesmith.target.generic_func import GenericFunc

RANDOM = np.random.default_rng(0)
_numbers = itertools.count()


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def variables(*shapes):
    return [relay.var(f"x{place}", shape=shape) for place, shape in enumerate(shapes)]


def typed(expression):
    return relay.transform.InferType()(IRModule.from_expr(expression))["main"].body


def run(expression, *values):
    return relay.create_executor("graph", IRModule.from_expr(expression)).evaluate()(*values)


def inputs_of(call):
    return [te.placeholder([int(n) for n in arg.checked_type.shape]) for arg in call.args]


def operator(inputs=1, relation="Identity"):
    """Return a new operator of a program."""
    op = relay.op.op.register(f"test.own_{next(_numbers)}")
    op.set_num_inputs(inputs)
    op.add_type_rel(relation)
    return op


@pytest.fixture
def unstated():
    """Give a function that keeps an operator's attributes as they are after the test."""
    kept = []

    def keep(op, *names):
        kept.extend((op, name, op.get_attr(name)) for name in names)
        return op

    yield keep
    for op, name, value in kept:
        op.reset_attr(name)
        op.set_attr(name, value)


def thrice(attrs, inputs, out_type):
    return [te.compute(inputs[0].shape, lambda *i: inputs[0][i] * 3.0, name="thrice")]


# What our own strategies offer.


def calls_of_the_table():
    d = relay.nn
    conv = {"padding": 1, "channels": 8, "kernel_size": (3, 3)}
    yield "conv2d_nchw", d.conv2d(*variables((1, 4, 9, 8), (8, 4, 3, 3)), **conv)
    yield "group_conv2d_nchw", d.conv2d(*variables((1, 4, 9, 8), (8, 2, 3, 3)), groups=2, **conv)
    nhwc = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    yield "conv2d_nhwc", d.conv2d(*variables((1, 9, 8, 4), (3, 3, 4, 8)), **nhwc, **conv)
    yield (
        "group_conv2d_nhwc",
        d.conv2d(*variables((1, 9, 8, 4), (3, 3, 2, 8)), groups=2, **nhwc, **conv),
    )
    yield (
        "depthwise_conv2d_nchw",
        d.conv2d(*variables((1, 4, 9, 8), (4, 1, 3, 3)), groups=4, channels=4, kernel_size=(3, 3)),
    )
    yield "depthwise_conv2d_nhwc", d.conv2d(
        *variables((1, 9, 8, 4), (3, 3, 4, 1)), groups=4, channels=4, kernel_size=(3, 3),
        data_layout="NHWC", kernel_layout="HWOI",
    )  # fmt: skip
    yield "conv1d_ncw", d.conv1d(*variables((1, 4, 9), (8, 4, 3)), channels=8, kernel_size=3)
    yield (
        "group_conv1d_ncw",
        d.conv1d(*variables((1, 4, 9), (8, 2, 3)), channels=8, kernel_size=3, groups=2),
    )
    yield (
        "conv2d_transpose_nchw",
        d.conv2d_transpose(*variables((1, 4, 5, 5), (4, 6, 3, 3)), channels=6, kernel_size=(3, 3)),
    )
    yield (
        "conv3d_ncdhw",
        d.conv3d(*variables((1, 2, 4, 5, 6), (3, 2, 3, 3, 3)), channels=3, kernel_size=(3, 3, 3)),
    )
    yield "dense", d.dense(*variables((3, 5), (7, 5)))
    yield "matmul", d.matmul(*variables((3, 5), (5, 7)))
    yield "batch_matmul", d.batch_matmul(*variables((2, 3, 5), (2, 7, 5)))
    yield "softmax", d.softmax(*variables((3, 5)), axis=0)
    yield "argsort", relay.argsort(*variables((3, 5)))
    yield "topk", relay.topk(*variables((3, 5)), k=2, ret_type="values")
    yield "cumsum", relay.cumsum(*variables((3, 5)), axis=1)
    yield "dilation2d_nchw", relay.image.dilation2d(*variables((1, 2, 6, 6), (2, 3, 3)))
    yield "searchsorted", relay.searchsorted(*variables((9,), (3,)))
    yield "sliding_window", relay.sliding_window(*variables((3, 9)), 1, (4,), (2,))
    yield "layout_transform", relay.layout_transform(*variables((1, 8, 3, 3)), "NCHW", "NCHW4c")


@pytest.mark.parametrize(
    ("name", "call"), list(calls_of_the_table()), ids=lambda one: str(one)[:24]
)
@pytest.mark.parametrize(("target", "family"), [("llvm", "x86"), ("cuda", "cuda")])
def test_functions_of_topi_are_listed_beside_the_search(name, call, target, family):
    call = typed(call)
    inputs, type_ = inputs_of(call), call.checked_type
    found = get_valid_implementations(call.op, call.attrs, inputs, type_, target)
    assert [one.name for one in found] == [f"{call.op.name}.search", f"{name}.{family}"]
    for one in found:
        (out,) = one.compute(call.attrs, inputs, type_)
        assert [int(n) for n in out.shape] == [int(n) for n in type_.shape]
        assert out.dtype == type_.dtype
        assert isinstance(one.schedule(call.attrs, [out], Target(target)), te.Schedule)


def test_every_row_of_the_table_belongs_to_an_operator():
    for name in TABLE:
        assert isinstance(getattr(strategies.generic, name), GenericFunc)
        assert not isinstance(getattr(strategies.generic, name).default, type(lambda: None))


def test_all_our_operators_have_a_strategy_and_a_compute():
    assert Op.get("nn.conv2d").get_attr("FTVMStrategy") is strategies.conv2d_strategy
    for name in Op.list_op_names():
        if not name.startswith(("relax.", "tir.", "test.")) and Op.get(name).spec is not None:
            assert Op.get(name).has_attr("FTVMStrategy"), name
            assert Op.get(name).has_attr("FTVMCompute"), name


def test_the_compute_of_a_translated_operator_puts_several_together():
    x, y = te.placeholder((3, 4), name="x"), te.placeholder((5, 4), name="y")
    call = typed(relay.concatenate(variables((3, 4), (5, 4)), axis=0))
    compute = call.op.get_attr("FTVMCompute")
    assert [int(n) for n in compute(call.attrs, [x, y], call.checked_type)[0].shape] == [8, 4]
    gelu = typed(relay.nn.l2_normalize(*variables((3, 4)), eps=1e-5, axis=[1]))
    (made,) = gelu.op.get_attr("FTVMCompute")(gelu.attrs, [x], gelu.checked_type)
    assert [int(n) for n in made.shape] == [3, 4]


def test_a_size_that_depends_on_data_is_a_variable_of_the_tensor_expression():
    call = typed(relay.argwhere(*variables((3, 4))))
    _, (made,) = select_implementation(
        call.op, call.attrs, [te.placeholder((3, 4))], call.checked_type, "llvm"
    )
    rows, columns = made.shape
    assert isinstance(rows, Var) and int(columns) == 2


# Which implementation is taken.


def dense():
    call = typed(relay.nn.dense(*variables((3, 5), (7, 5))))
    return call.op, call.attrs, inputs_of(call), call.checked_type


def product(attrs, inputs, out_type):
    a, b = inputs
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return [te.compute(out_type.shape, lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="own")]


@pytest.mark.parametrize(("level", "wins"), [(9, False), (10, True), (15, True)])
def test_a_users_implementation_wins_by_its_level(unstated, level, wins):
    op, *rest = dense()
    unstated(op, "FTVMStrategy")

    @relay.op.register_strategy("nn.dense", level=11)
    def strategy(attrs, inputs, out_type, target):
        made = OpStrategy()
        made.add_implementation(product, strategies.naive_schedule, "own", level)
        return made

    best, outs = select_implementation(op, *rest, "llvm")
    assert (best.name == "own") is wins
    assert len(outs) == 1
    text = str(built_for("llvm", relay.nn.dense(*variables((3, 5), (7, 5)))))
    assert ("from_legacy_te_schedule" in text) is wins


def built_for(target, expression):
    with Target(target):
        return relay.to_relax(IRModule.from_expr(expression))


def test_a_condition_has_to_hold(unstated):
    op, *rest = dense()
    unstated(op, "FTVMStrategy")

    def strategy(attrs, inputs, out_type, target):
        made = OpStrategy()
        for least in (2, 4):
            with te.SpecializedCondition(inputs[0].shape[0] >= least):
                made.add_implementation(product, None, f"rows_{least}", 10 + least)
        assert [len(one.implementations) for one in made.specializations] == [1, 1]
        return made

    relay.op.register_strategy("nn.dense", strategy)
    assert select_implementation(op, *rest, "llvm")[0].name == "rows_2"
    names = [one.name for one in get_valid_implementations(op, *rest, "llvm")]
    assert names == ["rows_2", "nn.dense.search"]


def test_tuning_records_come_first():
    op, *rest = dense()

    def tuned(op, found, inputs, target):
        return next((one for one in found if one.name == "dense.x86"), None)

    selection.TUNED.append(tuned)
    try:
        assert select_implementation(op, *rest, "llvm")[0].name == "dense.x86"
        found = select_implementation(op, *rest, "llvm", use_autotvm=False)
        assert found[0].name == "nn.dense.search"
        x, w = variables((3, 5), (7, 5))
        model = relay.Function([x, w], relay.argsort(relay.nn.dense(x, w)))
        assert str(built_for("llvm", model)).count("from_legacy_te_schedule") == 1
    finally:
        selection.TUNED.remove(tuned)


def test_a_version_for_a_target_key_is_for_that_target_alone():
    op, *rest = dense()
    shared = strategies.dense_strategy

    @shared.register("strategy_test_device")
    def strategy(attrs, inputs, out_type, target):
        made = strategies.x86.dense_strategy_cpu(attrs, inputs, out_type, target)
        made.add_implementation(product, strategies.naive_schedule, "own", 20)
        return made

    target = Target("llvm -device=strategy_test_device")
    assert select_implementation(op, *rest, target)[0].name == "own"
    assert select_implementation(op, *rest, "llvm")[0].name == "nn.dense.search"
    call = relay.nn.dense(*variables((3, 5), (7, 5)))
    assert "from_legacy_te_schedule" in str(built_for(target, call))
    assert "R.nn" in str(built_for("llvm", call)) or "R.matmul" in str(built_for("llvm", call))


# Whole models.


def test_a_users_schedule_is_compiled_as_it_is(unstated):
    unstated(Op.get("nn.dense"), "FTVMStrategy")
    made = []

    def schedule(attrs, outs, target):
        made.append(str(target.kind.name))
        sch = te.create_schedule([out.op for out in outs])
        outer, inner = sch[outs[0]].split(outs[0].op.axis[1], 3)
        sch[outs[0]].reorder(outer, outs[0].op.axis[0], inner)
        return sch

    def strategy(attrs, inputs, out_type, target):
        offered = OpStrategy()
        offered.add_implementation(product, schedule, "own", 12)
        return offered

    relay.op.register_strategy("nn.dense", strategy)
    x, w, v = variables((4, 5), (7, 5), (7, 7))
    model = relay.nn.relu(relay.nn.dense(relay.nn.dense(x, w), v))
    a, b, c = floats(4, 5), floats(7, 5), floats(7, 7)
    result = run(model, a, b, c).numpy()
    np.testing.assert_allclose(result, np.maximum(a @ b.T @ c.T, 0), rtol=1e-4, atol=1e-5)
    assert made == ["llvm", "llvm"]
    text = str(built_for("llvm", model))
    assert text.count('"tir.is_scheduled": True') == 2
    assert "own[i, j_outer * 3 + j_inner]" in text


def test_calls_alike_share_a_kernel(unstated):
    op = unstated(Op.get("nn.relu"), "FTVMCompute")
    asked = []

    def compute(attrs, inputs, out_type):
        asked.append(out_type)
        return [topi.nn.relu(inputs[0])]

    relay.op.register_compute("nn.relu", compute)
    (x,) = variables((4, 5))
    model = x
    for _ in range(5):
        model = relay.nn.relu(model)
    text = str(built_for("llvm", model))
    assert len(asked) == 1 and text.count("@T.prim_func") == 1
    assert op.get_attr("FTVMCompute") is compute


def test_an_operator_of_the_users_own_runs():
    op = operator()
    relay.op.register_compute(op.name, thrice)
    (x,) = variables((3, 5))
    model = relay.nn.relu(Call(relay.op.get(op.name), [relay.exp(x)]))
    assert "3, 5" in str(typed(model).checked_type)
    value = floats(3, 5)
    np.testing.assert_allclose(run(model, value).numpy(), 3 * np.exp(value), rtol=1e-5)


@pytest.mark.parametrize("kind", ["debug", "vm", "aot"])
def test_an_operator_of_the_users_own_runs_in_all_executors(kind):
    op = operator()
    relay.op.register_compute(op.name, thrice)
    relay.op.register_schedule(op.name, strategies.generic.schedule_injective)
    module = IRModule.from_expr(relay.nn.relu(Call(op, variables((3, 5)))))
    value = floats(3, 5)
    result = relay.create_executor(kind, module).evaluate()(value)
    np.testing.assert_allclose(result.numpy(), np.maximum(3 * value, 0), rtol=1e-6)


def test_an_operator_of_the_users_own_has_attributes_results_and_relations():
    op = relay.op.op.register(f"test.own_{next(_numbers)}")
    op.add_argument("x", "Tensor", "")
    op.add_argument("y", "Tensor", "")

    def relation(types, attrs):
        return relay.TupleType([types[0], relay.TensorType(types[1].shape, attrs["dtype"])])

    op.add_type_rel(f"test.relation_{op.name}", relation)

    @relay.op.register_compute(op.name)
    def compute(attrs, inputs, out_type):
        x, y = inputs
        scaled = te.compute(x.shape, lambda *i: x[i] * te.const(attrs["scale"], "float32"))
        return [scaled, topi.cast(y, attrs["dtype"])]

    relay.op.register_schedule(op.name, strategies.generic.schedule_injective)
    offered = op.get_attr("FTVMStrategy")(None, [], None, "llvm").specializations
    assert offered[0].implementations[0].name == "injective.generic"
    x, y = variables((2, 3), (4,))
    call = Call(op, [x, y], {"scale": 2.5, "dtype": "int32"})
    a, b = floats(2, 3), np.array([1.5, -2.5, 3.5, 0.0], "float32")
    first, second = run(relay.Function([x, y], call), a, b)
    np.testing.assert_allclose(first.numpy(), a * 2.5, rtol=1e-6)
    np.testing.assert_array_equal(second.numpy(), b.astype("int32"))


def test_the_result_may_be_the_argument():
    op = operator()
    relay.op.register_compute(op.name, lambda attrs, inputs, out_type: [inputs[0]])
    value = floats(3, 5)
    result = run(Call(op, [relay.exp(*variables((3, 5)))]), value)
    np.testing.assert_allclose(result.numpy(), np.exp(value), rtol=1e-6)


def test_sizes_may_be_open():
    op = operator()
    relay.op.register_compute(op.name, thrice)
    relay.op.register_schedule(op.name, strategies.naive_schedule, level=12)
    x = relay.var("x", shape=(relay.Any(), 5))
    value = floats(3, 5)
    result = run(relay.Function([x], Call(op, [x])), value)
    np.testing.assert_allclose(result.numpy(), 3 * value, rtol=1e-6)


# Bad input.


@pytest.mark.parametrize(
    ("compute", "error", "message"),
    [
        (lambda a, i, t: [topi.sum(i[0], 0)], ShapeError, r"computes a float32 tensor of"),
        (lambda a, i, t: [i[0], i[0]], ShapeError, "computes 2 tensors, the call has 1"),
        (lambda a, i, t: 7, TypeMismatchError, "gave 7"),
    ],
)
def test_a_compute_has_to_fit_the_call(compute, error, message):
    op = operator()
    relay.op.register_compute(op.name, compute)
    with pytest.raises(error, match=message) as raised:
        built_for("llvm", Call(op, variables((3, 5))))
    assert f"in the implementation of {op.name}" in str(raised.value.notes)


def test_what_is_not_stated_is_said():
    op = operator()
    with pytest.raises(UnsupportedError, match=f"how the operator '{op.name}' is computed"):
        select_implementation(op, None, [te.placeholder((3,))], None, "llvm")
    with pytest.raises(TypeMismatchError, match="needs functions"):
        OpStrategy().add_implementation(None, None)
    with pytest.raises(UnknownMemberError, match="has no 'conv9d_strategy'"):
        strategies.generic.conv9d_strategy
    with pytest.raises(UnsupportedError, match="cannot run on 'cuda"):
        strategies.naive_schedule(None, [], "cuda")
    bad = relay.op.op.register(f"test.own_{next(_numbers)}")
    with pytest.raises(TypeMismatchError, match="nothing states the types"):
        typed(Call(bad, variables((3,))))


def test_a_strategy_returns_a_strategy():
    op = operator()
    relay.op.register_strategy(op.name, lambda *args: [])
    with pytest.raises(TypeMismatchError, match="gave list"):
        select_implementation(op, None, [te.placeholder((3,))], None, "llvm")
    relay.op.register_strategy(op.name, lambda *args: OpStrategy())
    with pytest.raises(UnsupportedError, match="no implementation whose condition holds"):
        select_implementation(op, None, [te.placeholder((3,))], None, "llvm")


# The names.


@pytest.mark.parametrize(
    ("shape", "layout", "channels"),
    [((1, 8, 4, 4), "NCHW", 8), ((1, 4, 4, 8), "NHWC", 8), ((1, 2, 4, 4, 8), "NCHW8c", 16)],
)
def test_channels_are_counted_by_layout(shape, layout, channels):
    assert strategies.get_conv2d_in_channels(shape, layout) == channels


def test_kernels_are_counted_by_layout():
    assert strategies.get_conv2d_out_channels((8, 4, 3, 3), "OIHW") == 8
    assert strategies.get_conv2d_out_channels((3, 3, 4, 8), "HWIO") == 8
    assert strategies.get_conv2d_out_channels((2, 4, 3, 3, 4, 8), "OIHW4i8o") == 16
    assert strategies.is_depthwise_conv2d((1, 4, 9, 9), "NCHW", (4, 1, 3, 3), "OIHW", 4)
    assert not strategies.is_depthwise_conv2d((1, 4, 9, 9), "NCHW", (8, 1, 3, 3), "OIHW", 4)
    with pytest.raises(ShapeError, match="does not fit"):
        strategies.get_conv2d_in_channels((1, 2, 3), "NCHW")


def test_a_wrapper_passes_attributes_by_its_flags():
    given = []
    wrap = strategies.wrap_compute_conv2d(lambda *args: given.extend(args), has_groups=True)
    call = typed(next(call for name, call in calls_of_the_table() if name == "group_conv2d_nchw"))
    inputs = inputs_of(call)
    wrap(call.attrs, inputs, call.checked_type)
    assert given == [*inputs, (1, 1), (1, 1, 1, 1), (1, 1), 2, "float32"]
    with pytest.raises(TypeError, match=r"wrap_compute_conv2d\(\)"):
        strategies.wrap_compute_conv2d(topi.nn.conv2d_nchw, needs_groups=True)


@pytest.mark.parametrize("module", sorted({*MODULES, "generic"}))
def test_every_name_is_a_function(module):
    module = getattr(strategies, module)
    names = [name for name in dir(module) if not name.startswith("_")]
    assert names and all(callable(getattr(module, name)) for name in names)


def test_a_strategy_without_an_operator_says_so():
    refuse = strategies.cuda.judge_winograd
    with pytest.raises(UnsupportedError, match="tensor cores"):
        refuse(*range(15))


def test_an_identical_tensor_is_copied():
    x, y = te.placeholder((3,), name="x"), te.placeholder((3,), name="y")
    assert strategies.copy_if_identical(x, y) is y
    assert strategies.copy_if_identical(x, x) is not x


def test_where_a_generic_function_has_no_version_the_search_is_there(unstated):
    op, *rest = dense()
    unstated(op, "FTVMStrategy")
    function = GenericFunc("test.only_gpus")
    relay.op.register_strategy("nn.dense", function)

    @function.register("gpu")
    def strategy(attrs, inputs, out_type, target):
        made = OpStrategy()
        made.add_implementation(product, None, "own", 11)
        return made

    assert select_implementation(op, *rest, "llvm")[0].name == "nn.dense.search"
    assert select_implementation(op, *rest, "cuda")[0].name == "own"


def test_an_operator_that_is_opaque_is_not_fused():
    op = operator()
    relay.op.register_compute(op.name, thrice)
    model = relay.exp(Call(op, [relay.nn.relu(*variables((3, 5)))]))
    assert len(kernels_of(relay.build(IRModule.from_expr(model), "llvm"))) == 1
    relay.op.register_pattern(op.name, relay.op.OpPattern.OPAQUE)
    assert len(kernels_of(relay.build(IRModule.from_expr(model), "llvm"))) == 3


def kernels_of(lib):
    nodes = json.loads(lib.get_graph_json())["nodes"]
    return [node["attrs"]["func_name"] for node in nodes if node["op"] != "null"]


def test_a_users_kernel_stands_in_the_graph_of_the_model_in_c_and_over_constants():
    op = operator()
    relay.op.register_compute(op.name, thrice)
    relay.op.register_schedule(op.name, strategies.naive_schedule)
    x, w = variables((3, 5), (3, 5))
    model = relay.Function([x, w], relay.add(Call(op, [x]), Call(op, [w])))
    weight, value = floats(3, 5), floats(3, 5)
    for target in ("llvm", "c"):
        lib = relay.build(IRModule.from_expr(model), target, params={"x1": weight})
        assert sum("own" in name for name in kernels_of(lib)) >= 1
        if lib.get_lib().is_runnable:
            np.testing.assert_allclose(lib.get_lib()(value).numpy(), 3 * (value + weight), 1e-5)


PROGRAM = """
import numpy as np
import tvm
from tvm import relay, te, topi
from tvm.relay.backend import compile_engine, te_compiler
from tvm.relay.op import op as _op
from tvm.relay.op.strategy.generic import *
from tvm.target import override_native_generic_func

@override_native_generic_func("relu_like_strategy")
def relu_like_strategy(attrs, inputs, out_type, target):
    strategy = _op.OpStrategy()
    strategy.add_implementation(
        wrap_topi_compute(topi.nn.relu), wrap_topi_schedule(topi.generic.schedule_injective),
        name="relu_like.generic", plevel=10)
    return strategy

@relu_like_strategy.register(["cpu"])
def relu_like_strategy_cpu(attrs, inputs, out_type, target):
    strategy = _op.OpStrategy()
    strategy.add_implementation(
        wrap_topi_compute(topi.nn.relu), naive_schedule, name="relu_like.x86", plevel=10)
    return strategy

op = _op.register("relu_like")
op.set_num_inputs(1)
op.add_type_rel("Identity")
_op.register_strategy("relu_like", relu_like_strategy)
_op.register_pattern("relu_like", _op.OpPattern.ELEMWISE)
_op.register_stateful("relu_like", False)

x = relay.var("x", shape=(4, 5))
func = relay.Function([x], relay.Call(_op.get("relu_like"), [x]))
mod = relay.transform.InferType()(tvm.IRModule.from_expr(func))
names = {}
for target in ("llvm", "cuda"):
    with tvm.target.Target(target):
        best, outs = te_compiler.select_implementation(
            _op.get("relu_like"), None, [te.placeholder((4, 5))], mod["main"].ret_type,
            tvm.target.Target(target))
        names[target] = best.name
assert names == {"llvm": "relu_like.x86", "cuda": "relu_like.generic"}
with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm")
module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
value = np.linspace(-1, 1, 20, dtype="float32").reshape(4, 5)
module.set_input("x", value)
module.run()
np.testing.assert_array_equal(module.get_output(0).numpy(), np.maximum(value, 0))
assert isinstance(compile_engine.get(), compile_engine.CompileEngine)
print("strategies ok")
"""


def test_a_users_program_for_tvm(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "tilesmith.compat.tvm", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "strategies ok" in done.stdout, done.stderr
