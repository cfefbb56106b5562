from tilesmith import relax, te
from tilesmith.script import relax as R

bb = relax.BlockBuilder()
x = relax.Var("x", R.Tensor((2, 3), "float32"))
with bb.function("main", [x]):
    a = bb.emit_te(lambda a: te.compute((2, 3), lambda i: a[i, i]), x)
    bb.emit_func_output(a)
