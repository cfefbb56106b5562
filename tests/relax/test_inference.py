"""What operators imply about their results, and which operands they refuse when a call is made."""

import numpy as np
import pytest

from tilesmith import relax, tir
from tilesmith.ir import Op, VDevice
from tilesmith.relax import op
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import TilesmithError

DEVICE = VDevice("llvm", 0)


def tensor(shape, dtype="float32", device=None):
    return relax.Var("x", relax.TensorStructInfo(shape, dtype, device))


def inferred(call):
    return relax.BlockBuilder().normalize(call).struct_info


@pytest.mark.parametrize(
    "make",
    [
        lambda x: op.layout_transform(x, lambda i, j: (j, i)),
        lambda x: op.split(x, 2, 1),
        lambda x: op.split(x, [1], 1),
        lambda x: op.collapse_sum_like(x, tensor((4,))),
        lambda x: op.collapse_sum_to(x, (4,)),
        lambda x: op.repeat(x, 2, 0),
        lambda x: op.repeat(x, 2),
        lambda x: op.tile(x, (2, 2)),
        lambda x: op.permute_dims(x),
    ],
)
def test_the_device_of_the_operand_is_that_of_the_result(make):
    info = inferred(make(tensor((2, 4), device=DEVICE)))
    infos = info.fields if isinstance(info, TupleStructInfo) else [info]
    assert all(one.vdevice is DEVICE for one in infos)


SHAPE = relax.Var("s", relax.ShapeStructInfo((2, 3)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: op.concat([tensor((2, 3)), tensor((2, 3))], axis=None),
        lambda: op.concat([tensor(()), tensor(())]),
        lambda: op.concat([tensor((2, 3)), tensor((3, 4))]),
        lambda: op.split(tensor((2, 4)), 0),
        lambda: op.split(tensor((2, 4)), -1),
        lambda: op.split(tensor((9,)), [4, 2]),
        lambda: op.split(tensor((9,)), [-4]),
        lambda: op.broadcast_to(tensor((2, 4)), (4,)),
        lambda: op.collapse_sum_to(tensor((2, 4)), (3,)),
        lambda: op.collapse_sum_to(tensor((4,)), (2, 4)),
        lambda: op.collapse_sum_like(tensor((2, 4)), tensor((2, 2))),
        lambda: op.layout_transform(tensor((3, 4)), lambda i, j: (j, i), tir.IntImm("int32", 2)),
        lambda: op.scatter_elements(tensor((4, 4)), tensor((2, 2), "int64"), tensor((2, 3))),
        lambda: op.reshape(tensor((2, 4)), relax.PrimValue(8)),
        lambda: op.exp(SHAPE),
        lambda: op.split(SHAPE, 2),
        lambda: relax.Call(Op.get("relax.add"), [tensor((2, 3))]),
        lambda: relax.Call(Op.get("relax.add"), [tensor((2, 3))] * 3),
        lambda: relax.Call(Op.get("relax.exp"), []),
    ],
)
def test_refused_operands(make):
    with pytest.raises(TilesmithError):
        inferred(make())


@pytest.mark.parametrize("size", [0, 2, 5, 10])
def test_split_of_a_symbolic_size(size):
    n = tir.Var("n", "int64")
    builder = relax.BlockBuilder()
    x = tensor((n, 2))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.split(x, [3, 7])))
    values = np.arange(size * 2, dtype="float32").reshape(size, 2)
    parts = relax.build(builder.get(), "llvm")["main"](values)
    for found, expected in zip(parts, np.split(values, [3, 7]), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_split_beyond_a_constant_size():
    sizes = [info.concrete_shape for info in inferred(op.split(tensor((5,)), [3, 7])).fields]
    assert sizes == [(3,), (2,), (0,)]


def test_shapes_of_results():
    assert inferred(op.flatten(tensor(()))).concrete_shape == (1,)
    known = relax.Var("s", relax.ShapeStructInfo((4, 2)))
    assert inferred(op.reshape(tensor((2, 4)), known)).concrete_shape == (4, 2)
