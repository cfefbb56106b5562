"""A reduction inside of a sum."""

from tilesmith import te

A = te.placeholder((8, 4), name="A")
k = te.reduce_axis((0, 4), name="k")
te.compute((8,), lambda i: te.sum(A[i, k], axis=k) + 1.0, name="total")
