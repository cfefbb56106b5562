"""A loop whose variable is not of the type of its bounds."""

from tilesmith import tir

i = tir.Var("i", "int64")
A = tir.decl_buffer((16,), "float32", "A")
loop = tir.For(tir.Var("k", "int32"), 0, 16, 0, tir.BufferStore(A, 1.0, (0,)))
object.__setattr__(loop, "loop_var", i)
tir.analysis.verify_well_formed(tir.PrimFunc([A], loop))
