"""Operators under names of libraries and micro kernels, and intrinsics of bytes, by value."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.support.errors import OpAttributeInvalid
from tilesmith.target import Target
from tilesmith.tir import interpreter
from tilesmith.topi import testing as meaning

RANDOM = np.random.default_rng(0)


def computed(make, *arrays):
    """What an operator gives for arrays, by its plain loops."""
    tensors = [te.placeholder(one.shape, str(one.dtype), name=f"x{k}")
               for k, one in enumerate(arrays)]  # fmt: skip
    made = make(*tensors)
    results = list(made) if isinstance(made, (list, tuple)) else [made]
    function = te.create_prim_func([*tensors, *results])
    found = [np.zeros([int(n) for n in one.shape], str(one.dtype)) for one in results]
    ts_arrays = [ts.nd.array(one) for one in (*arrays, *found)]
    ts.build(function, target="llvm")(*ts_arrays)
    outs = [one.numpy() for one in ts_arrays[len(arrays) :]]
    return outs[0] if len(outs) == 1 else outs


def uniform(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


IMAGE, OIHW = uniform(1, 3, 6, 7), uniform(4, 3, 3, 2)
CONV = meaning.conv2d_nchw_python(IMAGE, OIHW, (1, 2), (1, 0))
LAST, HWIO = IMAGE.transpose(0, 2, 3, 1), OIHW.transpose(2, 3, 1, 0)
MORE = ((1, 2), (1, 0), 1)  # strides, padding, dilation


def packed(make, transform, last=("float32", (3, 2), 4, True)):
    def build(data, kernel):
        return make(None, data, topi.nn.conv2d_gemm_weight_transform(kernel, *transform), *MORE,
                    *last)  # fmt: skip

    return build


ARM, CUDA, ROCM = topi.arm_cpu, topi.cuda, topi.rocm
CONVOLUTIONS = {
    "cudnn": (lambda d, k: CUDA.conv2d_cudnn(None, d, k, *MORE), IMAGE, OIHW),
    "cudnn_last": (lambda d, k: CUDA.conv2d_cudnn(None, d, k, *MORE, 1, "NHWC"), LAST, HWIO),
    "miopen": (lambda d, k: ROCM.conv2d_nchw_miopen(None, d, k, *MORE), IMAGE, OIHW),
    "dsp": (
        lambda d, k: ARM.conv2d_nhwc_dsp(None, d, k, *MORE, "float32"),
        LAST, OIHW.transpose(2, 3, 0, 1),
    ),
    "tiles": (packed(ARM.compute_conv2d_NHWC_without_transform, (3, 4)), LAST, HWIO),
    "tiles_hybrid": (
        packed(ARM.compute_conv2d_NHWC_hybrid_without_transform, (16, 4), ("float32", (3, 2), 4)),
        LAST, HWIO,
    ),
    "gemm": (packed(ARM.compute_conv2d_gemm_without_weight_transform, (4, 16)), LAST, HWIO),
    "scalable": (
        packed(ARM.compute_conv2d_gemm_without_weight_transform, (4, 16, True)), LAST, HWIO
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    make, data, kernel = CONVOLUTIONS[name]
    found = computed(make, data, np.ascontiguousarray(kernel))
    wanted = CONV if data is IMAGE else CONV.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_convolutions_of_bytes_with_packed_weights():
    data = RANDOM.integers(-128, 128, (1, 5, 5, 3)).astype("int8")
    kernel = RANDOM.integers(-128, 128, (3, 3, 3, 5)).astype("int8")
    wanted = meaning.conv2d_nhwc_python(data.astype("int32"), kernel.astype("int32"), 1, 1)
    for name in ("interleaved", "native"):
        function = getattr(ARM, f"compute_conv2d_NHWC_quantized_{name}_without_transform")

        def make(d, k, function=function):
            weights = topi.nn.conv2d_gemm_weight_transform(k, 4, 16)
            return function(None, d, weights, 1, 1, 1, "int32", (3, 3), 5)

        np.testing.assert_array_equal(computed(make, data, kernel), wanted)


def test_transposed_weights_and_their_refusal():
    found = computed(
        lambda d, b: ARM.compute_conv2d_NHWC_SME_transposed_B(
            None, d, b, *MORE, "float32", (3, 2), 4
        ),
        LAST, np.ascontiguousarray(HWIO.reshape(18, 4).T),
    )  # fmt: skip
    np.testing.assert_allclose(found, CONV.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)
    with pytest.raises(OpAttributeInvalid, match="do not tell the window"):
        d, b = te.placeholder((1, 6, 7, 3)), te.placeholder((4, 18))
        ARM.compute_conv2d_NHWC_SME_transposed_B(None, d, b, *MORE, "float32", None, None)


def test_other_convolutions():
    data, kernel = uniform(1, 9, 3), uniform(4, 3, 3)  # NWC, WIO
    found = computed(
        lambda d, k: ARM.conv1d_nwc_dsp(None, d, k, 2, 1, 1, "float32"),
        data, np.ascontiguousarray(kernel.transpose(0, 2, 1)),
    )  # fmt: skip
    padded = np.pad(data, ((0, 0), (1, 1), (0, 0)))[0]
    wanted = [np.einsum("wi,wio->o", padded[x : x + 4], kernel) for x in range(0, 8, 2)]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
    cube, filters = uniform(1, 2, 4, 5, 4), uniform(3, 2, 3, 3, 3)
    found = computed(lambda d, k: CUDA.conv3d_cudnn(None, d, k, 1, 1, 1, 1), cube, filters)
    wanted = meaning.conv3d_ncdhw_python(cube, filters, 1, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    weights = uniform(3, 4, 3, 3)
    found = computed(
        lambda d, k: CUDA.conv2d_transpose_cudnn(d, k, (2, 2), (1, 1), "float32"), IMAGE, weights
    )
    wanted = meaning.conv2d_transpose_nchw_python(IMAGE, weights, (2, 2), (1, 1), (0, 0))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_sorting():
    data = RANDOM.permutation(24).reshape(4, 6).astype("float32")
    np.testing.assert_array_equal(computed(CUDA.sort_thrust, data), np.sort(data))
    places = computed(lambda d: CUDA.argsort_thrust(d, 0, 1, "int32"), data)
    np.testing.assert_array_equal(places, data.argsort(0))
    best = computed(lambda d: CUDA.topk_thrust(d, 2, ret_type="values"), data)
    np.testing.assert_array_equal(best, np.sort(data)[:, :-3:-1])
    keys, values = np.array([2, -1, 0, 1], "int32"), uniform(4)
    found = computed(lambda k, v: CUDA.stable_sort_by_key_thrust(k, v, True), keys, values)
    np.testing.assert_array_equal(found[0], [0, 1, 2, 3])
    np.testing.assert_array_equal(found[1], values[[2, 3, 0, 1]])
    found = computed(lambda d: CUDA.scan_thrust(d, "float32"), data)
    np.testing.assert_allclose(found, data.cumsum(-1) - data)
    found = computed(lambda d: CUDA.scan_thrust(d, "float32", False), data)
    np.testing.assert_allclose(found, data.cumsum(-1))


def test_sizes_of_padded_matrices():
    assert ARM.pad_dim_to_multiple(13, 4) == (16, 3) and ARM.pad_dim_to_multiple(8, 4) == (8, 0)
    assert ARM.get_conv2d_im2col_padding(13, 8, 4, 16) == (3, 8)
    assert ARM.get_conv2d_weights_padding(12, 17, 4, 16) == (0, 15)


@pytest.mark.parametrize("mcpu, bytes_, vnni", [
    ("nehalem", False, False), ("haswell", True, False), ("cascadelake", True, True),
])  # fmt: skip
def test_products_of_bytes_that_a_cpu_has(mcpu, bytes_, vnni):
    x, y = te.placeholder((3, 8), "uint8"), te.placeholder((16, 8), "int8")
    odd = te.placeholder((15, 8), "int8")
    with Target(f"llvm -mcpu={mcpu}"):
        assert topi.x86.check_int8_applicable(x, y) is bytes_
        assert topi.x86.check_vnni_applicable(x, y) is vnni
        assert not topi.x86.check_int8_applicable(x, odd)
        assert topi.x86.check_int8_applicable(x, odd, allow_padding=True) is bytes_
        assert not topi.x86.check_vnni_applicable(x, te.placeholder((16, 8), "float32"))


def test_sums_of_16_bits_wrap_around():
    a = te.placeholder((3, 2), "uint8", "a")
    b = te.placeholder((128, 2), "int8", "b")
    k = te.reduce_axis((0, 2), name="k")
    c = te.compute(
        (3, 128), lambda i, j: te.sum(a[i, k].astype("int16") * b[j, k].astype("int16"), axis=k)
    )
    s = te.create_schedule(c.op)
    s[c].tensorize(c.op.axis[1], topi.x86.tensor_intrin.dot_16x1x16_uint8_int8_int16())
    x = RANDOM.integers(200, 256, (3, 2)).astype("uint8")
    y = RANDOM.integers(-128, 128, (128, 2)).astype("int8")
    found = ts.nd.array(np.zeros((3, 128), "int16"))
    ts.build(s, [a, b, c], "llvm")(ts.nd.array(x), ts.nd.array(y), found)
    np.testing.assert_array_equal(found.numpy(), x.astype("int16") @ y.astype("int16").T)


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "uint8")])
def test_dot_products_of_gpus(dtypes):
    sums = "uint32" if dtypes[0] == "uint8" else "int32"
    a, b = te.placeholder((6, 8), dtypes[0], "a"), te.placeholder((5, 8), dtypes[1], "b")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute(
        (6, 5), lambda i, j: te.sum(a[i, k].astype(sums) * b[j, k].astype(sums), axis=k), name="c"
    )
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[c], c.op.axis[1])
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 4)
    i, j = s[local].op.axis
    s[local].reorder(i, ko, j, ki)
    s[local].tensorize(j, topi.cuda.dp4a("global", "global", "local", dtypes))
    low = np.iinfo(dtypes[0]).min
    x, y = [RANDOM.integers(low, low + 256, shape).astype(dtypes[0]) for shape in ((6, 8), (5, 8))]
    found = np.zeros((6, 5), sums)
    interpreter.run(ts.lower(s, [a, b, c])["main"], x, y, found)
    np.testing.assert_array_equal(found, x.astype(sums) @ y.astype(sums).T)
    assert ".entry" in ts.build(s, [a, b, c], "nvptx").imported_modules[0].get_source()
