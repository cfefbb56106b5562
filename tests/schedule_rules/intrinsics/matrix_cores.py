"""What the matrix cores of AMD GPUs do, for the interpreter, which runs LLVM's intrinsics thread by
thread: an instruction that needs all threads gets its operands in one run, its results in the next.
"""

import numpy as np

from tilesmith.tir.interpreter import run

LANES = 64


def spread(tile, steps):
    """Return for each thread the elements of the tile M[16, steps], in AMD's order."""
    width = max(steps // 4, 1)
    return [tile[lane % 16, lane // 16 * width : lane // 16 * width + width] for lane in range(64)]


def gathered(registers, steps, dtype):
    """Return the tile M[16, steps] of what the threads hold."""
    tile = np.zeros((16, steps), dtype)
    width = max(steps // 4, 1)
    for lane, values in enumerate(registers):
        tile[lane % 16, lane // 16 * width : lane // 16 * width + width] = values
    return tile


def product(calls, steps, in_dtype, out_dtype):
    """Return the registers of D after D = A @ B + C of one instruction."""
    a = gathered([call[0] for call in calls], steps, in_dtype).astype("float64")
    b = gathered([call[1] for call in calls], steps, in_dtype).astype("float64")
    c = gathered([call[2] for call in calls], 16, out_dtype)  # C[i, j] lies where B[k, j] does
    return spread((b @ a.T + c).astype(out_dtype), 16)


class MatrixCores:
    """Repeats a program until each instruction got the results of its operands."""

    def __init__(self, steps, in_dtype, out_dtype):
        self.kind = (steps, in_dtype, out_dtype)
        self.calls, self.results = [], []

    def compute(self, a, b, c, *_options):
        _steps, in_dtype, _out_dtype = self.kind
        operands = [np.atleast_1d(value) for value in (a, b, c)]
        if in_dtype == "int8":
            operands[:2] = [np.asarray(x, "int32").view("int8") for x in operands[:2]]
        self.calls.append(operands)
        number = len(self.calls) - 1
        return self.results[number] if number < len(self.results) else operands[2]

    def run(self, name, function, *arrays):
        """Run a function of one wavefront whose threads meet each instruction in turn."""
        for _ in range(50):
            self.calls, copies = [], [array.copy() for array in arrays]
            run(function, *copies, externs={name: self.compute})
            results = []
            for start in range(0, len(self.calls), LANES):
                results += product(self.calls[start : start + LANES], *self.kind)
            if len(results) == len(self.results) and all(
                np.array_equal(new, old) for new, old in zip(results, self.results)
            ):
                for array, copy in zip(arrays, copies):
                    array[...] = copy
                return
            self.results = results
        raise AssertionError("the results do not settle")
