"""Simulates caches of GPUs: lines of 128 bytes in sectors of 32, sets with the least recently used
line replaced.

All sets are simulated at once: the first access of each set, then the second one, and so on, with
numpy over the sets. So millions of accesses take a second.
"""

from __future__ import annotations

import numpy

__all__ = ["LINE_BYTES", "SECTORS", "SectorCache", "sectors_of"]

LINE_BYTES = 128
SECTORS = 4
"""Sectors of a line."""

_BITS = numpy.array([bin(mask).count("1") for mask in range(16)], numpy.int64)


def _hashed(lines: numpy.ndarray) -> numpy.ndarray:
    """Return numbers without a pattern, as the hashes of such caches do: the rows of a matrix,
    powers of two apart, must not all meet in one set.
    """
    value = (lines ^ (lines >> 32)).astype(numpy.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = (value ^ (value >> numpy.uint32(shift))) * numpy.uint32(factor)
    found: numpy.ndarray = (value ^ (value >> numpy.uint32(16))).astype(numpy.int64)
    return found


class SectorCache:
    """A cache, or ``copies`` equal ones side by side (one for each multiprocessor).

    A line is present with the sectors that were fetched or written. What is written is kept until
    the line is replaced.
    """

    def __init__(self, nbytes: int, ways: int, copies: int = 1) -> None:
        self.ways = ways
        self.sets = max(1, nbytes // (LINE_BYTES * ways))
        shape = (self.sets * copies, ways)
        self.tags = numpy.full(shape, -1, numpy.int64)
        self.present = numpy.zeros(shape, numpy.uint8)
        self.dirty = numpy.zeros(shape, numpy.uint8)
        self.used = numpy.zeros(shape, numpy.int64)
        self.clock = 0

    def set_of(self, lines: numpy.ndarray) -> numpy.ndarray:
        """Return the set of each line."""
        return _hashed(lines) % self.sets

    def access(
        self,
        lines: numpy.ndarray,
        masks: numpy.ndarray,
        writes: numpy.ndarray,
        copies: numpy.ndarray | None = None,
    ) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
        """Access sectors (bits of ``masks``) of lines one after the other.

        Returns for each access the sectors that were read and not present, then the lines that had
        to be written to memory, and how many sectors of each.
        """
        sets = self.set_of(lines)
        if copies is not None:
            sets = sets + copies * self.sets
        order = numpy.argsort(sets, kind="stable")
        in_order = sets[order]
        first = numpy.flatnonzero(numpy.r_[True, in_order[1:] != in_order[:-1]])
        sizes = numpy.diff(numpy.r_[first, len(in_order)])
        rounds = numpy.arange(len(in_order)) - numpy.repeat(first, sizes)
        order = order[numpy.argsort(rounds, kind="stable")]
        missing = numpy.zeros(len(lines), numpy.uint8)
        written: list[numpy.ndarray] = []
        counts: list[numpy.ndarray] = []
        start = 0
        for size in numpy.bincount(rounds) if len(rounds) else ():
            chosen = order[start : start + size]
            start += size
            missing[chosen], lost, number = self._round(
                sets[chosen], lines[chosen], masks[chosen], writes[chosen]
            )
            if len(lost):
                written.append(lost)
                counts.append(number)
        nothing = numpy.zeros(0, numpy.int64)
        return (
            missing,
            numpy.concatenate(written) if written else nothing,
            numpy.concatenate(counts) if counts else nothing,
        )

    def _round(
        self, sets: numpy.ndarray, lines: numpy.ndarray, masks: numpy.ndarray, writes: numpy.ndarray
    ) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
        """Make one access to each of several sets."""
        self.clock += 1
        same = self.tags[sets] == lines[:, None]
        found = same.any(axis=1)
        way = numpy.where(found, same.argmax(axis=1), self.used[sets].argmin(axis=1))
        old = self.dirty[sets, way]
        leaves = ~found & (old != 0)
        lost, number = self.tags[sets, way][leaves], _BITS[old[leaves]]
        present = numpy.where(found, self.present[sets, way], 0).astype(numpy.uint8)
        missing = numpy.where(writes, 0, masks & ~present).astype(numpy.uint8)
        self.tags[sets, way] = lines
        self.present[sets, way] = present | masks
        self.dirty[sets, way] = numpy.where(found, old, 0) | numpy.where(writes, masks, 0)
        self.used[sets, way] = self.clock
        return missing, lost, number

    def flush(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Write what is left to memory: its lines, and how many sectors of each."""
        left = self.dirty != 0
        lines, counts = self.tags[left], _BITS[self.dirty[left]]
        self.dirty[...] = 0
        return lines, counts


def sectors_of(masks: numpy.ndarray) -> numpy.ndarray:
    """Return how many sectors each mask has."""
    counts: numpy.ndarray = _BITS[masks]
    return counts
