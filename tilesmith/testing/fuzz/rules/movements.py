"""Draws elementwise chains, and programs that move elements: permutations, gathers, parts."""

from __future__ import annotations

from typing import Any

from tilesmith import topi
from tilesmith.ir import const
from tilesmith.te import Tensor
from tilesmith.testing.fuzz.rules.maker import Maker, form

__all__: list[str] = []


@form("elementwise", 3)
def elementwise(make: Maker) -> list[Tensor]:
    """Compute elements from several inputs, some of them broadcast."""
    shape = make.sizes(make.among([2, 3, 1, 4]), 300)
    dtype = make.dtype("int8", "uint8")
    result = make.source(shape, dtype)
    if dtype in ("float16", "bfloat16"):
        make.inexact()
    for _ in range(make.number(1, 3)):
        other = [size if make.chance(0.6) else 1 for size in shape]
        name = make.among(["add", "multiply", "maximum", "subtract"])
        operand = make.input(other, dtype, 0 if dtype == "uint8" else -1, 1)
        result = getattr(topi, name)(result, operand)
    return make.epilogue(result) if dtype not in ("int8", "uint8") else [result]


@form("permutation", 3)
def permutation(make: Maker) -> list[Tensor]:
    """Permute axes, with work before and behind."""
    shape = make.sizes(make.among([2, 3, 4, 5]), 130)
    dtype = make.dtype("int8", "uint8", "bool")
    data = make.source(shape, dtype) if dtype != "bool" else make.input(shape, dtype)
    made = topi.transpose(data, make.shuffled(range(len(shape))))
    return make.epilogue(made) if dtype in ("float32", "int32") else [made]


@form("parts", 2)
def parts(make: Maker) -> list[Tensor]:
    """Cut, join, pad, repeat and reshape."""
    shape = make.sizes(make.among([2, 3, 4]), 70)
    rank = len(shape)
    axis = make.number(0, rank - 1)
    data = make.source(shape, make.dtype())
    kind = make.among(["join", "cut", "pad", "repeat", "tile", "flip", "flat", "steps", "mirror"])
    dtype = str(data.dtype)
    if kind == "join":
        sizes = list(shape)
        sizes[axis] = make.count(20)
        return make.epilogue(topi.concatenate([data, make.input(sizes, dtype), data], axis))
    if kind == "pad":
        before, after = ([make.number(0, 2) for _ in shape] for _ in range(2))
        return make.epilogue(topi.nn.pad(data, before, after, const(1, dtype)))
    if kind == "repeat":
        return make.epilogue(topi.repeat(data, make.number(1, 3), axis))
    if kind == "tile":
        return make.epilogue(topi.tile(data, [make.number(1, 2) for _ in shape]))
    if kind == "flip":
        return make.epilogue(topi.flip(data, axis))
    if kind == "flat":
        total: Any = 1
        for size in shape:
            total = total * size
        return make.epilogue(topi.reshape(data, (total,)))
    if kind == "mirror" and all(make.least(size) > 1 for size in shape):
        one = [make.number(0, 1) for _ in shape]
        return make.epilogue(
            topi.nn.mirror_pad(data, one, one, make.among(["SYMMETRIC", "REFLECT"]))
        )
    if kind == "steps" and all(isinstance(size, int) and size > 2 for size in shape):
        begin, stride = [make.number(0, 1) for _ in shape], [make.number(1, 2) for _ in shape]
        return make.epilogue(topi.strided_slice(data, begin, list(shape), stride))
    if isinstance(shape[axis], int) and shape[axis] > 1:
        at = make.number(1, shape[axis] - 1)
        first, second = topi.split(data, [at], axis)
        return [make.epilogue(first)[-1], topi.nn.relu(second)]
    return make.epilogue(topi.expand_dims(data, axis))


@form("gather", 2)
def gather(make: Maker) -> list[Tensor]:
    """Read rows, or elements, at places that an input names."""
    shape = make.sizes(make.among([2, 2, 3]), 70)
    if any(make.least(size) == 0 for size in shape):
        shape = [3 for _ in shape]
    axis = make.number(0, len(shape) - 1)
    data = make.source(shape, make.dtype())
    dtype = make.among(["int32", "int64"])
    most = make.least(shape[axis]) - 1
    kind = make.among(["take", "take", "gather", "many", "hot"])
    if kind == "gather":
        sizes = list(shape)
        sizes[axis] = make.count(12)
        made = topi.gather(data, axis, make.input(sizes, dtype, 0, most))
        return make.epilogue(made)
    if kind == "many":
        indices = make.input((1, make.count(20)), dtype, 0, make.least(shape[0]) - 1)
        return make.epilogue(topi.gather_nd(data, indices))
    if kind == "hot":
        places = make.input((make.count(40),), dtype, 0, 8)
        return [topi.one_hot(places, 1, 0, 9, -1, "float32")]
    own = make.sizes(make.among([1, 1, 2]), 20)
    mode = make.among(["clip", "wrap", "fast"])
    high = most if mode == "fast" else most + 3
    made = topi.take(data, make.input(own, dtype, 0, high), axis, 0, mode)
    return make.epilogue(made)


@form("blocks of channels", 1)
def blocks_of_channels(make: Maker) -> list[Tensor]:
    """Change layouts of images, resize them, move blocks of pixels to channels."""
    batch, height, width = make.count(2), make.count(14), make.count(14)
    block = make.among([2, 4, 8, 16])
    channels = block * make.count(3)
    kind = make.among(["pack", "unpack", "resize", "depth", "last"])
    if kind == "unpack":
        data = make.source([batch, channels // block, height, width, block])
        return make.epilogue(topi.layout_transform(data, f"NCHW{block}c", "NCHW"))
    data = make.source([batch, channels, height, width])
    if kind == "pack":
        return make.epilogue(topi.layout_transform(data, "NCHW", f"NCHW{block}c"))
    if kind == "last":
        return make.epilogue(topi.layout_transform(data, "NCHW", "NHWC"))
    if kind == "depth":
        data = make.source([batch, channels * 4, height, width])
        return make.epilogue(topi.nn.depth_to_space(data, 2))
    make.inexact()
    sizes = [make.number(1, 20), make.number(1, 20)]
    method = make.among(["nearest_neighbor", "linear"])
    mode = "asymmetric" if method == "nearest_neighbor" else "half_pixel"
    return make.epilogue(topi.image.resize2d(data, None, sizes, "NCHW", method, mode))
