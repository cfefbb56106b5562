"""Draws kernels under what memory and arithmetic allow (S. Williams, A. Waterman, D. Patterson:
"Roofline: An Insightful Visual Performance Model for Multicore Architectures", CACM 2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

__all__ = ["Point", "roofline_picture"]

_WIDTH, _HEIGHT = 800, 500
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 40, 60
_LABELLED = 12
"""So many kernels, those that take longest, have their names beside them."""


@dataclass(frozen=True)
class Point:
    """A kernel: operations per byte, operations per second, and its share of the time."""

    name: str
    intensity: float
    speed: float
    share: float


class _Scale:
    """Maps numbers to places on a logarithmic axis that begins and ends at powers of ten."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values))), self.low + 1)
        self.start, self.end = start, end

    def place(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def decades(self) -> list[int]:
        return list(range(self.low, self.high + 1))


def roofline_picture(points: Sequence[Point], limits: Mapping[str, float]) -> str:
    """Return an SVG picture; ``limits`` are bytes per second under "memory", and operations per
    second under the names of dtypes.
    """
    memory = limits["memory"]
    roofs = {name: value for name, value in limits.items() if name != "memory"}
    ridges = [value / memory for value in roofs.values()]
    across = _Scale([*[p.intensity for p in points], *ridges, 0.1], _LEFT, _WIDTH - _RIGHT)
    upward = _Scale([*[p.speed for p in points], *roofs.values()], _HEIGHT - _BOTTOM, _TOP)
    parts = [*_axes(across, upward)]
    for name, value in roofs.items():
        parts.append(_roof(name, value, memory, across, upward))
    named = sorted(points, key=lambda one: -one.share)[:_LABELLED]
    for one in points:
        x, y = across.place(one.intensity), upward.place(one.speed)
        radius = 3 + 12 * math.sqrt(max(one.share, 0.0))
        title = f"{one.name}: {one.speed / 1e9:.1f} G/s, {100 * one.share:.1f} % of the time"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="#2a6fbb" '
            f'fill-opacity="0.6"><title>{escape(title)}</title></circle>'
        )
        if one in named:
            parts.append(_text(x + radius + 2, y + 4, one.name, "start"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _axes(across: _Scale, upward: _Scale) -> list[str]:
    parts = [_text(_WIDTH / 2, 20, "Kernels and what bounds them", "middle")]
    for power in across.decades():
        x = across.place(10.0**power)
        parts.append(_line(x, _TOP, x, _HEIGHT - _BOTTOM, "#ddd"))
        parts.append(_text(x, _HEIGHT - _BOTTOM + 16, f"{10.0**power:g}", "middle"))
    for power in upward.decades():
        y = upward.place(10.0**power)
        parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, "#ddd"))
        parts.append(_text(_LEFT - 6, y + 4, f"{10.0 ** (power - 9):g}", "end"))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 15, "operations per byte", "middle"))
    parts.append(_text(_LEFT, _TOP - 8, "thousand millions of operations per second", "start"))
    return parts


def _roof(name: str, value: float, memory: float, across: _Scale, upward: _Scale) -> str:
    """Draw what memory allows up to the ridge, and what arithmetic allows beyond it."""
    low, high = 10.0**across.low, 10.0**across.high
    floor = 10.0**upward.low
    start = max(low, floor / memory)
    ridge = value / memory
    places = [(start, start * memory), (ridge, value), (high, value)]
    path = " ".join([f"{across.place(x):.1f},{upward.place(y):.1f}" for x, y in places])
    label = _text(_WIDTH - _RIGHT, upward.place(value) - 5, f"{name}: {value / 1e9:.0f} G/s", "end")
    return f'<polyline points="{path}" fill="none" stroke="#b33" stroke-width="1.5"/>{label}'
