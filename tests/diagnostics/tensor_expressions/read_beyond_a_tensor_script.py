"""A read beyond the end of a tensor."""

from tilesmith import te

A = te.placeholder((8, 4), name="A")
te.compute((8, 4), lambda i, j: A[i, j + 1], name="shifted")
