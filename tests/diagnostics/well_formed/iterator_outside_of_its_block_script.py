"""The iterator of a block, used after the block."""

from tilesmith import ir, tir

i, vi = tir.Var("i", "int32"), tir.Var("vi", "int32")
A = tir.decl_buffer((16,), "float32", "A")
axis = tir.IterVar(ir.Range(0, 16), vi, tir.IterVar.DataPar)
region = tir.BufferRegion(A, [ir.Range.from_min_extent(vi, 1)])
block = tir.Block([axis], (), [region], "fill", tir.BufferStore(A, 1.0, (vi,)))
body = tir.SeqStmt([tir.BlockRealize((i,), True, block), tir.BufferStore(A, 2.0, (vi,))])
tir.analysis.verify_well_formed(tir.PrimFunc([A], tir.For(i, 0, 16, 0, body)))
