"""Passes that exchange kernels: FastMathTransform, AlterOpImpl, SplitCallTIRByPattern."""

import numpy as np
import pytest

from tilesmith import relax, tir
from tilesmith.codegen.c.source_module import PACKED_INTERFACE, packed_wrapper
from tilesmith.ir import structural_equal
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.runtime import module_from_functions
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnknownNameError
from tilesmith.tir.analysis.kernel_patterns import match_kernel, root_statements

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def build(make, *shapes, dtype="float32"):
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{k}", R.Tensor(s, dtype)) for k, s in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            value = builder.emit_output(make(*params))
        builder.emit_func_output(value)
    return builder.get()


def same_meaning(before, after, *arrays):
    analysis.assert_well_formed(after)
    want = interpreter.run(before, "main", *arrays)
    got = interpreter.run(after, "main", *arrays)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "make, kernel",
    [
        (op.exp, "fast_exp"),
        (op.tanh, "fast_tanh"),
        (op.erf, "fast_erf"),
        (lambda x: op.nn.softmax(x, axis=0), "fast_softmax"),
    ],
)
def test_fast_functions(make, kernel):
    module = build(make, (3, 4))
    changed = transform.FastMathTransform()(module)
    (binding,) = analysis.bindings_of(changed["main"])
    assert binding.value.op.name == "relax.call_tir"
    assert binding.value.args[0].name_hint == kernel
    same_meaning(module, changed, f32(3, 4))
    wide = build(make, (3, 4), dtype="float64")
    assert transform.FastMathTransform()(wide)["main"] is wide["main"]


# AlterOpImpl


@I.ir_module
class Added:
    @T.prim_func(private=True)
    def add(
        a: T.Buffer((14,), "float32"), b: T.Buffer((14,), "float32"), c: T.Buffer((14,), "float32")
    ):
        T.func_attr({"operator_name": "relax.add"})
        for i in range(14):
            with T.block("add"):
                vi = T.axis.spatial(14, i)
                c[vi] = a[vi] + b[vi]

    @R.function
    def main(x: R.Tensor((14,), "float32"), y: R.Tensor((14,), "float32")) -> R.Tensor(
        (14,), "float32"
    ):
        cls = Added
        with R.dataflow():
            lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((14,), "float32"))
            gv = R.exp(lv)
            R.output(gv)
        return gv


@T.prim_func(private=True)
def add_packed(
    a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32"), c: T.Buffer((4, 4), "float32")
):
    for i, j in T.grid(4, 4):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vi, vj] + b[vi, vj]


@T.prim_func(private=True)
def add_pairs(
    a: T.Buffer((7, 2), "float32"), b: T.Buffer((7, 2), "float32"), c: T.Buffer((7, 2), "float32")
):
    for i, j in T.grid(7, 2):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vi, vj] + b[vi, vj]


def by(width):
    return lambda i: (i // width, i % width)


def kinds(module):
    values = [binding.value for binding in analysis.bindings_of(module["main"])]
    return [
        value.args[0].name_hint if value.op.name == "relax.call_tir" else value.op.name
        for value in values
    ]


def test_another_kernel_with_tensors_in_its_layout():
    changed = transform.AlterOpImpl({"relax.add": add_pairs}, {"relax.add": [by(2)] * 3}, {}, {})(
        Added
    )
    assert kinds(changed) == [
        "relax.layout_transform",
        "relax.layout_transform",
        "relax_add_replacement",
        "relax.layout_transform",
        "relax.exp",
    ]
    assert changed["relax_add_replacement"].attrs["operator_name"] == "relax.add"
    same_meaning(Added, changed, f32(14), f32(14))


def test_what_a_layout_adds_is_removed():
    changed = transform.AlterOpImpl({"relax.add": add_packed}, {"relax.add": [by(4)] * 3})(Added)
    assert kinds(changed)[2:] == [
        "relax_add_replacement", "relax.layout_transform", "remove_pad", "relax.exp",
    ]  # fmt: skip
    same_meaning(Added, changed, f32(14), f32(14))


def test_kernels_of_the_same_layout_and_other_operators():
    same = Added["add"]
    changed = transform.AlterOpImpl({"relax.add": same}, {"relax.add": [None] * 3})(Added)
    assert kinds(changed)[-1] == "relax.exp" and len(kinds(changed)) == 2
    other = transform.AlterOpImpl({"relax.mul": add_packed}, {})(Added)
    assert structural_equal(other, Added)


@pytest.mark.parametrize(
    "kernels, transforms, error, message",
    [
        ({"relax.add": add_pairs}, {"relax.add": [by(2)]}, ShapeError, "1 transformations"),
        ({}, {"relax.add": [by(2)] * 3}, UnknownNameError, "no kernel for 'relax.add'"),
        ({"relax.add": "add"}, {}, TypeMismatchError, "is a PrimFunc"),
    ],
)
def test_kernels_that_do_not_fit(kernels, transforms, error, message):
    with pytest.raises(error, match=message):
        transform.AlterOpImpl(kernels, transforms)(Added)


# SplitCallTIRByPattern


@T.prim_func(private=True)
def product(var_a: T.handle, var_b: T.handle, var_c: T.handle, m: T.int64, n: T.int64, k: T.int64):
    a = T.match_buffer(var_a, (m, k))
    b = T.match_buffer(var_b, (k, n))
    c = T.match_buffer(var_c, (m, n))
    for i, j, r in T.grid(m, n, k):
        with T.block("product"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vr] * b[vr, vj]


@T.prim_func(private=True)
def shifted(var_a: T.handle, var_b: T.handle, var_c: T.handle, m: T.int64, n: T.int64):
    a = T.match_buffer(var_a, (m, n))
    b = T.match_buffer(var_b, (n,))
    c = T.match_buffer(var_c, (m, n))
    for i, j in T.grid(m, n):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vi, vj] + b[vj]


@T.prim_func(private=True)
def windows(var_a: T.handle, var_c: T.handle, n: T.int64, stride: T.int64):
    a = T.match_buffer(var_a, (n,))
    c = T.match_buffer(var_c, ((n - 1) // stride + 1,))
    for i in T.grid((n - 1) // stride + 1):
        with T.block("take"):
            vi = T.axis.spatial((n - 1) // stride + 1, i)
            c[vi] = a[vi * stride]


def fused(*shapes, make=None):
    module = build(
        make or (lambda x, w, b: op.nn.relu(op.add(op.matmul(x, w), b))),
        *(shapes or [(2, 3), (3, 4), (4,)]),
    )
    for name in (
        "LegalizeOps",
        "AnnotateTIROpPattern",
        "FuseOps",
        "FuseTIR",
        "DeadCodeElimination",
    ):
        module = getattr(transform, name)()(module)
    return module


def test_patterns_with_symbols():
    kernel = fused()["fused_matmul_add_relu"]
    statements, _ = root_statements(kernel)
    found = match_kernel(product, statements)
    assert [found.symbols[one].value for one in product.params[3:]] == [2, 4, 3]
    assert [found.buffers[one] for one in product.buffers][:2] == kernel.buffers[:2]
    assert match_kernel(shifted, statements) is None
    assert match_kernel(shifted, statements[1:]) is not None


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_symbols_that_only_indices_have(stride):
    count = 9 // stride + 1

    @T.prim_func(private=True)
    def kernel(a: T.Buffer((T.int64(10),)), c: T.Buffer((T.int64(count),))):
        for i in T.grid(T.int64(count)):
            with T.block("take"):
                vi = T.axis.spatial(T.int64(count), i)
                c[vi] = a[vi * T.int64(stride)]

    found = match_kernel(windows, root_statements(kernel)[0])
    assert [found.symbols[one].value for one in windows.params[2:]] == [10, stride]


SOURCE = (
    "#include <stdint.h>\n"
    + PACKED_INTERFACE
    + """
static int product_and_sum(float* w, float* x, float* b, float* y) {
  for (int i = 0; i < 2; ++i) for (int j = 0; j < 4; ++j) {
    float sum = b[j];
    for (int k = 0; k < 3; ++k) sum += x[i * 3 + k] * w[k * 4 + j];
    y[i * 4 + j] = sum;
  }
  return 0;
}
"""
)


def test_a_library_computes_the_beginning():
    module = fused()
    seen = []

    def codegen(matches):
        seen.append([(one.pattern, one.symbol_values) for one in matches])
        x, w, _ = matches[0].matched_buffers
        _, b, y = matches[1].matched_buffers
        wrapper = packed_wrapper("{global_symbol}", "product_and_sum", ["float"] * 4)
        return [SOURCE + wrapper, 2, [w, x, b, y]]

    changed = transform.SplitCallTIRByPattern([shifted, product], codegen)(module)
    assert seen == [[(product, [2, 4, 3]), (shifted, [2, 4])]]
    first, second = [binding.value for binding in analysis.bindings_of(changed["main"])]
    assert first.op.name == "relax.call_dps_packed"
    assert first.args[0].global_symbol == "fused_matmul_add_relu_library"
    assert [arg.name_hint for arg in first.args[1]] == ["p1", "p0", "p2"]
    assert len(root_statements(changed["fused_matmul_add_relu"])[0]) == 1
    analysis.assert_well_formed(changed)
    arrays = [f32(2, 3), f32(3, 4), f32(4)]
    got = relax.build(changed, "llvm")(*arrays).numpy()
    np.testing.assert_allclose(got, np.maximum(arrays[0] @ arrays[1] + arrays[2], 0), rtol=1e-5)


@pytest.mark.parametrize("count", [0, 1])
def test_part_of_the_matches_or_the_whole_kernel(count):
    module = fused((2, 3), (3, 4), make=op.matmul)
    library = module_from_functions(
        {"matmul_library": lambda x, w, y: y.copyfrom(x.numpy() @ w.numpy())}
    )
    changed = transform.SplitCallTIRByPattern([product], lambda found: [library, count, []])(module)
    (binding,) = analysis.bindings_of(changed["main"])
    assert binding.value.op.name == ("relax.call_dps_packed" if count else "relax.call_tir")
    assert ("external_mods" in changed.attrs) == bool(count)
    x, w = f32(2, 3), f32(3, 4)
    np.testing.assert_allclose(relax.build(changed, "llvm")(x, w).numpy(), x @ w, rtol=1e-5)


def test_arguments_that_the_part_does_not_have():
    wrong = tir.decl_buffer((3,), "float32", "wrong")
    with pytest.raises(TypeMismatchError, match="names other arguments"):
        transform.SplitCallTIRByPattern([product], lambda found: ["", 1, [wrong]])(fused())


# OptimizeLayoutTransform


@pytest.mark.parametrize("width, kernel", [(2, add_pairs), (4, add_packed)])
def test_transformations_between_kernels_of_the_same_layout(width, kernel):
    module = build(lambda x, y: op.add(op.add(x, y), y), (14,), (14,))
    module = transform.LegalizeOps()(module)
    module["add"] = module["add"].with_attr("operator_name", "relax.add")
    altered = transform.AlterOpImpl({"relax.add": kernel}, {"relax.add": [by(width)] * 3})(module)
    changed = transform.OptimizeLayoutTransform()(altered)
    before, after = kinds(altered), kinds(changed)
    # between the kernels: the way back, and there again
    assert before.count("relax.layout_transform") - after.count("relax.layout_transform") == 2
    assert after.count("remove_pad") == (1 if width == 4 else 0)
    same_meaning(module, changed, f32(14), f32(14))


def test_transformations_that_do_not_undo_one_another():
    module = build(
        lambda x: op.layout_transform(op.layout_transform(x, lambda i, j: (j, i)), by_rows), (3, 3)
    )
    assert transform.OptimizeLayoutTransform()(module)["main"] is module["main"]


def by_rows(i, j):
    return i, j


# DataflowUseInplaceCalls


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor(
        (2, 3), "float32"
    ):
        with R.dataflow():
            a = R.exp(x)  # its argument is not ours
            b = R.add(a, y)  # over a
            c = R.multiply(b, b)  # twice the same
            d = R.reshape(c, (2, 3))
            e = R.negative(d)  # a view
            f = R.add(b, e)  # over b
            g = R.astype(f, "float16")  # another dtype
            h = R.astype(g, "float32")
            gv = R.tanh(h)  # over h
            R.output(gv)
        return gv


def test_operators_in_place():
    changed = transform.DataflowUseInplaceCalls()(Chain)
    analysis.assert_well_formed(changed)
    bindings = analysis.bindings_of(changed["main"])
    found = {
        one.var.name_hint: (one.value.args[0].name_hint, list(one.value.attrs.inplace_indices))
        for one in bindings
        if one.value.op.name == "relax.call_tir_inplace"
    }
    assert found == {
        "b": ("add_inplace", [0]), "f": ("add_inplace1", [0]), "gv": ("tanh_inplace", [0]),
    }  # fmt: skip
    assert len(changed["add_inplace"].params) == 2
    arrays = [f32(2, 3) / 4, f32(3) / 4]
    want = interpreter.run(Chain, "main", *arrays)
    np.testing.assert_allclose(interpreter.run(changed, "main", *arrays), want, rtol=1e-3)
    compiled = relax.build(changed, "llvm")(*arrays).numpy()
    np.testing.assert_allclose(compiled, want, rtol=1e-3)


# AllocateWorkspace


@I.ir_module
class External:
    @R.function
    def attention(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "library"})

        @R.function
        def local(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Composite": "library.attention", "WorkspaceSize": 64})
            with R.dataflow():
                z = R.exp(y)
                R.output(z)
            return z

        out = local(x)
        return out

    @R.function
    def plain(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "library"})
        with R.dataflow():
            z = R.exp(x)
            R.output(z)
        return z

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = External
        with R.dataflow():
            a = cls.attention(x)
            b = cls.plain(a)
            c = cls.attention(b)
            R.output(c)
        return c


def test_one_workspace_for_all():
    changed = transform.AllocateWorkspace()(External)
    assert [one.name_hint for one in changed["attention"].params] == ["x", "workspace"]
    local = changed["attention"].body.blocks[0].bindings[0].value
    assert local.params[-1].struct_info.concrete_shape == (64,)
    assert len(changed["plain"].params) == 1
    first, a, b, c = analysis.bindings_of(changed["main"])
    assert first.var.name_hint == "workspace_main" and first.value.args[1].value == "uint8"
    assert a.value.args[-1] is first.var and c.value.args[-1] is first.var
    assert len(b.value.args) == 1
    same_meaning(External, changed, f32(4))
    assert structural_equal(transform.AllocateWorkspace()(Chain), Chain)
