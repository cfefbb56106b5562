from tilesmith import relax

x = relax.Var("x", relax.TensorStructInfo(("2", "3"), "float32"))
print(x.struct_info)
