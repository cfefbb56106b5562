"""A dataflow block without a function around it."""

from tilesmith import relax

with relax.BlockBuilder().dataflow():
    pass
