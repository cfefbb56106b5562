"""A filter larger than the image, in topi."""

from tilesmith import te, topi

X = te.placeholder((1, 3, 8, 8), name="X")
W = te.placeholder((4, 3, 9, 9), name="W")
topi.nn.conv2d(X, W, 1, 0, 1)
