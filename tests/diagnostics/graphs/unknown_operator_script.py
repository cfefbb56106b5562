"""An operator that does not exist."""

from tilesmith import relax
from tilesmith.script import relax as R

x = relax.Var("x", R.Tensor((8, 4), "float32"))
relax.op.nn.rellu(x)
