"""An argument that the operator does not have."""

from tilesmith import relax
from tilesmith.script import relax as R

x = relax.Var("x", R.Tensor((8, 4), "float32"))
relax.op.add(x, x, out=x)
