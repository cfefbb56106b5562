"""A variable that only looks like the one in sight."""

from tilesmith import tir

i = tir.Var("i", "int32")
A = tir.decl_buffer((16,), "float32", "A")
loop = tir.For(i, 0, 16, 0, tir.BufferStore(A, 1.0, (tir.Var("i", "int32"),)))
tir.analysis.verify_well_formed(tir.PrimFunc([A], loop))
