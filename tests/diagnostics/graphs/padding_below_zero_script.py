"""A convolution with negative padding."""

from tilesmith import relax
from tilesmith.script import relax as R

x = relax.Var("x", R.Tensor((8, 4), "float32"))
relax.op.nn.conv2d(x, x, padding=-1)
