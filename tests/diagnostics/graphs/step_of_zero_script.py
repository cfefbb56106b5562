from tilesmith import relax
from tilesmith.script import relax as R

bb = relax.BlockBuilder()
x = relax.Var("x", R.Tensor((1, 3, 8, 8), "float32"))
w = relax.Var("w", R.Tensor((4, 3, 3, 3), "float32"))
with bb.function("main", [x, w]):
    a = bb.emit(relax.op.arange(0, 4, 0))
    bb.emit_func_output(a)
m = bb.get()
