"""Two loops, one inside the other, with the same variable object."""

from tilesmith import tir

i = tir.Var("i", "int32")
A = tir.decl_buffer((16,), "float32", "A")
inner = tir.For(i, 0, 4, 0, tir.BufferStore(A, 1.0, (i,)))
tir.analysis.verify_well_formed(tir.PrimFunc([A], tir.For(i, 0, 4, 0, inner)))
