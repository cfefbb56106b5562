"""``relay.data_dep_optimization``: optimisations that look at the values of weights.

Each ``convert`` takes a function and its parameters by name, and returns both changed:

    func, params = bsr_dense.convert(func, params, (16, 1), 0.8)
"""

from tilesmith.relay.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose

__all__ = ["bsr_conv2d", "bsr_dense", "simplify_fc_transpose"]
