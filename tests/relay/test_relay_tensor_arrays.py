"""Arrays of tensors: each operation, for tensors of any shape and of one shape."""

import numpy
import pytest

from tilesmith import ir, relay
from tilesmith.relay.prelude import (
    Prelude,
    StaticTensorArrayOps,
    TensorArrayOps,
    get_tensor_array_shape,
)
from tilesmith.relay.testing import run_as_python
from tilesmith.relay.transform import InferType
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

ROWS = [numpy.array([[1, 2, 3]], "float32") * (n + 1) for n in range(3)]


def ints(*values):
    return relay.const(numpy.array(values, "int32"))


def one(value):
    return relay.const(value, "int32")


def array_of(prelude, constructor, values):
    found = prelude.nil()
    for value in reversed(values):
        found = prelude.cons(constructor(relay.const(value)), found)
    return found


def run(prelude, expr):
    mod = prelude.mod.shallow_copy()
    mod["main"] = relay.Function([], expr)
    mod = InferType()(mod)
    return run_as_python(mod["main"], mod)()


def data(value):
    """The numbers of a tensor."""
    return value.fields[0].numpy()


def numbers(value):
    """The numbers of the tensors of an array, None for places without one."""
    found = []
    while len(value):
        found.append(data(value[0]).tolist() if len(value[0]) else None)
        value = value[1]
    return found


class Dynamic:
    """Operations on tensors of any shape; the arrays hold matrices of one row."""

    def __init__(self):
        self.prelude = Prelude()
        self.ops = TensorArrayOps(self.prelude, "float32")
        self.ops.register()
        self.make = self.ops.get_ctor("tensor2")
        self.wider = self.ops.get_ctor("tensor2")
        self.unstack = "tensor_array_unstack_tensor3"


class Static:
    """Operations on matrices of one row."""

    def __init__(self):
        self.prelude = Prelude()
        self.ops = StaticTensorArrayOps(self.prelude, "float32", (1, 3))
        self.ops.register()
        self.make = self.ops.get_ctor("tensor_constructor")
        rows = StaticTensorArrayOps(self.prelude, "float32", (relay.Any(), 3))
        self.wider = rows.get_ctor("tensor_constructor")
        self.unstack = "tensor_array_unstack"


@pytest.fixture(scope="module", params=[Dynamic, Static])
def kind(request):
    return request.param()


def test_operations(kind):
    prelude, make = kind.prelude, kind.make
    array = array_of(prelude, make, ROWS)

    def call(name, *args):
        return run(prelude, kind.ops.get_global_var(name)(*args))

    assert numbers(call("tensor_array", one(2))) == [None, None]
    numpy.testing.assert_array_equal(data(call("tensor_array_read", array, one(1))), ROWS[1])
    other = make(relay.const(ROWS[0] * 10))
    written = numbers(call("tensor_array_write", array, one(1), other))
    assert written == [ROWS[0].tolist(), (ROWS[0] * 10).tolist(), ROWS[2].tolist()]
    values = array_of(prelude, make, [ROWS[2], ROWS[1]])
    scattered = numbers(call("tensor_array_scatter", array, ints(0, 2), values))
    assert scattered == [ROWS[2].tolist(), ROWS[1].tolist(), ROWS[1].tolist()]
    numpy.testing.assert_array_equal(data(call("tensor_array_stack", array)), numpy.stack(ROWS))
    numpy.testing.assert_array_equal(
        data(call("tensor_array_concat", array)), numpy.concatenate(ROWS)
    )
    chosen = data(call("tensor_array_gather", array, ints(2, 0)))
    numpy.testing.assert_array_equal(chosen, numpy.stack([ROWS[2], ROWS[0]]))
    unstacked = numbers(call(kind.unstack, relay.const(numpy.stack(ROWS))))
    assert unstacked == [row.tolist() for row in ROWS]
    long = numpy.concatenate(ROWS)
    empty = array_of(prelude, kind.wider, [ROWS[0], ROWS[0]])
    whole = kind.wider(relay.const(long))
    parts = numbers(call("tensor_array_split", empty, whole, ints(1, 2)))
    assert parts == [long[:1].tolist(), long[1:].tolist()]
    taken = data(call("tensor_take", make(relay.const(ROWS[0])), one(0), one(1)))
    numpy.testing.assert_array_equal(taken, ROWS[0])
    expanded = data(call("tensor_expand_dims", make(relay.const(ROWS[0]))))
    numpy.testing.assert_array_equal(expanded, ROWS[0][None])


def test_names():
    prelude = Prelude()
    assert prelude.get_name("tensor_t", "int32") == "tensor_int32_t"
    assert prelude.get_name("tensor_take", "int32") == "tensor_take_int32"
    assert prelude.get_type("tensor_t", "int32").name_hint == "tensor_int32_t"  # added by asking
    assert prelude.get_global_var("tensor_array_read", "int32") in prelude.mod
    assert prelude.get_ctor("tensor_t", "tensor3", "int32").name_hint == "tensor3_int32"
    assert prelude.get_tensor_ctor("tensor_nil", "int32").name_hint == "tensor_nil_int32"
    shape = (2, relay.Any())
    ops = StaticTensorArrayOps(prelude, "int8", shape, batch_dim=4)
    ops.register()
    assert prelude.get_name_static("tensor_t", "int8", shape) == "static_tensor_int8_2_any_t"
    assert prelude.get_name_static("tensor_t", "int8", ()) == "static_tensor_int8_scalar_t"
    assert prelude.get_type_static("tensor_t", "int8", shape) == ops.get_type("tensor_t")
    stack = prelude.get_global_var_static("tensor_array_stack", "int8", shape, 4)
    assert stack.name_hint == "tensor_array_stack_int8_batch4_2_any"
    made = prelude.get_tensor_ctor_static("tensor_constructor", "int8", shape)
    assert made is ops.get_ctor("tensor_constructor")
    assert ops.get_name("tensor_array_split", [(3,), ()]).endswith("_3_scalar")
    assert ops.is_cached(ops.get_name("tensor_get_data"))
    with pytest.raises(UnknownNameError, match="tensor9"):
        TensorArrayOps(prelude, "int32").get_ctor("tensor9")


def test_everything_is_typed():
    prelude = Prelude()
    TensorArrayOps(prelude, "float16").register()
    StaticTensorArrayOps(prelude, "float16", ()).register()
    StaticTensorArrayOps(prelude, "float16", (3,)).register()
    count = len(prelude.mod.get_global_vars())
    TensorArrayOps(prelude, "float16").register()  # a second time changes nothing
    assert len(prelude.mod.get_global_vars()) == count
    mod = InferType()(prelude.mod)
    assert isinstance(mod, ir.IRModule)


def test_shapes_of_arrays():
    static, dynamic = Static(), Dynamic()
    array = array_of(static.prelude, static.make, ROWS)
    found = get_tensor_array_shape(array, "float32", static.prelude)
    assert [int(size) for size in found] == [1, 3]
    array = array_of(dynamic.prelude, dynamic.make, ROWS)
    assert get_tensor_array_shape(array, "float32", dynamic.prelude) is None
    with pytest.raises(TypeMismatchError, match="a list of them"):
        get_tensor_array_shape(one(1), "float32", static.prelude)
