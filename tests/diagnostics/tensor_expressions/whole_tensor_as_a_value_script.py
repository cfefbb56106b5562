"""A tensor where one element is needed."""

from tilesmith import te

A = te.placeholder((8, 4), name="A")
te.compute((8, 4), lambda i, j: A + 1.0 + te.exp(A), name="B")
