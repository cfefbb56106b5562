"""A convolution of 0 groups."""

from tilesmith import relax
from tilesmith.script import relax as R

x = relax.Var("x", R.Tensor((8, 4), "float32"))
relax.op.nn.conv2d(x, x, groups=0)
