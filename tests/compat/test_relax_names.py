"""Names of Relax that only programs for `import tvm` know: each does what it says."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import ir, relax
from tilesmith.compat.tvm import args_converter as converters
from tilesmith.compat.tvm import install, relax_attrs, relax_numpy, uninstall
from tilesmith.relax import op
from tilesmith.script import relax as R
from tilesmith.support.errors import (
    OpAttributeInvalid,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

X = relax.Var("x", R.Tensor((3, 4), "float32"))


@pytest.fixture
def tvm():
    install()
    import tvm

    yield tvm
    uninstall()


def test_names_lead_to_ours(tvm):
    import tvm.relax.op.manipulate
    import tvm.relax.op.nn.nn
    import tvm.relax.op.op_attrs
    import tvm.relax.op.search
    import tvm.relax.op.vm.vm

    rx = tvm.relax
    assert rx.Span is ir.Span and rx.Type is ir.Type and rx.FuncType is ir.FuncType
    assert rx.Id is relax.Var and rx.expr.Id is relax.Var
    assert rx.convert_to_expr((1, 2.0)).struct_info.fields[0] == relax.PrimValue(1).struct_info
    assert rx.op.search.where is op.where and rx.op.manipulate.squeeze is op.squeeze
    assert rx.op.vm.vm.kill_object is op.vm.kill_object
    assert rx.op.create.PrimExprLike == int | ir.PrimExpr
    assert rx.VMInstrumentReturnKind.SKIP_RUN == 1
    tensor = rx.expr.te_tensor(X, {})
    assert [int(size) for size in tensor.shape] == [3, 4]
    with pytest.raises(UnsupportedError, match="Python classes"):
        rx.dpl.pattern.register_df_node("own")


ATTRS = {
    "SoftmaxAttrs": op.nn.softmax(X, axis=1),
    "ConcatAttrs": op.concat([X, X]),
    "StatisticalAttrs": op.sum(X),
    "ArgmaxArgminAttrs": op.argmin(X),
    "PermuteDimsAttrs": op.permute_dims(X),
    "AstypeAttrs": op.astype(X, "int8"),
    "ScanopAttrs": op.cumsum(X, 0),
    "InitAttrs": op.zeros((3,), "float32"),
    "MatmulAttrs": op.matmul(X, op.permute_dims(X)),
    "TopKAttrs": op.topk(X),
}


@pytest.mark.parametrize("name", ATTRS)
def test_attributes_have_classes(name):
    for other, call in ATTRS.items():
        assert isinstance(call.attrs, getattr(relax_attrs, name)) == (other == name)


def test_every_class_of_attributes_is_of_operators():
    for name in relax_attrs.__all__:
        kind = getattr(relax_attrs, name)
        assert kind.operators and not isinstance(relax.Attrs({"axis": 1}), kind)
    made = relax_attrs.SoftmaxAttrs(axis=2)
    assert made.axis == 2 and isinstance(made, relax_attrs.SoftmaxAttrs)
    with pytest.raises(OpAttributeInvalid):
        relax_attrs.SoftmaxAttrs(axis="x")


def test_arguments_are_converted():
    convert = converters.args_converter

    @convert.auto
    def auto(
        a: relax.Expr,
        b: relax.Expr | None,
        c: list[relax.Expr],
        d: int,
    ):
        return a, b, c, d

    a, b, c, d = auto(1, None, (2.0, "t"), d=4)
    assert isinstance(a, relax.PrimValue) and b is None and d == 4
    assert isinstance(c, list) and isinstance(c[1], relax.StringImm)
    by_name = convert.to_list_expr("c")(convert.to_expr("a")(lambda a, c: (a, c)))
    one, several = by_name((1, 2), [X])
    assert isinstance(one, relax.Tuple) and several == [X]
    with pytest.raises(TypeMismatchError, match="list of expressions"):
        by_name(1, c=3)
    with pytest.raises(UnknownNameError, match="no parameters q"):
        convert.to_expr("q")(lambda a: a)


def test_values_that_are_there(capsys):
    values = ts.nd.array(np.array([3, 0, 3, 1]))
    found = relax_numpy.numpy_unique(values, True, True, False, True)
    assert [one.numpy().tolist() for one in found] == [[0, 1, 3], [1, 3, 0], [1, 1, 2]]
    plain = relax_numpy.numpy_unique(values, True, False, False, False)
    assert plain.numpy().tolist() == [0, 1, 3]
    assert relax_numpy.numpy_nonzero(values).numpy().tolist() == [[0, 2, 3]]
    relax_numpy.relax_print("{} of {}", values, 4)
    relax_numpy.relax_print("", 1, 2)
    assert capsys.readouterr().out == "[3 0 3 1] of 4\n1 2\n"
    relax_numpy.relax_assert_op(ts.nd.array(np.array(True)), "")
    with pytest.raises(AssertionError, match="Assertion Failed: 3 < 2"):
        relax_numpy.relax_assert_op(False, "{} < {}", 3, 2)
    assert relax_numpy.relax_shape_to_tensor((2, 3)).numpy().tolist() == [2, 3]


def test_code_generators_for_libraries(tvm):
    import tvm.relax.backend.contrib.cblas as found

    from tilesmith.relax.backend.contrib.cblas import partition_for_cblas

    assert found.partition_for_cblas is partition_for_cblas
    assert tvm.get_global_func("relax.ext.cblas")
    with pytest.raises(ImportError, match="its library is not a part of Tilesmith"):
        import tvm.relax.backend.contrib.cublas
