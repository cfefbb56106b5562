"""A call of a function that the module does not have."""

from tilesmith import ir, tir

x = tir.Var("x", "int32")
main = tir.PrimFunc([x], tir.Evaluate(tir.Call("void", ir.GlobalVar("scales"), (x,))))
scale = tir.PrimFunc([x], tir.Evaluate(x))
tir.analysis.verify_well_formed(ir.IRModule({"main": main, "scale": scale}))
