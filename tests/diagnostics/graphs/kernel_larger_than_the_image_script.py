from tilesmith import relax
from tilesmith.script import relax as R

bb = relax.BlockBuilder()
x = relax.Var("x", R.Tensor((1, 3, 2, 2), "float32"))
w = relax.Var("w", R.Tensor((4, 3, 5, 5), "float32"))
with bb.function("main", [x, w]):
    a = bb.emit(relax.op.nn.conv2d(x, w))
    bb.emit_func_output(a)
m = bb.get()
