"""Ranks, sizes, strides and dtypes of tensors as values of the program."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, relay
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.relax import interpreter
from tilesmith.relax.expr_functor import ExprFunctor
from tilesmith.script import from_source
from tilesmith.script import relax as R
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError

X = relax.Var("x", R.Tensor((3, 4), "float32"))
Y = relax.Var("y", R.Tensor())
NUMBER = relax.Var("i", R.Prim("int64"))


def test_what_is_known_is_inferred():
    known = {X.ndim: 2, X.shape[0]: 3, X.strides[0]: 4, X.dtype.bits: 32, X.dtype.lanes: 1}
    for call, value in known.items():
        assert int(call.struct_info.value) == value
    assert str(Y.ndim.struct_info) == 'R.Prim("int32")'
    assert str(X.shape[NUMBER].struct_info) == 'R.Prim("int64")'
    assert not hasattr(relax.ShapeExpr([1]), "ndim") and not hasattr(NUMBER, "shape")
    assert not hasattr(relay.var("x", shape=(3,)), "dtype")
    with pytest.raises(ShapeError, match="no axis 2"):
        print(X.shape[2].struct_info)
    with pytest.raises(TypeMismatchError, match="needs a tensor"):
        print(relax.op.inspect.tensor_ndim(NUMBER).struct_info)


def test_programs_that_inspect():
    builder = relax.BlockBuilder()
    with builder.function("main", [Y, NUMBER]):
        dtype = Y.dtype
        parts = [
            Y.ndim, Y.shape[NUMBER], Y.strides[0], dtype.code, dtype.bits, dtype.lanes,
            Y.byte_offset, Y.elem_offset,
        ]  # fmt: skip
        builder.emit_func_output([builder.emit(one) for one in parts])
    module = builder.get()
    assert_structural_equal(from_source(module.script()), module)
    executable = ts.relax.build(module, "llvm")
    for value, code in ((np.zeros((3, 4, 5), "int16"), 0), (np.zeros((2, 7, 1)), 2)):
        bits = value.dtype.itemsize * 8
        expected = (3, value.shape[1], value[0].size, code, bits, 1, 0, 0)
        assert tuple(executable(value, 1)) == expected
        assert interpreter.run(module, "main", value, 1) == expected
    with pytest.raises(ShapeError, match="no axis 7"):
        executable(np.zeros(3), 7)


def test_functors_say_which_method_is_missing():
    class Names(ExprFunctor):
        def visit_var_(self, op):
            return op.name_hint

    assert Names().visit_expr(X) == "x"
    with pytest.raises(UnsupportedError, match="Names does not say what to do with Call"):
        Names().visit_expr(relax.op.exp(X))
    with pytest.raises(UnsupportedError, match="VarBinding"):
        Names().visit_binding(relax.VarBinding(X, Y))
    with pytest.raises(UnsupportedError, match="DataflowBlock"):
        Names().visit_binding_block(relax.DataflowBlock([]))
