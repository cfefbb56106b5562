"""Sums of narrow floats and over long axes: errors at most twice those of torch."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.relax import op
from tilesmith.script import relax as R

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def run(body, *arrays):
    """What a graph of operators gives for arrays."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{k}", R.Tensor(a.shape, str(a.dtype))) for k, a in enumerate(arrays)]
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(body(*params))
        builder.emit_func_output(output)
    return relax.build(builder.get(), target="llvm")(*arrays).numpy()


def numbers(*shape, seed=0):
    """Random float32 with a mean that is not 0, so that sums grow."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32") + np.float32(0.25)


def narrow(array, dtype):
    """A torch tensor of a narrow dtype, and the same in numpy."""
    import ml_dtypes

    tensor = torch.from_numpy(array).to(getattr(torch, dtype))
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return tensor, tensor.float().numpy().astype(kind)


CASES = {
    "matmul": (op.matmul, torch.matmul, (4, 4096), (4096, 16)),
    "matmul_vector": (op.matmul, torch.matmul, (4096,), (4096, 16)),
    "batch_matmul": (op.matmul, torch.matmul, (2, 4, 2048), (2, 2048, 16)),
    "einsum": (
        lambda a, b: op.einsum((a, b), "bhid,bhjd->bhij"),
        lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
        (1, 2, 8, 1024),
        (1, 2, 8, 1024),
    ),
    "dense": (op.nn.dense, functional.linear, (4, 4096), (16, 4096)),
    "conv1d": (op.nn.conv1d, functional.conv1d, (1, 256, 20), (16, 256, 5)),
    "conv2d": (op.nn.conv2d, functional.conv2d, (1, 256, 8, 8), (16, 256, 3, 3)),
    "conv3d": (op.nn.conv3d, functional.conv3d, (1, 64, 5, 5, 5), (8, 64, 3, 3, 3)),
    "depthwise": (
        lambda x, w: op.nn.conv2d(x, w, groups=16),
        lambda x, w: functional.conv2d(x, w, groups=16),
        (1, 16, 20, 20),
        (16, 1, 13, 13),
    ),
    "conv2d_transpose": (
        lambda x, w: op.nn.conv2d_transpose(x, w, strides=2),
        lambda x, w: functional.conv_transpose2d(x, w, stride=2),
        (1, 256, 6, 6),
        (256, 8, 4, 4),
    ),
    "sum": (op.sum, torch.sum, (50, 100)),
    "sum_rows": (lambda x: op.sum(x, 1), lambda x: x.sum(1), (8, 3000)),
    "mean_columns": (lambda x: op.mean(x, 0), lambda x: x.mean(0), (3000, 8)),
    "prod": (lambda x: op.prod(x, 1), lambda x: x.prod(1), (8, 30)),
    "variance": (
        lambda x: op.variance(x, 1),
        lambda x: x.float().var(1, unbiased=False).to(x.dtype),
        (8, 3000),
    ),
    "std": (op.std, lambda x: x.float().std(unbiased=False).to(x.dtype), (8, 1000)),
    "avg_pool2d": (
        lambda x: op.nn.avg_pool2d(x, pool_size=[16, 16]),
        lambda x: functional.avg_pool2d(x, 16, 1),
        (1, 4, 24, 24),
    ),
    "adaptive_avg_pool2d": (
        lambda x: op.nn.adaptive_avg_pool2d(x, output_size=[1, 1]),
        lambda x: functional.adaptive_avg_pool2d(x, 1),
        (1, 4, 48, 48),
    ),
    "softmax": (op.nn.softmax, lambda x: x.softmax(-1), (4, 3000)),
    "log_softmax": (op.nn.log_softmax, lambda x: x.log_softmax(-1), (4, 3000)),
    "layer_norm": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]),
        lambda x, g, b: functional.layer_norm(x, (3000,), g, b),
        (4, 3000),
        (3000,),
        (3000,),
    ),
    "group_norm": (
        lambda x, g, b: op.nn.group_norm(x, g, b, num_groups=4, channel_axis=1, axes=[2, 3]),
        lambda x, g, b: functional.group_norm(x, 4, g, b),
        (2, 8, 20, 20),
        (8,),
        (8,),
    ),
    "instance_norm": (
        lambda x, g, b: op.nn.instance_norm(x, g, b, channel_axis=1, axes=[2, 3]),
        lambda x, g, b: functional.instance_norm(x, weight=g, bias=b),
        (2, 8, 40, 40),
        (8,),
        (8,),
    ),
    "rms_norm": (
        lambda x, g: op.nn.rms_norm(x, g, axes=[-1]),
        lambda x, g: functional.rms_norm(x, (3000,), g, 1e-5),
        (4, 3000),
        (3000,),
    ),
    "attention": (
        op.nn.attention,
        lambda q, k, v: functional.scaled_dot_product_attention(
            *[x.transpose(1, 2) for x in (q, k, v)]
        ).transpose(1, 2),
        (1, 8, 2, 64),
        (1, 300, 2, 64),
        (1, 300, 2, 64),
    ),
    "cumsum": (lambda x: op.cumsum(x, 1), lambda x: x.cumsum(1), (2, 1000)),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_narrow_floats_are_added_in_float32(name, dtype):
    ours, theirs, *shapes = CASES[name]
    made = [narrow(numbers(*shape, seed=k), dtype) for k, shape in enumerate(shapes)]
    tensors = [tensor for tensor, _ in made]
    want = theirs(*[tensor.double() for tensor in tensors]).numpy()
    rival = np.abs(theirs(*tensors).double().numpy() - want).max()
    got = run(ours, *[array for _, array in made])
    assert got.dtype == made[0][1].dtype
    unit = np.abs(want).max() * (2**-8 if dtype == "bfloat16" else 2**-11)
    assert np.abs(got.astype("float64") - want).max() <= max(2 * rival, unit)


def test_constant_weights_are_packed_in_narrow_floats():
    x, w = narrow(numbers(1, 64, 12, 12), "float16"), narrow(numbers(32, 64, 3, 3), "float16")
    b = narrow(numbers(32, 1, 1), "float16")

    def body(value):
        return op.nn.relu(op.add(op.nn.conv2d(value, relax.const(w[1])), relax.const(b[1])))

    want = functional.relu(functional.conv2d(x[0].double(), w[0].double()) + b[0].double())
    got = run(body, x[1])
    assert np.abs(got.astype("float64") - want.numpy()).max() <= 2**-10 * want.abs().max()


@pytest.mark.parametrize("size", [4097, 5003, 12345, 100000, 1000003])
def test_sums_over_long_axes_go_by_blocks(size):
    x = np.full((3, size), 0.1, "float32")
    for body in (op.sum, lambda v: op.sum(v, 1), lambda v: op.sum(v, 1, True), op.mean):
        got = run(body, x)
        want = run(body, x.astype("float64"))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    "shape, axis", [((5000, 7), 0), ((9, 4100, 5), 1), ((90, 70, 3, 50), None)]
)
def test_long_reductions_over_outer_and_several_axes(shape, axis):
    x = numbers(*shape)
    wide = x.astype("float64")
    np.testing.assert_allclose(run(lambda v: op.sum(v, axis), x), wide.sum(axis), rtol=1e-5)
    np.testing.assert_allclose(run(lambda v: op.variance(v, axis), x), wide.var(axis), rtol=1e-5)
    small = np.exp2(np.sign(x - 0.25))
    many = run(
        lambda v: op.prod(v, axis), np.where(np.arange(x.size).reshape(shape) % 999, 1, small)
    )
    assert np.isfinite(many).all()


def test_the_mean_of_very_many_equal_numbers():
    got = run(op.mean, np.full(25_000_000, 0.1, "float32"))
    assert abs(got - np.float32(0.1)) < 1e-7


def test_products_of_long_vectors_go_by_blocks():
    x, ones = np.full(1_000_000, 0.1, "float32"), np.ones(1_000_000, "float32")
    assert abs(run(op.matmul, x, ones) - 100_000) < 1
