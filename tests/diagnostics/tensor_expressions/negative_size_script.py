from tilesmith import te

A = te.placeholder((-4,), name="A")
print(A.shape)
