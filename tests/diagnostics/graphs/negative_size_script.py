"""A size below 0."""

from tilesmith.script import relax as R

R.Tensor((-8, 4), "float32")
