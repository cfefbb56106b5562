"""Memory of a block, used after the block."""

from tilesmith import tir

A = tir.decl_buffer((16,), "float32", "A")
C = tir.decl_buffer((16,), "float32", "C")
block = tir.Block((), (), (), "first", tir.BufferStore(C, 1.0, (0,)), None, [C])
body = tir.SeqStmt([tir.BlockRealize((), True, block), tir.BufferStore(A, C[0], (0,))])
tir.analysis.verify_well_formed(tir.PrimFunc([A], body))
