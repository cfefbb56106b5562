"""Gradients against torch."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.relax.op import grad
from tilesmith.script import relax as R
from tilesmith.support.errors import OpNotImplemented, TypeMismatchError

torch = pytest.importorskip("torch")
F = torch.nn.functional
rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def positive(*shape):
    return (rng.random(shape) + 0.5).astype("float32")


LABELS = np.array([1, 0, 2], "int64")

# name: (graph, torch, arrays)
CASES = {
    "add": (lambda a, b: op.add(a, b), lambda a, b: a + b, [f32(3, 4), f32(4)]),
    "subtract": (lambda a, b: op.subtract(a, b), lambda a, b: a - b, [f32(3, 1), f32(3, 4)]),
    "multiply": (lambda a, b: op.multiply(a, b), lambda a, b: a * b, [f32(3, 4), f32(3, 1)]),
    "divide": (lambda a, b: op.divide(a, b), lambda a, b: a / b, [f32(3, 4), positive(4)]),
    "power": (lambda a, b: op.power(a, b), lambda a, b: a**b, [positive(3, 4), f32(3, 4)]),
    "maximum": (op.maximum, torch.maximum, [f32(3, 4), f32(3, 4)]),
    "minimum": (op.minimum, torch.minimum, [f32(3, 4), f32(3, 4)]),
    "where": (
        lambda a, b: op.where(op.greater(a, b), op.exp(a), b),
        lambda a, b: torch.where(a > b, torch.exp(a), b),
        [f32(3, 4), f32(3, 4)],
    ),
    **{
        name: (getattr(op, name), getattr(torch, name), [positive(3, 4)])
        for name in (
            "abs",
            "cos",
            "sin",
            "tan",
            "exp",
            "log",
            "sigmoid",
            "sqrt",
            "rsqrt",
            "tanh",
            "erf",
            "negative",
            "square",
        )
    },
    "relu": (op.nn.relu, torch.relu, [f32(3, 4)]),
    "silu": (op.nn.silu, F.silu, [f32(3, 4)]),
    "gelu": (op.nn.gelu, F.gelu, [f32(3, 4)]),
    "leakyrelu": (op.nn.leakyrelu, F.leaky_relu, [f32(3, 4)]),
    "clip": (lambda a: op.clip(a, -0.5, 0.5), lambda a: torch.clip(a, -0.5, 0.5), [f32(3, 4)]),
    "sum": (lambda a: op.exp(op.sum(a, axis=1)), lambda a: torch.exp(a.sum(1)), [f32(3, 4)]),
    "mean": (
        lambda a: op.exp(op.mean(a, axis=[0, 2], keepdims=True)),
        lambda a: torch.exp(a.mean((0, 2), keepdim=True)),
        [f32(3, 4, 2)],
    ),
    "variance": (lambda a: op.variance(a, axis=1), lambda a: a.var(1, correction=0), [f32(3, 4)]),
    "max": (lambda a: op.max(a, axis=1), lambda a: a.amax(1), [f32(3, 4)]),
    "cumsum": (lambda a: op.exp(op.cumsum(a, 1)), lambda a: torch.exp(a.cumsum(1)), [f32(3, 4)]),
    "reshape": (
        lambda a: op.exp(op.reshape(a, (2, 6))),
        lambda a: torch.exp(a.reshape(2, 6)),
        [f32(3, 4)],
    ),
    "permute": (
        lambda a, b: op.multiply(op.permute_dims(a, [2, 0, 1]), b),
        lambda a, b: a.permute(2, 0, 1) * b,
        [f32(2, 3, 4), f32(4, 2, 3)],
    ),
    "concat": (
        lambda a, b: op.exp(op.concat([a, b, a], 1)),
        lambda a, b: torch.exp(torch.cat([a, b, a], 1)),
        [f32(3, 4), f32(3, 2)],
    ),
    "split": (
        lambda a: op.multiply(op.split(a, 2, 1)[0], op.exp(a_part(a))),
        lambda a: a[:, :2] * torch.exp(a[:, :2]),
        [f32(3, 4)],
    ),
    "slice": (
        lambda a: op.exp(op.strided_slice(a, [1], [1], [3])),
        lambda a: torch.exp(a[:, 1:3]),
        [f32(3, 4)],
    ),
    "take": (
        lambda a: op.exp(op.take(a, relax.const(np.array([1, 1, 0])), 0)),
        lambda a: torch.exp(a[[1, 1, 0]]),
        [f32(3, 4)],
    ),
    "tril": (lambda a: op.exp(op.tril(a)), lambda a: torch.exp(torch.tril(a)), [f32(4, 4)]),
    "matmul": (op.matmul, torch.matmul, [f32(3, 4), f32(4, 2)]),
    "matmul_batch": (op.matmul, torch.matmul, [f32(2, 3, 4), f32(4, 2)]),
    "matmul_vector": (op.matmul, torch.matmul, [f32(4), f32(4, 2)]),
    "dense": (op.dense, lambda a, b: a @ b.T, [f32(3, 4), f32(2, 4)]),
    "softmax": (
        lambda a, b: op.multiply(op.nn.softmax(a), b),
        lambda a, b: torch.softmax(a, -1) * b,
        [f32(3, 4), f32(3, 4)],
    ),
    "log_softmax_nll": (
        lambda a: op.nn.nll_loss(op.nn.log_softmax(a), relax.const(LABELS)),
        lambda a: F.cross_entropy(a, torch.from_numpy(LABELS)),
        [f32(3, 4)],
    ),
    "layer_norm": (
        lambda a, g, b: op.exp(op.nn.layer_norm(a, g, b, axes=[-1])),
        lambda a, g, b: torch.exp(F.layer_norm(a, (4,), g, b)),
        [f32(3, 4), f32(4), f32(4)],
    ),
    "conv2d": (
        lambda a, b: op.nn.conv2d(a, b, strides=2, padding=1),
        lambda a, b: F.conv2d(a, b, stride=2, padding=1),
        [f32(2, 3, 6, 5), f32(4, 3, 3, 3)],
    ),
    "conv2d_dilated": (
        lambda a, b: op.nn.conv2d(a, b, dilation=2),
        lambda a, b: F.conv2d(a, b, dilation=2),
        [f32(1, 2, 7, 7), f32(3, 2, 3, 3)],
    ),
    "max_pool2d": (
        lambda a: op.exp(op.nn.max_pool2d(a, 3, 2, 1)),
        lambda a: torch.exp(F.max_pool2d(a, 3, 2, 1)),
        [f32(1, 2, 6, 7)],
    ),
    "avg_pool2d": (
        lambda a: op.exp(op.nn.avg_pool2d(a, 2, 2)),
        lambda a: torch.exp(F.avg_pool2d(a, 2, 2)),
        [f32(1, 2, 6, 4)],
    ),
}


def a_part(a):
    return op.split(a, 2, 1)[0]


def build(make, arrays):
    params = [relax.Var(f"x{i}", R.Tensor(a.shape, "float32")) for i, a in enumerate(arrays)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(op.sum(make(*params)))
        builder.emit_func_output(output)
    return builder.get()


INDICES = rng.integers(0, 3, (2, 4))
PLACES = rng.integers(0, 3, (5, 2))


def instance(x, gamma, beta):
    return F.instance_norm(x, weight=gamma, bias=beta)


def turned(function, order, back):
    """Return a function of torch in another order of axes."""
    return lambda x, *rest: function(x.permute(order), *rest).permute(back)


def attended(query, key, value, **options):
    parts = [one.permute(0, 2, 1, 3) for one in (query, key, value)]
    return F.scaled_dot_product_attention(*parts, **options).permute(0, 2, 1, 3)


CASES |= {
    **{
        name: (getattr(op, name), getattr(torch, name), [0.4 * f32(3, 4).clip(-2, 2)])
        for name in "acos asin atan asinh atanh cosh sinh".split()
    },
    "acosh": (op.acosh, torch.acosh, [positive(3, 4) + 1]),
    "floor_mod": (op.floor_mod, torch.remainder, [f32(3, 4), positive(4)]),
    "mod": (op.mod, torch.fmod, [f32(3, 4), positive(4)]),
    "ewise_fma": (op.ewise_fma, lambda a, b, c: a * b + c, [f32(3, 4)] * 3),
    "gelu_tanh": (op.nn.gelu_tanh, lambda x: F.gelu(x, approximate="tanh"), [f32(3, 4)]),
    "prelu": (op.nn.prelu, F.prelu, [f32(2, 3, 4), f32(3)]),
    "prod": (lambda x: op.prod(x, 1), lambda x: x.prod(1), [positive(3, 4)]),
    "prod_of_zeros": (
        lambda x: op.prod(x, 1),
        lambda x: x.prod(1),
        [np.array([[1, 2, 3], [0, 2, 3], [0, 0, 3], [2, 0, 5]], "float32")],
    ),
    "std": (lambda x: op.std(x, 1), lambda x: x.std(1, correction=0), [f32(3, 4)]),
    "batch_norm": (
        lambda *x: op.nn.batch_norm(*x, axis=1, training=False)[0],
        lambda x, gamma, beta, mean, var: (
            (x.mT - mean) * torch.rsqrt(var + 1e-5) * gamma + beta
        ).mT,
        [f32(2, 3, 4), f32(3), f32(3), f32(3), positive(3)],
    ),
    "group_norm": (
        lambda x, gamma, beta: op.nn.group_norm(x, gamma, beta, 2, 1, [2, 3]),
        lambda x, gamma, beta: F.group_norm(x, 2, gamma, beta),
        [f32(2, 4, 3, 2), f32(4), f32(4)],
    ),
    "instance_norm": (
        lambda x, gamma, beta: op.nn.instance_norm(x, gamma, beta, 1, [2, 3]),
        instance,
        [f32(2, 4, 3, 2), f32(4), f32(4)],
    ),
    "rms_norm": (
        lambda x, w: op.nn.rms_norm(x, w, [-1]),
        lambda x, w: F.rms_norm(x, (4,), w, 1e-5),
        [f32(3, 4), f32(4)],
    ),
    "stack": (
        lambda a, b: op.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1) , [f32(3, 4)] * 2,
    ),
    "tile": (lambda x: op.tile(x, [2, 1, 3]), lambda x: x.tile(2, 1, 3), [f32(3, 4)]),
    "repeat": (lambda x: op.repeat(x, 3, 1), lambda x: x.repeat_interleave(3, 1), [f32(3, 4)]),
    "repeat_flat": (lambda x: op.repeat(x, 2), lambda x: x.repeat_interleave(2), [f32(3, 4)]),
    "pad": (
        lambda x: op.nn.pad(x, [1, 2, 0, -1]), lambda x: F.pad(x, (0, -1, 1, 2)), [f32(3, 4)],
    ),
    "flip": (lambda x: op.flip(x, 1), lambda x: x.flip(1), [f32(3, 4)]),
    "gather_elements": (
        lambda x: op.gather_elements(x, relax.const(INDICES), 0),
        lambda x: x.gather(0, torch.from_numpy(INDICES)),
        [f32(3, 4)],
    ),
    "gather_nd": (
        lambda x: op.gather_nd(x, relax.const(PLACES)),
        lambda x: x[PLACES[:, 0], PLACES[:, 1]],
        [f32(3, 4)],
    ),
    "scatter_add": (
        lambda x, y: op.scatter_elements(x, relax.const(INDICES), y, 0, "add"),
        lambda x, y: x.scatter_add(0, torch.from_numpy(INDICES), y),
        [f32(3, 4), f32(2, 4)],
    ),
    "scatter_nd_add": (
        lambda x, y: op.scatter_nd(x, relax.const(PLACES), y, "add"),
        lambda x, y: x.index_put(tuple(torch.from_numpy(PLACES.T)), y, accumulate=True),
        [f32(3, 4), f32(5)],
    ),
    "scatter": (
        lambda x, y: op.scatter_elements(x, relax.const(INDICES[:1]), y, 0),
        lambda x, y: x.scatter(0, torch.from_numpy(INDICES[:1]), y),
        [f32(3, 4), f32(1, 4)],
    ),
    "strided_slice_steps": (
        lambda x: op.strided_slice(x, [0, 1], [1, 0], [7, 6], [3, 2]),
        lambda x: x[1:7:3, 0:6:2],
        [f32(8, 7)],
    ),
    "strided_slice_backwards": (
        lambda x: op.strided_slice(x, [0], [6], [0], [-2]),
        lambda x: x.flip(0)[1:7:2],
        [f32(8, 3)],
    ),
    **{
        f"conv{rank}d_grouped": (
            lambda x, w, rank=rank: getattr(op.nn, f"conv{rank}d")(
                x, w, strides=2, padding=[1] * 2 * rank, dilation=2, groups=2
            ),
            lambda x, w, rank=rank: getattr(F, f"conv{rank}d")(
                x, w, stride=2, padding=1, dilation=2, groups=2
            ),
            [f32(2, 4, *[6, 7, 5][:rank]), f32(6, 2, *[3, 2, 2][:rank])],
        )
        for rank in (1, 2, 3)
    },
    **{
        f"conv{rank}d_transpose": (
            lambda x, w, rank=rank: getattr(op.nn, f"conv{rank}d_transpose")(
                x, w, strides=2, padding=[1] * 2 * rank, output_padding=[1] * rank, groups=2
            ),
            lambda x, w, rank=rank: getattr(F, f"conv_transpose{rank}d")(
                x, w, stride=2, padding=1, output_padding=1, groups=2
            ),
            [f32(2, 4, *[3, 4, 2][:rank]), f32(4, 3, *[3, 3, 3][:rank])],
        )
        for rank in (1, 2, 3)
    },
    "conv2d_nhwc": (
        lambda x, w: op.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
        lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)).permute(0, 2, 3, 1),
        [f32(2, 5, 4, 3), f32(3, 2, 3, 2)],
    ),
    "max_pool2d_nhwc": (
        lambda x: op.nn.max_pool2d(x, [2, 2], [2, 2], layout="NHWC"),
        turned(lambda x: F.max_pool2d(x, 2), (0, 3, 1, 2), (0, 2, 3, 1)),
        [f32(2, 4, 6, 3)],
    ),
    "max_pool1d": (
        lambda x: op.nn.max_pool1d(x, [3], [2], [1, 1]), lambda x: F.max_pool1d(x, 3, 2, 1),
        [f32(2, 3, 7)],
    ),
    "avg_pool1d": (
        lambda x: op.nn.avg_pool1d(x, [2], [2]), lambda x: F.avg_pool1d(x, 2), [f32(2, 3, 6)],
    ),
    "max_pool3d": (
        lambda x: op.exp(op.nn.max_pool3d(x, 3, 2, 1)),
        lambda x: torch.exp(F.max_pool3d(x, 3, 2, 1)),
        [f32(2, 1, 5, 4, 3)],
    ),
    "avg_pool3d": (
        lambda x: op.exp(
            op.nn.avg_pool3d(x, [3, 3, 2], [2, 2, 1], 1, ceil_mode=True, count_include_pad=True)
        ),
        lambda x: torch.exp(F.avg_pool3d(x, (3, 3, 2), (2, 2, 1), 1, ceil_mode=True)),
        [f32(1, 2, 5, 4, 3)],
    ),
    "avg_pool3d_ndhwc": (
        lambda x: op.exp(op.nn.avg_pool3d(x, 2, 2, 1, layout="NDHWC")),
        turned(
            lambda x: torch.exp(F.avg_pool3d(x, 2, 2, 1, count_include_pad=False)),
            (0, 4, 1, 2, 3),
            (0, 2, 3, 4, 1),
        ),
        [f32(1, 5, 4, 3, 2)],
    ),
    "attention": (
        lambda q, k, v: op.exp(op.nn.attention(q, k, v, scale=0.7)),
        lambda q, k, v: torch.exp(attended(q, k, v, scale=0.7)),
        [f32(2, 5, 3, 4), f32(2, 7, 3, 4), f32(2, 7, 3, 6)],
    ),
    "attention_bias": (
        lambda q, k, v, b: op.exp(op.nn.attention(q, k, v, b)),
        lambda q, k, v, b: torch.exp(attended(q, k, v, attn_mask=b)),
        [f32(2, 5, 3, 4), f32(2, 7, 3, 4), f32(2, 7, 3, 4), f32(2, 1, 5, 7)],
    ),
    "attention_causal": (
        lambda q, k, v: op.exp(op.nn.attention(q, k, v, causal_mask="TopLeft")),
        lambda q, k, v: torch.exp(attended(q, k, v, is_causal=True)),
        [f32(1, 5, 2, 4), f32(1, 7, 2, 4), f32(1, 7, 2, 4)],
    ),
    "layout_transform": (
        lambda x: op.exp(op.layout_transform(x, lambda i, j: (j, i // 3, i % 3))),
        lambda x: torch.exp(x),
        [f32(6, 5)],
    ),
    "layout_transform_padded": (
        lambda x: op.exp(op.layout_transform(x, lambda i, j: (j, i // 4, i % 4), pad_value=0.0)),
        lambda x: torch.exp(F.pad(x, (0, 0, 0, 1))),
        [f32(7, 5)],
    ),
    "adaptive_avg_pool2d": (
        lambda x: op.nn.adaptive_avg_pool2d(x, [2, 3]),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        [f32(2, 3, 4, 6)],
    ),
    **{
        f"resize2d_{method}_{mode}": (
            lambda x, method=method, mode=mode: op.image.resize2d(
                x, (7, 3), method=method, coordinate_transformation_mode=mode, cubic_alpha=-0.75
            ),
            lambda x, method=method, mode=mode: F.interpolate(
                x, (7, 3), mode={"linear": "bilinear", "cubic": "bicubic"}[method],
                align_corners=mode == "align_corners",
            ),
            [f32(2, 3, 5, 4)],
        )
        for method in ("linear", "cubic")
        for mode in ("half_pixel", "align_corners")
    },
    "resize2d_nearest_nhwc": (
        lambda x: op.image.resize2d(
            x, (7, 3), layout="NHWC", method="nearest_neighbor", rounding_method="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        turned(lambda x: F.interpolate(x, (7, 3)), (0, 3, 1, 2), (0, 2, 3, 1)),
        [f32(2, 5, 4, 3)],
    ),
    **{
        f"lrn_{size}": (
            lambda x, size=size: op.nn.lrn(x, size=size, alpha=0.3, beta=0.6, bias=1.5),
            lambda x, size=size: F.local_response_norm(x, size, 0.3, 0.6, 1.5),
            [f32(2, 7, 3)],
        )
        for size in (3, 5)
    },
    **{
        f"einsum_{subscripts}": (
            lambda *x, subscripts=subscripts: op.exp(op.einsum(x, subscripts)),
            lambda *x, subscripts=subscripts: torch.exp(torch.einsum(subscripts, *x)),
            [f32(*shape) for shape in shapes],
        )
        for subscripts, shapes in (
            ("ij,jk->ik", [(3, 5), (5, 2)]),
            ("ij,jk,k->i", [(3, 5), (5, 2), (2,)]),
            ("ii->i", [(3, 3)]),
            ("iij,j->i", [(3, 3, 2), (2,)]),
            ("ij,k->k", [(3, 2), (4,)]),
            ("ij,jk", [(3, 5), (5, 2)]),
        )
    },
    "sort": (
        lambda x, w: op.multiply(op.sort(x, 0, True), w),
        lambda x, w: x.sort(0, descending=True)[0] * w,
        [f32(5, 3), f32(5, 3)],
    ),
    "topk_both": (
        lambda x, w: op.multiply(relax.TupleGetItem(op.topk(x, 3, 1), 0), w),
        lambda x, w: x.topk(3, 1)[0] * w,
        [f32(2, 7), f32(2, 3)],
    ),
    "topk_smallest": (
        lambda x, w: op.multiply(op.topk(x, 2, 0, "values", False), w),
        lambda x, w: x.topk(2, 0, largest=False)[0] * w,
        [f32(5, 3), f32(2, 3)],
    ),
    **{
        f"cumprod_{name}": (
            lambda x, w: op.multiply(op.cumprod(x, 1), w),
            lambda x, w: x.cumprod(1) * w,
            [np.array(rows, "float32"), f32(len(rows), 4)],
        )
        for name, rows in (
            ("plain", [[1.5, -2, 3, 0.5]]),
            ("zeros", [[0, 2, 3, 4], [2, 0, 3, 0], [2, 3, 4, 0]]),
        )
    },
    "cumprod_exclusive": (
        lambda x, w: op.multiply(op.cumprod(x, 0, exclusive=True), w),
        lambda x, w: torch.cat([torch.ones(1), x[:-1].cumprod(0)]) * w,
        [np.array([2, 3, 0, 4, 5], "float32"), f32(5)],
    ),
    "cumprod_flat": (
        lambda x, w: op.multiply(op.cumprod(x), w), lambda x, w: x.reshape(-1).cumprod(0) * w,
        [positive(2, 3), f32(6)],
    ),
    **{
        f"adaptive_{name}_uneven": (
            lambda x, name=name, out=out: getattr(op.nn, f"adaptive_{name}")(x, out),
            lambda x, name=name, out=out: getattr(F, f"adaptive_{name}")(x, out),
            [f32(2, 3, *shape)],
        )
        for kind in ("avg_pool", "max_pool")
        for shape, out in (((7,), [3]), ((7, 6), [3, 2]), ((5, 3, 4), [3, 2, 3]))
        for name in [f"{kind}{len(shape)}d"]
    },
    "batch_norm_training": (
        lambda x, g, b, w: op.multiply(
            relax.TupleGetItem(
                op.nn.batch_norm(x, g, b, relax.const(np.zeros(3, "float32")),
                                 relax.const(np.ones(3, "float32")), 1, training=True), 0), w),
        lambda x, g, b, w: F.batch_norm(x, None, None, g, b, True) * w,
        [f32(5, 3, 2), f32(3), f32(3), f32(5, 3, 2)],
    ),
    "batch_norm_moving": (
        lambda x, v: relax.op.exp(relax.TupleGetItem(
            op.nn.batch_norm(x, relax.const(np.ones(3, "float32")),
                             relax.const(np.ones(3, "float32")), v, v, 1, momentum=0.3,
                             training=True), 2)),
        lambda x, v: torch.exp(v * 0.7 + 0.3 * x.var((0, 2))),
        [f32(5, 3, 2), positive(3)],
    ),
    "adaptive_max_pool3d": (
        lambda x: op.nn.adaptive_max_pool3d(x, [1, 1, 1]),
        lambda x: F.adaptive_max_pool3d(x, 1),
        [f32(2, 3, 4, 2, 3)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree_with_torch(name):
    make, reference, arrays = CASES[name]
    module = transform.Gradient("main")(build(make, arrays))
    analysis.assert_well_formed(module)
    value, grads = interpreter.run(module, "main_adjoint", *arrays)
    tensors = [torch.from_numpy(a).requires_grad_() for a in arrays]
    total = reference(*tensors).sum()
    total.backward()
    np.testing.assert_allclose(value, total.item(), rtol=1e-4)
    for got, tensor in zip(grads, tensors):
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "take", "log_softmax_nll", "conv2d"])
def test_compiled_gradients(name):
    make, _, arrays = CASES[name]
    module = transform.Gradient("main")(build(make, arrays))
    lowered = transform.CheckLegalized()(transform.LegalizeOps()(module))
    want = interpreter.run(module, "main_adjoint", *arrays)[1]
    got = interpreter.run(lowered, "main_adjoint", *arrays, compiled=True)[1]
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_required_parameters_and_unused_ones():
    module = build(lambda a, b: op.exp(a), [f32(3), f32(2)])
    a, b = module["main"].params
    only = transform.Gradient("main", [b])(module)
    _, (found,) = interpreter.run(only, "main_adjoint", f32(3), f32(2))
    np.testing.assert_array_equal(found, np.zeros(2, "float32"))


def test_stopped_gradients_and_missing_ones():
    module = build(lambda a: op.multiply(a, grad.no_grad(op.exp(a))), [f32(3)])
    x = f32(3)
    _, (found,) = interpreter.run(transform.Gradient("main")(module), "main_adjoint", x)
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)
    with pytest.raises(OpNotImplemented, match="max_pool2d_backward has no gradient"):
        pooled = build(lambda a: grad.max_pool2d_backward(a, a), [f32(1, 1, 2, 2)])
        transform.Gradient("main")(pooled)
    builder = relax.BlockBuilder()
    vector = relax.Var("x", R.Tensor((3,), "float32"))
    with builder.function("main", [vector]):
        with builder.dataflow():
            output = builder.emit_output(op.exp(vector))
        builder.emit_func_output(output)
    with pytest.raises(TypeMismatchError, match="one number"):
        transform.Gradient("main")(builder.get())
