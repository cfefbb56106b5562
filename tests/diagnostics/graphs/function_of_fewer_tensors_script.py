"""A tensor expression that gets more tensors than it takes."""

from tilesmith import relax
from tilesmith.script import relax as R

x = relax.Var("x", R.Tensor((8, 4), "float32"))
bb = relax.BlockBuilder()
with bb.function("main", [x]):
    bb.emit_te(lambda a: a, x, x)
