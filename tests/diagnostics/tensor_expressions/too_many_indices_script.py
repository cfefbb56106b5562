from tilesmith import te

A = te.placeholder((4, 4), name="A")
B = te.compute((4, 4), lambda i, j: A(i, j, i))
