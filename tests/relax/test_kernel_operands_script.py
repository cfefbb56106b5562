"""Calls of kernels whose operands do not fit are refused where they are written."""

import pytest

from tilesmith import relax
from tilesmith.ir import IRModule, Var
from tilesmith.relax.analysis import assert_well_formed, well_formed
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, VerifyError


@T.prim_func(private=True)
def fixed(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] + T.float32(1)


@T.prim_func(private=True)
def symbolic(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4))
    B = T.match_buffer(b, (n + 1,))
    C = T.match_buffer(c, (n,))
    for i in range(n):
        C[i] = A[i, 0] + B[i + 1]


@T.prim_func(private=True)
def scaled(A: T.Buffer((8,), "float32"), s: T.float32, B: T.Buffer((8,), "float32"), k: T.int64):
    for i in range(8):
        B[i] = A[i] * s * T.Cast("float32", k)


N, M = Var("n", "int64"), Var("m", "int64")


def call(kernel, infos, out, make=relax.op.call_tir, **options):
    """Emit a call with a builder; return the module."""
    builder = relax.BlockBuilder()
    variable = builder.add_func(kernel, "kernel")
    params = [relax.Var(f"x{place}", info) for place, info in enumerate(infos)]
    with builder.function("main", params):
        with builder.dataflow():
            made = builder.emit(make(variable, params, out_sinfo=out, **options))
            output = builder.emit_output(made)
        builder.emit_func_output(output)
    return builder.get()


def tensor(*shape, dtype="float32"):
    return relax.TensorStructInfo(shape, dtype)


UNKNOWN = relax.TensorStructInfo(None, "float32", ndim=1)
REFUSED = {
    "size": (fixed, [tensor(4)], tensor(8), "'A' with axis 0 of size 8, it is given size 4"),
    "result": (fixed, [tensor(8)], tensor(9), "'B' with axis 0 of size 8, it is given size 9"),
    "rank": (fixed, [tensor(8, 1)], tensor(8), "'A' with 1 dimensions, it is given 2"),
    "unknown sizes": (
        fixed,
        [relax.TensorStructInfo(None, "float32", ndim=2)],
        tensor(8),
        "'A' with 1 dimensions, it is given 2",
    ),
    "dtype": (fixed, [tensor(8, dtype="int32")], tensor(8), "'A' of float32, it is given int32"),
    "too few": (fixed, [], tensor(8), "has 2 parameters, it is given 1"),
    "too many": (fixed, [tensor(8), tensor(8)], tensor(8), "has 2 parameters, it is given 3"),
    "number": (fixed, [relax.PrimStructInfo("float32")], tensor(8), "takes the tensor 'A'"),
    "symbols differ by one": (
        symbolic,
        [tensor(N, 4), tensor(N + 2)],
        tensor(N),
        "'B' with axis 0 of size n.*, it is given size n",
    ),
    "one symbol, two sizes": (
        symbolic,
        [tensor(3, 4), tensor(4)],
        tensor(5),
        "'C' with axis 0 of size 3, it is given size 5",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_builder_refuses(name):
    kernel, infos, out, message = REFUSED[name]
    with pytest.raises(ShapeError, match=message) as caught:
        call(kernel, infos, out)
    assert "test_kernel_operands_script.py" in str(caught.value)


FITTING = {
    "sizes": (fixed, [tensor(8)], tensor(8)),
    "unknown": (fixed, [UNKNOWN], tensor(8)),
    "size known when it runs": (fixed, [tensor(N)], tensor(8)),
    "symbols": (symbolic, [tensor(N, 4), tensor(N + 1)], tensor(N)),
    "other symbols": (symbolic, [tensor(N, 4), tensor(M)], tensor(N)),
    "numbers for symbols": (symbolic, [tensor(3, 4), tensor(4)], tensor(3)),
    "object": (fixed, [relax.ObjectStructInfo()], tensor(8)),
}


@pytest.mark.parametrize("name", FITTING)
def test_builder_takes(name):
    module = call(*FITTING[name])
    assert_well_formed(module)


def test_numbers():
    infos = [tensor(8), relax.PrimStructInfo("float32")]
    builder = call(scaled, infos, tensor(8), tir_vars=relax.ShapeExpr([5]))
    assert_well_formed(builder)
    with pytest.raises(ShapeError, match="4 parameters, it is given 3"):
        call(scaled, infos, tensor(8))


def test_results_in_place():
    @T.prim_func(private=True)
    def doubled(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = A[i] * T.float32(2)

    make = lambda *args, **named: relax.op.call_tir_inplace(*args, inplace_indices=[0], **named)
    call(doubled, [tensor(8)], tensor(8), make)
    with pytest.raises(ShapeError, match="size 8, it is given size 6"):
        call(doubled, [tensor(6)], tensor(6), make)


def test_with_gradient():
    make = lambda *args, **named: relax.op.call_tir_with_grad(*args, te_grad_name="g", **named)
    call(fixed, [tensor(8)], tensor(8), make)
    with pytest.raises(ShapeError, match="size 8, it is given size 6"):
        call(fixed, [tensor(6)], tensor(8), make)


@pytest.mark.parametrize("name", REFUSED)
def test_well_formed(name):
    """The same is said of modules that were not made by a builder with the kernel at hand."""
    kernel, infos, out, message = REFUSED[name]

    module = IRModule({"kernel": kernel})
    variable = module.get_global_var("kernel")
    params = [relax.Var(f"x{place}", info) for place, info in enumerate(infos)]
    made = relax.Var("y", out)
    binding = relax.VarBinding(made, relax.op.call_tir(variable, params, out))
    body = relax.SeqExpr([relax.BindingBlock([binding])], made)
    module["main"] = relax.Function(params, body, out)
    assert not well_formed(module)
    with pytest.raises(VerifyError, match=message):
        assert_well_formed(module)


SCRIPT = """
@I.ir_module{options}
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((8,), "float32"))
            R.output(y)
        return y

    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i]
"""


def test_scripts():
    with pytest.raises(ShapeError) as caught:
        from_source(SCRIPT.format(options=""))
    text = str(caught.value)
    assert "kernel 'f' takes 'A' with axis 0 of size 8, it is given size 4" in text
    assert "y = R.call_tir(cls.f" in text and "^^^^" in text
    module = from_source(SCRIPT.format(options="(check_well_formed=False)"))
    assert not well_formed(module)
