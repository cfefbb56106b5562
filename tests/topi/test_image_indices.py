"""Places of pixels and reading of images by their layouts; resizing of regions."""

import numpy as np
import pytest

from tests.topi.harness import Case, check, real
from tilesmith import te, tir
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.topi import image, testing
from tilesmith.topi.compute import compute

IMAGE = real(2, 3, 5, 4)


def place(x, before, after, mode, start, end):
    """The place of a new pixel in the old image."""
    if mode == "tf_crop_and_resize":
        if after == 1:
            return (start + end) / 2 * (before - 1)
        return start * (before - 1) + x * (end - start) * (before - 1) / (after - 1)
    if after == 1 and mode in ("align_corners", "pytorch_half_pixel"):
        return 0.0
    return {
        "half_pixel": (x + 0.5) * before / after - 0.5,
        "pytorch_half_pixel": (x + 0.5) * before / after - 0.5,
        "tf_half_pixel_for_nn": (x + 0.5) * before / after,
        "align_corners": x * (before - 1) / max(after - 1, 1),
        "asymmetric": x * before / after,
    }[mode]


@pytest.mark.parametrize(
    "mode",
    ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
     "tf_crop_and_resize"],
)  # fmt: skip
@pytest.mark.parametrize("before, after", [(5, 8), (7, 3), (4, 1)])
def test_places(mode, before, after):
    want = np.array([place(i, before, after, mode, 0.25, 1.5) for i in range(after)])
    build = lambda x: compute(
        (after,), lambda i: x() + image.get_inx(i, before, after, mode, 0.25, 1.5), "place"
    )
    check(Case(mode, build, lambda x: x + want, (real(),)))


@pytest.mark.parametrize(
    "before, after, whole", [(3, 9, True), (5, 5, True), (3, 8, False), (4, 2, False)]
)
def test_whole_multiples_of_sizes(before, after, whole):
    assert image.can_convert_multiply_to_intdiv(before, after) is whole
    assert not image.can_convert_multiply_to_intdiv(te.var("n"), after)
    if whole:
        case = Case(
            "quotient",
            lambda x: compute(
                (after,),
                lambda i: x(
                    image.get_closest_index(
                        image.get_inx(i, before, after, "asymmetric", use_int_div=True),
                        "floor", None, True,
                    )
                ),
                "y",
            ),
            lambda x: x.repeat(after // before),
            (real(before),),
        )  # fmt: skip
        check(case)


PLACES = np.array([-0.5, 0.2, 0.5, 1.5, 2.5, 2.7], "float32")
ROUNDED = {
    "floor": [-1, 0, 0, 1, 2, 2],
    "ceil": [0, 1, 1, 2, 3, 3],
    "round": [-1, 0, 0, 1, 2, 3],
    "round_prefer_floor": [-1, 0, 0, 1, 2, 3],
    "round_prefer_ceil": [0, 0, 1, 2, 3, 3],
}


@pytest.mark.parametrize("rule", [*ROUNDED, "boxes"])
def test_nearest_pixels(rule):
    boxes = "any" if rule == "boxes" else None
    want = ROUNDED.get(rule, [-1, 0, 1, 2, 3, 3])
    build = lambda x: compute(
        x.shape, lambda i: image.get_closest_index(x(i), "floor" if boxes else rule, boxes), "y"
    )
    check(Case(rule, build, lambda x: np.int32(want), (PLACES,)))


def blocked(data, channels):
    """NCHW as NCHWc."""
    n, c, *rest = data.shape
    return np.moveaxis(data.reshape(n, c // channels, channels, *rest), 2, -1).copy()


def packed(data, batch, channels):
    """NCHW as NCHWnc."""
    made = blocked(data, channels)
    n, *rest = made.shape
    return np.moveaxis(made.reshape(n // batch, batch, *rest), 1, -2).copy()


FOUR = real(2, 4, 5)
READS = [
    ("NCW", FOUR, FOUR),
    ("NWC", FOUR.transpose(0, 2, 1).copy(), FOUR),
    ("NCW2c", blocked(FOUR, 2), FOUR),
    ("NCW2n2c", packed(FOUR, 2, 2), FOUR),
    ("NCHW", IMAGE, IMAGE),
    ("NHWC", IMAGE.transpose(0, 2, 3, 1).copy(), IMAGE),
    ("NCHW3c", blocked(IMAGE, 3), IMAGE),
    ("NCHW2n1c", packed(IMAGE, 2, 1), IMAGE),
    ("NCDHW", real(1, 4, 2, 3, 2), real(1, 4, 2, 3, 2)),
    ("NDHWC", real(1, 4, 2, 3, 2).transpose(0, 2, 3, 4, 1).copy(), real(1, 4, 2, 3, 2)),
    ("NCDHW2c", blocked(real(1, 4, 2, 3, 2), 2), real(1, 4, 2, 3, 2)),
]


@pytest.mark.parametrize("layout, stored, plain", READS, ids=[row[0] for row in READS])
def test_pixels_one_to_the_right_and_down(layout, stored, plain):
    """Indices of each element of a layout lead to the pixel it is, and outside to the last one."""
    rank = plain.ndim - 2
    split = getattr(image, f"get_{rank}d_indices")
    pixel = getattr(image, f"get_{rank}d_pixel")
    sizes = plain.shape[2:]

    def build(x):
        def element(*i):
            n, c, *rest = split(i, layout)
            moved = [value + 1 for value in rest[:rank]]
            return pixel(x, layout, *sizes, n, c, *moved, *rest[rank:])

        return compute(x.shape, element, "y")

    moved = plain
    for axis, size in enumerate(sizes, 2):
        moved = np.take(moved, np.minimum(np.arange(size) + 1, size - 1), axis)
    letters = layout.translate({ord(digit): None for digit in "0123456789"})
    way = {"NCW2c": (2,), "NCHW3c": (3,), "NCDHW2c": (2,), "NCW2n2c": (2, 2), "NCHW2n1c": (2, 1)}
    if layout in way:
        want = (blocked if len(way[layout]) == 1 else packed)(moved, *way[layout])
    else:
        plain_letters = "NC" + "DHW"[3 - rank :]
        want = moved.transpose([plain_letters.index(letter) for letter in letters])
    check(Case(layout, build, lambda x: want, (stored,)))


@pytest.mark.parametrize(
    "method, size", [("linear", (4, 6)), ("linear", (1, 3)), ("nearest_neighbor", (6, 3))]
)
def test_a_region_is_spread_out(method, size):
    """As `crop_and_resize` of one box does."""
    box = [0.1, -0.3, 0.8, 1.2]
    boxes, owners = np.array([box, box], "float32"), np.array([0, 1], "int32")
    name = "bilinear" if method == "linear" else method
    want = testing.crop_and_resize_python(IMAGE, boxes, owners, size, "NCHW", name, 7.0)
    build = lambda x: image.resize2d(
        x, box, size, "NCHW", method, "tf_crop_and_resize", "round_prefer_ceil",
        extrapolation_value=7.0,
    )  # fmt: skip
    check(Case("region", build, lambda x: want, (IMAGE,), 1e-4))


def test_images_with_blocks_of_channels_are_resized():
    data = real(1, 4, 3, 5)
    want = testing.resize2d_python(data, (2, 2), "NCHW", "bilinear", "asymmetric")
    build = lambda x: image.resize2d(x, None, (6, 10), "NCHW2c", "linear", "asymmetric")
    check(Case("blocks", build, lambda x: blocked(want, 2), (blocked(data, 2),), 1e-4))


def test_the_nearest_pixel_from_its_middle():
    build = lambda x: image.resize1d(
        x, None, [3], "NCW", "nearest_neighbor", "tf_half_pixel_for_nn", "floor"
    )
    check(Case("nearest", build, lambda x: x[:, :, [0, 2, 4]], (real(1, 2, 5),)))


@pytest.mark.parametrize(
    "build, error, text",
    [
        (lambda x: image.get_2d_indices(x.shape, "CHWN"), UnsupportedError, "'CHWN'"),
        (lambda x: image.get_inx(te.var("i"), 3, 5, "middle"), UnsupportedError, "'middle'"),
        (
            lambda x: image.get_closest_index(tir.const(0.5, "float32"), "up", None),
            UnsupportedError,
            "'up'",
        ),
        (
            lambda x: image.resize2d(
                x, [0, 0, 1], (3, 3), coordinate_transformation_mode="tf_crop_and_resize"
            ),
            ShapeError,
            "4 numbers",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, error, text):
    with pytest.raises(error, match=text):
        build(te.placeholder((2, 3, 5, 4), name="x"))
