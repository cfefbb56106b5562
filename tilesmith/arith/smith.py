"""Computes the Smith normal form of integer matrices."""

from __future__ import annotations

from typing import Any


def smith_normal_form(
    matrix: list[list[int]], count: int
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Makes ``matrix`` diagonal in place by invertible integer operations.

    Gives (U, V, inverse of V) with ``U * before * V == after``; ``count`` is the number of columns.
    """
    rows = len(matrix)
    left = [[int(i == j) for j in range(rows)] for i in range(rows)]
    right = [[int(i == j) for j in range(count)] for i in range(count)]
    inverse = [[int(i == j) for j in range(count)] for i in range(count)]
    for pivot in range(min(rows, count)):
        if not _bring_pivot(matrix, left, right, inverse, pivot):
            break
        while _clear_column(matrix, left, pivot) or _clear_row(matrix, right, inverse, pivot):
            pass
    return left, right, inverse


def _bring_pivot(matrix: Any, left: Any, right: Any, inverse: Any, pivot: int) -> bool:
    """Moves a nonzero entry to the diagonal."""
    for row in range(pivot, len(matrix)):
        for column in range(pivot, len(right)):
            if matrix[row][column]:
                matrix[pivot], matrix[row] = matrix[row], matrix[pivot]
                left[pivot], left[row] = left[row], left[pivot]
                for table in (matrix, right):
                    for line in table:
                        line[pivot], line[column] = line[column], line[pivot]
                inverse[pivot], inverse[column] = inverse[column], inverse[pivot]
                return True
    return False


def _clear_column(matrix: Any, left: Any, pivot: int) -> bool:
    """Clears the column below and above the pivot by Euclid's algorithm; returns True if anything
    changed.
    """
    changed = False
    for row in range(len(matrix)):
        while row != pivot and matrix[row][pivot]:
            changed = True
            factor = matrix[row][pivot] // matrix[pivot][pivot]
            for table in (matrix, left):
                table[row] = [a - factor * b for a, b in zip(table[row], table[pivot])]
            if matrix[row][pivot]:
                for table in (matrix, left):
                    table[row], table[pivot] = table[pivot], table[row]
    return changed


def _clear_row(matrix: Any, right: Any, inverse: Any, pivot: int) -> bool:
    """Clears the row beside the pivot by operations on columns."""
    changed = False
    for column in range(pivot + 1, len(right)):
        while matrix[pivot][column]:
            changed = True
            factor = matrix[pivot][column] // matrix[pivot][pivot]
            for table in (matrix, right):
                for line in table:
                    line[column] -= factor * line[pivot]
            inverse[pivot] = [a + factor * b for a, b in zip(inverse[pivot], inverse[column])]
            if matrix[pivot][column]:
                for table in (matrix, right):
                    for line in table:
                        line[column], line[pivot] = line[pivot], line[column]
                inverse[column], inverse[pivot] = inverse[pivot], inverse[column]
    return changed
