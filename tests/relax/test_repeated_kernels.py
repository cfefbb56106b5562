"""Kernels of equal layers, which a pass makes once."""

import numpy as np
import pytest

from tilesmith import relax, te, topi
from tilesmith.ir import Op
from tilesmith.ir.structural import structural_equal
from tilesmith.relax import op
from tilesmith.relax import transform as passes
from tilesmith.relax.transform.repeated_kernels import RepeatedKernels


def tensor(name, shape, dtype="float32"):
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


class Counted:
    """A function of te tensors that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x, y, factor=1):
        self.calls += 1
        return topi.add(topi.multiply(x, factor), y)


def calls(*arguments, **more):
    """What a function is called with by turns, and how often it is then called."""
    x, y, u = tensor("x", (4, 5)), tensor("y", (4, 5)), tensor("u", (4, 5))
    function, builder = Counted(), relax.BlockBuilder()
    kernels = RepeatedKernels(builder)
    with builder.function("main", [x, y, u]):
        made = [kernels.call_te(function, x, y), kernels.call_te(function, u, *arguments, **more)]
        plain = relax.BlockBuilder(builder.get())
        with plain.function("other", [x, y, u]):
            wanted = [plain.call_te(function, x, y), plain.call_te(function, u, *arguments, **more)]
            plain.emit_func_output(x)
        builder.emit_func_output(x)
    for one, other in zip(made, wanted):
        assert one.args[0].name_hint == other.args[0].name_hint
        assert list(one.args[1].fields) == list(other.args[1].fields)
        assert structural_equal(one.sinfo_args, other.sinfo_args)
    return function.calls - 2  # those of the plain builder


def test_equal_layers_make_their_kernel_once():
    assert calls(tensor("v", (4, 5))) == 1
    assert calls(relax.const(np.ones((4, 5), "float32"))) == 1


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ((tensor("v", (4, 1)),), {}),
        ((tensor("v", (4, 5)), 2), {}),
        ((tensor("v", (4, 5)),), {"factor": 2}),
        ((tensor("v", (4, 5)),), {"factor": 1.0}),
        ((tensor("v", (4, 5)),), {"factor": True}),
    ],
)
def test_other_arguments_make_another_kernel(arguments, more):
    assert calls(*arguments, **more) == 2


def test_symbolic_sizes_are_made_each_time():
    n = te.var("n", "int64")
    x = tensor("x", (n, 5))
    function, builder = Counted(), relax.BlockBuilder()
    kernels = RepeatedKernels(builder)
    with builder.function("main", [x]):
        first, second = kernels.call_te(function, x, x), kernels.call_te(function, x, x)
        builder.emit_func_output(x)
    assert function.calls == 2
    assert first.args[0] is second.args[0]  # the module holds one of two equal functions


def test_layers_of_a_network_share_packed_convolutions():
    rng = np.random.default_rng(0)
    x = tensor("x", (1, 32, 10, 10))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(3):
                weights = relax.const(rng.standard_normal((32, 32, 3, 3)).astype("float32"))
                value = builder.emit(op.nn.relu(op.nn.conv2d(value, weights, padding=1)))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    packed = passes.PackForVectors("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")(
        builder.get()
    )
    kernels = [name.name_hint for name in packed.functions if name.name_hint.startswith("conv2d")]
    (block,) = packed["main"].body.blocks
    values = [binding.value for binding in block.bindings]
    kernels_called = [one for one in values if getattr(one, "op", None) == Op.get("relax.call_tir")]
    called = [str(one.args[0].name_hint) for one in kernels_called]
    assert called == kernels * 3 and len(kernels) == 1
