"""Modules of `tvm.relax.testing`: models, functions of the machine, comparison, passes."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.compat.tvm import relax_runtime_builtin, relax_testing_models, relax_testing_vm
from tilesmith.compat.tvm import relax_testing_transform as passes
from tilesmith.compat.tvm.ast_printer import ASTPrinter, dump_ast
from tilesmith.compat.tvm.relax_lib_comparator import LibCompareVMInstrument
from tilesmith.relax import interpreter, op
from tilesmith.script import relax as R
from tilesmith.support.errors import UnsupportedError

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def test_products():
    module = relax_testing_models.get_relax_matmul_module(
        (2, 3), (4, 3), "float32", transposed_y=True, bias_shape=(4,), activation=op.nn.relu,
        residual_bin_op=op.add, residual_activation=op.exp,
    )  # fmt: skip
    x, y, bias, residual = f32(2, 3), f32(4, 3), f32(4), f32(2, 4)
    found = interpreter.run(module, "main", x, y, bias, residual)
    np.testing.assert_allclose(found, np.exp(np.maximum(x @ y.T + bias, 0) + residual), rtol=1e-5)
    wide = relax_testing_models.get_relax_matmul_module((2, 3), (3, 2), "float16", "float32")
    assert wide["main"].ret_struct_info.dtype == "float32"


def softmax_attention(q, k, v, bias=0):
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", weights, v)


def test_attention():
    q, k, v, bias = f32(2, 3, 2, 4), f32(2, 5, 2, 4), f32(2, 5, 2, 6), f32(2, 2, 3, 5)
    module = relax_testing_models.get_relax_attention_module(
        q.shape, k.shape, v.shape, dtype="float32", bias_shape=bias.shape
    )
    found = interpreter.run(module, "main", q, k, v, bias)
    np.testing.assert_allclose(found, softmax_attention(q, k, v, bias), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("split", ["split", "strided_slice"])
@pytest.mark.parametrize("layout", ["BS3NH", "SBN3H"])
def test_stacked_attention(split, layout):
    b, s, n, h, h_v = 2, 3, 2, 4, 6
    parts = [f32(b, s, n, size) for size in (h, h, h_v)]
    if layout == "BS3NH":
        qkv = np.concatenate([one.reshape(b, s, -1) for one in parts], 2)
    else:
        qkv = np.concatenate(parts, 3).reshape(b, s, -1).transpose(1, 0, 2)
    module = relax_testing_models.get_relax_stacked_attention_module(
        qkv, b, s, n, h, h_v, split, layout=layout
    )
    found = interpreter.run(module, "main", np.ascontiguousarray(qkv))
    expected = softmax_attention(*parts)
    if layout == "SBN3H":
        expected = expected.transpose(1, 0, 2, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UnsupportedError, match="layout"):
        relax_testing_models.get_relax_stacked_attention_module(
            qkv, b, s, n, h, h_v, split, layout="NHSB"
        )
    with pytest.raises(UnsupportedError, match="op is"):
        relax_testing_models.get_relax_stacked_attention_module(qkv, b, s, n, h, h_v, "cut")


def test_functions_of_the_machine():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2):
        for number, name in enumerate(["add", "mul", "subtract_one", "move"]):
            both = name in ("add", "mul")
            ib.emit_call(
                f"test.vm.{name}",
                [ib.r(number + 1), *([ib.r(0)] if both else [])],
                ib.r(number + 2),
            )
        ib.emit_call("test.vm.identity", [ib.r(5), ib.r(1)])
        ib.emit_ret(ib.r(5))
    a, b = ts.nd.array(np.array([1, 2])), ts.nd.array(np.array([3, 4]))
    result = ib.get()(a, b)
    assert result.numpy().tolist() == [3, 11] == b.numpy().tolist()
    wide = ts.nd.array(np.zeros((1, 4), "int64"))
    relax_testing_vm.tile_packed(ts.nd.array(np.array([[1, 2]])), wide)
    assert wide.numpy().tolist() == [[1, 2, 1, 2]]
    assert relax_testing_vm.equal_zero(ts.nd.array(np.zeros(3))).numpy()
    assert relax_testing_vm.add_scalar(2, 3) == 5
    assert relax_testing_vm.get_device_id(ts.cpu(1)) == 1
    assert not relax_testing_vm.check_if_defined(None) and relax_testing_vm.check_if_defined(a)
    codes = relax_runtime_builtin
    assert [int(one) for one in codes.MatchShapeCode] == [0, 1, 2, 3]
    assert codes.MakeShapeCode.LOAD_SHAPE == 1


def test_comparison_with_a_library(capsys):
    class Library:
        def __init__(self, factor):
            self.factor = factor

        def implements_function(self, name):
            return name == "twice"

        def __getitem__(self, name):
            return lambda a, b: b.copyfrom(a.numpy() * self.factor)

    ts.register_func("twice", lambda a, b: b.copyfrom(a.numpy() * 2), override=True)
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2):
        ib.emit_call("twice", [ib.r(0), ib.r(1)])
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_ret(ib.r(2))
    vm = relax.VirtualMachine(ib.get(), ts.cpu())
    arrays = [ts.nd.array(f32(3)), ts.nd.array(f32(3))]
    instrument = LibCompareVMInstrument(Library(2), ts.cpu())
    vm.set_instrument(instrument)
    vm["main"](*arrays)
    assert instrument.counter == 1 and "'twice' agrees" in capsys.readouterr().out
    vm.set_instrument(LibCompareVMInstrument(Library(3), ts.cpu(), verbose=False))
    with pytest.raises(AssertionError, match="'twice' gives another result"):
        vm["main"](*arrays)


@R.function
def small(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        z = R.add(x, y)
        p = R.exp(z)
        R.output(p)
    return p


def test_passes():
    module = ts.IRModule({"main": small})
    assert passes.ApplyEmptyCppMutator()(module)["main"] is module["main"]
    lowered = passes.LowerWithRelayOpStrategyPass("llvm")(module)
    assert lowered["main"].script().count("call_tir") == 2
    x, y = f32(2, 3), f32(2, 3)
    np.testing.assert_allclose(interpreter.run(lowered, "main", x, y), np.exp(x + y), rtol=1e-5)
    block = small.body.blocks[0]
    by_size, exact = passes.dataflow_inplace_analysis(block, list(small.params), module)
    assert by_size == exact == [(1, {0})]
    assert passes.dataflow_liveness_analysis(block)[small.params[0]] == (-1, 0)


def test_trees_of_ones_own():
    class Short(ASTPrinter):
        def visit_var_(self, op):
            return op.name_hint

    x = relax.Var("x", R.Tensor((2,), "float32"))
    printer = Short(include_struct_info_annotations=False, include_call_attrs=False)
    assert printer.visit_expr(op.exp(x)) == 'Call(op=Op(name="relax.exp"), args=[x])'
    assert printer.build_ast_node("A", True, b="c") == "A(\n    b=c,\n)"
    assert printer.build_list(["a", "b"]) == "[a, b]" and printer.indent("a\nb") == "    a\n    b"
    assert printer.visit_binding_(relax.VarBinding(x, x)) == "VarBinding(var=x, value=x)"
    assert dump_ast(small.body.blocks[0], "  ", False, False).startswith("DataflowBlock(")
    assert 'checked_type_="' in dump_ast(x, include_type_annotations=True)
