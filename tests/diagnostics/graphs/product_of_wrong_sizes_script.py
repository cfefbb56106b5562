from tilesmith import relax
from tilesmith.script import relax as R

bb = relax.BlockBuilder()
x = relax.Var("x", R.Tensor((2, 3), "float32"))
y = relax.Var("y", R.Tensor((4, 5), "float32"))
with bb.function("main", [x, y]):
    a = bb.emit(relax.op.matmul(x, y))
    bb.emit_func_output(a)
