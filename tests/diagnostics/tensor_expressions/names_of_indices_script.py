from tilesmith import te

B = te.compute((4, 4), lambda *i: 1.0, varargs_names=["a"])
