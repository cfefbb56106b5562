"""A block with two axes and one value."""

from tilesmith import ir, tir

i, vi, vj = [tir.Var(name, "int32") for name in ("i", "vi", "vj")]
A = tir.decl_buffer((16, 16), "float32", "A")
axes = [tir.IterVar(ir.Range(0, 16), v, tir.IterVar.DataPar) for v in (vi, vj)]
block = tir.Block(axes, (), (), "fill", tir.BufferStore(A, 1.0, (vi, vj)))
realize = tir.BlockRealize((i,), True, block)
tir.analysis.verify_well_formed(tir.PrimFunc([A], tir.For(i, 0, 16, 0, realize)))
