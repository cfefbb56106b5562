"""A size that is a text of digits."""

from tilesmith.script import relax as R


@R.function
def main(x: R.Tensor(("8", 4), "float32")):
    return x
