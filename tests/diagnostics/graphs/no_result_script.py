from tilesmith import relax
from tilesmith.script import relax as R

bb = relax.BlockBuilder()
x = relax.Var("x", R.Tensor((2, 3), "float32"))
with bb.function("main", [x]):
    a = bb.emit(relax.op.nn.relu(x))
