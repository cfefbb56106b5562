"""Decides which convolutions stay in NCHW, because the channels last cost more than they save.

A convolution whose neighbours have no use for the channels last pays for a permutation of its data
and one of its result. Depthwise ones and those of single pixels have forms in NCHW that are nearly
as fast; which form takes less time in all is estimated from the sizes and the model of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith import topi
from tilesmith.ir import Op
from tilesmith.relax.expr import Call, Constant, Function, SeqExpr, Tuple, Var, known_struct_info
from tilesmith.relax.spec import Layout
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.schedule_rules.contractions.tiles import Tile
from tilesmith.target.machine import MachineModel

__all__ = [
    "Sizes",
    "depthwise_stays",
    "lone_convolutions",
    "pixelwise_stays",
    "reading_planes",
    "rows_stay_in_planes",
]

_PERMUTED = 0.75  # of the bandwidth of the L3 cache, read and written
_OF_ANY = 64  # what a symbolic size counts as
_CYCLES_OF_PADDING = 4.0  # for a vector of a padded plane
_EFFICIENCY_OF_PLANES = 0.8
_EFFICIENCY_OF_LARGE_WINDOWS = 0.5
_MOST_TAPS_OF_SMALL_WINDOWS = 12
_EFFICIENCY_OF_ROWS = 0.9
_EFFICIENCY_OF_UNEVEN_PIXELS = 0.6  # tiles of one vector
_WAITING_FOR_LINES = 0.03
"""The share of the time for parts of lines from L2 that computing does not hide."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a convolution; None for symbolic ones."""

    data: list[int | None]
    result: list[int | None]
    taps: int

    def of_data(self) -> list[int]:
        """Return batch, channels, height and width of the data."""
        return [_OF_ANY if size is None else size for size in self._batched(self.data)]

    def of_result(self) -> list[int]:
        """Return batch, channels, height and width of the result."""
        return [_OF_ANY if size is None else size for size in self._batched(self.result)]

    def _batched(self, sizes: list[int | None]) -> list[int | None]:
        return [sizes[0] or 1, *sizes[1:]]

    def permutation_cycles(self, machine: MachineModel) -> float:
        """Return the time of the permutations of data and result."""
        return _permutation_cycles(self.of_data(), machine) + _permutation_cycles(
            self.of_result(), machine
        )


def _permutation_cycles(sizes: Sequence[int], machine: MachineModel) -> float:
    """Return the time of a permutation of an image."""
    rate = _PERMUTED * (machine.l3_bandwidth if machine.l3_bytes else machine.memory_bandwidth)
    return math.prod(sizes) * 4 * 2 / rate


def reading_planes(
    form: Callable[..., Any], taps: Sequence[int], padding: Sequence[int]
) -> Callable[..., Any] | None:
    """Return what computes a form of convolution from NCHW, where that saves a copy: single pixels
    are read in place, and the copy that pads the data also permutes them. None for the others (that
    of groups in lanes needs no padded copy).
    """
    if any(padding) and form in (
        topi.nn.conv2d_nhwc_packed,
        topi.nn.conv2d_nhwc_pairs,
        topi.nn.grouped_conv2d_nhwc_packed,
    ):
        return lambda data, *rest: form(topi.transpose(data, (0, 2, 3, 1)), *rest)
    if form is topi.nn.conv2d_nhwc_packed and tuple(taps) == (1, 1):
        return topi.nn.conv2d_planes_packed
    return None


def rows_stay_in_planes(sizes: Sizes, stride: int, tile: Tile, machine: MachineModel) -> bool:
    """Return whether a convolution of single pixels, in tiles of rows of pixels, takes less time
    with its data in NCHW.

    There the pixels of a tile are a part of a line, or of two, in each step of the sum: for each
    panel of results it comes anew from L2. With the channels last a line is a run of steps.
    """
    batch, inputs, *_ = sizes.of_data()
    _, outputs, height, width = sizes.of_result()
    pixels = batch * height * width
    panels = math.ceil(outputs / (tile.vectors * machine.lanes(32)))
    steps = panels * math.ceil(pixels / tile.rows) * inputs
    used = 4 * tile.rows
    reach = used * stride
    lines = 1 + (reach - 4) / machine.line_bytes  # on average, wherever the first pixel lies
    more = lines * machine.line_bytes - used
    waiting = _WAITING_FOR_LINES * steps * more / machine.l2_bandwidth
    return waiting < _permutation_cycles(sizes.of_data(), machine)


def depthwise_stays(sizes: Sizes, machine: MachineModel) -> bool:
    """Return whether a lone depthwise convolution takes less time in NCHW."""
    lanes, ports = machine.lanes(32), machine.fma_per_cycle
    batch, channels, height, width = sizes.of_result()
    _, _, rows, row = sizes.of_data()
    steps = batch * channels * height * math.ceil(width / lanes) * sizes.taps / ports
    padding = batch * channels * rows * math.ceil(row / lanes) * _CYCLES_OF_PADDING
    last = batch * height * width * math.ceil(channels / lanes) * sizes.taps / ports
    small = sizes.taps <= _MOST_TAPS_OF_SMALL_WINDOWS
    rate = _EFFICIENCY_OF_PLANES if small else _EFFICIENCY_OF_LARGE_WINDOWS
    planes = steps / rate + padding
    return planes < last / _EFFICIENCY_OF_ROWS + sizes.permutation_cycles(machine)


def pixelwise_stays(sizes: Sizes, machine: MachineModel) -> bool:
    """Return whether a lone convolution of single pixels takes less time in NCHW, as a product
    whose columns are the pixels.
    """
    lanes, ports = machine.lanes(32), machine.fma_per_cycle
    batch, outputs, height, width = sizes.of_result()
    inputs = sizes.of_data()[1]
    is_even = None not in sizes.result and height * width % lanes == 0
    rate = _EFFICIENCY_OF_ROWS if is_even else _EFFICIENCY_OF_UNEVEN_PIXELS
    planes = batch * outputs * math.ceil(height * width / lanes) * inputs / ports
    last = batch * height * width * math.ceil(outputs / lanes) * inputs / ports
    return planes / rate < last + sizes.permutation_cycles(machine)


class _Components:
    """Sets of values that would share one layout, joined as operators are found."""

    def __init__(self) -> None:
        self.parents: dict[Var, Var] = {}

    def find(self, variable: Var) -> Var:
        path = []
        while (parent := self.parents.setdefault(variable, variable)) is not variable:
            path.append(variable)
            variable = parent
        for one in path:
            self.parents[one] = variable
        return variable

    def join(self, a: Var, b: Var) -> None:
        self.parents[self.find(a)] = self.find(b)


def lone_convolutions(
    function: Function, anchors: Container[Op], others: Container[Op]
) -> set[int]:
    """Return the identities of the convolutions of a function that no other convolution is joined
    with by operators that work in any layout.

    ``anchors`` are the operators that want their channels last, ``others`` those that follow them.
    """
    components = _Components()
    found: list[tuple[Call, Var]] = []
    body = function.body
    for block in body.blocks if isinstance(body, SeqExpr) else ():
        for binding in block.bindings:
            call: Any = getattr(binding, "value", None)
            if not isinstance(call, Call) or not isinstance(call.op, Op):
                continue
            is_anchor = call.op in anchors
            if is_anchor and len(call.args) > 1 and isinstance(call.args[1], Constant):
                found.append((call, binding.var))
            if is_anchor or call.op in others or _works_in_any_layout(call.op):
                parts = [one.fields if isinstance(one, Tuple) else (one,) for one in call.args]
                for arg in [one for group in parts for one in group]:
                    if isinstance(arg, Var) and _is_image(arg):
                        components.join(binding.var, arg)
    counts: dict[Var, int] = {}
    for _, variable in found:
        root = components.find(variable)
        counts[root] = counts.get(root, 0) + 1
    return {id(call) for call, variable in found if counts[components.find(variable)] == 1}


def _works_in_any_layout(op: Op) -> bool:
    spec = op.spec
    return spec is not None and spec.layout in (Layout.ELEMENTWISE, Layout.NAMED)


def _is_image(value: Any) -> bool:
    info = known_struct_info(value)
    return isinstance(info, TensorStructInfo) and info.ndim == 4
