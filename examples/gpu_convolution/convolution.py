"""Convolutions as implicit matrix products: schedules of topi's conv2d_nhwc for GPUs.

python examples/gpu_convolution/convolution.py            prints the CUDA C of the analytic form
python examples/gpu_convolution/convolution.py precomputed   that of the precomputed one

The pixels of the result are the rows of a product, its channels the columns; what is summed are
the positions of the filter (taps) and the input channels. The matrix of the inputs exists only tile
by tile, in shared memory: a tile iterator says where in the image an element of a tile lies, and
whether it lies in the image at all. README.md explains the two iterators.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules.gpu.product_tiles import VECTOR, Tiling, finish, tile
from tilesmith.tir import Schedule

ITERATORS = ("analytic", "precomputed")


@dataclass(frozen=True)
class Shape:
    """A convolution: NHWC input, square filter."""

    batch: int
    height: int
    width: int
    channels: int
    filters: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1

    @property
    def out(self) -> tuple[int, int]:
        """The rows and columns of the result."""
        reach = self.dilation * (self.kernel - 1) + 1
        return tuple(
            [
                (size + 2 * self.padding - reach) // self.stride + 1
                for size in (self.height, self.width)
            ]
        )

    @property
    def rows(self) -> int:
        """The rows of the product: the pixels of the result."""
        return self.batch * self.out[0] * self.out[1]

    @property
    def flops(self) -> int:
        """The operations, a multiply-add as two."""
        return 2 * self.rows * self.filters * self.kernel**2 * self.channels


def convolution(shape: Shape) -> ts.tir.PrimFunc:
    """Return the program: topi's conv2d_nhwc as it is."""
    data = te.placeholder((shape.batch, shape.height, shape.width, shape.channels), name="data")
    weight = te.placeholder(
        (shape.kernel, shape.kernel, shape.channels, shape.filters), name="weight"
    )
    result = topi.nn.conv2d_nhwc(data, weight, shape.stride, shape.padding, shape.dilation)
    return te.create_prim_func([data, weight, result])


def as_product(sch: Schedule, shape: Shape, tiling: Tiling) -> tuple[Any, Any, Any, Any]:
    """Make the convolution a product of matrices, padded to whole tiles; return its block and those
    that fill the left and the right matrix and store the result.
    """
    block = sch.get_block("conv2d_nhwc")
    (height, width), kernel = shape.out, shape.kernel
    image, filters, result = (
        sch.reindex(block, buffer) for buffer in (("read", 0), ("read", 1), ("write", 0))
    )
    if shape.padding:
        sch.compute_inline("pad_temp")

    def pixel(n: Any, y: Any, x: Any) -> Any:
        return (n * height + y) * width + x

    sch.transform_layout(
        block, ("read", 0), lambda n, y, x, r, s, c: (pixel(n, y, x), r * kernel + s, c)
    )
    sch.transform_layout(block, ("read", 1), lambda f, r, s, c: (r * kernel + s, c, f))
    sch.transform_layout(block, ("write", 0), lambda n, y, x, f: (pixel(n, y, x), f))
    sch.transform_block_layout(
        block, lambda n, y, x, f, r, s, c: (pixel(n, y, x), f, r * kernel + s, c)
    )
    sch.transform_block_layout(image, lambda n, y, x, r, s, c: (pixel(n, y, x), r * kernel + s, c))
    sch.transform_block_layout(filters, lambda f, r, s, c: (r * kernel + s, c, f))
    sch.transform_block_layout(result, lambda n, y, x, f: (pixel(n, y, x), f))
    sch.pad_einsum(block, [*tiling.tile, 1, tiling.depth])
    left, right = (_merged(sch, block, operand) for operand in (image, filters))
    (first,) = sch.get_consumers(block)
    if sch.get_consumers(first):
        sch.compute_inline(first)
    return block, left, right, result


def _merged(sch: Schedule, block: Any, operand: Any) -> Any:
    """Inline an operand into its padded copy, if there is one; return the block that remains."""
    (consumer,) = sch.get_consumers(operand)
    if sch.get(consumer).same_as(sch.get(block)):
        return operand
    sch.compute_inline(operand)
    return consumer


def schedule(shape: Shape, tiling: Tiling, iterator: str = "analytic") -> Schedule:
    """Return the schedule of a convolution: that of the product with tiles in shared memory, double
    buffered, whose left tile is read from the image.
    """
    sch = Schedule(convolution(shape))
    block, left, right, result = as_product(sch, shape, tiling)
    i, j, taps, channels = sch.get_loops(block)
    sch.fuse(taps, channels)
    sch.set_scope(block, 0, "local")
    loops = tile(sch, block, tiling)
    sch.reverse_compute_at(result, loops.thread)
    wide = shape.filters % VECTOR == 0
    if wide:
        sch.vectorize(sch.get_loops(result)[-1])
    for operand, copy in enumerate((left, right)):
        sch.set_scope(copy, 0, "shared")
        fragment = sch.cache_read(block, operand, "local")
        sch.compute_at(fragment, loops.inner)
        sch.compute_at(copy, loops.outer)
        if operand == 0:
            sch.transform_layout(copy, ("write", 0), lambda i, t, c: (t, c, i))
            sch.storage_align(copy, 0, 1, 32, tiling.padding)
        sch.vectorize(sch.get_loops(fragment)[-1])
        in_line = shape.channels if operand == 0 else shape.filters
        copy_tile(sch, copy, tiling, VECTOR if in_line % VECTOR == 0 else 1)
        sch.annotate(copy, "tir.manifest_shared_memory_local_stage", 1)
        sch.annotate(copy, "double_buffer_scope", 0)
    finish(sch, block, loops)
    sch.annotate(loops.outer, "software_pipeline_stage", [0, 0, 0, 0, 1])
    sch.annotate(loops.outer, "software_pipeline_order", [0, 3, 1, 4, 2])
    if iterator == "precomputed":
        sch.annotate(loops.outer, "precompute_addresses", 1)
    return sch


def copy_tile(sch: Schedule, copy: Any, tiling: Tiling, vector: int) -> None:
    """Divide a copy of a tile among all threads of a block."""
    loops = sch.get_loops(copy)
    fused = sch.fuse(*loops[-2:])
    if vector == 1:
        _, thread = sch.split(fused, [None, tiling.threads])
    else:
        _, thread, lanes = sch.split(fused, [None, tiling.threads, vector])
        sch.vectorize(lanes)
    sch.bind(thread, "threadIdx.x")


WIDE = Tiling(tile=(128, 128), depth=16, warps=(4, 2), interleave=2, blocks=2)
NARROW = replace(WIDE, tile=(128, 64), warps=(4, 1), blocks=4)


TILINGS = {
    "128x64x16": NARROW,
    "128x128x16": WIDE,
    "128x64x8": replace(NARROW, depth=8),
    "128x128x8": replace(WIDE, depth=8),
    "128x64x16, 3 blocks": replace(NARROW, blocks=3),
    "64x64x16": replace(NARROW, tile=(64, 64), warps=(2, 1), blocks=8),
}
"""Sizes that measure.py tries."""

SHAPES = {
    "3x3 64 to 64, 56x56": Shape(32, 56, 56, 64, 64),
    "3x3 64 to 128, 56x56": Shape(32, 56, 56, 64, 128),
    "3x3 64 to 256, 56x56": Shape(32, 56, 56, 64, 256),
    "3x3 128 to 128, 28x28": Shape(32, 28, 28, 128, 128),
    "3x3 256 to 256, 14x14": Shape(32, 14, 14, 256, 256),
    "3x3 128 to 256, stride 2": Shape(32, 56, 56, 128, 256, stride=2),
    "1x1 256 to 64, 56x56": Shape(32, 56, 56, 256, 64, kernel=1, padding=0),
}
"""Layers of residual networks, and what measure.py measures."""


def tiling_of(shape: Shape) -> Tiling:
    """Return the sizes for a convolution: those with the least work on the multiprocessor that has
    most blocks. Small tiles need a little longer for as many results.
    """
    chosen = min(SLOWER, key=lambda name: work(shape, TILINGS[name].tile) * SLOWER[name])
    tiling = TILINGS[chosen]
    return tiling if shape.channels % tiling.depth == 0 else replace(tiling, depth=8)


def work(shape: Shape, tile: tuple[int, int]) -> int:
    """Return how many results a multiprocessor of an H100 makes at most, those outside included."""
    blocks = -(-shape.rows // tile[0]) * -(-shape.filters // tile[1])
    return -(-blocks // MULTIPROCESSORS) * tile[0] * tile[1]


SLOWER = {"128x128x16": 1.0, "128x64x16": 1.06, "64x64x16": 1.1}
"""Time for a result by size, as measured where there are many blocks."""
MULTIPROCESSORS = 132


if __name__ == "__main__":
    example = Shape(32, 56, 56, 64, 64)
    wanted = schedule(example, tiling_of(example), (sys.argv + ["analytic"])[1])
    print(ts.build(wanted.mod, target="cuda -arch=sm_90").imported_modules[0].get_source())
