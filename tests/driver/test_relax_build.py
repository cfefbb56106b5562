"""Modules at any stage → executables, checked with numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, te, topi
from tilesmith.driver.kernels import KernelTable
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import FrontendError, ShapeError, TilesmithError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.analysis import is_unscheduled


def run(mod, *inputs, **options):
    """The results of `main` as numpy arrays."""
    executable = relax.build(mod, target="llvm", **options)
    result = executable(*inputs)
    if isinstance(result, tuple):
        return [one.numpy() for one in result]
    return result.numpy()


def random(*shape, seed=0):
    """Random float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def build_function(params, body):
    """A function `main` whose dataflow block `body(builder, *params)` fills."""
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = body(builder, *params)
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    return builder.get()


def tensor(name, shape, dtype="float32"):
    """A parameter."""
    return relax.Var(name, R.Tensor(shape, dtype))


@pytest.mark.parametrize("pipeline", ["default", "zero", None])
def test_operators(pipeline):
    w, b = random(17, 9), random(9, seed=1)

    def body(builder, x):
        product = builder.emit(relax.op.matmul(x, relax.const(w)))
        return builder.emit(relax.op.nn.relu(relax.op.add(product, relax.const(b))))

    mod = build_function([tensor("x", (5, 17))], body)
    x = random(5, 17, seed=2)
    np.testing.assert_allclose(
        run(mod, x, pipeline=pipeline), np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-5
    )


def test_several_results_in_a_tuple():
    def body(builder, x):
        first = builder.emit(relax.op.add(x, x))
        second = builder.emit(relax.op.exp(first))
        return relax.Tuple([first, relax.Tuple([second, x])])

    mod = build_function([tensor("x", (3, 5))], body)
    x = random(3, 5)
    first, (second, same) = relax.build(mod, target="llvm")(x)
    np.testing.assert_allclose(first.numpy(), x + x)
    np.testing.assert_allclose(second.numpy(), np.exp(x + x), rtol=1e-5)
    np.testing.assert_array_equal(same.numpy(), x)


def test_one_value_twice_among_the_results():
    def body(builder, x):
        value = builder.emit(relax.op.add(x, x))
        return relax.Tuple([value, value])

    x = random(4)
    first, second = run(build_function([tensor("x", (4,))], body), x)
    np.testing.assert_array_equal(first, x + x)
    np.testing.assert_array_equal(second, x + x)


def test_symbolic_sizes():
    n = ts.tir.Var("n", "int64")
    w = random(6, 8)

    def body(builder, x):
        product = builder.emit(relax.op.matmul(x, relax.const(w)))
        return builder.emit(relax.op.nn.softmax(product))

    executable = relax.build(build_function([tensor("x", (n, 6))], body), target="llvm")
    for rows in (1, 4, 7, 33):
        x = random(rows, 6, seed=rows)
        logits = x @ w
        want = np.exp(logits - logits.max(-1, keepdims=True))
        want /= want.sum(-1, keepdims=True)
        np.testing.assert_allclose(executable(x).numpy(), want, rtol=1e-4, atol=1e-6)


def test_sizes_that_do_not_fit_are_refused():
    n = ts.tir.Var("n", "int64")
    params = [tensor("x", (n, 3)), tensor("y", (n, 3))]
    mod = build_function(params, lambda builder, x, y: builder.emit(relax.op.add(x, y)))
    executable = relax.build(mod, target="llvm")
    with pytest.raises(ShapeError, match="y"):
        executable(random(2, 3), random(4, 3))


def test_a_function_scheduled_by_hand_is_left_alone():
    @I.ir_module
    class Module:
        @T.prim_func
        def double(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
            for i in T.vectorized(16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * T.float32(2)

        @R.function
        def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
            cls = Module
            with R.dataflow():
                gv = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((16,), "float32"))
                R.output(gv)
            return gv

    assert not is_unscheduled(Module["double"])
    x = random(16)
    np.testing.assert_array_equal(run(Module, x), x * 2)


def test_registered_functions_get_tensors_of_their_own():
    kept = []

    @ts.register_func("tests.driver.scale", override=True)
    def scale(x, out):
        kept.append(x)
        np.copyto(np.from_dlpack(out), x.numpy() * 3)

    def body(builder, x):
        doubled = builder.emit(relax.op.add(x, x))
        scaled = builder.emit(
            relax.call_dps_packed("tests.driver.scale", (doubled,), R.Tensor((5,), "float32"))
        )
        return builder.emit(relax.op.add(scaled, x))

    x = random(5)
    np.testing.assert_allclose(run(build_function([tensor("x", (5,))], body), x), x * 7, rtol=1e-6)
    np.testing.assert_allclose(kept[0].numpy(), x * 2)


def test_errors_of_registered_functions_reach_the_caller():
    @ts.register_func("tests.driver.fail", override=True)
    def fail(x, out):
        raise ValueError("the sensor is off")

    mod = build_function(
        [tensor("x", (5,))],
        lambda builder, x: builder.emit(
            relax.call_dps_packed("tests.driver.fail", (x,), R.Tensor((5,), "float32"))
        ),
    )
    with pytest.raises(Exception, match="the sensor is off"):
        run(mod, random(5))


def test_private_functions_are_taken_as_they_stand():
    builder = relax.BlockBuilder()
    a, b = tensor("a", (4, 6)), tensor("b", (6, 3))
    with builder.function("product", [a, b]):
        with builder.dataflow():
            value = builder.emit(relax.op.nn.relu(relax.op.matmul(a, b)))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    inner = builder.get()["product"].with_attr("Primitive", 1)
    inner = inner.without_attr("global_symbol")
    builder = relax.BlockBuilder()
    name = builder.add_func(inner, "product")
    x, w = tensor("x", (4, 6)), random(6, 3)
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(relax.Call(name, [x, relax.const(w)]))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    data = random(4, 6)
    np.testing.assert_allclose(
        run(builder.get(), data), np.maximum(data @ w, 0), rtol=1e-5, atol=1e-5
    )


def test_equal_kernels_are_compiled_once():
    def body(builder, x):
        value = x
        for _ in range(3):
            value = builder.emit(relax.op.nn.relu(relax.op.add(value, relax.const(random(7)))))
        return value

    mod = relax.transform.LegalizeOps()(build_function([tensor("x", (7,))], body))
    kernels = [variable for variable, f in mod.items() if isinstance(f, ts.tir.PrimFunc)]
    mod["copy"] = mod[kernels[0]].with_attr("global_symbol", "copy")
    table = KernelTable(mod, Target("llvm"))
    symbols = [table.symbol(kernel) for kernel in [*kernels, mod.get_global_var("copy")]]
    assert len(kernels) == len(table.jobs) == 2
    assert symbols[2].name_hint == symbols[0].name_hint == next(iter(table.jobs.values())).symbol


def test_parameters_bound_at_build_time():
    mod = build_function(
        [tensor("x", (3, 4)), tensor("w", (4, 2))],
        lambda builder, x, w: builder.emit(relax.op.matmul(x, w)),
    )
    x, w = random(3, 4), random(4, 2)
    np.testing.assert_allclose(run(mod, x, params={"w": w}), x @ w, rtol=1e-5)


def test_saved_and_loaded(tmp_path):
    w = random(20, 30)
    mod = build_function(
        [tensor("x", (2, 20))],
        lambda builder, x: builder.emit(relax.op.tanh(relax.op.matmul(x, relax.const(w)))),
    )
    executable = relax.build(mod, target="llvm")
    x = random(2, 20)
    path = tmp_path / "model.tsm"
    executable.save(path)
    np.testing.assert_array_equal(ts.load(path)(x).numpy(), executable(x).numpy())
    np.testing.assert_allclose(executable(x).numpy(), np.tanh(x @ w), rtol=1e-4, atol=1e-5)


def test_large_products_run_over_register_tiles():
    w = random(96, 64)
    mod = build_function(
        [tensor("x", (48, 96))],
        lambda builder, x: builder.emit(relax.op.nn.relu(relax.op.matmul(x, relax.const(w)))),
    )
    x = random(48, 96)
    np.testing.assert_allclose(run(mod, x), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
    text = ts.driver.stages(mod, "llvm", "tir")
    assert "T.vectorized" in text and 'scope="local"' in text


@pytest.mark.parametrize(
    "size, channels, kernel, stride, padding, groups",
    [
        (14, 16, 3, 1, 1, 1),
        (15, 24, 3, 2, 1, 1),
        (9, 8, 1, 1, 0, 1),
        (13, 16, 5, 2, 2, 16),
        (7, 12, 3, 1, 1, 3),
        (11, 10, 3, 1, 0, 1),
    ],
)
def test_convolutions(size, channels, kernel, stride, padding, groups):
    torch = pytest.importorskip("torch")
    w = random(channels, channels // groups, kernel, kernel)
    b = random(1, channels, 1, 1, seed=3)

    def body(builder, x):
        y = relax.op.nn.conv2d(x, relax.const(w), strides=stride, padding=padding, groups=groups)
        y = builder.emit(relax.op.nn.relu(relax.op.add(builder.emit(y), relax.const(b))))
        return builder.emit(relax.op.nn.max_pool2d(y, pool_size=2, strides=2))

    x = random(2, channels, size, size)
    y = torch.nn.functional.conv2d(
        torch.from_numpy(x), torch.from_numpy(w), stride=stride, padding=padding, groups=groups
    )
    want = torch.nn.functional.max_pool2d(torch.relu(y + torch.from_numpy(b)), 2).numpy()
    got = run(build_function([tensor("x", x.shape)], body), x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_emit_te_beside_operators():
    def body(builder, x):
        value = builder.emit_te(topi.nn.softmax, x)
        return builder.emit(relax.op.multiply(value, relax.const(2.0, "float32")))

    x = random(3, 10)
    want = np.exp(x - x.max(-1, keepdims=True))
    want = 2 * want / want.sum(-1, keepdims=True)
    np.testing.assert_allclose(
        run(build_function([tensor("x", (3, 10))], body), x), want, rtol=1e-5
    )


def test_unknown_modes_are_refused():
    mod = build_function([tensor("x", (3,))], lambda builder, x: builder.emit(relax.op.exp(x)))
    with pytest.raises(UnsupportedError, match="exec_mode"):
        relax.build(mod, target="llvm", exec_mode="fast")
    with pytest.raises(TilesmithError, match="nonsense"):
        relax.build(mod, target="nonsense")


@pytest.mark.parametrize("chosen", [True, False])
def test_branches(chosen):
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((6,), "float32")) -> R.Tensor(
            (6,), "float32"
        ):
            if c:
                y = R.add(x, x)
            else:
                y = R.exp(x)
            return y

    x = random(6)
    got = run(Module, np.array(chosen), x)
    np.testing.assert_allclose(got, x + x if chosen else np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_on_what_was_computed(chosen):
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((6,), "float32")) -> R.Tensor:
            d = R.logical_not(c)
            if d:
                y = R.add(x, x)
            else:
                y = R.exp(x)
            return y

    x = random(6)
    got = run(Module, np.array(not chosen), x)
    np.testing.assert_allclose(got, x + x if chosen else np.exp(x), rtol=1e-5)


def test_local_functions():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((6,), "float32")) -> R.Tensor((6,), "float32"):
            @R.function
            def double(y: R.Tensor((6,), "float32")) -> R.Tensor((6,), "float32"):
                return R.add(y, y)

            once = double(x)
            twice = double(once)
            return twice

    x = random(6)
    np.testing.assert_array_equal(run(Module, x), x * 4)


def test_compile_builds_tensor_programs():
    a = te.placeholder((4,), name="A")
    function = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1)])
    for given in (function, ts.IRModule({"main": function})):
        module = ts.compile(given, target="llvm")
        target = ts.nd.empty((4,))
        module.mod["main"](np.zeros(4, "float32"), target)
        assert (target.numpy() == 1).all()
    with pytest.raises(FrontendError, match="not a model that can be compiled"):
        ts.compile(3)
