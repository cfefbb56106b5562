"""Mutators written as users write them, and kernels whose sizes are expressions."""

import numpy as np
import pytest

import tilesmith
from tilesmith import relax, te, tir
from tilesmith.relax.expr_functor import PyExprMutator, mutator
from tilesmith.runtime import ShapeTuple
from tilesmith.script import relax as R


@R.function
def small(x: R.Tensor((4,), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
    if flag:
        y = R.add(x, R.exp(x))
    else:
        y = R.multiply(x, x)
    z = R.split(y, 2)
    return R.concat((z[1], z[0]))


NAMES = [
    "call", "var", "dataflow_var", "constant", "tuple", "tuple_getitem", "function", "seq_expr",
    "if", "op", "shape_expr", "prim_value", "extern_func", "global_var", "string_imm",
    "data_type_imm",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_that_begins_with_its_operands(name):
    """Only what lies inside is visited: the rule itself is not called again."""
    seen = []

    def rule(self, expr):
        seen.append(expr)
        return self.visit_expr_post_order(expr)

    cls = mutator(type("Mutator", (PyExprMutator,), {f"visit_{name}_": rule}))
    assert cls().visit_expr(small) is small
    leaf = {
        "constant": relax.const(1), "shape_expr": relax.ShapeExpr([1]),
        "prim_value": relax.PrimValue(1), "extern_func": relax.ExternFunc("f"),
        "dataflow_var": relax.DataflowVar("d"), "string_imm": relax.StringImm("s"),
        "data_type_imm": relax.DataTypeImm("float32"),
        "global_var": tilesmith.ir.GlobalVar("g"),
    }.get(name)  # fmt: skip
    if leaf is not None:
        assert cls().visit_expr(leaf) is leaf
    assert seen


@pytest.mark.parametrize("is_closure", [False, True])
@pytest.mark.parametrize("sum_first", [False, True])
def test_kernels_whose_sizes_occur_in_expressions_only(is_closure, sum_first):
    """``n`` and ``m`` are no sizes of the kernel's tensors, so they are passed to it."""
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    x = relax.Var("x", relax.TensorStructInfo([n + m if sum_first else n // 2], "float32"))
    sizes = relax.Var("sizes", relax.ShapeStructInfo([n, m]))

    def shifted(tensor, first=n, second=m):
        return te.compute(
            tensor.shape, lambda i: tensor[i] + (first * 10 + second).astype("float32")
        )

    builder = relax.BlockBuilder()
    with builder.function("main", [x, sizes]):
        given = () if is_closure else (n, m)
        y = builder.emit_te(shifted, x, *given)
        z = builder.emit_te(lambda a, b: te.compute(a.shape, lambda i: a[i] * b[i]), y, y)
        builder.emit_func_output(z)
    machine = relax.VirtualMachine(relax.build(builder.get(), target="llvm"), tilesmith.cpu())
    for first, second in ((7, 2), (4, 5)):
        values = np.arange(first + second if sum_first else first // 2, dtype="float32")
        got = machine["main"](tilesmith.nd.array(values), ShapeTuple([first, second]))
        np.testing.assert_array_equal(got.numpy(), (values + first * 10 + second) ** 2)
