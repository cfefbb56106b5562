"""A reduction axis that no reduction runs over."""

from tilesmith import te

A = te.placeholder((8, 4), name="A")
k = te.reduce_axis((0, 4), name="k")
B = te.compute((8,), lambda i: A[i, k], name="B")
te.create_prim_func([A, B])
