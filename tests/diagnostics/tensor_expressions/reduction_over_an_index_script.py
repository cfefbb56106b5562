"""A reduction over an index of the result."""

from tilesmith import te

A = te.placeholder((8, 4), name="A")
te.compute((8,), lambda i: te.sum(A[i, 0], axis=i), name="B")
