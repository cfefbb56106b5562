"""Convolutions and poolings of all ranks and layouts against torch."""

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, torch_function, whole
from tilesmith import te, topi
from tilesmith.support.errors import ShapeError, UnsupportedError


def moved(array, layout, primal):
    """An array of layout ``primal`` in another one."""
    return np.ascontiguousarray(array.transpose([primal.index(letter) for letter in layout]))


def convolved(data_layout, kernel_layout, out_layout, transpose=False, **options):
    """torch's convolution of data in any layout."""
    rank = len(data_layout) - 2
    primal, kernel = ("NC" + "DHW"[-rank:], ("IO" if transpose else "OI") + "DHW"[-rank:])
    name = f"conv_transpose{rank}d" if transpose else f"conv{rank}d"

    def meaning(data, weight):
        data, weight = moved(data, primal, data_layout), moved(weight, kernel, kernel_layout)
        return moved(torch_function(name, data, weight, **options), out_layout, primal)

    return meaning


SHAPES = {1: (2, 4, 9), 2: (2, 4, 9, 7), 3: (1, 4, 6, 5, 4)}
WINDOWS = {1: (3,), 2: (3, 2), 3: (3, 2, 1)}
LAYOUTS = [
    ("NCW", "OIW", "NCW"), ("NWC", "WIO", "NWC"), ("NCHW", "OIHW", "NCHW"),
    ("NHWC", "HWIO", "NHWC"), ("HWCN", "HWIO", "HWCN"), ("NHWC", "OHWI", "NCHW"),
    ("NCDHW", "OIDHW", "NCDHW"), ("NDHWC", "DHWIO", "NDHWC"),
]  # fmt: skip


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
def test_conv(layouts, groups):
    data_layout, kernel_layout, out_layout = layouts
    rank = len(data_layout) - 2
    primal, kernel = "NC" + "DHW"[-rank:], "OI" + "DHW"[-rank:]
    data = moved(real(*SHAPES[rank]), data_layout, primal)
    weight = moved(real(4, 4 // groups, *WINDOWS[rank], seed=1), kernel_layout, kernel)
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": groups}
    check(
        Case(
            "conv",
            lambda x, w: topi.nn.conv(x, w, 2, 1, 1, groups, *layouts[:2], out_layout=out_layout),
            convolved(*layouts, **options),
            (data, weight),
            1e-4,
        )
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_transpose(rank, groups):
    spatial = "DHW"[-rank:]
    layouts = ("NC" + spatial, "IO" + spatial, "NC" + spatial)
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": groups}
    check(
        Case(
            "conv_transpose",
            lambda x, w: topi.nn.conv_transpose(x, w, 2, 1, 1, 1, groups, *layouts[:2]),
            convolved(*layouts, transpose=True, **options),
            (real(*SHAPES[rank]), real(4, 3, *WINDOWS[rank], seed=1)),
            1e-4,
        )
    )


NAMED = [
    (topi.nn.conv1d_ncw, "NCW", "OIW", 1, (2, 1, 2)),
    (topi.nn.conv1d_nwc, "NWC", "WIO", 1, (2, 1, 2)),
    (topi.nn.group_conv1d_ncw, "NCW", "OIW", 2, (2, 1, 2, 2)),
    (topi.nn.group_conv1d_nwc, "NWC", "WIO", 2, (2, 1, 2, 2)),
    (topi.nn.conv2d_nchw, "NCHW", "OIHW", 1, (2, 1, 2)),
    (topi.nn.conv2d_nhwc, "NHWC", "HWIO", 1, (2, 1, 2)),
    (topi.nn.conv2d_hwcn, "HWCN", "HWIO", 1, (2, 1, 2)),
    (topi.nn.group_conv2d_nchw, "NCHW", "OIHW", 2, (2, 1, 2, 2)),
    (topi.nn.group_conv2d_nhwc, "NHWC", "HWIO", 2, (2, 1, 2, 2)),
    (topi.nn.conv3d_ncdhw, "NCDHW", "OIDHW", 2, (2, 1, 2, 2)),
    (topi.nn.conv3d_ndhwc, "NDHWC", "DHWIO", 1, (2, 1, 2, 1)),
]


@pytest.mark.parametrize("row", NAMED, ids=lambda row: row[0].__name__)
def test_named_layouts(row):
    function, data_layout, kernel_layout, groups, numbers = row
    rank = len(data_layout) - 2
    spatial = "DHW"[-rank:]
    data = moved(real(*SHAPES[rank]), data_layout, "NC" + spatial)
    weight = moved(real(6, 4 // groups, *WINDOWS[rank], seed=1), kernel_layout, "OI" + spatial)
    options = {"stride": 2, "padding": 1, "dilation": 2, "groups": groups}
    meaning = convolved(data_layout, kernel_layout, data_layout, **options)
    check(Case("conv", lambda x, w: function(x, w, *numbers), meaning, (data, weight), 1e-4))


TRANSPOSED = [
    (topi.nn.conv1d_transpose_ncw, 1), (topi.nn.conv2d_transpose_nchw, 1),
    (topi.nn.conv3d_transpose_ncdhw, 1), (topi.nn.group_conv1d_transpose_ncw, 2),
    (topi.nn.group_conv2d_transpose_nchw, 2), (topi.nn.group_conv3d_transpose_ncdhw, 2),
]  # fmt: skip


@pytest.mark.parametrize(("function", "groups"), TRANSPOSED)
def test_named_transposed_layouts(function, groups):
    rank = int(function.__name__.partition("conv")[2][0])
    layouts = ("NC" + "DHW"[-rank:], "IO" + "DHW"[-rank:], "NC" + "DHW"[-rank:])
    more = (groups,) if groups > 1 else ()
    check(
        Case(
            "conv_transpose",
            lambda x, w: function(x, w, 2, 0, "float32", 1, *more),
            convolved(*layouts, transpose=True, stride=2, output_padding=1, groups=groups),
            (real(*SHAPES[rank]), real(4, 3, *WINDOWS[rank], seed=1)),
            1e-4,
        )
    )


@pytest.mark.parametrize("window", [(3, 3), (2, 4), (1, 5)])
def test_padding_same_keeps_the_size(window):
    data, weight = real(1, 2, 6, 7), real(3, 2, *window, seed=1)
    before = [(size - 1 + 1) // 2 for size in window]
    after = [size - 1 - low for size, low in zip(window, before)]

    def meaning(x, w):
        padded = np.pad(x, ((0, 0), (0, 0), *zip(before, after)))
        return torch_function("conv2d", padded, w)

    case = Case(
        "same", lambda x, w: topi.nn.conv2d(x, w, 1, "SAME", 1), meaning, (data, weight), 1e-4
    )
    check(case)
    assert topi.nn.get_pad_tuple("SAME", window) == (*before, *after)
    assert meaning(data, weight).shape[2:] == data.shape[2:]


def test_sums_in_a_wider_dtype():
    data = whole(1, 8, 5, 5, low=-128, high=127).astype("int8")
    weight = whole(2, 8, 3, 3, low=-128, high=127).astype("int8")

    def meaning(x, w):
        return torch_function("conv2d", x.astype("float64"), w.astype("float64"))

    build = lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 0, 1, "int32")
    check(Case("int8", build, meaning, (data, weight)))


POOLS = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}
ADAPTIVE = {1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool, 3: topi.nn.adaptive_pool3d}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include_pad", [False, True])
def test_average_pool(rank, ceil_mode, include_pad):
    options = {"ceil_mode": ceil_mode, "count_include_pad": include_pad}

    def build(x):
        return POOLS[rank](x, 3, 2, 1, 1, "avg", ceil_mode, count_include_pad=include_pad)

    def meaning(x):
        return torch_function(f"avg_pool{rank}d", x, 3, 2, 1, **options)

    check(Case("pool", build, meaning, (real(*SHAPES[rank]),), 1e-4))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size", [1, 3])
def test_adaptive_pool(rank, kind, size):
    meaning = lambda x: torch_function(f"adaptive_{kind}_pool{rank}d", x, size)
    build = lambda x: ADAPTIVE[rank](x, size, kind)
    check(Case("adaptive", build, meaning, (real(*SHAPES[rank]),), 1e-4))


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(("kind", "include_pad"), [("max", True), ("avg", True), ("avg", False)])
def test_gradient_of_pool(kind, include_pad, padding, ceil_mode):
    torch = pytest.importorskip("torch")
    data = torch.from_numpy(real(2, 3, 8, 7)).requires_grad_()
    more = {"count_include_pad": include_pad} if kind == "avg" else {}
    out = getattr(torch.nn.functional, f"{kind}_pool2d")(
        data, 3, 2, padding, ceil_mode=ceil_mode, **more
    )
    grads = real(*out.shape, seed=5)
    out.backward(torch.from_numpy(grads))

    def build(g, x):
        return topi.nn.pool_grad(g, x, 3, 2, padding, kind, ceil_mode, include_pad)

    check(Case("grad", build, lambda g, x: data.grad.numpy(), (grads, data.detach().numpy()), 1e-4))


def test_gradient_of_take():
    data, indices = real(4, 5), whole(2, 3, low=-5, high=5)
    grads = real(4, 2, 3, seed=1)
    wanted = np.zeros_like(data)
    for place in np.ndindex(*indices.shape):
        wanted[:, indices[place]] += grads[(slice(None), *place)]
    build = lambda g, x, i: topi.take_grad(g, x, i, 1)
    check(Case("take_grad", build, lambda g, x, i: wanted, (grads, data, indices), 1e-4))


def placeholder(*shape):
    return te.placeholder(shape, "float32", "x")


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda x, w: topi.nn.conv2d(x, w, 1, 0, 1, "NCHW4c"), UnsupportedError, "NCHW4c"),
        (lambda x, w: topi.nn.conv2d(x, w, 1, 0, 1, "CHWN"), UnsupportedError, "kernel_layout"),
        (lambda x, w: topi.nn.conv2d(x, w, 1, (1, 2, 3), 1), ShapeError, "1, 2 or 4 numbers"),
        (lambda x, w: topi.nn.conv2d(x, w, (1, 2, 3), 0, 1), ShapeError, "1 or 2 numbers"),
        (lambda x, w: topi.nn.conv2d(x, w, 1, "FULL", 1), UnsupportedError, "'FULL'"),
        (lambda x, w: topi.nn.group_conv2d_nchw(x, w, 1, 0, 1, 2), ShapeError, "2 groups"),
        (lambda x, w: topi.nn.conv2d_transpose_nchw(x, w, 1, 0), ShapeError, "takes 5"),
        (lambda x, w: topi.nn.pool2d(x, 2, 2, 1, 0, "sum"), UnsupportedError, "'sum'"),
        (lambda x, w: topi.nn.adaptive_pool(x, 2, "sum"), UnsupportedError, "'sum'"),
        (lambda x, w: topi.nn.pool_grad(x, x, 1, 1, 0, "sum"), UnsupportedError, "'sum'"),
    ],
)
def test_mistakes_are_said(build, error, text):
    with pytest.raises(error, match=text):
        build(placeholder(1, 4, 8, 8), placeholder(5, 4, 3, 3))
